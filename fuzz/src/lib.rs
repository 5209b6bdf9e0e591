//! What each fuzz target does with its bytes. Also run over the corpora by the workspace's tests.
//!
//! No target may panic, run without end or keep more memory than its input weighs times a constant.

use std::collections::BTreeSet;

use grasp_core::Event;
use grasp_core::announcement::Announcement;
use grasp_core::event::VerifiedEvent;
use grasp_core::filter::Filter;
use grasp_core::oid::Oid;
use grasp_core::proposal::Proposal;
use grasp_core::related::References;
use grasp_core::state::StateEvent;
use grasp_git::http::receive_pack::read_request;
use grasp_git::ingest::{PackLimits, scan_pack};
use grasp_git::pktline::{DATA_MAX, Packet, Reader, decode};
use grasp_relay::message::{ClientMessage, claimed_id};
use grasp_sync::client::message::RelayMessage;
use grasp_sync::fetch::{read_answer, read_refs};

/// Commands of one push that are read.
const COMMANDS_MAX: usize = 50;

/// Packets of a slice and of a stream are the same packets.
pub fn pkt_lines(data: &[u8]) {
    let mut rest = data;
    let mut reader = Reader::new(data, DATA_MAX);
    while !rest.is_empty() {
        let decoded = decode(rest);
        let read = block_on(reader.next());
        match (decoded, read) {
            (Ok((packet, after)), Ok(Some(streamed))) => {
                assert_eq!(packet, streamed);
                assert!(after.len() < rest.len(), "each packet takes some bytes");
                if let Packet::Data(data) = packet {
                    assert!(data.len() <= DATA_MAX);
                }
                rest = after;
            }
            (Err(_), Err(_)) => return,
            (decoded, read) => panic!("a slice says {decoded:?}, a stream {read:?}"),
        }
    }
}

/// What comes before the pack of a push.
pub fn receive_pack(data: &[u8]) {
    let mut rest = data;
    if let Ok(Some(request)) = block_on(read_request(&mut rest, COMMANDS_MAX)) {
        assert!(!request.commands.is_empty());
        assert!(request.commands.len() <= COMMANDS_MAX);
        for command in &request.commands {
            assert!(!command.name.contains('\0'));
        }
    }
}

/// The scanner that every pack passes before it is indexed.
pub fn packs(mut data: &[u8]) {
    let limits = PackLimits {
        bytes: 1 << 20,
        objects: 1_000,
        object_bytes: 1 << 20,
        inflated_bytes: 1 << 22,
    };
    let _ = scan_pack(&mut data, &limits);
}

/// A text of a client, and the event or the filters in it.
pub fn messages(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match ClientMessage::parse(text) {
        Ok(ClientMessage::Event(event) | ClientMessage::Auth(event)) => {
            if let Some(id) = claimed_id(event) {
                assert_eq!(id.len(), 64);
            }
            events(event.as_bytes());
        }
        Ok(ClientMessage::Req(request) | ClientMessage::Count(request)) => {
            for filter in request.filters {
                read_filter(filter);
            }
        }
        Ok(ClientMessage::NegOpen { filter, .. }) => read_filter(filter),
        _ => {}
    }
}

/// A text of a relay that we follow, and the event in it.
pub fn answers(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match RelayMessage::parse(text) {
        Ok(RelayMessage::Event(_, event)) => events(event.as_bytes()),
        Ok(
            RelayMessage::Closed(_, words)
            | RelayMessage::NegError(_, words)
            | RelayMessage::Notice(words),
        ) => {
            assert!(words.len() <= text.len().min(4 * 1_024), "prose is cut");
        }
        Ok(RelayMessage::NegMessage(_, message)) => assert!(message.len() * 2 <= text.len()),
        _ => {}
    }
}

/// What a git host answers that we fetch from: a pack in packets, a refusal, or a list of refs.
pub fn git_hosts(data: &[u8]) {
    let wanted = BTreeSet::from([Oid::from_bytes([0xaa; 20])]);
    if let Ok(Some(bytes)) = block_on(read_answer(data, &wanted)) {
        assert!(
            bytes <= data.len() as u64,
            "nothing comes out that did not come in"
        );
    }
    if let Ok(listed) = block_on(read_refs(data, &wanted)) {
        assert!(listed.is_subset(&wanted));
    }
}

/// A filter survives being written and read again.
fn read_filter(text: &str) {
    let Ok(value) = serde_json::from_str(text) else {
        return;
    };
    if let Ok(filter) = Filter::parse(&value) {
        assert_eq!(Filter::parse(&filter.to_json()), Ok(filter));
    }
}

/// An event's JSON, and everything that is read from its tags.
pub fn events(data: &[u8]) {
    let Ok(event) = Event::from_json(data) else {
        return;
    };
    let again = Event::from_json(event.as_json()).expect("what we write can be read");
    assert_eq!(event, again);
    let _ = VerifiedEvent::verify(event.clone());
    // No fuzzer finds a signature: beyond it, go on as if it were right.
    let event = VerifiedEvent::from_own_store(event);
    let _ = Announcement::parse(event.clone());
    let _ = StateEvent::parse(event.clone());
    let _ = Proposal::parse(event.clone());
    let _ = References::of(&event);
    let _ = (event.identifier(), event.address(), event.expiration());
}

/// Everything here reads from memory: no future is ever pending.
fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime without drivers")
        .block_on(future)
}
