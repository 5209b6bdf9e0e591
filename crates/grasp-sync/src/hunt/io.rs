//! What goes into the hunt and what comes out of it.

use std::collections::BTreeSet;
use std::time::Duration;

use grasp_core::clone_url::CloneUrl;
use grasp_core::hunt::{GroupKey, Owed};
use grasp_core::name::{Identifier, RepoAddress};
use grasp_core::oid::Oid;

use super::host::Host;
use crate::engine::Time;

/// One fetch, from its order to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchId(pub(super) u64);

impl FetchId {
    /// For logs, and for those who keep fetches by number.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// What a server said that it has: a hash of the refs it listed. Equal while nothing moved there (HUNT-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// Of an entry what outlives a restart (HUNT-1a).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredEntry {
    /// When the next attempt is due.
    pub next_attempt: Time,
    /// Attempts since the last news.
    pub attempt_count: u32,
    /// Only parked events are owed, so it is looked for hourly (G2-4).
    pub is_parked: bool,
}

/// Something happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// What the store holds at the start.
    Loaded {
        /// By identifier.
        entries: Vec<(Identifier, StoredEntry)>,
    },
    /// The store committed that git data of this identifier is owed (HUNT-2, HUNT-4).
    Enqueued {
        /// Whose.
        identifier: Identifier,
        /// When to look for it at the earliest.
        not_before: Time,
    },
    /// What is owed, as [`Output::Gather`] asked.
    Gathered {
        /// Whose.
        identifier: Identifier,
        /// If it is nothing, the entry goes.
        owed: Owed,
        /// The number of the commit up to which was looked.
        seen: u64,
    },
    /// A fetch moves: the peer sends, or we are at work on what it sent.
    Progressed {
        /// Which.
        fetch: FetchId,
        /// How many bytes the peer has sent in all; our own work counts as much as its time is worth.
        bytes: u64,
    },
    /// A fetch is over, and nothing of it runs any more.
    Ended {
        /// Which.
        fetch: FetchId,
        /// How.
        end: FetchEnd,
    },
    /// A host was asked what it is ([`Output::Probe`]).
    HostProbed {
        /// Which.
        host: Host,
        /// Whether it names itself a GRASP server (HUNT-14). `false` if there was no answer.
        is_grasp: bool,
    },
    /// The time of [`Hunt::next_deadline`](super::Hunt::next_deadline) has come.
    Wake,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Look what is owed of this identifier. Answered by [`Input::Gathered`].
    Gather {
        /// Which.
        identifier: Identifier,
    },
    /// Fetch. Answered by [`Input::Ended`], always; before that [`Input::Progressed`] says that it moves.
    Fetch(FetchOrder),
    /// Give this fetch up: it is silent, too slow while others wait, or has nothing to bring any more. Answered by [`Input::Ended`] once
    /// nothing of it runs (HUNT-9).
    Stop {
        /// Which.
        fetch: FetchId,
    },
    /// Nothing came for a minute: worth a warning (HUNT-9).
    Silent {
        /// Which.
        fetch: FetchId,
    },
    /// Remember this entry over a restart.
    Save {
        /// Whose.
        identifier: Identifier,
        /// What.
        entry: StoredEntry,
    },
    /// Nothing is owed any more.
    Forget {
        /// Of which.
        identifier: Identifier,
        /// The number of the commit up to which was looked. What was asked for since stays.
        seen: u64,
    },
    /// Ask the host whether it is a GRASP server (HUNT-14): its usual limits hold something up. At most once a day. Answered by
    /// [`Input::HostProbed`].
    Probe {
        /// Which.
        host: Host,
        /// An address there.
        at: CloneUrl,
    },
}

/// What to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchOrder {
    /// Its name from now on.
    pub fetch: FetchId,
    /// Of which identifier.
    pub identifier: Identifier,
    /// For whom.
    pub group: GroupKey,
    /// Where what it brings belongs.
    pub into: RepoAddress,
    /// Whom to ask.
    pub source: CloneUrl,
    /// For what, tips first.
    pub wants: Vec<Oid>,
    /// Another fetch for the group runs already, and has brought nothing for a while (HUNT-8).
    pub is_hedge: bool,
    /// Only what is parked is wanted (G2-4).
    pub is_parked: bool,
    /// All of this was missing there when its advertisement had this fingerprint: list the refs first, and if nothing
    /// moved ask for nothing, the outcome is [`FetchOutcome::Lacks`] again (HUNT-11).
    pub unless: Option<Fingerprint>,
}

/// How a fetch ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchEnd {
    /// What is complete here now of what was wanted, whoever brought it.
    pub installed: BTreeSet<Oid>,
    /// What there is to say of the source.
    pub outcome: FetchOutcome,
}

/// What a fetch says of its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchOutcome {
    /// It sent all that was wanted.
    Complete,
    /// It answered, and lacks some.
    Lacks {
        /// What it lacks.
        missing: BTreeSet<Oid>,
        /// What it said that it has, if its refs were listed.
        advertisement: Option<Fingerprint>,
    },
    /// Nothing of it was needed any more: a push was faster, or the events are gone.
    Overtaken,
    /// HTTP 429 (HUNT-7).
    RateLimited {
        /// `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// It is down, or says so: no connection, a server's fault (5xx), or it broke off.
    Unavailable,
    /// It does not want to: 401, 403, 404.
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// What does not heal by itself: the host is left alone (HUNT-11).
    Broken(Broken),
    /// We may not go there (NET-*).
    Forbidden,
    /// What it sent may not be taken in: too large, corrupt, incomplete, or harmful.
    Harmful {
        /// Why, for people.
        reason: String,
    },
    /// It was stopped, as [`Output::Stop`] asked.
    Stopped,
    /// Our own fault, such as a full disk. Says nothing of the source.
    Ours {
        /// Why, for people.
        reason: String,
    },
}

/// What is wrong with a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Broken {
    /// There is no such name.
    Dns,
    /// The certificate, or the handshake.
    Tls,
    /// It speaks no smart git: a redirect, the dumb protocol, or something else altogether.
    Protocol,
}
