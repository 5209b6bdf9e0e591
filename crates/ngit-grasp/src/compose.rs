//! From the operator's configuration to the small struct that each part owns.
//!
//! Every field of [`Settings`] is filled here and nowhere else; what has no setting keeps the default of the crate
//! that owns it.

use std::io;
use std::num::NonZero;
use std::path::PathBuf;

use grasp_core::curation::{Curation, RepositoryList};
use grasp_core::maintainers::MaintainerRule;
use grasp_core::policy::{Policy, PurgatoryLimits, RelatedLimits, UploadLimits};
use grasp_core::request::{RequestPolicy, Retention};
use grasp_git::{GitConfig, PackLimits};
use grasp_relay::address::AddressLimits;
use grasp_relay::nip11::Info;
use grasp_relay::{NegentropyLimits, RelayLimits};
use grasp_server::pages::Links;
use grasp_server::{
    Build, Exposure, FollowSettings, GitLimits, IdentitySettings, MonitoringSettings, Settings,
    Timers,
};
use grasp_store::StoreConfig;
use grasp_sync::hunt::HuntSettings;
use grasp_sync::outbound::OutboundPolicy;
use nostr::key::{Keys, PublicKey};
use tempfile::TempDir;

use crate::config::{Backend, Config};

/// The two folders of a server.
#[derive(Debug)]
pub(crate) struct Folders {
    /// Bare repositories.
    pub(crate) git: PathBuf,
    /// The event store.
    pub(crate) relay: PathBuf,
    /// Where both are if nothing is to outlive the process; removed when this value goes.
    pub(crate) temporary: Option<TempDir>,
}

impl Folders {
    /// The configured folders, as absolute paths; for `memory`, fresh ones in a temporary folder.
    pub(crate) fn of(config: &Config) -> io::Result<Self> {
        Ok(match config.storage.database_backend {
            Backend::Lmdb => Self {
                git: std::path::absolute(&config.storage.git_data_path)?,
                relay: std::path::absolute(&config.storage.relay_data_path)?,
                temporary: None,
            },
            Backend::Memory => {
                let folder = tempfile::Builder::new().prefix("ngit-grasp-").tempdir()?;
                Self {
                    git: folder.path().join("git"),
                    relay: folder.path().join("relay"),
                    temporary: Some(folder),
                }
            }
        })
    }
}

/// The owner in the settings of a command that only looks: it admits no events, so whose relay it is plays no part,
/// and the key may be one that only the service can read.
pub(crate) fn nobody() -> PublicKey {
    PublicKey::from_byte_array([0; 32])
}

/// The event store.
pub(crate) fn store(config: &Config) -> StoreConfig {
    StoreConfig {
        map_size: config.storage.store_map_size.0,
        disk_floor: config.storage.disk_floor_bytes.0,
        ..StoreConfig::default()
    }
}

/// Everything the server needs besides a socket.
pub(crate) fn settings(config: &Config, folders: &Folders, owner: PublicKey) -> Settings {
    Settings {
        policy: policy(config, owner),
        git_root: folders.git.clone(),
        relay_root: folders.relay.clone(),
        store: store(config),
        git: GitConfig {
            quarantine_percent: config.git.git_quarantine_percent.0,
            ..GitConfig::default()
        },
        pack: pack_limits(config),
        git_limits: git_limits(config),
        relay: relay_limits(config),
        address: address_limits(config),
        trusted_proxies: config.service.trusted_proxy_cidrs.0.clone(),
        info: info(config, owner),
        timers: Timers {
            sweep: config.purgatory.purgatory_sweep_secs.0,
            holding_clean_up: config.storage.holding_cleanup_interval_secs.0,
            tests: Timers::default()
                .tests
                .filter(|_| config.storage.audit_cleanup),
            ..Timers::default()
        },
        surveyed: config.storage.startup_integrity_identifiers.good.clone(),
        monitoring: monitoring(config),
    }
}

