use std::collections::BTreeSet;

use grasp_core::PublicKey;
use nostr::event::{Event, Kind, Signature, Tag, Tags};
use nostr::types::Timestamp;

use super::*;
use crate::intake::dependencies::{FILTERS_MAX, VALUES_MAX};

fn key(n: u16) -> PublicKey {
    let mut bytes = [7; 32];
    bytes[..2].copy_from_slice(&n.to_be_bytes());
    PublicKey::from_byte_array(bytes)
}

fn event(kind: u16, author: u16, tags: &[[&str; 2]], content: &str) -> VerifiedEvent {
    let tags = tags.iter().map(|tag| Tag::parse(*tag).expect("a tag"));
    let tags = Tags::from_list(tags.collect());
    let (author, at) = (key(author), Timestamp::from_secs(1_000));
    let kind = Kind::from_u16(kind);
    let id = EventId::compute(&author, &at, &kind, &tags, content);
    let signature = Signature::from_byte_array([1; 64]);
    let event = Event::new(id, author, at, kind, tags, content, signature);
    VerifiedEvent::from_own_store(event)
}

fn reply_to(parent: &EventId, content: &str) -> VerifiedEvent {
    event(1111, 1, &[["e", &parent.to_hex()]], content)
}

fn some_id(n: u32) -> EventId {
    let mut bytes = [9; 32];
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    EventId::from_byte_array(bytes)
}

fn relay(n: usize) -> RelayUrl {
    format!("wss://r{n}.example.com").parse().expect("valid")
}

fn at(secs: u64) -> Time {
    Time::from_secs(1_000_000 + secs)
}

fn empty() -> Intake {
    Intake::new(Settings::default())
}

fn refuse(intake: &mut Intake, event: &VerifiedEvent, rejection: &Rejection, secs: u64) {
    intake.refused(event.clone(), &relay(1), rejection, at(secs));
}

fn arrives(intake: &mut Intake, event: &VerifiedEvent) {
    for lack in Lack::met_by(event) {
        intake.meet(&lack);
    }
}

fn retried(intake: &mut Intake) -> Vec<EventId> {
    let retries = intake.retries().into_iter();
    retries.map(|(_, event)| event.id()).collect()
}

/// SYNC-33: the order of arrival does not matter.
#[test]
fn a_reply_is_tried_again_when_what_it_hangs_on_arrives() {
    let mut intake = empty();
    let issue = event(1621, 2, &[], "issue");
    let reply = reply_to(&issue.id(), "reply");
    refuse(&mut intake, &reply, &Rejection::Unrelated, 0);
    assert!(intake.knows(&reply.id(), at(1)), "it need not come again");
    assert_eq!(retried(&mut intake), []);
    arrives(&mut intake, &event(1621, 2, &[], "another"));
    assert_eq!(retried(&mut intake), []);
    arrives(&mut intake, &issue);
    assert_eq!(retried(&mut intake), [reply.id()]);
    intake.taken(&reply.id());
    assert_eq!(intake.sizes(), Sizes::default(), "nothing is left");
}

/// SYNC-32, REL-2: a mention is enough, and authority may come late.
#[test]
fn each_refusal_that_can_heal_waits_for_what_heals_it() {
    let listed = key(3).to_hex();
    let note = event(1, 1, &[], "a note");
    let profile = event(0, 3, &[], "");
    let state = event(30618, 1, &[["d", "x"]], "");
    let announcement = event(30617, 1, &[["d", "x"]], "");
    let identifier = Lack::Identifier("x".parse().expect("valid"));
    let address = format!("10317:{listed}:");
    let on_list = event(1111, 1, &[["a", &address]], "");
    let list = event(10317, 3, &[], "");
    for (refused, rejection, heals) in [
        (
            &note,
            Rejection::Unrelated,
            Lack::Mention(note.id().to_hex()),
        ),
        (&profile, Rejection::NotParticipant, Lack::Author(key(3))),
        (&state, Rejection::NotAuthorised, identifier.clone()),
        (&state, Rejection::NoAnnouncement, identifier.clone()),
        (&announcement, Rejection::ServiceNotListed, identifier),
        (
            &on_list,
            Rejection::Unrelated,
            Lack::Address(list.address().expect("one")),
        ),
    ] {
        let mut intake = empty();
        refuse(&mut intake, refused, &rejection, 0);
        intake.meet(&heals);
        assert_eq!(retried(&mut intake), [refused.id()], "{rejection:?}");
    }
    let quote = event(1111, 2, &[["q", &note.id().to_hex()]], "");
    assert!(Lack::met_by(&quote).contains(&Lack::Mention(note.id().to_hex())));
}

