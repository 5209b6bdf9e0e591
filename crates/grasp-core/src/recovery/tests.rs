//! A conversation in memory, and what of it comes back or goes.

use std::convert::Infallible;

use super::*;
use crate::lifecycle::Stage::{Held, Served, Superseded, Waiting};
use crate::policy::Policy;
use crate::testing::project::{announcement, proposal, state};
use crate::testing::{Draft, NOW, announcement as a_draft, at, cx, draft, key, oid, policy};
use nostr::types::Timestamp;

const REPLY: Standing = Standing::Reply {
    root: EventId::from_byte_array([9; 32]),
    counted: false,
};

/// In the order in which the events were stored.
#[derive(Default)]
struct Events(Vec<Member>);

impl Conversation for Events {
    type Error = Infallible;

    fn member(&self, name: &Name) -> Result<Option<Member>, Infallible> {
        let is = |member: &&Member| match name {
            Name::Event(id) => member.event.id() == *id,
            Name::Address(_) => member.stage == Served && member.names().contains(name),
        };
        Ok(self.0.iter().find(is).cloned())
    }

    fn referring(&self, name: &Name, max: usize) -> Result<Vec<Member>, Infallible> {
        let refers = |member: &&Member| member.references().contains(name);
        Ok(self.0.iter().filter(refers).take(max).cloned().collect())
    }
}

impl Events {
    fn add(&mut self, draft: Draft, stage: Stage, standing: Standing) -> EventId {
        let event = draft.event();
        let id = event.id();
        let gated = false;
        self.0.push(Member {
            event,
            stage,
            standing,
            gated,
        });
        id
    }

    fn held(&mut self, draft: Draft) -> EventId {
        self.add(draft, Held, REPLY)
    }

    fn gate(&mut self, event: EventId) {
        let mut members = self.0.iter_mut();
        let member = members.find(|member| member.event.id() == event);
        member.expect("is there").gated = true;
    }

    fn found(&self, purpose: Purpose) -> Vec<EventId> {
        self.found_by(purpose, &policy().requests)
    }

    fn found_by(&self, purpose: Purpose, requests: &RequestPolicy) -> Vec<EventId> {
        let Ok(found) = held_around(vec![scope()], self, purpose, requests);
        assert!(!found.capped);
        found.events
    }

    /// What is served again, with the end of each.
    fn back(&self, events: &[EventId]) -> Vec<(EventId, Option<Timestamp>)> {
        self.back_by(events, &policy())
    }

    fn back_by(&self, events: &[EventId], policy: &Policy) -> Vec<(EventId, Option<Timestamp>)> {
        let Ok(batch) = return_step(events, self, cx(policy));
        let back = batch.into_iter().map(|change| match change {
            Change::Move {
                event,
                stage: Served,
                deadline,
            } => (event, deadline),
            other => panic!("{other:?}"),
        });
        back.collect()
    }
}

/// Alice's repository.
fn scope() -> Name {
    Name::Address(a_draft(key(1)).event().address().expect("an address"))
}

fn about_the_scope(kind: u16) -> Draft {
    let Name::Address(address) = scope() else {
        unreachable!()
    };
    draft(kind, key(2)).tag(["a".to_owned(), address])
}

fn on(event: EventId) -> Draft {
    draft(1111, key(3)).tag(["e".to_owned(), event.to_hex()])
}

/// DEL-6
#[test]
fn what_hangs_on_a_scope_is_found_with_what_hangs_on_that() {
    let mut events = Events::default();
    let issue = events.held(about_the_scope(kind::ISSUE));
    let comment = events.held(on(issue));
    let answer = events.held(on(comment).tag(["e".to_owned(), issue.to_hex()]));
    let elsewhere = EventId::from_byte_array([8; 32]);
    events.held(on(elsewhere));
    for purpose in [Purpose::Return, Purpose::Eject] {
        assert_eq!(events.found(purpose), [issue, comment, answer]);
    }
}

/// DEL-6: views decide about them, or they are here of their own right.
#[test]
fn what_is_here_of_its_own_right_hangs_on_nothing() {
    let apart = [
        kind::ANNOUNCEMENT,
        kind::STATE,
        kind::PULL_REQUEST,
        kind::PULL_REQUEST_UPDATE,
        kind::GRASP_LIST,
        kind::PROFILE,
        kind::RELAY_LIST,
        kind::DELETION,
        kind::VANISH,
    ];
    let mut events = Events::default();
    for kind in apart {
        let it = events.held(about_the_scope(kind));
        events.held(on(it));
    }
    for purpose in [Purpose::Return, Purpose::Eject] {
        assert_eq!(events.found(purpose), []);
    }
    for kind in [kind::PATCH, kind::ISSUE, 1, 1111, 7] {
        let mut events = Events::default();
        let it = events.held(about_the_scope(kind));
        assert_eq!(events.found(Purpose::Return), [it], "{kind}");
    }
}

/// DEL-6, DEL-1: what its author took back stays away and carries nothing; for good it goes like the rest.
#[test]
fn what_a_request_keeps_away_goes_and_does_not_come_back() {
    let mut events = Events::default();
    let issue = events.held(about_the_scope(kind::ISSUE));
    let comment = events.held(on(issue));
    events.gate(issue);
    assert_eq!(events.found(Purpose::Return), []);
    assert_eq!(events.found(Purpose::Eject), [issue, comment]);
    assert_eq!(events.back(&[issue]), []);
}

