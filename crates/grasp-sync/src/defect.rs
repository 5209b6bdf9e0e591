//! Defects on purpose: what the simulator of servers must find, as in [`grasp_core::defect`].
//!
//! Each is one plausible mistake of whoever follows other servers, at the place where it would be made. Without the
//! feature `seeded-defects`, which no release has, the question costs nothing: the answer is a constant.

/// A mistake that can be switched on, by the same variable as those of the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// The end of stored events is not heard (SYNC-4).
    EoseIgnored,
    /// What was in flight stays so when the connection ends (SYNC-4, SYNC-5).
    PendingKept,
    /// What was confirmed stays so when all is to be asked for again.
    ConfirmedKept,
    /// A refusal is taken for the end of a history (SYNC-4).
    ClosedCompletes,
    /// A history ends with its first page (SYNC-27).
    LostPage,
    /// Deletions do not come over.
    DeletionIgnored,
    /// What was confirmed while a repository waited stays so when it is served (SYNC-34).
    RaisedConfirmed,
    /// Of what the store says within five seconds the last is lost (SYNC-9).
    NoticeLost,
    /// What is not live is not asked for either (SYNC-45).
    PollForgotten,
    /// A peer's word on how many subscriptions it allows is not heard (SYNC-21).
    LimitsIgnored,
    /// A peer that asked for a pause gets none (SYNC-41).
    CooldownIgnored,
    /// Questions follow each other at once (SYNC-22).
    Unspaced,
}

impl Defect {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::EoseIgnored,
        Self::PendingKept,
        Self::ConfirmedKept,
        Self::ClosedCompletes,
        Self::LostPage,
        Self::DeletionIgnored,
        Self::RaisedConfirmed,
        Self::NoticeLost,
        Self::PollForgotten,
        Self::LimitsIgnored,
        Self::CooldownIgnored,
        Self::Unspaced,
    ];

    /// Whether it is on. Never, without the feature.
    #[cfg(not(feature = "seeded-defects"))]
    pub const fn is_on(self) -> bool {
        false
    }

    /// Whether it is the one that the environment names.
    #[cfg(feature = "seeded-defects")]
    #[expect(
        clippy::disallowed_methods,
        reason = "the environment is how a test chooses, and no release has it"
    )]
    pub fn is_on(self) -> bool {
        use std::sync::LazyLock;

        static CHOSEN: LazyLock<Option<Defect>> = LazyLock::new(|| {
            let name = std::env::var("NGIT_DEFECT").ok()?;
            let mut all = Defect::ALL.iter().copied();
            all.find(|defect| format!("{defect:?}") == name)
        });
        *CHOSEN == Some(self)
    }
}