/// How other servers are followed, in the name of the relay's owner.
pub(crate) fn following(config: &Config, owner: Keys) -> FollowSettings {
    let sync = &config.sync;
    let naughty_pause = sync.naughty_list_expiration_hours.0;
    FollowSettings {
        engine: grasp_sync::engine::Settings {
            service: Some(config.public.clone()),
            bootstrap: sync
                .sync_bootstrap_relay_url
                .as_ref()
                .map(|it| it.0.clone()),
            negentropy: !sync.sync_disable_negentropy,
            batch_window: sync.sync_notice_window_ms.0,
            startup_jitter: sync.sync_startup_jitter_ms.0,
            backoff_base: sync.sync_base_backoff_secs.0,
            backoff_max: sync.sync_max_backoff_secs.0,
            connect_timeout: sync.sync_base_backoff_secs.0,
            disconnect_check: sync.sync_disconnect_check_interval_secs.0,
            naughty_pause,
            ..grasp_sync::engine::Settings::default()
        },
        dial: dialling(config, owner.public_key()),
        intake: grasp_sync::intake::Settings {
            hot: sync.rejected_hot_cache_duration_secs.0,
            cold: sync.rejected_cold_index_expiry_secs.0,
            marks: grasp_sync::intake::MarkLimits {
                total: sync.marks.get(),
                per_source: sync.marks_per_source.get(),
            },
        },
        descendants: sync.sync_recursive_descendant_limit.get(),
        hunt: hunt(config),
        proposal_urls: config.hunt.hunt_pr_urls.get(),
        owner,
    }
}

/// How git data is looked for.
fn hunt(config: &Config) -> HuntSettings {
    let hunt = &config.hunt;
    HuntSettings {
        fetches_max: hunt.hunt_processes,
        per_domain: hunt.hunt_per_domain,
        per_grasp_host: hunt.hunt_per_grasp_host,
        per_group: hunt.hunt_per_group,
        per_minute: hunt.hunt_per_minute,
        grasp_per_minute: hunt.hunt_grasp_per_minute,
        naughty_pause: config.sync.naughty_list_expiration_hours.0,
    }
}

/// Who runs the relay, and who is told.
pub(crate) fn identity(config: &Config, owner: Keys) -> IdentitySettings {
    let index_relays = &config.sync.user_index_relays.0;
    IdentitySettings {
        name: relay_name(config),
        index_relays: index_relays.iter().map(|it| it.0.clone()).collect(),
        dial: dialling(config, owner.public_key()),
        owner,
    }
}

/// Whom we may dial.
fn dialling(config: &Config, owner: PublicKey) -> grasp_sync::dial::Settings {
    grasp_sync::dial::Settings {
        policy: OutboundPolicy {
            allow_non_global: config.sync.sync_allow_non_global_targets,
            ..OutboundPolicy::default()
        },
        owner: Some(owner),
        user_agent: concat!("ngit-grasp/", env!("CARGO_PKG_VERSION")).to_owned(),
    }
}

fn relay_name(config: &Config) -> String {
    let name = config.service.relay_name.clone();
    name.unwrap_or_else(|| format!("{} grasp relay", config.public.authority()))
}

fn monitoring(config: &Config) -> MonitoringSettings {
    let metrics = &config.metrics;
    MonitoringSettings {
        exposure: match (metrics.metrics_enabled, metrics.metrics_bind_address) {
            (false, _) => Exposure::Off,
            (true, None) => Exposure::Public,
            (true, Some(_)) => Exposure::Own,
        },
        relays_listed: metrics.metrics_top_n_relays.get(),
        abuse_threshold: metrics.metrics_connection_per_ip_abuse_threshold.get(),
        build: Build {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("GRASP_BUILD_COMMIT").unwrap_or("unknown"),
        },
    }
}

