//! Defects on purpose: what the tests of this system must find.
//!
//! A test that never failed has proven nothing. Each [`Defect`] is one plausible mistake at the place where
//! it would be made. With the feature `seeded-defects`, which no release has, the variable `NGIT_DEFECT`
//! switches one on, and a test shows that the random lives find it. Without the feature the question
//! costs nothing: the answer is a constant.

/// A mistake that can be switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// Of two versions in one second the higher id wins (KIND-5).
    TieOrder,
    /// Whoever is listed is a maintainer, without listing anybody back (MNT-8).
    InvitedAuthority,
    /// A version that comes back gives its authority back (DEL-3).
    RestoredAuthority,
    /// A state is promoted although objects are missing (ST-3, ST-7).
    IncompletePromotion,
    /// What waits moves refs already (REF-1).
    WaitingWinner,
    /// Without a winner the refs go instead of being frozen (REF-5).
    ThawedRefs,
    /// `HEAD` stays where it was while its branch exists (REF-4).
    HeadByHistory,
    /// Of several repositories whose view changes only one is marked (ST-4).
    OneMark,
    /// Nobody looks where the refs of a push end that was allowed (PUSH-13).
    UncheckedEnd,
    /// An atomic push is carried out in part (PUSH-8).
    PartialAtomic,
    /// An upload makes its event served whatever commit it names (PR-4).
    UnboundUpload,
    /// A waiting replacement that takes authority ends like any other (ANN-3b).
    AuthorityByExpiry,
    /// What a served repository is still owed is dropped when its time is over (PUR-15).
    DroppedDebt,
    /// What expired leaves no mark (PUR-8).
    UnmarkedExpiry,
    /// An id is remembered before its signature was checked (EV-1).
    MarkBeforeVerification,
    /// A deleted version is a rollback target (DEL-2).
    DeletedRollback,
    /// An id that was deleted may come again (DEL-1).
    OpenGate,
    /// With a scope goes what others support too (DEL-4).
    SharedCascade,
    /// With a scope comes back what its author deleted by id (DEL-6).
    GatedRecovery,
    /// With whoever vanishes go states of others, and for good (DEL-8).
    TakenAlong,
}

impl Defect {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::TieOrder,
        Self::InvitedAuthority,
        Self::RestoredAuthority,
        Self::IncompletePromotion,
        Self::WaitingWinner,
        Self::ThawedRefs,
        Self::HeadByHistory,
        Self::OneMark,
        Self::UncheckedEnd,
        Self::PartialAtomic,
        Self::UnboundUpload,
        Self::AuthorityByExpiry,
        Self::DroppedDebt,
        Self::UnmarkedExpiry,
        Self::MarkBeforeVerification,
        Self::DeletedRollback,
        Self::OpenGate,
        Self::SharedCascade,
        Self::GatedRecovery,
        Self::TakenAlong,
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
