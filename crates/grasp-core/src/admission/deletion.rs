//! Deletion requests (§11): of single events and of whole coordinates.

use super::idle::settle_in;
use super::{Answer, Decision, DeletionFacts, DeletionTarget, IdleLoad, Rejection};
use crate::deletion::{Cause, Fate, take_away};
use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::{Batch, Stage, Standing};
use crate::policy::Circumstances;
use crate::request::{Targets, keep};
use crate::retract::{Reach, Retraction};
use crate::view::ObjectFacts;

/// NIP-09 (DEL-1, DEL-2, DEL-3, DEL-4, PUR-10). `objects` are what the repositories of the targets hold:
/// what they lack brings no older state back (DEL-2a). `idle` is what keys that take part in nothing have
/// stored, if the author is one of them (EV-8).
pub fn admit_deletion(
    event: &VerifiedEvent,
    facts: &DeletionFacts,
    objects: &ObjectFacts,
    idle: Option<&IdleLoad>,
    cx: Circumstances<'_>,
) -> Decision {
    let Ok(named) = Targets::of(event) else {
        return Decision::only(Rejection::TooManyTargets);
    };
    let foreign = |target: &DeletionTarget| {
        named.events.contains(&target.event) && target.author != event.author()
    };
    if facts.events.values().any(foreign) {
        return Decision::only(Rejection::ForeignDeletion);
    }
    let (gates, removals) = if cx.policy.requests.respected {
        (
            named.gates(event),
            Request(&named).removals(facts, event, objects, cx),
        )
    } else {
        (Batch::new(), Batch::new())
    };
    let used = !removals.is_empty();
    let mut batch = match keep(event, used, facts.unused_requests, cx) {
        Ok(kept) => kept,
        Err(refusal) => return Decision::only(refusal),
    };
    batch.extend(gates);
    batch.extend(removals);
    batch.extend(settle_in(event, Standing::Bare, used, idle, cx));
    Decision {
        answer: Answer::Stored,
        batch,
    }
}

/// A request, by what it names.
struct Request<'a>(&'a Targets);

impl Request<'_> {
    fn removals(
        &self,
        targets: &DeletionFacts,
        request: &VerifiedEvent,
        objects: &ObjectFacts,
        cx: Circumstances<'_>,
    ) -> Batch {
        let may_go = |target: &&DeletionTarget| {
            target.author == request.author()
                && !matches!(target.kind, kind::DELETION | kind::VANISH)
                && target.stage != Stage::Held
        };
        let by_id = targets
            .events
            .values()
            .filter(|target| self.0.events.contains(&target.event));
        let by_address = targets
            .versions
            .iter()
            .filter(|target| target.version.created_at <= request.created_at());
        let by_address: Vec<&DeletionTarget> = by_address.filter(may_go).collect();
        let scopes_go = by_address
            .iter()
            .any(|target| target.kind == kind::ANNOUNCEMENT);
        let how = Retraction {
            reach: if scopes_go {
                Reach::Scope
            } else {
                Reach::Event
            },
            fate: Fate::Held,
        };
        let doomed: Vec<DeletionTarget> = by_id.filter(may_go).chain(by_address).cloned().collect();
        take_away(&doomed, &targets.views, how, Cause::Deleted, objects, cx)
    }
}
