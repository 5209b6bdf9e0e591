//! Deletion requests (§11): of single events and of whole coordinates.

use std::collections::BTreeSet;

use nostr::event::EventId;

use super::idle::settle_in;
use super::{Answer, Decision, DeletionFacts, DeletionTarget, IdleLoad, Rejection};
use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::{Batch, Change, Stage, Standing};
use crate::policy::Circumstances;
use crate::related::{event_id, normalised_address};
use crate::retract::{Retraction, retract};
use crate::settle::{difference, dirtied, promote};
use crate::view::{ObjectFacts, RepoView};

/// At most so many `e` and `a` of one request (DEL-1).
const TARGETS_MAX: usize = 2048;

/// NIP-09 (DEL-1, DEL-2, DEL-3, PUR-10). `idle` is what keys that take part in nothing have stored, if
/// the author is one of them (EV-8).
pub fn admit_deletion(
    event: &VerifiedEvent,
    targets: &DeletionFacts,
    idle: Option<&IdleLoad>,
    cx: Circumstances<'_>,
) -> Decision {
    let named = event
        .tags()
        .filter(|tag| matches!(tag[0].as_str(), "e" | "a"));
    if named.count() > TARGETS_MAX {
        return Decision::only(Rejection::TooManyTargets);
    }
    let request = Request::of(event);
    let foreign = |target: &DeletionTarget| {
        request.events.contains(&target.event) && target.author != event.author()
    };
    if targets.events.values().any(foreign) {
        return Decision::only(Rejection::ForeignDeletion);
    }
    let standing = Standing::Bare;
    let mut batch = vec![Change::Insert {
        event: event.clone(),
        stage: Stage::Served,
        deadline: event.expiration(),
        standing,
    }];
    batch.extend(request.gates(event));
    let removals = request.removals(targets, event, cx);
    let used = !removals.is_empty();
    batch.extend(removals);
    batch.extend(settle_in(event, standing, used, idle, cx));
    Decision {
        answer: Answer::Stored,
        batch,
    }
}

/// What a request names, as far as it may.
struct Request {
    events: BTreeSet<EventId>,
    /// The author's own; foreign ones are ignored.
    addresses: BTreeSet<String>,
}

impl Request {
    fn of(event: &VerifiedEvent) -> Self {
        let values = |name: &'static str| {
            event
                .tags()
                .filter(move |tag| tag[0] == name)
                .filter_map(|tag| tag.get(1))
        };
        let own = format!(":{}:", event.author().to_hex());
        Self {
            events: values("e").filter_map(|id| event_id(id)).collect(),
            addresses: values("a")
                .filter_map(|address| normalised_address(address))
                .filter(|address| address.contains(&own))
                .collect(),
        }
    }

    /// What it names does not come back, nor come at all (DEL-1).
    fn gates(&self, request: &VerifiedEvent) -> Batch {
        let events = self.events.iter().map(|event| Change::GateEvent {
            event: *event,
            author: request.author(),
            request: request.id(),
        });
        let addresses = self.addresses.iter().map(|address| Change::GateAddress {
            address: address.clone(),
            until: request.created_at(),
            request: request.id(),
        });
        events.chain(addresses).collect()
    }

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
            .filter(|target| self.events.contains(&target.event));
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
