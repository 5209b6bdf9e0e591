//! What the sender of an event is told (§5). The prefix before the colon is the contract that other
//! software parses; so are the words that protocol documents quote.

use std::fmt;

use nostr::event::EventId;

use crate::announcement::AnnouncementError;
use crate::curation::RepositoryEntry;
use crate::event::VerifyError;
use crate::proposal::ProposalError;
use crate::state::StateError;

/// What the sender of an event is told (§5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Stored and served.
    Stored,
    /// Ephemeral: broadcast, kept nowhere.
    Ephemeral,
    /// Waits for git data.
    Purgatory,
    /// The same event waits already.
    DuplicateWaiting,
    /// The same event is stored already.
    Duplicate,
    /// A request that is not shown any more, and still in force (DEL-9).
    DuplicateRequest,
    /// A newer one of the same author is served, or waits.
    Superseded,
    /// Not taken.
    Rejected(Rejection),
}

/// Why an event is not taken. `Display` gives the whole `prefix: words` of §5.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Id or signature is wrong.
    #[error("invalid: {0}")]
    Forged(#[from] VerifyError),
    /// No announcement, although of its kind.
    #[error("invalid: {0}")]
    Announcement(#[from] AnnouncementError),
    /// No state, although of its kind (KIND-3).
    #[error("invalid: {0}")]
    State(#[from] StateError),
    /// No proposal, although of its kind (PR-1).
    #[error("invalid: {0}")]
    Proposal(#[from] ProposalError),
    /// KIND-7.
    #[error("invalid: created_at is more than {ahead_max} seconds ahead of this server's clock")]
    TooFarAhead {
        /// The limit.
        ahead_max: u64,
    },
    /// NIP-40 (EV-4).
    #[error("blocked: event is expired")]
    Expired,
    /// Reposts would carry protected events past their author's wish (NIP-70).
    #[error("blocked: repost of a protected event")]
    RepostOfProtected,
    /// NIP-59.
    #[error("blocked: GiftWrap must contain exactly one recipient public key")]
    GiftWrapRecipients,
    /// NIP-42: it is the answer to a challenge, for nobody else to see.
    #[error("invalid: kind 22242 authenticates a connection and is sent by AUTH")]
    Authentication,
    /// NIP-70, and nobody has authenticated. A challenge goes out first.
    #[error("auth-required: you must auth")]
    AuthRequired,
    /// NIP-70.
    #[error("blocked: this event may only be published by its author")]
    NotByItsAuthor,
    /// EV-3.
    #[error("invalid: ephemeral events are not persisted through sync")]
    EphemeralBySync,
    /// A deletion request gates it (DEL-1).
    #[error("invalid: this event is deleted")]
    Deleted,
    /// A request to vanish gates it (DEL-8).
    #[error("invalid: this pubkey has requested to vanish")]
    Vanished,
    /// PUR-8, ST-5.
    #[error("invalid: previously expired from purgatory without git data")]
    PreviouslyExpired,
    /// ST-1: nobody announced the identifier.
    #[error("invalid: no announcement exists for this repository")]
    NoAnnouncement,
    /// ST-1: the author is in no confirmed set.
    #[error("restricted: author not authorized for this repository")]
    NotAuthorised,
    /// REL-2.
    #[error("restricted: event must reference an accepted repository or accepted event")]
    Unrelated,
    /// REL-6.
    #[error(
        "restricted: the conversation {root} has reached its budget of {events} events and {bytes} bytes of indirect replies"
    )]
    OverBudget {
        /// What the conversation hangs on.
        root: EventId,
        /// The limit of events.
        events: u64,
        /// The limit of bytes.
        bytes: u64,
    },
    /// PRIV-7.
    #[error("restricted: private repositories are not hosted here")]
    Private,
    /// EV-2: profiles and relay lists.
    #[error("restricted: the author must participate in an accepted repository thread")]
    NotParticipant,
    /// ANN-1, G1-2.
    #[error("invalid: Announcement must list service in both 'clone' and 'relays' tags")]
    ServiceNotListed,
    /// ANN-1: the operator's blacklist names it.
    #[error("invalid: this {0} is blacklisted")]
    Blacklisted(Blacklisted),
    /// ANN-1, G1-3: the operator's whitelist does not name it.
    #[error("restricted: only whitelisted repositories are hosted here")]
    NotWhitelisted,
    /// EV-1: the operator refuses the author's events.
    #[error("blocked: this author is blacklisted")]
    AuthorBlacklisted,
    /// DEL-1.
    #[error("invalid: cannot delete event authored by another pubkey")]
    ForeignDeletion,
    /// DEL-1.
    #[error("invalid: too many deletion targets")]
    TooManyTargets,
    /// §16.
    #[error(
        "rate-limited: slow down, this author has {max} requests here already that removed nothing"
    )]
    TooManyRequests {
        /// The limit.
        max: usize,
    },
    /// PUR-13.
    #[error("rate-limited: slow down, {0}")]
    PurgatoryFull(PurgatoryBound),
}