/// SYNC-32: 120 seconds whole, seven days by its id; then it may come again.
#[test]
fn what_cannot_be_asked_for_is_hot_for_two_minutes_and_marked_for_a_week() {
    let mut intake = empty();
    let state = event(30618, 1, &[["d", "x"]], "");
    refuse(&mut intake, &state, &Rejection::NotAuthorised, 0);
    assert_eq!(intake.next_deadline(), Some(at(120)));
    intake.expire(at(119));
    assert_eq!(intake.sizes().orphans, 1);
    intake.expire(at(120));
    assert_eq!((intake.sizes().orphans, intake.sizes().marks), (0, 1));
    assert!(intake.knows(&state.id(), at(604_799)));
    assert!(!intake.knows(&state.id(), at(604_800)));
    intake.expire(at(604_800));
    assert_eq!(intake.sizes(), Sizes::default());
    let expired = [
        intake.tallies().orphans_expired,
        intake.tallies().marks_expired,
    ];
    assert_eq!(expired.map(|by| by.get(Sort::State)), [1, 1]);
}

/// SYNC-32: both memories drop an entry when what it lacked arrives.
#[test]
fn a_mark_is_lifted_when_what_its_event_lacked_arrives() {
    let mut intake = empty();
    let state = event(30618, 1, &[["d", "x"]], "");
    refuse(&mut intake, &state, &Rejection::NotAuthorised, 0);
    intake.expire(at(200));
    intake.meet(&Lack::Identifier("x".parse().expect("valid")));
    assert_eq!(retried(&mut intake), [], "it is not here any more");
    assert!(!intake.knows(&state.id(), at(201)), "so it may come again");
    assert_eq!(intake.tallies().misses.get(Sort::State), 1);
}

/// SYNC-32
#[test]
fn what_nothing_can_change_is_only_marked_and_what_had_no_room_is_not() {
    let mut intake = empty();
    let gated = event(1621, 1, &[], "deleted");
    refuse(&mut intake, &gated, &Rejection::Deleted, 0);
    assert!(intake.knows(&gated.id(), at(1)));
    assert_eq!(intake.sizes().orphans, 0);
    let root = some_id(1);
    let full = Rejection::OverBudget {
        root,
        events: 1,
        bytes: 1,
    };
    refuse(&mut intake, &gated, &full, 1);
    assert!(!intake.knows(&gated.id(), at(1)));
}

/// SYNC-33: by exact id or address, once in 30 seconds, later more rarely, of the relay that sent the orphan.
#[test]
fn what_an_orphan_hangs_on_is_asked_for_by_exact_name() {
    let mut intake = empty();
    let owner = key(5).to_hex();
    let address = format!("30617:{owner}:x:y");
    let orphan = event(1111, 1, &[["e", &some_id(1).to_hex()], ["a", &address]], "");
    refuse(&mut intake, &orphan, &Rejection::Unrelated, 0);
    let by_id = Filter {
        ids: Some([some_id(1).to_bytes()].into()),
        ..Filter::default()
    };
    let by_address = Filter {
        kinds: Some([30617].into()),
        authors: Some([*key(5).as_bytes()].into()),
        tags: [('d', ["x:y".to_owned()].into())].into(),
        ..Filter::default()
    };
    let errand = vec![Errand {
        relay: relay(1),
        filters: vec![by_id, by_address],
    }];
    assert_eq!(intake.errands(at(0)), errand);
    assert_eq!(intake.errands(at(29)), []);
    assert_eq!(intake.errands(at(30)), errand);
    assert_eq!(intake.errands(at(89)), []);
    assert_eq!(intake.errands(at(90)), errand);
    intake.meet(&Lack::Event(some_id(1)));
    assert_eq!(
        intake.sizes().dependencies,
        1,
        "the address is still wanted"
    );
    intake.taken(&orphan.id());
    assert_eq!(intake.sizes().dependencies, 0);
    assert_eq!(intake.next_deadline(), None);
}

