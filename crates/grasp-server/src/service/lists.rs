//! Carries out the operator's lists at the start (DEL-7).
//!
//! What a list takes away is held and noted, so that the same list can give it back. Lists that were carried
//! out before cost one look at a row. *Invariant:* the note comes before the removal, and the lists count as
//! carried out only once all of it is done: a start that is cut short goes on with the next.

use std::collections::BTreeSet;

use bitcoin_hashes::sha256;
use grasp_core::curation::{Curation, RepositoryEntry};
use grasp_core::deletion::Cause;
use grasp_core::lifecycle::{Change, CuratedBy, Stage};
use grasp_core::name::Coordinate;
use grasp_core::policy::Hosting;
use grasp_store::{CommitError, History, StoreError};
use tracing::{info, warn};

use super::Service;
use super::holding::Restored;
use crate::metrics::{Outcome, Phase, Why};

impl Service {
    /// Takes away what the lists do not want, and brings back what they want again: blacklist before
    /// whitelist, what goes before what comes.
    pub async fn apply_lists(&self) -> Result<(), CommitError> {
        let fingerprint = fingerprint(&self.policy.curation);
        let applied = self.store.snapshot()?.view().lists_applied()?;
        let before = applied.unwrap_or_else(|| self::fingerprint(&Curation::default()));
        if before == fingerprint {
            return Ok(());
        }
        info!("the lists of repositories changed, and are carried out");
        let mut whole = self.take_away(CuratedBy::Blacklist).await?;
        if self.policy.curation.blacklist_restores {
            whole &= self.give_back(CuratedBy::Blacklist).await?;
        }
        if self.policy.curation.whitelist.is_some() {
            whole &= self.take_away(CuratedBy::Whitelist).await?;
            whole &= self.give_back(CuratedBy::Whitelist).await?;
        }
        if whole {
            self.note(Change::ListsApplied { fingerprint }).await?;
        }
        Ok(())
    }

    /// Whether all of it succeeded.
    async fn take_away(&self, by: CuratedBy) -> Result<bool, CommitError> {
        let service = self.clone();
        let unwanted = self.blocking(move || service.unwanted(by)).await?;
        let counted = &self.metrics.holding.list_deletions;
        let phase = match by {
            CuratedBy::Blacklist => Phase::Blacklist,
            CuratedBy::Whitelist => Phase::Whitelist,
        };
        let mut whole = true;
        for scope in unwanted {
            counted.count(phase, Outcome::Attempted);
            let noted = Change::Curate {
                scope: scope.clone(),
                by: Some(by),
            };
            self.note(noted).await?;
            let outcome = match self.remove_scope(&scope, Cause::Curated).await {
                Ok(true) => Outcome::Succeeded,
                Ok(false) => Outcome::Skipped,
                Err(failure) => {
                    let error = &failure as &dyn std::error::Error;
                    warn!(%scope, error, "a repository that a list does not want is still here");
                    whole = false;
                    Outcome::Failed
                }
            };
            counted.count(phase, outcome);
        }
        Ok(whole)
    }

    /// What is here and should not be.
    fn unwanted(&self, by: CuratedBy) -> Result<BTreeSet<Coordinate>, StoreError> {
        let snapshot = self.store.snapshot()?;
        let view = snapshot.view();
        let lists = &self.policy.curation;
        let is_here =
            |stage: Stage| matches!(stage, Stage::Served | Stage::Waiting | Stage::Parked);
        let mut unwanted = BTreeSet::new();
        for (scope, stage) in view.announcements()? {
            if !is_here(stage) {
                continue;
            }
            let leaves = match by {
                CuratedBy::Blacklist => lists.blacklist.names(&scope),
                CuratedBy::Whitelist => {
                    !lists.hosts(&scope) && {
                        let seeds = [scope.owner];
                        let repo = view.repo_view(&scope.identifier, &seeds, History::Current)?;
                        // Who only tells who is a maintainer has no place to lose (ANN-6), whatever they
                        // announced before.
                        let versions = repo.announcements.get(&scope.owner).into_iter().flatten();
                        let mut here = versions.filter(|entry| is_here(entry.stage));
                        here.any(|entry| self.policy.hosting(&entry.item) == Hosting::Listed)
                    }
                }
            };
            if leaves {
                unwanted.insert(scope);
            }
        }
        Ok(unwanted)
    }

    /// Whether all of it succeeded.
    async fn give_back(&self, by: CuratedBy) -> Result<bool, CommitError> {
        let noted = self.store.snapshot()?.view().curated()?;
        let counted = match by {
            CuratedBy::Blacklist => &self.metrics.holding.blacklist_restores,
            CuratedBy::Whitelist => &self.metrics.holding.whitelist_restores,
        };
        let lists = &self.policy.curation;
        let wanted = |scope: &Coordinate| match by {
            CuratedBy::Blacklist => !lists.blacklist.names(scope),
            CuratedBy::Whitelist => lists.hosts(scope),
        };
        let mut whole = true;
        for (scope, taken_by) in noted {
            if taken_by != by || !wanted(&scope) {
                continue;
            }
            counted.count(Outcome::Attempted, Why::None);
            let (outcome, why) = match self.holding_restore(&scope).await {
                Ok(Restored::Served | Restored::Waits) => (Outcome::Succeeded, Why::None),
                Ok(Restored::Live) => (Outcome::Skipped, Why::Live),
                Ok(Restored::Gone) => (Outcome::Skipped, Why::Gone),
                Ok(Restored::Requested) => (Outcome::Skipped, Why::Requested),
                // The whitelist has its say after the blacklist.
                Ok(Restored::Refused(_)) => (Outcome::Failed, Why::None),
                Err(failure) => {
                    let error = &failure as &dyn std::error::Error;
                    warn!(%scope, error, "a repository that a list wants again is not back yet");
                    whole = false;
                    (Outcome::Failed, Why::None)
                }
            };
            counted.count(outcome, why);
            if outcome != Outcome::Failed {
                self.note(Change::Curate { scope, by: None }).await?;
            }
        }
        Ok(whole)
    }

    /// Forgets what lists took of which nothing is held any more.
    pub(super) async fn forget_curated(&self) -> Result<(), CommitError> {
        let gone: Vec<Coordinate> = {
            let snapshot = self.store.snapshot()?;
            let view = snapshot.view();
            let mut gone = Vec::new();
            for (scope, _) in view.curated()? {
                let seeds = [scope.owner];
                let repo = view.repo_view(&scope.identifier, &seeds, History::WithSuperseded)?;
                if !repo.announcements.contains_key(&scope.owner) {
                    gone.push(scope);
                }
            }
            gone
        };
        for scope in gone {
            self.note(Change::Curate { scope, by: None }).await?;
        }
        Ok(())
    }

    async fn note(&self, change: Change) -> Result<(), CommitError> {
        let commit = self.store.commit(move |_| Ok((vec![change.clone()], ())));
        commit.await.map(drop)
    }
}

/// Tells lists apart by what they do.
fn fingerprint(lists: &Curation) -> [u8; 32] {
    let mut text = String::new();
    let mut add = |name: &str, entries: &mut dyn Iterator<Item = &RepositoryEntry>| {
        text.push_str(name);
        for entry in entries {
            text.push('\n');
            text.push_str(&entry.to_string());
        }
        text.push('\0');
    };
    add("blacklist", &mut lists.blacklist.entries());
    if let Some(whitelist) = &lists.whitelist {
        add("whitelist", &mut whitelist.entries());
    }
    if lists.blacklist_restores {
        add("restores", &mut std::iter::empty());
    }
    sha256::Hash::hash(text.as_bytes()).to_byte_array()
}
