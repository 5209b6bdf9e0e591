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
                && (!view.is_kept_away(&entry.id(), cx.policy) || Defect::GatedRecovery.is_on())
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
    let mut proposals = std::mem::take(&mut view.proposals);
    for (event, entry) in &mut proposals {
        let returns = entry.stage == Stage::Held
            && !view.is_kept_away(event, cx.policy)
            && is_of_time(entry.expiration, cx)
            && groups.targets(&entry.named).contains(owner);
        if returns {
            held.insert(*event, entry.clone());
            entry.stage = Stage::Waiting;
        }
    }
    view.proposals = proposals;
    held
}

/// NIP-40
fn is_of_time(expiration: Option<nostr::types::Timestamp>, cx: Circumstances<'_>) -> bool {
    expiration.is_none_or(|end| end > cx.now)
}

#[cfg(test)]
mod tests {
    use nostr::types::Timestamp;

    use super::*;
    use crate::lifecycle::Change;
    use crate::lifecycle::Stage::{Held, Served, Superseded};
    use crate::proposal::Proposal;
    use crate::settle::returned;
    use crate::testing::project::{ViewBuilder, announcement, maintainers, repo, view};
    use crate::testing::{self, Draft, NOW, at, cx, key, oid, policy};

    const MAIN: &str = "refs/heads/main";

    /// Alice and Bob share a project, and Carol has one of the same name.
    fn project() -> ViewBuilder {
        view()
            .announced(
                announcement(key(1), 1, vec![maintainers(&[key(2)])]),
                Served,
            )
            .announced(
                announcement(key(2), 1, vec![maintainers(&[key(1)])]),
                Served,
            )
            .announced(announcement(key(3), 1, vec![]), Served)
    }

    fn signed(author: u8, commit: u8, at: u64) -> Draft {
        testing::state(key(author), &[(MAIN, oid(commit))]).at(at)
    }

    fn asked(owner: u8, commit: u8) -> Proposal {
        testing::pull_request(key(4), key(owner), oid(commit)).proposal()
    }

    fn ending(draft: Draft, end: u64) -> Draft {
        draft.tag(["expiration".to_owned(), end.to_string()])
    }

    /// What is served again in Alice's scope, where objects 1 and 2 are, with the end of each.
    fn back(view: ViewBuilder, gated: &[EventId]) -> Vec<(EventId, Option<Timestamp>)> {
        let (policy, mut view) = (policy(), view.build());
        view.gated.extend(gated);
        let mut facts = ObjectFacts::none();
        for commit in [1, 2] {
            facts.add(repo(key(1)), oid(commit));
        }
        let batch = returned(&key(1), &view, &facts, cx(&policy));
        let marked = batch.contains(&Change::Dirty(repo(key(1))));
        assert_eq!(marked, !batch.is_empty(), "every one of them is shown");
        let moves = batch.into_iter().filter_map(|change| match change {
            Change::Move {
                event,
                stage: Served,
                deadline,
            } => Some((event, deadline)),
            Change::Dirty(_) => None,
            other => panic!("{other:?}"),
        });
        moves.collect()
    }

    /// DEL-6
    #[test]
    fn the_newest_complete_state_of_each_maintainer_comes_back() {
        let states = [
            signed(1, 1, 10).state(),
            signed(1, 2, 20).state(),
            signed(1, 3, 30).state(),
            signed(2, 1, 15).state(),
            signed(3, 1, 40).state(),
        ];
        let view = states
            .iter()
            .fold(project(), |view, it| view.stated(it.clone(), Held));
        let newest = [(states[3].id(), None), (states[1].id(), None)];
        assert_eq!(back(view, &[]), newest);
        let gated = [states[1].id(), states[3].id()];
        let view = states
            .iter()
            .fold(project(), |view, it| view.stated(it.clone(), Held));
        assert_eq!(back(view, &gated), [(states[0].id(), None)]);
    }

    /// DEL-6: nothing comes back behind, or instead of, what is served already.
    #[test]
    fn a_state_comes_back_only_before_those_that_are_served() {
        let (held, served) = (signed(1, 1, 10).state(), signed(1, 2, 20).state());
        let view = project().stated(held.clone(), Held).stated(served, Served);
        assert_eq!(back(view, &[]), []);
        let view = project().stated(held, Superseded);
        assert_eq!(back(view, &[]), []);
    }

    /// DEL-6: only to the scope that comes back, and only with its commit.
    #[test]
    fn a_held_proposal_comes_back_with_its_commit() {
        let [here, to_bob, missing, elsewhere] =
            [asked(1, 1), asked(2, 1), asked(1, 3), asked(3, 1)];
        let view = [&here, &to_bob, &missing, &elsewhere]
            .into_iter()
            .fold(project(), |view, it| view.proposed(it, Held));
        let mut both = [(here.id(), None), (to_bob.id(), None)];
        both.sort();
        assert_eq!(back(view.clone(), &[]), both);
        assert_eq!(back(view, &[here.id()]), [(to_bob.id(), None)]);
        let served = project().proposed(&here, Superseded);
        assert_eq!(back(served, &[]), []);
    }

    /// NIP-40, EV-4
    #[test]
    fn what_is_over_by_now_does_not_come_back() {
        for (end, returns) in [(NOW - 1, false), (NOW, false), (NOW + 1, true)] {
            let end_of = |id| Vec::from_iter(returns.then_some((id, Some(at(end)))));
            let signed = ending(signed(1, 1, 10), end).state();
            let view = project().stated(signed.clone(), Held);
            assert_eq!(back(view, &[]), end_of(signed.id()), "{end}");
            let asked = testing::pull_request(key(4), key(1), oid(1));
            let asked = ending(asked, end).proposal();
            let view = project().proposed(&asked, Held);
            assert_eq!(back(view, &[]), end_of(asked.id()), "{end}");
        }
    }
}
