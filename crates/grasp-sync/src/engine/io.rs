//! What goes into the engine and what comes out of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use grasp_core::EventId;
use grasp_core::filter::Filter;
use grasp_core::name::Coordinate;

use super::cursor::Cursor;
use super::health::DialFailure;
use super::number::{ConnectionId, SubscriptionId};
use super::refusal::Refusal;
use super::repo_index::SyncLevel;
use crate::relay_url::RelayUrl;

/// Something happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// What the store holds at the start, and what was remembered of relays. Comes first, once.
    Loaded {
        /// What is followed.
        notices: Vec<Notice>,
        /// By relay.
        cursors: Vec<(RelayUrl, Cursor)>,
    },
    /// The store committed something that may change what is followed.
    Noticed(Notice),
    /// All that is followed, read from the store again: notices were lost. What is not among them is followed no
    /// longer.
    Reloaded {
        /// What is followed.
        notices: Vec<Notice>,
    },
    /// The server wants to ask a relay something of its own, once (SYNC-33). Nothing happens if the relay is not
    /// connected; what is not answered is not asked again by itself.
    Asked {
        /// Whom.
        relay: RelayUrl,
        /// What, as one question.
        filters: Vec<Filter>,
    },
    /// A dial that the engine asked for succeeded.
    Connected {
        /// Which.
        connection: ConnectionId,
        /// What the peer says of itself.
        peer: PeerInfo,
    },
    /// A dial that the engine asked for failed.
    ConnectFailed {
        /// Which.
        connection: ConnectionId,
        /// Why.
        failure: DialFailure,
    },
    /// A connection ended, whoever ended it.
    Disconnected {
        /// Which.
        connection: ConnectionId,
    },
    /// A peer said something.
    Received {
        /// Where.
        connection: ConnectionId,
        /// What.
        message: PeerMessage,
    },
    /// The local set for a reconciliation is at hand ([`Output::GatherLocal`]).
    LocalGathered {
        /// Where.
        connection: ConnectionId,
        /// For which.
        subscription: SubscriptionId,
    },
    /// The local set cannot be had.
    LocalNotGathered {
        /// Where.
        connection: ConnectionId,
        /// For which.
        subscription: SubscriptionId,
    },
    /// A reconciliation named the difference.
    Reconciled {
        /// Where.
        connection: ConnectionId,
        /// Which.
        subscription: SubscriptionId,
        /// What the peer has and we lack.
        missing: Vec<EventId>,
    },
    /// The peer took or refused the proof of identity.
    Authenticated {
        /// Where.
        connection: ConnectionId,
        /// Whether it took it.
        accepted: bool,
    },
    /// The server is about to stop.
    Stopping,
    /// The time of [`Engine::next_deadline`](super::Engine::next_deadline) has come.
    Wake,
}

/// What the store says about what is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An announcement was accepted, or its stage changed.
    Repository {
        /// Whose.
        coordinate: Coordinate,
        /// The relays it lists. They replace those of the one before (SYNC-10).
        relays: Vec<RelayUrl>,
        /// `StateOnly` while it is in purgatory.
        level: SyncLevel,
    },
    /// Neither served nor waiting nor soft-expired any longer.
    RepositoryGone {
        /// Whose.
        coordinate: Coordinate,
    },
    /// A root, or an update of a pull request, is served.
    Root {
        /// Its id.
        id: EventId,
        /// The repositories that it refers to.
        repositories: Vec<Coordinate>,
    },
    /// It is served no longer.
    RootGone {
        /// Its id.
        id: EventId,
    },
}

/// What a peer says of itself (NIP-11). All of it may be wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerInfo {
    /// How many subscriptions it allows.
    pub max_subscriptions: Option<usize>,
    /// How many events it gives for a filter without a limit.
    pub default_limit: Option<usize>,
    /// Whether it lists NIP-77. `None` if it lists nothing.
    pub negentropy: Option<bool>,
}

