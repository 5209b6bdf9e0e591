//! What comes back with a scope (DEL-6): the newest state of each of its maintainers and its proposals, as
//! far as their objects are there and no request of their author keeps them away.
//!
//! *Invariant:* what does not become served by it stays held, with its time.

use std::collections::BTreeMap;

use nostr::event::EventId;
use nostr::key::PublicKey;

use super::{Groups, promote};
use crate::defect::Defect;
use crate::lifecycle::Stage;
use crate::policy::Circumstances;
use crate::state::StateEvent;
use crate::view::{Entry, ObjectFacts, ProposalEntry, RepoView};

/// Settles a view in which `owner`'s announcement is there again.
pub(crate) fn recover(
    view: &mut RepoView,
    owner: &PublicKey,
    facts: &ObjectFacts,
    cx: Circumstances<'_>,
) {
    let groups = Groups::of(view, cx.policy);
    recover_states(view, owner, &groups, facts, cx);
    let held = wake_proposals(view, owner, &groups, cx);
    promote(view, facts, cx);
    for (event, entry) in held {
        let stage = view.proposals.get(&event).map(|entry| entry.stage);
        if stage != Some(Stage::Served) {
            view.proposals.insert(event, entry);
        }
    }
}

fn recover_states(
    view: &mut RepoView,
    owner: &PublicKey,
    groups: &Groups,
    facts: &ObjectFacts,
    cx: Circumstances<'_>,
) {
    let mut states = std::mem::take(&mut view.states);
    for (author, versions) in &mut states {
        if !groups.counts(owner, author) {
            continue;
        }
        let authorising: Vec<PublicKey> = groups.authorising(author).copied().collect();
        let served = versions.iter().filter(|entry| entry.stage == Stage::Served);
        let served = served.map(Entry::version).max();
        let returns = |entry: &Entry<StateEvent>| {
            entry.stage == Stage::Held
                && Some(entry.version()) > served
                && (!view.gated.contains(&entry.id()) || Defect::GatedRecovery.is_on())
                && is_of_time(entry.item.event().expiration(), cx)
                && groups.is_complete(view, &entry.item, &authorising, facts)
        };
        let held = versions.iter_mut().filter(|entry| returns(entry));
        if let Some(newest) = held.max_by_key(|entry| entry.version()) {
            newest.serve();
        }
    }
    view.states = states;
}

/// Lets the held proposals to `owner`'s repository wait, so that those whose commit is there are promoted
/// like any other. Returns them as they were.
fn wake_proposals(
    view: &mut RepoView,
    owner: &PublicKey,
    groups: &Groups,
    cx: Circumstances<'_>,
) -> BTreeMap<EventId, ProposalEntry> {
    let mut held = BTreeMap::new();
    for (event, entry) in &mut view.proposals {
        let returns = entry.stage == Stage::Held
            && !view.gated.contains(event)
            && is_of_time(entry.expiration, cx)
            && groups.targets(&entry.named).contains(owner);
        if returns {
            held.insert(*event, entry.clone());
            entry.stage = Stage::Waiting;
        }
    }
    held
}

/// NIP-40
fn is_of_time(expiration: Option<nostr::types::Timestamp>, cx: Circumstances<'_>) -> bool {
    expiration.is_none_or(|end| end > cx.now)
}
