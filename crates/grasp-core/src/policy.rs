//! What the operator decided: which repositories this service takes, and by which rules.

use std::time::Duration;

use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::announcement::Announcement;
use crate::curation::Curation;
use crate::maintainers::MaintainerRule;
use crate::name::Identifier;
use crate::request::RequestPolicy;
use crate::service::ServiceAddress;

/// The settings that decisions depend on.
#[derive(Debug, Clone)]
pub struct Policy {
    /// What we are called.
    pub service: ServiceAddress,
    /// The operator's lists (ANN-1).
    pub curation: Curation,
    /// The relay owner's key: its own events are accepted as they are (EV-2).
    pub relay_owner: PublicKey,
    /// Who joins a maintainer set (MNT-11).
    pub maintainer_rule: MaintainerRule,
    /// Whether `/prs/` is on (GRASP-06).
    pub proposals_hosted: bool,
    /// How far ahead of our clock a `created_at` may be (KIND-7).
    pub created_at_ahead_max: Duration,
    /// How long replaced and deleted events are kept (DEL-5, DEL-12).
    pub holding_retention: Duration,
    /// How long what expired unfound is kept and hunted (PUR-15).
    pub parked_retention: Duration,
    /// How long the hunt holds back after a client's event: the push usually follows (HUNT-2).
    pub hunt_delay_client: Duration,
    /// How long after an event from sync, whose data is elsewhere already (HUNT-2).
    pub hunt_delay_sync: Duration,
    /// Bounds of purgatory (PUR-13).
    pub purgatory: PurgatoryLimits,
    /// Budget of events that hang on one root through others (REL-6).
    pub related: RelatedLimits,
    /// What holds of requests to delete and to vanish (DEL-9, DEL-10).
    pub requests: RequestPolicy,
    /// Most events of keys that take part in nothing here (EV-8).
    pub idle_events: usize,
    /// Bounds of uploads without an event (PUSH-4, §16).
    pub uploads: UploadLimits,
    /// Most commands of one push (§16).
    pub push_commands_max: usize,
}

/// PUR-13.
#[derive(Debug, Clone)]
pub struct PurgatoryLimits {
    /// Waiting events in all.
    pub events: usize,
    /// Their bytes in all.
    pub bytes: u64,
    /// Waiting announcements of one author.
    pub author_announcements: usize,
    /// Waiting states and proposals of one author.
    pub author_events: usize,
}

/// REL-6.
#[derive(Debug, Clone)]
pub struct RelatedLimits {
    /// Events per root.
    pub events: u64,
    /// Bytes per root.
    pub bytes: u64,
}

/// §16, "uploads without an event".
#[derive(Debug, Clone)]
pub struct UploadLimits {
    /// Largest pack of one.
    pub bytes: u64,
    /// How many one repository may hold.
    pub per_repository: usize,
    /// How much of the disk all of them may take, in percent.
    pub disk_percent: u8,
}

/// Why this service has an announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosting {
    /// It lists the service: there is a repository for it (ANN-1).
    Listed,
    /// It does not; at most it tells who is a maintainer (ANN-6).
    Elsewhere,
}

impl Policy {
    /// Whether the announcement asks for a repository here (NAME-5, ANN-1).
    pub fn hosting(&self, announcement: &Announcement) -> Hosting {
        let repo = announcement.coordinate();
        let cloned = announcement
            .clone_urls()
            .iter()
            .any(|url| self.service.is_clone_url(url, &repo));
        let relayed = announcement
            .relays()
            .iter()
            .any(|url| self.service.is_relay_url(url));
        if cloned && relayed {
            Hosting::Listed
        } else {
            Hosting::Elsewhere
        }
    }

    /// Whether proposals of `submitter` that name these clone URLs are hosted below `/prs/` for `identifier` (G6-4).
    pub fn hosts_submission(
        &self,
        submitter: &PublicKey,
        identifier: &Identifier,
        clone_urls: &[String],
    ) -> bool {
        let is_own = |url: &String| self.service.is_prs_url(url, submitter, identifier);
        self.proposals_hosted && clone_urls.iter().any(is_own)
    }
}

/// The circumstances of one decision.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    /// The operator's settings.
    pub policy: &'a Policy,
    /// The server's clock.
    pub now: Timestamp,
    /// Where the event came from.
    pub origin: Origin,
}

impl Circumstances<'_> {
    /// The time so much later than now.
    pub fn after(&self, duration: Duration) -> Timestamp {
        Timestamp::from_secs(self.now.as_secs().saturating_add(duration.as_secs()))
    }
}

/// Where an event came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client's connection.
    Client,
    /// Another server, by sync.
    Sync,
}
