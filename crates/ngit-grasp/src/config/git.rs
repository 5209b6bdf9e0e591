//! Limits of the git plane and of what waits for git data (§16).

use std::num::NonZero;

use super::setting::settings;
use super::value::{Bytes, Milliseconds, Percent, Seconds};

settings! {
    /// What a push or a fetch may cost.
    Git "Git limits" {
        /// Largest pack of a push.
        git_pack_max_bytes: Bytes = "2GiB";
        /// Most objects of a pack.
        git_pack_max_objects: NonZero<u32> = "4000000";
        /// Largest object once inflated.
        git_pack_max_object_bytes: Bytes = "512MiB";
        /// All objects of a pack once inflated.
        git_pack_max_inflated_bytes: Bytes = "20GiB";
        /// Most refs one push may change.
        git_max_commands: NonZero<usize> = "20000";
        /// Part of the free space that running pushes may fill before they are checked.
        git_quarantine_percent: Percent = "20";
        /// Pushes running.
        git_pushes: NonZero<usize> = "32";
        /// Fetches running.
        git_fetches: Option<NonZero<usize>> = "" ["2 for each core"];
        /// Fetches waiting for their turn.
        git_fetches_queued: NonZero<usize> = "256";
        /// Largest fetch request once inflated.
        git_request_max_bytes: Bytes = "32MiB";
        /// Largest upload to `refs/nostr/<event-id>` whose event is not known yet.
        git_upload_bytes: Bytes = "100MiB";
        /// Such uploads that one repository holds.
        git_upload_per_repository: NonZero<usize> = "50";
        /// Such uploads of one client address in an hour.
        git_upload_per_hour: NonZero<u32> = "20";
        /// Part of the disk that all of them may fill.
        git_upload_disk_percent: Percent = "5";
    }
    later {
        /// Size of the cache of fetch responses.
        git_cache_bytes: Option<Bytes> = "" ["2 GiB or 10 % of the disk, the smaller"];
    }
}

settings! {
    /// Bounds of what waits unseen for its git data, and of events that hang on a repository.
    Purgatory "Waiting and related events" {
        /// Events that wait, in all.
        purgatory_events: NonZero<usize> = "20000";
        /// Their bytes in all.
        purgatory_bytes: Bytes = "256MiB";
        /// Waiting announcements of one author.
        purgatory_author_announcements: NonZero<usize> = "100";
        /// Waiting states and proposals of one author.
        purgatory_author_events: NonZero<usize> = "1000";
        /// How often what has waited too long is looked for.
        purgatory_sweep_secs: Seconds = "60";
        /// Events on one repository that none of its participants wrote or answered.
        related_events: NonZero<usize> = "2000";
        /// Their bytes.
        related_bytes: Bytes = "20MiB";
        /// Events of keys that take part in nothing here; the oldest go first.
        outsider_events: NonZero<usize> = "100000";
        /// Deletion requests of one author that have been of no use yet. One more is refused, unless it
        /// removes something.
        deletions_per_author: NonZero<usize> = "5000";
    }
    later {
    }
}

settings! {
    /// How missing git data is looked for on other servers.
    Hunt "Looking for git data elsewhere" {
        /// Wait before looking for the data of an event that a client sent: its push usually follows.
        hunt_delay_ms: Milliseconds = "180000";
        /// The same for an event that came by sync.
        hunt_delay_synced_ms: Milliseconds = "500";
        /// Fetches running, in all.
        hunt_processes: NonZero<usize> = "16";
        /// Fetches running against one domain.
        hunt_per_domain: NonZero<usize> = "5";
        /// Fetches running against one GRASP server.
        hunt_per_grasp_host: NonZero<usize> = "8";
        /// Fetches running for one maintainer group.
        hunt_per_group: NonZero<usize> = "2";
        /// Clone URLs of one pull request that are tried.
        hunt_pr_urls: NonZero<usize> = "10";
        /// Fetches a minute from one domain.
        hunt_per_minute: NonZero<usize> = "30";
        /// Fetches a minute from one GRASP server.
        hunt_grasp_per_minute: NonZero<usize> = "300";
    }
}
