//! Events for the suite: with true ids, without signatures, which the store does not look at.

use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::{Change, Stage, Standing};
use grasp_core::request::Uses;
use nostr::event::Signature;
use nostr::event::{Event, EventId, Kind, Tag};
use nostr::key::PublicKey;
use nostr::types::Timestamp;

/// A key for each number.
pub fn key(number: u8) -> PublicKey {
    let mut bytes = [number; 32];
    bytes[31] = 0x5a;
    PublicKey::from_byte_array(bytes)
}

/// Seconds.
pub fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

/// An event of `author`.
pub fn event(author: PublicKey, kind: u16, created_at: u64, tags: &[&[&str]]) -> VerifiedEvent {
    with_content(author, kind, created_at, tags, "")
}

/// As [`event`], with a content that makes it another one.
pub fn with_content(
    author: PublicKey,
    kind: u16,
    created_at: u64,
    tags: &[&[&str]],
    content: &str,
) -> VerifiedEvent {
    let tags: Vec<Tag> = tags
        .iter()
        .map(|tag| Tag::parse(tag.iter().copied()).expect("a tag has a name"))
        .collect();
    let tags = nostr::event::Tags::from_list(tags);
    let (created_at, kind) = (at(created_at), Kind::from_u16(kind));
    let id = EventId::compute(&author, &created_at, &kind, &tags, content);
    let signature = Signature::from_byte_array([7; 64]);
    let event = Event::new(id, author, created_at, kind, tags, content, signature);
    VerifiedEvent::from_own_store(event)
}

/// An event whose id is `id`, whatever its content: for ids that nearly agree.
pub fn with_id(event: &VerifiedEvent, id: [u8; 32]) -> VerifiedEvent {
    let mut event = event.event().clone();
    event.id = EventId::from_byte_array(id);
    VerifiedEvent::from_own_store(event)
}

/// Stores `event` in `stage` without a deadline.
pub fn insert(event: &VerifiedEvent, stage: Stage) -> Change {
    Change::Insert {
        event: event.clone(),
        stage,
        deadline: None,
        standing: Standing::Anchor,
    }
}

/// Stores `event` in `stage` until `deadline`.
pub fn insert_until(event: &VerifiedEvent, stage: Stage, deadline: u64) -> Change {
    let deadline = Some(at(deadline));
    Change::Insert {
        event: event.clone(),
        stage,
        deadline,
        standing: Standing::Anchor,
    }
}

/// Stores a request that was first seen at `first_seen` and of no use yet.
pub fn keep(request: &VerifiedEvent, first_seen: u64) -> Vec<Change> {
    let insert = Change::Insert {
        event: request.clone(),
        stage: Stage::Served,
        deadline: None,
        standing: Standing::Bare,
    };
    let uses = Uses {
        first_seen: at(first_seen),
        last: None,
    };
    let request = request.id();
    vec![insert, Change::KeepRequest { request, uses }]
}

/// Moves `event` to `stage` without a deadline.
pub fn moved(event: &VerifiedEvent, stage: Stage) -> Change {
    Change::Move {
        event: event.id(),
        stage,
        deadline: None,
    }
}
