//! What the server is composed of, as validated values. The binary reads them from its configuration.

use std::path::PathBuf;
use std::time::Duration;

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
    /// Between two signs of life on the sideband of a push (GIT-7).
    pub keepalive: Duration,
    /// How long a stop waits for running pushes (CLI-2).
    pub stop: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            sweep: Duration::from_mins(1),
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
