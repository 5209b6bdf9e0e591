//! Who is who in these tests, and what an address does when it is asked.

use std::collections::BTreeSet;
use std::time::Duration;

use grasp_core::PublicKey;
use grasp_core::name::Identifier;
use grasp_core::oid::Oid;
use grasp_sync::hunt::{Broken, CloneUrl, FetchOutcome, Fingerprint, GroupKey, Host};

/// What an address does when it is asked.
#[derive(Debug, Clone)]
pub(crate) enum Behaviour {
    /// Sends what it has of what is wanted, after so long.
    Has(BTreeSet<Oid>, Duration),
    /// Ends like this, after so long.
    Ends(FetchOutcome, Duration),
    /// Sends so many bytes a second and never comes to an end.
    Trickles(u64),
    /// Sends nothing, ever.
    Silent,
}

pub(crate) fn key(n: u8) -> PublicKey {
    PublicKey::from_byte_array([n; 32])
}

pub(crate) fn oid(n: u16) -> Oid {
    let mut bytes = [7; 20];
    bytes[..2].copy_from_slice(&n.to_be_bytes());
    Oid::from_bytes(bytes)
}

pub(crate) fn named(name: &str) -> Identifier {
    name.parse().expect("an identifier")
}

pub(crate) fn url(host: &str) -> CloneUrl {
    format!("https://{host}/x.git")
        .parse()
        .expect("a clone URL")
}

pub(crate) fn host(name: &str) -> Host {
    Host::of(&url(name))
}

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn group(owner: u8) -> GroupKey {
    GroupKey::Maintainers(key(owner))
}

/// What a host advertises: a number.
pub(crate) fn fingerprint(n: u8) -> Fingerprint {
    Fingerprint([n; 32])
}

pub(crate) fn lacks_all(advertisement: Option<Fingerprint>) -> Behaviour {
    let missing = BTreeSet::new(); // filled in when it is asked
    Behaviour::Ends(
        FetchOutcome::Lacks {
            missing,
            advertisement,
        },
        secs(1),
    )
}

pub(crate) fn dead() -> Behaviour {
    Behaviour::Ends(FetchOutcome::Unavailable, Duration::ZERO)
}

pub(crate) fn broken() -> Behaviour {
    Behaviour::Ends(FetchOutcome::Broken(Broken::Dns), secs(1))
}

pub(crate) fn has(oids: &[u16], after: Duration) -> Behaviour {
    Behaviour::Has(oids.iter().map(|n| oid(*n)).collect(), after)
}
