//! Builders of events and settings for the tests of this crate, unit and integration alike. Events
//! made here carry no real signature: verification is not what these tests are about.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test crate uses its own part of this"
)]

pub mod project;
pub mod world;

use std::time::Duration;

use grasp_core::announcement::Announcement;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::maintainers::MaintainerRule;
use grasp_core::name::{Identifier, npub};
use grasp_core::oid::Oid;
use grasp_core::policy::{
    Circumstances, Origin, Policy, PurgatoryLimits, RelatedLimits, UploadLimits,
};
use grasp_core::proposal::Proposal;
use grasp_core::request::{RequestPolicy, Retention};
use grasp_core::service::ServiceAddress;
use grasp_core::state::StateEvent;
use grasp_core::{Event, EventId, PublicKey, Timestamp};
use nostr::event::{Kind, Signature, Tag};

/// The clock of tests that need no other.
pub const NOW: u64 = 1_700_000_000;
/// What the service of [`policy`] is called.
pub const HOST: &str = "grasp.example.com";
/// The identifier of repositories that need no other.
pub const REPO: &str = "project";

pub fn key(n: u8) -> PublicKey {
    PublicKey::from_byte_array([n; 32])
}

pub fn oid(n: u8) -> Oid {
    Oid::from_bytes([n; 20])
}

pub fn at(secs: u64) -> Timestamp {
    Timestamp::from_secs(secs)
}

pub fn repo() -> Identifier {
    REPO.parse().expect("valid")
}

pub fn policy() -> Policy {
    Policy {
        service: ServiceAddress::parse(HOST, "/").expect("valid"),
        curation: grasp_core::curation::Curation::default(),
        relay_owner: key(0xee),
        maintainer_rule: MaintainerRule::Reciprocal,
        proposals_hosted: true,
        created_at_ahead_max: Duration::from_mins(15),
        holding_retention: Duration::from_hours(90 * 24),
        parked_retention: Duration::from_hours(30 * 24),
        hunt_delay_client: Duration::from_mins(3),
        hunt_delay_sync: Duration::from_millis(500),
        purgatory: PurgatoryLimits {
            events: 20_000,
            bytes: 256 << 20,
            author_announcements: 100,
            author_events: 1000,
        },
        related: RelatedLimits {
            events: 2000,
            bytes: 20 << 20,
        },
        requests: RequestPolicy {
            retention: Retention {
                unused_served: Duration::from_hours(30 * 24),
                unused_gating: Duration::from_hours(180 * 24),
                used_served: Duration::from_hours(270 * 24),
                used_gating: Duration::from_hours(90 * 24),
            },
            respected: true,
            unused_per_author: 5000,
        },
        idle_events: 100_000,
        uploads: UploadLimits {
            bytes: 100 << 20,
            per_repository: 50,
            disk_percent: 5,
        },
        push_commands_max: 20_000,
    }
}

/// A client's submission at [`NOW`].
pub fn cx(policy: &Policy) -> Circumstances<'_> {
    Circumstances {
        policy,
        now: at(NOW),
        origin: Origin::Client,
    }
}

/// An event in the making. Builders take it by value, so a base can be cloned and varied.
#[derive(Debug, Clone)]
pub struct Draft {
    kind: u16,
    author: PublicKey,
    created_at: u64,
    tags: Vec<Vec<String>>,
    content: String,
}

pub fn draft(kind: u16, author: PublicKey) -> Draft {
    Draft {
        kind,
        author,
        created_at: NOW - 100,
        tags: Vec::new(),
        content: String::new(),
    }
}

impl Draft {
    pub fn at(mut self, created_at: u64) -> Self {
        self.created_at = created_at;
        self
    }

    pub fn tag<S: Into<String>>(mut self, parts: impl IntoIterator<Item = S>) -> Self {
        self.tags.push(parts.into_iter().map(Into::into).collect());
        self
    }

    /// Replaces all tags of this name.
    pub fn with<S: Into<String>>(mut self, parts: impl IntoIterator<Item = S>) -> Self {
        let tag: Vec<String> = parts.into_iter().map(Into::into).collect();
        self.tags.retain(|other| other[0] != tag[0]);
        self.tags.push(tag);
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.tags.retain(|tag| tag[0] != name);
        self
    }

    pub fn content(mut self, content: impl Into<String>) -> Self {
        self.content = content.into();
        self
    }

    /// Names active maintainers by role tags: one lead, if given, and others.
    pub fn roles(self, lead: Option<PublicKey>, others: &[PublicKey]) -> Self {
        let draft = lead
            .into_iter()
            .fold(self, |draft, key| draft.tag(["M".to_owned(), key.to_hex()]));
        others.iter().fold(draft, |draft, key| {
            draft.tag(["m".to_owned(), key.to_hex()])
        })
    }

    /// Names maintainers by the legacy tag.
    pub fn maintainers(self, keys: &[PublicKey]) -> Self {
        let names = std::iter::once("maintainers".to_owned());
        self.with(names.chain(keys.iter().map(PublicKey::to_hex)))
    }

    pub fn event(self) -> VerifiedEvent {
        let kind = Kind::from_u16(self.kind);
        let created_at = at(self.created_at);
        let tags: Vec<Tag> = self
            .tags
            .into_iter()
            .map(|tag| Tag::parse(tag).expect("not empty"))
            .collect();
        let id = EventId::compute(
            &self.author,
            &created_at,
            &kind,
            &nostr::event::Tags::from_list(tags.clone()),
            &self.content,
        );
        let sig = Signature::from_byte_array([7; 64]);
        VerifiedEvent::from_own_store(Event::new(
            id,
            self.author,
            created_at,
            kind,
            tags,
            self.content,
            sig,
        ))
    }

    pub fn announcement(self) -> Announcement {
        Announcement::parse(self.event()).expect("an announcement")
    }

    pub fn state(self) -> StateEvent {
        StateEvent::parse(self.event()).expect("a state")
    }

    pub fn proposal(self) -> Proposal {
        Proposal::parse(self.event()).expect("a proposal")
    }
}

/// An announcement of [`REPO`] that lists this service.
pub fn announcement(owner: PublicKey) -> Draft {
    announcement_of(owner, REPO)
}

pub fn announcement_of(owner: PublicKey, identifier: &str) -> Draft {
    let name: Identifier = identifier.parse().expect("valid");
    let clone = format!(
        "https://{HOST}/{}/{}.git",
        npub(&owner),
        name.percent_encoded()
    );
    draft(kind::ANNOUNCEMENT, owner)
        .tag(["d", identifier])
        .tag(["clone".to_owned(), clone])
        .tag(["relays".to_owned(), format!("wss://{HOST}")])
}

/// A state of [`REPO`] with these refs.
pub fn state(author: PublicKey, refs: &[(&str, Oid)]) -> Draft {
    refs.iter().fold(
        draft(kind::STATE, author).tag(["d", REPO]),
        |draft, (name, oid)| draft.tag([(*name).to_owned(), oid.to_string()]),
    )
}

/// A pull request to `owner`'s [`REPO`].
pub fn pull_request(author: PublicKey, owner: PublicKey, commit: Oid) -> Draft {
    draft(kind::PULL_REQUEST, author)
        .tag(["a".to_owned(), format!("30617:{}:{REPO}", owner.to_hex())])
        .tag(["c".to_owned(), commit.to_string()])
}