fn policy(config: &Config, owner: PublicKey) -> Policy {
    Policy {
        service: config.public.clone(),
        curation: curation(config),
        relay_owner: owner,
        maintainer_rule: config.service.maintainer_rule,
        proposals_hosted: config.service.grasp06_enable,
        created_at_ahead_max: config.storage.event_max_ahead_secs.0,
        holding_retention: config.storage.holding_retention_secs.0,
        parked_retention: config.storage.parked_retention_secs.0,
        hunt_delay_client: config.hunt.hunt_delay_ms.0,
        hunt_delay_sync: config.hunt.hunt_delay_synced_ms.0,
        purgatory: PurgatoryLimits {
            events: config.purgatory.purgatory_events.get(),
            bytes: config.purgatory.purgatory_bytes.0,
            author_announcements: config.purgatory.purgatory_author_announcements.get(),
            author_events: config.purgatory.purgatory_author_events.get(),
        },
        related: RelatedLimits {
            events: count(config.purgatory.related_events),
            bytes: config.purgatory.related_bytes.0,
        },
        requests: requests(config),
        idle_events: config.purgatory.outsider_events.get(),
        uploads: UploadLimits {
            bytes: config.git.git_upload_bytes.0,
            per_repository: config.git.git_upload_per_repository.get(),
            disk_percent: config.git.git_upload_disk_percent.0,
        },
        push_commands_max: config.git.git_max_commands.get(),
    }
}

/// DEL-9, DEL-10
fn requests(config: &Config) -> RequestPolicy {
    let storage = &config.storage;
    RequestPolicy {
        retention: Retention {
            unused_served: storage.deletion_request_retention_unused_served_secs.0,
            unused_gating: storage
                .deletion_request_retention_unused_unserved_gating_additional_secs
                .0,
            used_served: storage
                .deletion_request_retention_used_served_after_last_used_secs
                .0,
            used_gating: storage
                .deletion_request_retention_used_unserved_gating_additional_secs
                .0,
        },
        respected: !storage.deletion_request_disrespector,
        unused_per_author: config.purgatory.deletions_per_author.get(),
    }
}

/// ANN-1. A whitelist without entries is none.
fn curation(config: &Config) -> Curation {
    let lists = &config.curation;
    let whitelist = lists.repository_whitelist.good.iter().cloned();
    let whitelist: RepositoryList = whitelist.collect();
    let blacklist = lists.repository_blacklist.good.iter().cloned();
    Curation {
        whitelist: Some(whitelist).filter(|list| !list.is_empty()),
        blacklist: blacklist.collect(),
        blacklist_restores: lists.blacklist_auto_restore,
        authors: lists.event_blacklist.good.iter().map(|it| it.0).collect(),
    }
}

fn pack_limits(config: &Config) -> PackLimits {
    PackLimits {
        bytes: config.git.git_pack_max_bytes.0,
        objects: config.git.git_pack_max_objects.get(),
        object_bytes: config.git.git_pack_max_object_bytes.0,
        inflated_bytes: config.git.git_pack_max_inflated_bytes.0,
    }
}

fn git_limits(config: &Config) -> GitLimits {
    let defaults = GitLimits::default();
    GitLimits {
        pushes: config.git.git_pushes.get(),
        fetches: config
            .git
            .git_fetches
            .map_or(defaults.fetches, NonZero::get),
        fetches_queued: config.git.git_fetches_queued.get(),
        request_bytes: config.git.git_request_max_bytes.0,
        commands: config.git.git_max_commands.get(),
    }
}

