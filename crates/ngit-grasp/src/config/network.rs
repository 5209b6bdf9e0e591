//! Following other servers, choosing what to host, privacy and metrics: read and checked in this version,
//! acted on as each feature arrives.

use std::net::SocketAddr;
use std::num::NonZero;

use grasp_core::curation::RepositoryEntry;

use super::setting::settings;
use super::value::{Author, Entries, List, Milliseconds, Relay, Seconds};

settings! {
    /// Following other relays and GRASP servers (GRASP-02, GRASP-03).
    Sync "Sync with other servers" {
        /// A relay that is always connected, whatever its address.
        sync_bootstrap_relay_url: Option<Relay> = "";
        /// Spreads the first connections over this time.
        sync_startup_jitter_ms: Milliseconds = "10000";
        /// What is new here collects for this time before other servers are asked about it.
        sync_notice_window_ms: Milliseconds = "5000";
        /// Replies of one issue, patch or pull request that are asked about, so that what hangs on them is found.
        sync_recursive_descendant_limit: NonZero<usize> = "500";
        /// First wait after a failed connection; also the connect timeout.
        sync_base_backoff_secs: Seconds = "5";
        /// Longest wait after failed connections.
        sync_max_backoff_secs: Seconds = "3600";
        /// How often relays that nothing needs any more are disconnected.
        sync_disconnect_check_interval_secs: Seconds = "60";
        /// Neither offers nor uses negentropy (NIP-77).
        sync_disable_negentropy: bool = "false";
        /// Connects to private and loopback addresses too: closed networks and tests only.
        sync_allow_non_global_targets: bool = "false";
        /// How long a refused event is kept, so that the order of arrival does not matter.
        rejected_hot_cache_duration_secs: Seconds = "120";
        /// How long its id is remembered, so that it is not asked for again.
        rejected_cold_index_expiry_secs: Seconds = "604800";
        /// Ids of refused events that are remembered, in all.
        marks: NonZero<usize> = "1000000";
        /// Ids of refused events that one relay sent.
        marks_per_source: NonZero<usize> = "50000";
        /// How long a host with faults of DNS, TLS or protocol is left alone.
        naughty_list_expiration_hours: super::value::Hours = "12";
        /// Relays where people look for profiles and relay lists: they are asked for those of the relay's owner, and told
        /// if they have none; empty for none.
        user_index_relays: List<Relay> = "wss://purplepag.es,wss://index.hzrd149.com,wss://indexer.coracle.social";
    }
    later {
        /// Also follows the relays of participants (GRASP-03).
        sync_plus_enabled: bool = "true";
        /// Relays asked for authors without a relay list; empty for none.
        sync_plus_fallback_relays: List<Relay> = "wss://relay.ditto.pub,wss://relay.damus.io,wss://nos.lol,wss://relay.primal.net";
    }
}

settings! {
    /// Which repositories and authors are taken.
    Curation "What is hosted" {
        /// Hosts only these: `npub`, `npub/identifier` or `identifier`. What is hosted and not named leaves at
        /// the next start, and comes back when it is named again while it is held.
        repository_whitelist: Entries<RepositoryEntry> = "";
        /// Never hosts these. What is hosted and named leaves at the next start, and is held.
        repository_blacklist: Entries<RepositoryEntry> = "";
        /// Brings back at the start what the blacklist took and no longer names, if it is still held.
        blacklist_auto_restore: bool = "false";
        /// Authors (npub) whose events are refused from now on; the relay's own key is exempt.
        event_blacklist: Entries<Author> = "";
    }
    later {
        /// Mirrors every repository it hears of (GRASP-05).
        archive_all: bool = "false";
        /// Mirrors these repositories.
        archive_whitelist: List<String> = "";
        /// Mirrors the repositories of these GRASP servers, by host.
        archive_grasp_services: List<String> = "";
        /// Hosts nothing but what is mirrored, and takes no pushes.
        archive_read_only: Option<bool> = "" ["`true` if an archive option is set"];
    }
}

settings! {
    /// A service for members only (GRASP-08).
    Private "Private service" {
        /// For members only. This version cannot do that yet and refuses to start with `true`: a server
        /// that ignored it would publish what is meant to be private.
        private_mode: bool = "false";
        /// The members (npub). An error without private mode.
        private_members: List<String> = "";
    }
    later {
        /// The public address that signed requests must name.
        private_public_origin: Option<String> = "" ["derived from the domain"];
    }
}

settings! {
    /// What monitoring sees.
    Metrics "Metrics" {
        /// Serves `/metrics`.
        metrics_enabled: bool = "true";
        /// Own address for `/metrics`; it is no public route then.
        metrics_bind_address: Option<SocketAddr> = "" ["none; private service: `127.0.0.1:7335`"];
        /// An address with more connections than this counts as abuse in the gauge.
        metrics_connection_per_ip_abuse_threshold: NonZero<usize> = "10";
        /// Relays with a series of their own, those with the most repositories; all others share one.
        metrics_top_n_relays: NonZero<usize> = "20";
    }
    later {
        /// Repositories with a series of their own.
        metrics_top_n_repos: NonZero<usize> = "10";
    }
}
