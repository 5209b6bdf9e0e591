//! Name, address, storage and the other things nearly every operator looks at.

use std::net::SocketAddr;
use std::path::PathBuf;

use grasp_core::maintainers::MaintainerRule;
use grasp_core::name::Identifier;
use ipnet::IpNet;

use super::setting::settings;
use super::value::{Backend, BasePath, Bytes, Domain, Entries, List, LogFilter, Seconds};

settings! {
    /// What the service is called and where it listens.
    Service "The service and its address" {
        /// Public host name, with the port if it is not 80 or 443. Announcements must name it, so
        /// changing it later disowns what is hosted.
        domain: Option<Domain> = "" ["the bind address, with a warning"];
        /// Mounts everything (relay, git, pages) below a path. The reverse proxy must not strip it.
        base_path: BasePath = "/";
        /// Address and port to listen on. There is no TLS here: put a reverse proxy in front.
        bind_address: SocketAddr = "127.0.0.1:7334";
        /// Reverse proxies whose `X-Forwarded-For`, `Forwarded` or `X-Real-IP` is believed. Without it
        /// all clients behind a proxy share one address and none is limited by address.
        trusted_proxy_cidrs: List<IpNet> = "";
        /// Name in the relay's NIP-11 document and on its page.
        relay_name: Option<String> = "" ["`<domain> grasp relay`"];
        /// Description in the NIP-11 document and on the page.
        relay_description: String = "Git Nostr Relay - a grasp implementation";
        /// Contact in the NIP-11 document: a mail address or a URL.
        relay_contact: Option<String> = "";
        /// Who joins a maintainer set: `reciprocal` wants the invited to list the inviter back;
        /// `recursive` takes whoever a member lists, which is the weaker authority and logs a warning.
        maintainer_rule: MaintainerRule = "reciprocal";
        /// Hosts contributors' pull-request repositories below `/prs/` (GRASP-06).
        grasp06_enable: bool = "false";
        /// What is logged, to standard error. A bare level applies to the server itself, everything
        /// else logs warnings; or a `tracing` filter such as `info,grasp_git=debug`.
        log_level: LogFilter = "info";
    }
}

settings! {
    /// Where data lives and how much of the disk is left alone.
    Storage "Storage" {
        /// Folder of the bare repositories, `<npub>/<identifier>.git`.
        git_data_path: PathBuf = "./data/git";
        /// Folder of the event store, in `ngit-grasp/`.
        relay_data_path: PathBuf = "./data/relay";
        /// `memory` keeps events and git data in a temporary folder that is gone after the stop.
        database_backend: Backend = "lmdb";
        /// Address space reserved for the store, not disk. Halved until the system grants it.
        store_map_size: Bytes = "1TiB";
        /// Below this much free space events and pushes are refused, `/readyz` fails, and reads and
        /// clean-up go on.
        disk_floor_bytes: Bytes = "512MiB";
        /// How long replaced and deleted events are kept for recovery.
        holding_retention_secs: Seconds = "7776000";
        /// How often what has been kept long enough is removed.
        holding_cleanup_interval_secs: Seconds = "86400";
        /// How long events that expired without their git data are kept and looked for.
        parked_retention_secs: Seconds = "2592000";
        /// How far ahead of this server's clock an event may be dated.
        event_max_ahead_secs: Seconds = "900";
        /// How long a deletion request that has been of no use yet is served, from its arrival.
        deletion_request_retention_unused_served_secs: Seconds = "2592000";
        /// How long it still keeps out what it names after that.
        deletion_request_retention_unused_unserved_gating_additional_secs: Seconds = "15552000";
        /// How long a deletion request is served after it last removed something or kept something out.
        deletion_request_retention_used_served_after_last_used_secs: Seconds = "23328000";
        /// How long it still keeps out what it names after that.
        deletion_request_retention_used_unserved_gating_additional_secs: Seconds = "7776000";
        /// Stores requests to delete and to vanish without acting on them.
        deletion_request_disrespector: bool = "false";
        /// Removes events of the public audit tool that are older than two hours.
        audit_cleanup: bool = "true";
        /// Limits the comparison of repositories with their events at the start to these identifiers; none means all.
        startup_integrity_identifiers: Entries<Identifier> = "";
    }
}
