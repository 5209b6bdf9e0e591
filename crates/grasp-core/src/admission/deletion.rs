//! Deletion requests (§11): of single events and of whole coordinates.

use std::collections::BTreeSet;

use nostr::event::EventId;

use super::idle::settle_in;
use super::{Answer, Decision, DeletionFacts, DeletionTarget, IdleLoad, Rejection};
use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::{Batch, Change, Stage, Standing};
use crate::policy::Circumstances;
use crate::request::{Targets, keep};
use crate::retract::{Retraction, retract};
use crate::settle::{difference, dirtied, promote};
use crate::view::{ObjectFacts, RepoView};

/// NIP-09 (DEL-1, DEL-2, DEL-3, PUR-10). `idle` is what keys that take part in nothing have stored, if
/// the author is one of them (EV-8).
pub fn admit_deletion(
    event: &VerifiedEvent,
    facts: &DeletionFacts,
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
            Request(&named).removals(facts, event, cx),
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
        let doomed: Vec<&DeletionTarget> = by_id.filter(may_go).chain(by_address).collect();
        let ids: BTreeSet<EventId> = doomed.iter().map(|target| target.event).collect();
        let how = if scopes_go {
            Retraction::Scope
        } else {
            Retraction::Event
        };
        let mut batch = Batch::new();
        for view in &targets.views {
            batch.extend(retracted(view, &ids, how, cx));
        }
        let outside = |target: &&&DeletionTarget| {
            let event = &target.event;
            !targets.views.iter().any(|view| view.stage(event).is_some())
        };
        batch.extend(
            doomed
                .iter()
                .filter(outside)
                .map(|target| removal(target, cx)),
        );
        without_repeats(batch)
    }
}

fn retracted(
    view: &RepoView,
    doomed: &BTreeSet<EventId>,
    how: Retraction,
    cx: Circumstances<'_>,
) -> Batch {
    let mut after = view.clone();
    retract(&mut after, doomed, how, cx);
    promote(&mut after, &ObjectFacts::none(), cx);
    let mut batch = difference(view, &after, None);
    batch.extend(dirtied(view, &after, cx));
    batch
}

/// DEL-5: what was seen is held for a while.
fn removal(target: &DeletionTarget, cx: Circumstances<'_>) -> Change {
    match target.stage {
        Stage::Served | Stage::Superseded | Stage::Held => Change::Move {
            event: target.event,
            stage: Stage::Held,
            deadline: Some(cx.after(cx.policy.holding_retention)),
        },
        Stage::Waiting | Stage::Parked => Change::Remove {
            event: target.event,
        },
    }
}

/// A proposal may be in several views, and an event named twice.
fn without_repeats(batch: Batch) -> Batch {
    let mut once = Batch::new();
    for change in batch {
        if !once.contains(&change) {
            once.push(change);
        }
    }
    once
}