/// DEL-6: what is served leads on to what came to be held below it; whoever ejects stops there.
#[test]
fn what_is_served_leads_on_and_what_waits_does_not() {
    for (stage, leads_on) in [(Served, true), (Waiting, false), (Superseded, false)] {
        let mut events = Events::default();
        let issue = events.add(about_the_scope(kind::ISSUE), stage, REPLY);
        let comment = events.held(on(issue));
        let found: &[_] = if leads_on { &[comment] } else { &[] };
        assert_eq!(events.found(Purpose::Return), found, "{stage:?}");
        assert_eq!(events.found(Purpose::Eject), [], "{stage:?}");
    }
}

/// REL-6: it came because of the mention, and comes back, or goes, with it.
#[test]
fn what_was_only_mentioned_is_found_after_what_mentions_it() {
    let mut events = Events::default();
    let mentioned = events.add(draft(1, key(4)), Held, Standing::Bare);
    let of_its_own = events.held(draft(1, key(5)));
    let served = events.add(draft(1, key(6)), Served, Standing::Bare);
    let quotes = [mentioned, of_its_own, served, mentioned];
    let issue = quotes
        .iter()
        .fold(about_the_scope(kind::ISSUE), |issue, quoted| {
            issue.tag(["q".to_owned(), quoted.to_hex()])
        });
    let issue = events.held(issue);
    let other = about_the_scope(kind::PATCH).tag(["q".to_owned(), mentioned.to_hex()]);
    let other = events.held(other);
    for purpose in [Purpose::Return, Purpose::Eject] {
        assert_eq!(events.found(purpose), [issue, mentioned, other]);
    }
}

/// DEL-6: in one step what comes back carries what follows it; without any support nothing returns.
#[test]
fn only_what_has_support_comes_back() {
    let mut events = Events::default();
    let stays_away = events.held(draft(kind::ISSUE, key(2)));
    let root = events.add(draft(kind::ISSUE, key(3)), Served, Standing::Anchor);
    let comment = events.held(on(root));
    let answer = events.held(on(comment));
    let lost = events.held(on(stays_away));
    // What carries nothing came in without support, whatever it refers to.
    let mentioned = events.add(on(stays_away).at(NOW), Held, Standing::Bare);
    let unknown = EventId::from_byte_array([8; 32]);
    let step = [unknown, comment, answer, lost, mentioned, root];
    let back = [comment, answer, mentioned].map(|event| (event, None));
    assert_eq!(events.back(&step), back);
    assert_eq!(events.back(&[answer, comment]), [(comment, None)]);
}

/// NIP-40, EV-4: an event that is over by now does not come back.
#[test]
fn what_comes_back_keeps_its_own_end() {
    let ends = |end: u64| {
        let mut events = Events::default();
        let draft = draft(1, key(4)).tag(["expiration".to_owned(), end.to_string()]);
        let event = events.add(draft, Held, Standing::Bare);
        events.back(&[event])
    };
    assert!(ends(NOW - 1).is_empty() && ends(NOW).is_empty());
    let [(_, end)] = ends(NOW + 1)[..] else {
        panic!("it is not over")
    };
    assert_eq!(end, Some(at(NOW + 1)));
}

/// NIP-01: of one address one version is served.
#[test]
fn a_version_does_not_come_back_beside_another() {
    let version = |at| draft(30_023, key(4)).tag(["d", "x"]).at(at);
    let mut events = Events::default();
    let old = events.add(version(10), Held, Standing::Bare);
    assert_eq!(events.back(&[old]), [(old, None)]);
    events.add(version(20), Served, Standing::Bare);
    assert_eq!(events.back(&[old]), []);
}

/// DEL-6
#[test]
fn a_scope_is_named_by_its_address_and_by_what_belongs_to_it() {
    let announced = announcement(key(1), 10, vec![]);
    let older = announcement(key(1), 5, vec![]);
    let signed = state(key(2), 10, &[]);
    let commit = oid(1).to_string();
    let shown = proposal(key(3), 10, &commit, &[key(1)]);
    let waits = proposal(key(4), 10, &commit, &[key(1)]);
    let view = crate::testing::project::view()
        .announced(announced.clone(), Served)
        .announced(older.clone(), Superseded)
        .announced(announcement(key(2), 10, vec![]), Served)
        .stated(signed.clone(), Served)
        .proposed(&shown, Served)
        .proposed(&waits, Waiting);
    let ids = [announced.id(), older.id(), signed.id(), shown.id()];
    let names: Vec<_> = [scope()].into_iter().chain(ids.map(Name::Event)).collect();
    assert_eq!(names_of_scope(&key(1), &view.build()), names);
}

/// DEL-10: gates rest while requests are not respected.
#[test]
fn where_requests_are_not_respected_none_keeps_anything_away() {
    let mut events = Events::default();
    let issue = events.held(about_the_scope(1621));
    events.gate(issue);
    assert_eq!(events.found(Purpose::Return), []);
    assert_eq!(events.back(&[issue]), []);
    let mut policy = policy();
    policy.requests.respected = false;
    let found = events.found_by(Purpose::Return, &policy.requests);
    assert_eq!(found, [issue]);
    events.add(a_draft(key(1)), Served, Standing::Anchor);
    assert_eq!(events.back(&[issue]), []);
    assert_eq!(events.back_by(&[issue], &policy), [(issue, None)]);
}