/// What the blacklist names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Blacklisted {
    /// This one.
    #[error("repository")]
    Repository,
    /// All of this owner.
    #[error("owner")]
    Owner,
    /// All of this name.
    #[error("identifier")]
    Identifier,
}

impl From<&RepositoryEntry> for Blacklisted {
    fn from(entry: &RepositoryEntry) -> Self {
        match entry {
            RepositoryEntry::Owner(_) => Self::Owner,
            RepositoryEntry::Repository(_) => Self::Repository,
            RepositoryEntry::Identifier(_) => Self::Identifier,
        }
    }
}

/// Which bound of purgatory is reached (PUR-13, BND-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PurgatoryBound {
    /// Events in all.
    #[error("purgatory holds as many events as it may")]
    Events,
    /// Bytes in all.
    #[error("purgatory holds as many bytes as it may")]
    Bytes,
    /// Announcements of one author.
    #[error("too many announcements of this author wait for git data")]
    AuthorAnnouncements,
    /// States and proposals of one author.
    #[error("too many states and pull requests of this author wait for git data")]
    AuthorEvents,
}

impl Answer {
    /// The boolean of `OK`.
    pub fn accepted(&self) -> bool {
        !matches!(self, Self::Rejected(_))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Stored | Self::Ephemeral => "",
            Self::Purgatory => "purgatory: won't be served until git data arrives",
            Self::DuplicateWaiting => "duplicate: in purgatory",
            Self::Duplicate => "duplicate: already have this event",
            Self::DuplicateRequest => "duplicate: this request is known and no longer shown",
            Self::Superseded => "duplicate: superseded by a newer event",
            Self::Rejected(rejection) => return rejection.fmt(out),
        };
        out.write_str(text)
    }
}

impl From<Rejection> for Answer {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::announcement::Announcement;
    use crate::event::kind;
    use crate::proposal::Proposal;
    use crate::state::StateEvent;
    use crate::testing::{draft, key, state};

    /// §5: the boolean says whether the event is or was taken, or that nothing is missing.
    #[test]
    fn only_a_rejection_is_not_accepted() {
        for taken in [
            Answer::Stored,
            Answer::Ephemeral,
            Answer::Purgatory,
            Answer::DuplicateWaiting,
            Answer::Duplicate,
            Answer::DuplicateRequest,
            Answer::Superseded,
        ] {
            assert!(taken.accepted(), "{taken}");
        }
        assert!(!Answer::from(Rejection::Expired).accepted());
    }

