//! Names for unit tests.

use grasp_core::name::Coordinate;
use grasp_core::{EventId, PublicKey};

pub(super) fn id(n: u32) -> EventId {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    EventId::from_byte_array(bytes)
}

pub(super) fn coordinate(n: u32) -> Coordinate {
    let owner = PublicKey::from_byte_array(id(n).to_bytes());
    Coordinate::new(owner, format!("repo-{n}").parse().expect("valid"))
}
