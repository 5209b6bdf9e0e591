//! States whose objects are there (ST-3, ST-4, AFTER-3, AFTER-4).

use nostr::key::PublicKey;

use super::Groups;
use crate::lifecycle::Stage;
use crate::policy::Circumstances;
use crate::state::StateEvent;
use crate::view::{Entry, ObjectFacts, RepoView};

/// Serves the newest complete state of each author, and clears away what it replaces.
pub(super) fn serve(
    view: &mut RepoView,
    groups: &Groups,
    facts: &ObjectFacts,
    cx: Circumstances<'_>,
) -> bool {
    let mut states = std::mem::take(&mut view.states);
    let mut changed = false;
    for (author, versions) in &mut states {
        let authorising: Vec<PublicKey> = groups.authorising(author).copied().collect();
        let complete = |state: &StateEvent| groups.is_complete(view, state, &authorising, facts);
        changed |= serve_newest(versions, complete);
        changed |= clear_older(versions, complete, cx);
    }
    states.retain(|_, versions| !versions.is_empty());
    view.states = states;
    changed
}

fn serve_newest(
    versions: &mut [Entry<StateEvent>],
    complete: impl Fn(&StateEvent) -> bool,
) -> bool {
    let served = newest(versions, |entry| entry.stage == Stage::Served);
    let ready = versions
        .iter_mut()
        .filter(|entry| entry.is_pending() && Some(entry.version()) > served)
        .filter(|entry| complete(&entry.item))
        .max_by_key(|entry| entry.version());
    ready.map(Entry::serve).is_some()
}

/// AFTER-4: what loses to the author's own served state is rollback material if it is complete, and
/// of no use if not. Other maintainers' states stay as they are.
fn clear_older(
    versions: &mut Vec<Entry<StateEvent>>,
    complete: impl Fn(&StateEvent) -> bool,
    cx: Circumstances<'_>,
) -> bool {
    let Some(served) = newest(versions, |entry| entry.stage == Stage::Served) else {
        return false;
    };
    let mut changed = false;
    versions.retain_mut(|entry| {
        if entry.version() >= served || matches!(entry.stage, Stage::Superseded | Stage::Held) {
            return true;
        }
        changed = true;
        let keep = entry.stage == Stage::Served || complete(&entry.item);
        entry.supersede(cx);
        keep
    });
    changed
}

fn newest(
    versions: &[Entry<StateEvent>],
    choose: impl Fn(&Entry<StateEvent>) -> bool,
) -> Option<crate::event::Version> {
    versions
        .iter()
        .filter(|entry| choose(entry))
        .map(Entry::version)
        .max()
}
