//! What the server is composed of, as validated values. The binary reads them from its configuration.

use std::path::PathBuf;
use std::time::Duration;

use grasp_core::name::Identifier;
use grasp_core::policy::Policy;
use grasp_git::{GitConfig, PackLimits};
use grasp_relay::RelayLimits;
use grasp_relay::address::AddressLimits;
use grasp_relay::nip11;
use grasp_store::StoreConfig;
use ipnet::IpNet;

/// Everything a [`crate::Server`] needs besides a socket.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What decisions depend on.
    pub policy: Policy,
    /// Where repositories live.
    pub git_root: PathBuf,
    /// Where the store lives (in `ngit-grasp/` below it).
    pub relay_root: PathBuf,
    /// The store.
    pub store: StoreConfig,
    /// The git side.
    pub git: GitConfig,
    /// Bounds of one pack.
    pub pack: PackLimits,
    /// Bounds of the git routes.
    pub git_limits: GitLimits,
    /// Bounds of one connection.
    pub relay: RelayLimits,
    /// Bounds of one client address.
    pub address: AddressLimits,
    /// Neighbours whose forwarding headers are believed (NAME-7).
    pub trusted_proxies: Vec<IpNet>,
    /// What NIP-11 and the pages say.
    pub info: nip11::Info,
    /// When things happen by themselves.
    pub timers: Timers,
    /// The identifiers whose repositories are compared with their events at the start; none: all.
    pub surveyed: Vec<Identifier>,
    /// What monitoring sees.
    pub monitoring: MonitoringSettings,
}

/// What monitoring sees, and where (§20).
#[derive(Debug, Clone, Copy)]
pub struct MonitoringSettings {
    /// Where the numbers are.
    pub exposure: Exposure,
    /// An address with more open connections than this counts as conspicuous.
    pub abuse_threshold: usize,
    /// Relays of other servers that have series of their own; all others share one.
    pub relays_listed: usize,
    /// Which program this is.
    pub build: Build,
}

/// Where `/metrics` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// Nowhere.
    Off,
    /// Among the public routes.
    Public,
    /// Only on a socket of its own, see [`crate::Server::monitored_on`].
    Own,
}

/// Which program this is.
#[derive(Debug, Clone, Copy)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// The commit it was built from, or `unknown`.
    pub commit: &'static str,
}

/// Bounds of clones and pushes on the whole server (§16).
#[derive(Debug, Clone)]
pub struct GitLimits {
    /// Pushes that run at once; more wait.
    pub pushes: usize,
    /// Fetches that run at once.
    pub fetches: usize,
    /// Fetches that wait for their turn; more are refused.
    pub fetches_queued: usize,
    /// What a compressed fetch request may inflate to, in bytes.
    pub request_bytes: u64,
    /// Most commands of one push.
    pub commands: usize,
}

/// When things happen by themselves.
#[derive(Debug, Clone)]
pub struct Timers {
    /// Between two looks for what has expired (PUR-1).
    pub sweep: Duration,
    /// Between two clean-ups of what was replaced or deleted (DEL-5).
    pub holding_clean_up: Duration,
    /// Between two looks for old test events (DEL-11); none if they stay.
    pub tests: Option<Duration>,
    /// How long the answer to an event waits for directories and refs (EV-7).
    pub apply: Duration,
    /// Between two signs of life on the sideband of a push (GIT-7).
    pub keepalive: Duration,
    /// How long a stop waits for running pushes (CLI-2).
    pub stop: Duration,
}

impl Default for MonitoringSettings {
    fn default() -> Self {
        Self {
            exposure: Exposure::Public,
            abuse_threshold: 10,
            relays_listed: 20,
            build: Build {
                version: env!("CARGO_PKG_VERSION"),
                commit: "unknown",
            },
        }
    }
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            sweep: Duration::from_mins(1),
            holding_clean_up: Duration::from_hours(24),
            tests: Some(Duration::from_mins(30)),
            apply: Duration::from_secs(10),
            keepalive: Duration::from_secs(5),
            stop: Duration::from_secs(30),
        }
    }
}

impl Default for GitLimits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            pushes: 32,
            fetches: 2 * cores,
            fetches_queued: 256,
            request_bytes: 32 << 20,
            commands: 20_000,
        }
    }
}
