//! What tests need: the real binary, git with its own home, signers, and clients exact enough to
//! speak wrongly on purpose.
//!
//! Helpers hide plumbing, never the point of a test. They fail by panicking, with the server's log;
//! they wait for a condition with a deadline and never sleep and hope.

#![forbid(unsafe_code)]
#![allow(
    clippy::missing_panics_doc,
    reason = "a helper of a test reports by panicking"
)]

// What the simulator shares with the rules' tests names this crate as they do.
#[cfg(feature = "sim")]
extern crate self as grasp_testkit;

pub mod disk;
pub mod fake_relay;
pub mod git;
pub mod git_host;
pub mod history;
pub mod http;
pub mod maintainer;
pub mod person;
pub mod process;
pub mod relay;
pub mod server;
#[cfg(feature = "sim")]
pub mod sim;
pub mod strace;
pub mod wait;
pub mod wire;

pub use disk::Footprint;
pub use fake_relay::FakeRelay;
pub use git::{GitHome, Pushed, Refs, WorkTree};
pub use git_host::{Behaviour, GitHost};
pub use http::{HttpConnection, HttpResponse};
pub use maintainer::Maintainer;
pub use nostr::event::{Event, EventId};
pub use person::{Draft, Person};
pub use relay::{Answer, RelayClient};
pub use serde_json::{Value, json};
pub use server::{Endpoint, Said, Server, ServerBuilder};
pub use tempfile::TempDir;
pub use wait::{DEADLINE, eventually};

/// Compresses as git does its request bodies.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory takes every write");
    encoder.finish().expect("memory takes every write")
}

/// One pkt-line: four hex digits of length, then the payload.
pub fn pkt(payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let mut line = format!("{:04x}", payload.len() + 4).into_bytes();
    line.extend_from_slice(payload);
    line
}

/// The payloads of a pkt-line stream; flush and delimiter packets are empty.
pub fn pkt_lines(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    while bytes.len() >= 4 {
        let length = std::str::from_utf8(&bytes[..4])
            .ok()
            .and_then(|digits| usize::from_str_radix(digits, 16).ok())
            .expect("a pkt-line begins with four hex digits");
        if length < 4 {
            lines.push(Vec::new());
            bytes = &bytes[4..];
        } else {
            lines.push(bytes[4..length].to_vec());
            bytes = &bytes[length..];
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkt_lines_read_what_pkt_writes() {
        let stream = [pkt("one\n"), b"0000".to_vec(), pkt("")].concat();
        assert_eq!(pkt_lines(&stream), [b"one\n".to_vec(), vec![], vec![]]);
    }
}