fn relay_limits(config: &Config) -> RelayLimits {
    let relay = &config.relay;
    RelayLimits {
        connections_max: relay.max_connections.map(NonZero::get),
        subscriptions_max: relay.relay_max_subscriptions.get(),
        subscription_bytes_max: bytes(relay.relay_subscription_bytes.0),
        filters_max: relay.relay_max_filters.get(),
        filter_limit: relay.relay_filter_limit.get(),
        event_bytes_max: bytes(relay.relay_max_event_size_bytes.0),
        messages_per_minute: relay.relay_messages_per_minute.get(),
        event_tags_max: relay.relay_max_event_tags.get(),
        events_per_minute: relay.relay_events_per_minute.get(),
        queries_per_minute: relay.relay_queries_per_minute.get(),
        auth_per_minute: relay.relay_auth_per_minute.get(),
        auth_keys_max: relay.relay_auth_keys.get(),
        outbound_bytes_max: bytes(relay.relay_outbound_bytes.0),
        outbound_total_bytes_max: bytes(relay.relay_outbound_total_bytes.0),
        negentropy: NegentropyLimits {
            enabled: !config.sync.sync_disable_negentropy,
            messages_per_minute: relay.relay_neg_per_minute.get(),
            sessions_max: relay.relay_neg_sessions.get(),
            items_max: relay.relay_neg_items.get(),
            items_shared_max: relay.relay_neg_items_shared.get(),
            items_total_max: relay.relay_neg_items_total.get(),
            frame_bytes_max: bytes(relay.relay_neg_frame_bytes.0),
            ..NegentropyLimits::default()
        },
        ..RelayLimits::default()
    }
}

fn address_limits(config: &Config) -> AddressLimits {
    let address = &config.address;
    AddressLimits {
        connections_max: address.address_connections.get(),
        events_per_minute: address.address_events_per_minute.get(),
        queries_per_minute: address.address_queries_per_minute.get(),
        git_per_minute: address.address_git_per_minute.get(),
        git_running_max: address.address_git_running.get(),
        git_queued_max: address.address_git_queued.get(),
        pushes_max: address.address_pushes.get(),
        uploads_per_hour: config.git.git_upload_per_hour.get(),
    }
}

/// N11-1: what is really on, and nothing else.
fn info(config: &Config, owner: PublicKey) -> Info {
    let mut supported_nips = vec![1, 11, 34, 40, 42, 45, 70, 77];
    if !config.storage.deletion_request_disrespector {
        supported_nips.extend([9, 62]);
    }
    if config.public.base_path().is_empty() {
        supported_nips.push(5);
    }
    let mut supported_grasps = vec!["GRASP-01".to_owned(), "GRASP-02".to_owned()];
    if config.service.grasp06_enable {
        supported_grasps.push("GRASP-06".to_owned());
    }
    // N11-3: a blacklist is nobody's business.
    let chosen = !config.curation.repository_whitelist.good.is_empty();
    Info {
        name: relay_name(config),
        description: config.service.relay_description.clone(),
        pubkey: owner,
        icon: Some(format!("{}/icon.png", Links::new(&config.public).web())),
        contact: config.service.relay_contact.clone(),
        software: env!("CARGO_PKG_REPOSITORY").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        supported_nips,
        supported_grasps,
        repo_acceptance_criteria: criteria(config.service.maintainer_rule, chosen),
        curation: chosen.then(|| "Only repositories that the operator has whitelisted.".to_owned()),
        created_at_ahead_max: Some(config.storage.event_max_ahead_secs.0.as_secs()),
        auth_required: false,
    }
}

/// N11-4, MNT-11
fn criteria(rule: MaintainerRule, chosen: bool) -> String {
    let who = if chosen {
        "A repository that the operator has whitelisted and"
    } else {
        "Any repository"
    };
    let listed = format!(
        "{who} whose announcement lists this service in both its clone and its relays tag."
    );
    match rule {
        MaintainerRule::Reciprocal => listed,
        MaintainerRule::Recursive => format!(
            "{listed} Whoever a maintainer lists counts as one without agreeing to it (recursive maintainer rule)."
        ),
    }
}

fn count(number: NonZero<usize>) -> u64 {
    number.get() as u64
}

/// A bound in memory: what does not fit an address does not bind either.
fn bytes(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
