//! Pull requests and their updates (§8).
//!
//! A proposal may name repositories of several identifiers, each with a view of its own. It is served
//! as soon as its commit is in one of them, and then it is served in all.

use super::outcome::{answer_for, full_for_event, hunt, repeats, something_waits};
use super::related::by_reference;
use super::{Answer, Decision, PurgatoryLoad, Rejection};
use crate::lifecycle::{Batch, Change, Stage, Standing};
use crate::policy::{Circumstances, Policy};
use crate::proposal::Proposal;
use crate::related::RelatedFacts;
use crate::settle::{difference, dirtied, promote, waiting_deadline};
use crate::view::{ObjectFacts, ProposalEntry, RepoView};

/// §8. `views` has one view per identifier that its `a` tags name, with every upload made for the
/// event among its uploads.
pub fn admit_proposal(
    event: &Proposal,
    views: &[RepoView],
    related: &RelatedFacts,
    facts: &ObjectFacts,
    load: PurgatoryLoad,
    cx: Circumstances<'_>,
) -> Decision {
    let known = views.iter().find_map(|view| view.stage(&event.id()));
    if let Some(decision) = repeats(known, cx) {
        return decision;
    }
    let standing = match by_reference(event.event(), related, cx) {
        Ok(standing) => standing,
        Err(_) if is_hosted(event, cx.policy) => Standing::Anchor,
        Err(rejection) => return Decision::only(rejection),
    };
    let after = settled(event, views, facts, cx);
    let stage = after.iter().find_map(|view| view.stage(&event.id()));
    let answer = answer_for(stage.or(Some(Stage::Waiting)));
    if let Some(bound) = full_for_event(load, cx).filter(|_| answer == Answer::Purgatory) {
        return Decision::only(Rejection::PurgatoryFull(bound));
    }
    let batch = changes(event, standing, views, &after, cx);
    Decision { answer, batch }
}

/// G6-4: it names a repository, and the submitter's own one here as the place of its commit.
fn is_hosted(event: &Proposal, policy: &Policy) -> bool {
    let clone_urls = event.event().all_values("clone");
    let mut targets = event.targets().iter();
    targets.any(|target| policy.hosts_submission(&event.author(), &target.identifier, &clone_urls))
}

/// The views with the proposal in them, settled until they agree about it.
fn settled(
    event: &Proposal,
    views: &[RepoView],
    facts: &ObjectFacts,
    cx: Circumstances<'_>,
) -> Vec<RepoView> {
    let mut after = views.to_vec();
    let deadline = waiting_deadline(event.event().expiration(), cx);
    for view in &mut after {
        let entry = ProposalEntry::of(event, &view.identifier, Stage::Waiting, Some(deadline));
        if !entry.named.is_empty() {
            view.proposals.insert(event.id(), entry);
        }
        promote(view, facts, cx);
    }
    let served = |view: &RepoView| view.stage(&event.id()) == Some(Stage::Served);
    if after.iter().any(served) {
        for view in &mut after {
            if let Some(entry) = view.proposals.get_mut(&event.id()) {
                entry.stage = Stage::Served;
                entry.deadline = entry.expiration;
            }
        }
    }
    after
}

fn changes(
    event: &Proposal,
    standing: Standing,
    before: &[RepoView],
    after: &[RepoView],
    cx: Circumstances<'_>,
) -> Batch {
    let mut batch = Batch::new();
    for (before, after) in before.iter().zip(after) {
        let fresh = Some((event.event(), standing));
        for change in difference(before, after, fresh) {
            if !batch.contains(&change) {
                batch.push(change);
            }
        }
    }
    if !after
        .iter()
        .any(|view| view.proposals.contains_key(&event.id()))
    {
        // It hangs on a conversation and names no repository: it waits for one that never comes.
        batch.push(Change::Insert {
            event: event.event().clone(),
            stage: Stage::Waiting,
            deadline: Some(waiting_deadline(event.event().expiration(), cx)),
            standing,
        });
    }
    for (before, after) in before.iter().zip(after) {
        batch.extend(dirtied(before, after, cx));
        if something_waits(after) {
            batch.push(hunt(&after.identifier, cx));
        }
    }
    batch
}