/// What a peer sends, as far as the engine cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerMessage {
    /// An event, after it was looked at.
    Event {
        /// For which subscription.
        subscription: SubscriptionId,
        /// What it was.
        delivery: Delivery,
    },
    /// No more stored events.
    Eose {
        /// For which subscription.
        subscription: SubscriptionId,
    },
    /// `CLOSED`, or `NEG-ERR`.
    Closed {
        /// Which subscription.
        subscription: SubscriptionId,
        /// Why, in its words.
        reason: String,
    },
    /// `NOTICE`.
    Notice {
        /// What it says.
        text: String,
    },
    /// `AUTH`.
    Auth {
        /// The challenge.
        challenge: String,
    },
}

/// A delivered event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Its id and signature are right and it matches what was asked (SYNC-30). New or not.
    Genuine {
        /// Its id.
        id: EventId,
        /// Seconds.
        created_at: u64,
    },
    /// Anything else. It counts as a delivery and has no other effect.
    Junk,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Dial this relay. Answered by [`Input::Connected`] or [`Input::ConnectFailed`].
    Connect {
        /// The name of the connection from now on.
        connection: ConnectionId,
        /// Where to.
        relay: RelayUrl,
        /// The operator's choice: exempt from the outbound policy (NET-3).
        is_bootstrap: bool,
    },
    /// Close this connection, or give up dialling it. Not answered: the engine has forgotten it.
    Disconnect {
        /// Which.
        connection: ConnectionId,
    },
    /// `REQ`. Replaces the subscription of the same name.
    Subscribe {
        /// Where.
        connection: ConnectionId,
        /// Its name.
        subscription: SubscriptionId,
        /// What to ask for. Shared with the same question to other relays.
        filters: Vec<Arc<Filter>>,
    },
    /// `CLOSE`, or `NEG-CLOSE`.
    Unsubscribe {
        /// Where.
        connection: ConnectionId,
        /// Its name.
        subscription: SubscriptionId,
    },
    /// Gather what we have of this filter: served, waiting, and refused lately (SYNC-25). Answered by
    /// [`Input::LocalGathered`] or [`Input::LocalNotGathered`].
    GatherLocal {
        /// Where.
        connection: ConnectionId,
        /// Its name.
        subscription: SubscriptionId,
        /// Of what.
        filter: Filter,
    },
    /// `NEG-OPEN` with the set that was gathered, and the rounds that follow. Answered by [`Input::Reconciled`] or by
    /// what the peer says.
    Reconcile {
        /// Where.
        connection: ConnectionId,
        /// Its name.
        subscription: SubscriptionId,
        /// Of what.
        filter: Filter,
    },
    /// Answer this challenge with the relay owner's key; the `relay` tag is the address that we dialled (SYNC-36).
    /// Answered by [`Input::Authenticated`].
    Authenticate {
        /// Where.
        connection: ConnectionId,
        /// The challenge.
        challenge: String,
    },
    /// Remember this, after the events that came before it are in the store (SYNC-11).
    SaveCursor {
        /// Of which relay.
        relay: RelayUrl,
        /// What.
        cursor: Cursor,
    },
    /// Nothing needs to be remembered of this relay.
    ForgetCursor {
        /// Which.
        relay: RelayUrl,
    },
    /// Something worth counting happened.
    Count {
        /// At which relay.
        relay: RelayUrl,
        /// What.
        what: Counted,
    },
}

/// What is worth counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// A connection came back after more than fifteen minutes.
    LongReconnect,
    /// A peer has no set reconciliation. Told once for each relay.
    NegentropyUnsupported,
    /// A peer refused.
    Refused(Refusal),
    /// A dial took too long.
    DialTimedOut,
    /// A question had no answer in time (SYNC-23).
    Unanswered,
    /// An announcement lists a relay for which there is no room.
    RelaysFull,
}

/// The relays that a notice lists, each once.
pub(super) fn distinct(relays: Vec<RelayUrl>) -> BTreeSet<RelayUrl> {
    relays.into_iter().collect()
}
