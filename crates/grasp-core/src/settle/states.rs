//! States whose objects are there (ST-3, ST-4, AFTER-3, AFTER-4).

use nostr::key::PublicKey;

use super::Groups;
use crate::event::Version;
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
) {
    let mut states = std::mem::take(&mut view.states);
    for (author, versions) in &mut states {
        let authorising: Vec<PublicKey> = groups.authorising(author).copied().collect();
        let complete = |state: &StateEvent| groups.is_complete(view, state, &authorising, facts);
        serve_newest(versions, complete);
        clear_older(versions, complete, cx);
    }
    states.retain(|_, versions| !versions.is_empty());
    view.states = states;
}

fn serve_newest(versions: &mut [Entry<StateEvent>], complete: impl Fn(&StateEvent) -> bool) {
    let served = newest_served(versions);
    let ready = versions
        .iter_mut()
        .filter(|entry| entry.is_pending() && Some(entry.version()) > served)
        .filter(|entry| complete(&entry.item))
        .max_by_key(|entry| entry.version());
    if let Some(ready) = ready {
        ready.serve();
    }
}

/// AFTER-4: what loses to the author's own served state is rollback material if it is complete, and
/// of no use if not. Other maintainers' states stay as they are.
fn clear_older(
    versions: &mut Vec<Entry<StateEvent>>,
    complete: impl Fn(&StateEvent) -> bool,
    cx: Circumstances<'_>,
) {
    let Some(served) = newest_served(versions) else {
        return;
    };
    versions.retain_mut(|entry| {
        if entry.version() >= served || matches!(entry.stage, Stage::Superseded | Stage::Held) {
            return true;
        }
        let keep = entry.stage == Stage::Served || complete(&entry.item);
        entry.supersede(cx);
        keep
    });
}

fn newest_served(versions: &[Entry<StateEvent>]) -> Option<Version> {
    let served = versions.iter().filter(|entry| entry.stage == Stage::Served);
    served.map(Entry::version).max()
}
