//! How a server of the tests is set up: as an operator gets it by default.

use std::time::Duration;

use grasp_core::curation::Curation;
use grasp_core::maintainers::MaintainerRule;
use grasp_core::policy::{Policy, PurgatoryLimits, RelatedLimits, UploadLimits};
use grasp_core::request::{RequestPolicy, Retention};
use grasp_core::service::ServiceAddress;
use grasp_git::{GitConfig, PackLimits};
use grasp_relay::RelayLimits;
use grasp_relay::address::AddressLimits;
use grasp_relay::nip11::Info;
use grasp_server::{GitLimits, MonitoringSettings, Settings, Timers};
use grasp_store::StoreConfig;
use grasp_testkit::Person;
use tempfile::TempDir;

use super::HOST;

pub(super) fn settings(folder: &TempDir) -> Settings {
    let owner = Person::named("the relay owner").key();
    Settings {
        policy: Policy {
            service: ServiceAddress::parse(HOST, "/").expect("valid"),
            curation: Curation::default(),
            relay_owner: owner,
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
        },
        git_root: folder.path().join("git"),
        relay_root: folder.path().join("relay"),
        store: StoreConfig {
            map_size: 1 << 30,
            disk_floor: 0,
            ..StoreConfig::default()
        },
        git: GitConfig::default(),
        pack: PackLimits::default(),
        git_limits: GitLimits::default(),
        relay: RelayLimits::default(),
        address: AddressLimits::default(),
        trusted_proxies: Vec::new(),
        info: Info {
            name: HOST.to_owned(),
            description: String::new(),
            pubkey: owner,
            icon: None,
            contact: None,
            software: String::new(),
            version: String::new(),
            supported_nips: vec![1],
            supported_grasps: vec!["GRASP-01".to_owned()],
            repo_acceptance_criteria: String::new(),
            curation: None,
            created_at_ahead_max: None,
            auth_required: false,
        },
        monitoring: MonitoringSettings::default(),
        timers: Timers::default(),
        surveyed: Vec::new(),
    }
}