    /// §5: each row of the table that a decision can give.
    #[test]
    fn every_answer_has_the_words_that_other_software_parses() {
        let say = |rejection: Rejection| Answer::from(rejection).to_string();
        assert_eq!(Answer::Stored.to_string(), "");
        assert_eq!(
            Answer::Purgatory.to_string(),
            "purgatory: won't be served until git data arrives"
        );
        assert_eq!(
            Answer::DuplicateWaiting.to_string(),
            "duplicate: in purgatory"
        );
        assert_eq!(
            Answer::Duplicate.to_string(),
            "duplicate: already have this event"
        );
        assert_eq!(
            Answer::Superseded.to_string(),
            "duplicate: superseded by a newer event"
        );
        for (rejection, text) in [
            (VerifyError::Id.into(), "invalid: invalid event ID"),
            (
                VerifyError::Signature.into(),
                "invalid: invalid event signature",
            ),
            (Rejection::Expired, "blocked: event is expired"),
            (
                Rejection::RepostOfProtected,
                "blocked: repost of a protected event",
            ),
            (
                Rejection::GiftWrapRecipients,
                "blocked: GiftWrap must contain exactly one recipient public key",
            ),
            (
                Rejection::EphemeralBySync,
                "invalid: ephemeral events are not persisted through sync",
            ),
            (Rejection::Deleted, "invalid: this event is deleted"),
            (
                Rejection::Vanished,
                "invalid: this pubkey has requested to vanish",
            ),
            (
                Rejection::PreviouslyExpired,
                "invalid: previously expired from purgatory without git data",
            ),
            (
                Rejection::NoAnnouncement,
                "invalid: no announcement exists for this repository",
            ),
            (
                Rejection::NotAuthorised,
                "restricted: author not authorized for this repository",
            ),
            (
                Rejection::Private,
                "restricted: private repositories are not hosted here",
            ),
            (
                Rejection::Blacklisted(Blacklisted::Owner),
                "invalid: this owner is blacklisted",
            ),
            (
                Rejection::AuthorBlacklisted,
                "blocked: this author is blacklisted",
            ),
            (
                Rejection::ForeignDeletion,
                "invalid: cannot delete event authored by another pubkey",
            ),
            (
                Rejection::TooManyTargets,
                "invalid: too many deletion targets",
            ),
        ] {
            assert_eq!(say(rejection), text);
        }
    }

    /// §5: where our words may be better, the prefix and the quoted ones stay.
    #[test]
    fn every_refusal_in_our_own_words_has_the_prefix_and_those_that_are_quoted() {
        let say = |rejection: Rejection| Answer::from(rejection).to_string();
        let quoted = [
            (
                Rejection::Unrelated,
                "restricted: ",
                "must reference an accepted repository or accepted event",
            ),
            (
                Rejection::NotParticipant,
                "restricted: ",
                "author must participate in an accepted repository thread",
            ),
            (
                Rejection::ServiceNotListed,
                "invalid: ",
                "Announcement must list service in both 'clone' and 'relays' tags",
            ),
            (
                Rejection::PurgatoryFull(PurgatoryBound::Events),
                "rate-limited: ",
                "slow down",
            ),
            (
                Rejection::TooFarAhead { ahead_max: 900 },
                "invalid: ",
                "900",
            ),
        ];
        for (rejection, prefix, words) in quoted {
            let text = say(rejection);
            assert!(text.starts_with(prefix) && text.contains(words), "{text}");
        }
    }

    /// §5, NIP-70
    #[test]
    fn what_is_protected_is_refused_in_the_words_of_the_table() {
        for (rejection, text) in [
            (Rejection::AuthRequired, "auth-required: you must auth"),
            (
                Rejection::NotByItsAuthor,
                "blocked: this event may only be published by its author",
            ),
        ] {
            assert_eq!(Answer::from(rejection).to_string(), text);
        }
    }

    /// DEL-9, BND-1
    #[test]
    fn what_is_said_of_requests_begins_as_other_software_expects() {
        let known = Answer::DuplicateRequest;
        assert!(known.accepted() && known.to_string().starts_with("duplicate: "));
        let full = Rejection::TooManyRequests { max: 5000 }.to_string();
        assert!(full.starts_with("rate-limited: slow down"), "{full}");
        assert!(full.contains("5000"), "{full}");
    }

    /// KIND-3, PR-1, NAME-3
    #[test]
    fn what_does_not_parse_is_invalid_with_the_reason() {
        let pull_request = draft(kind::PULL_REQUEST, key(1)).event();
        let id = pull_request.id();
        let error = Proposal::parse(pull_request).expect_err("no c");
        assert_eq!(
            Rejection::from(error).to_string(),
            format!("invalid: PR event {id} has no 'c' tag")
        );
        let error = StateEvent::parse(state(key(1), &[]).with(["d", ".."]).event())
            .expect_err("no identifier");
        assert!(Rejection::from(error).to_string().starts_with("invalid: "));
        let error =
            Announcement::parse(draft(kind::ANNOUNCEMENT, key(1)).event()).expect_err("no d");
        assert!(Rejection::from(error).to_string().starts_with("invalid: "));
    }
}