/// SYNC-33: whoever else sent an orphan of the same thing is asked too, in turn.
#[test]
fn relays_are_asked_in_turn() {
    let mut intake = empty();
    for n in 1..=2 {
        let orphan = reply_to(&some_id(1), &format!("from {n}"));
        intake.refused(orphan, &relay(n), &Rejection::Unrelated, at(0));
    }
    let mut asked = |secs| {
        let errands = intake.errands(at(secs)).into_iter();
        errands.map(|errand| errand.relay).collect::<Vec<_>>()
    };
    assert_eq!(asked(0), [relay(1)]);
    assert_eq!(asked(30), [relay(2)]);
    assert_eq!(asked(90), [relay(1)]);
}

/// SYNC-33: at most 100 in a question and 32 questions in a pass; the rest stays due.
#[test]
fn questions_are_packed_and_bounded() {
    let mut intake = empty();
    for n in 0..250 {
        let orphan = reply_to(&some_id(n), "");
        intake.refused(orphan, &relay(1), &Rejection::Unrelated, at(0));
    }
    let ids = |errand: &Errand| errand.filters[0].ids.as_ref().map_or(0, BTreeSet::len);
    let errands = intake.errands(at(0));
    let packed: Vec<_> = errands.iter().map(ids).collect();
    assert_eq!(packed, [VALUES_MAX, VALUES_MAX, 50]);
    let mut intake = empty();
    for n in 0..40 {
        let orphan = reply_to(&some_id(0), &n.to_string());
        let address = format!("30617:{}:{n}", key(1).to_hex());
        let hangs = event(1111, 1, &[["a", &address]], "");
        intake.refused(orphan, &relay(1), &Rejection::Unrelated, at(0));
        intake.refused(hangs, &relay(n), &Rejection::Unrelated, at(0));
    }
    let first = intake.errands(at(0)).len();
    assert_eq!(first, ERRANDS_MAX);
    assert!(!intake.errands(at(0)).is_empty(), "the rest is still due");
    assert_eq!(intake.errands(at(0)), []);
}

/// SYNC-20: addresses need a filter each.
#[test]
fn a_question_has_at_most_ten_filters() {
    let mut intake = empty();
    for n in 0..25 {
        let address = format!("30617:{}:{n}", key(1).to_hex());
        let hangs = event(1111, 1, &[["a", &address]], "");
        refuse(&mut intake, &hangs, &Rejection::Unrelated, 0);
    }
    let errands = intake.errands(at(0));
    let filters: Vec<_> = errands.iter().map(|it| it.filters.len()).collect();
    assert_eq!(filters, [FILTERS_MAX, FILTERS_MAX, 5]);
}

/// SYNC-33: 1,024 orphans, 128 KiB each, 8 MiB in all. Who has to go may come again once what it lacks is there.
#[test]
fn orphans_are_bounded() {
    let mut intake = empty();
    let first = reply_to(&some_id(0), "first");
    refuse(&mut intake, &first, &Rejection::Unrelated, 0);
    for n in 0..1_024 {
        let orphan = reply_to(&some_id(1), &n.to_string());
        refuse(&mut intake, &orphan, &Rejection::Unrelated, 1 + n);
    }
    assert_eq!(intake.sizes().orphans, ORPHANS_MAX);
    assert!(intake.knows(&first.id(), at(2_000)));
    intake.meet(&Lack::Event(some_id(0)));
    assert!(!intake.knows(&first.id(), at(2_000)));
    assert_eq!(retried(&mut intake), [], "it is only known by its id");
    let large = reply_to(&some_id(2), &"x".repeat(ORPHAN_BYTES_MAX));
    refuse(&mut intake, &large, &Rejection::Unrelated, 2_000);
    assert_eq!(intake.sizes().orphans, ORPHANS_MAX, "it is only marked");
    assert!(intake.knows(&large.id(), at(2_001)));
    for n in 0..100 {
        let content = format!("{n}{}", "x".repeat(100_000));
        let orphan = reply_to(&some_id(3), &content);
        refuse(&mut intake, &orphan, &Rejection::Unrelated, 3_000 + n);
        assert!(intake.sizes().orphan_bytes <= ORPHANS_BYTES_MAX);
    }
    let kept = intake.sizes().orphans;
    assert!((50..ORPHANS_MAX).contains(&kept), "{kept}");
}

