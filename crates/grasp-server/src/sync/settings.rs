//! What an operator decides about following other servers.

use grasp_sync::hunt::HuntSettings;
use grasp_sync::{dial, engine, intake};
use nostr::key::Keys;

/// Everything that following needs beside the server.
pub struct FollowSettings {
    /// Whom to follow, and how fast.
    pub engine: engine::Settings,
    /// Whom we may dial, and who we say we are.
    pub dial: dial::Settings,
    /// How long refused events are remembered.
    pub intake: intake::Settings,
    /// Replies of one root that are asked about (SYNC-35).
    pub descendants: usize,
    /// How git data is looked for.
    pub hunt: HuntSettings,
    /// Of each proposal so many `clone` addresses count (ANN-8).
    pub proposal_urls: usize,
    /// The key of the relay's owner: peers that ask who we are get a proof by it (SYNC-36).
    pub owner: Keys,
}

impl std::fmt::Debug for FollowSettings {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("FollowSettings")
            .field("engine", &self.engine)
            .field("dial", &self.dial)
            .field("intake", &self.intake)
            .field("hunt", &self.hunt)
            .finish_non_exhaustive()
    }
}