/// SYNC-33: at most 512 tried again in one pass, and none is lost.
#[test]
fn a_pass_tries_a_part_and_the_next_the_rest() {
    let mut intake = empty();
    let issue = event(1621, 2, &[], "issue");
    for n in 0..600 {
        let reply = reply_to(&issue.id(), &n.to_string());
        refuse(&mut intake, &reply, &Rejection::Unrelated, 0);
    }
    arrives(&mut intake, &issue);
    arrives(&mut intake, &issue);
    assert_eq!(intake.retries().len(), RETRIES_MAX);
    assert!(intake.has_retries());
    assert_eq!(intake.retries().len(), 88);
    assert!(!intake.has_retries());
    assert_eq!(
        intake.sizes().orphans,
        600,
        "until it is known what became of them"
    );
}

/// SYNC-33: refused again, an orphan keeps the time that it had.
#[test]
fn a_refusal_after_another_try_prolongs_nothing() {
    let mut intake = empty();
    let reply = reply_to(&some_id(1), "");
    refuse(&mut intake, &reply, &Rejection::Unrelated, 0);
    intake.meet(&Lack::Event(some_id(1)));
    assert_eq!(retried(&mut intake), [reply.id()]);
    refuse(&mut intake, &reply, &Rejection::Unrelated, 1_000);
    intake.expire(at(ORPHAN_KEPT.as_secs()));
    assert_eq!(intake.sizes().orphans, 0);
    assert_eq!(intake.tallies().hits.get(Sort::Other), 1);
}

/// SYNC-25: the peer is not asked for what was refused lately.
#[test]
fn marks_belong_to_the_set_that_is_reconciled() {
    let mut intake = empty();
    let state = event(30618, 1, &[["d", "x"]], "");
    refuse(&mut intake, &state, &Rejection::NotAuthorised, 0);
    let filter = |kind: u16, since| Filter {
        kinds: Some([kind].into()),
        since,
        ..Filter::default()
    };
    let marked = |filter: &Filter, secs| intake.marked(filter, at(secs));
    assert_eq!(marked(&filter(30618, None), 1), [(1_000, state.id())]);
    assert_eq!(marked(&Filter::default(), 1).len(), 1);
    assert_eq!(marked(&filter(1, None), 1), []);
    assert_eq!(marked(&filter(30618, Some(1_001)), 1), []);
    assert_eq!(marked(&filter(30618, None), 604_801), []);
}

/// SYNC-32, BND-1: in all and for each relay that sent what was refused; whoever is first to go goes first.
#[test]
fn marks_are_bounded_in_all_and_for_each_relay() {
    let mut intake = Intake::new(Settings {
        marks: MarkLimits {
            total: 5,
            per_source: 3,
        },
        ..Settings::default()
    });
    let deleted = |n: u32| event(1621, 1, &[], &n.to_string());
    let mut refuse = |n: u32, from: usize| {
        let (event, now) = (deleted(n), at(n.into()));
        intake.refused(event, &relay(from), &Rejection::Deleted, now);
    };
    (0..10).for_each(|n| refuse(n, 1));
    (10..13).for_each(|n| refuse(n, 2));
    let known: Vec<u32> = (0..13)
        .filter(|n| intake.knows(&deleted(*n).id(), at(20)))
        .collect();
    assert_eq!(known, [8, 9, 10, 11, 12]);
    intake.expire(at(1_000_000));
    assert_eq!(intake.sizes(), Sizes::default());
}
