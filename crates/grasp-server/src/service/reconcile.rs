//! Makes a repository look as events say: its directory, its refs, its HEAD (REF-*).
//!
//! The only code that creates, removes or archives a repository, or writes a ref. Idempotent: it computes what
//! should be from a fresh snapshot and makes it so, whoever asked and however often. *Invariant:* at
//! most one repository lock is held at any time; others are only leased.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::defect::Defect;
use grasp_core::lifecycle::{Archive, Stage};
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::refname::{RefName, RefSpace};
use grasp_core::refplan::{self, DesiredRefs};
use grasp_core::view::RepoView;
use grasp_core::{PublicKey, Timestamp, failpoint};
use grasp_git::{RefSnapshot, RepoLock};
use grasp_store::{History, StoreError, View};
use tracing::{debug, error, warn};

use super::Service;
use super::facts;
use crate::metrics::Condition;

/// Why a repository could not be brought in line. Its mark stays, and it is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    /// The store could not be read.
    #[error("cannot read what {repository} shall look like")]
    Store {
        /// Which.
        repository: RepoAddress,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// The repository could not be read or written.
    #[error("cannot bring {repository} in line")]
    Git {
        /// Which.
        repository: RepoAddress,
        /// Why.
        #[source]
        source: Box<grasp_git::Error>,
    },
}

/// The view that decides about a repository.
pub(super) fn view_of(
    view: &View<'_>,
    repository: &RepoAddress,
    history: History,
) -> Result<RepoView, StoreError> {
    match repository {
        RepoAddress::Announced(repo) => view.repo_view(&repo.identifier, &[repo.owner], history),
        RepoAddress::Proposals(repo) => view.prs_view(repo),
    }
}

/// The view around a repository that has new objects: for `/prs/` also the repositories that `named` and
/// whoever waits for such objects are for, since these show what is served then (G6-7).
pub(super) fn view_to_settle(
    view: &View<'_>,
    repository: &RepoAddress,
    named: impl IntoIterator<Item = PublicKey>,
) -> Result<RepoView, StoreError> {
    let mut around = view_of(view, repository, History::WithSuperseded)?;
    if let RepoAddress::Proposals(_) = repository {
        let waiting = around.proposals.values();
        let waiting = waiting.filter(|entry| entry.stage != Stage::Served);
        let mut owners: BTreeSet<PublicKey> = waiting.flat_map(|it| it.named.clone()).collect();
        owners.extend(named);
        if !owners.is_empty() {
            let owners: Vec<PublicKey> = owners.into_iter().collect();
            let identifier = repository.identifier();
            around.merge(view.repo_view(identifier, &owners, History::WithSuperseded)?);
        }
    }
    Ok(around)
}

/// How much of a repository is taken on trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// What refs show already was whole when they were moved there.
    Shown,
    /// Nothing: everything that refs need is walked.
    Nothing,
}

impl Service {
    /// Brings one repository in line and takes its mark away. Blocking.
    pub(super) fn reconcile(&self, repository: &RepoAddress) -> Result<(), ReconcileError> {
        self.reconcile_with(repository, Trust::Shown)
    }

    /// [`Self::reconcile`], trusting as much as `trust` says. Blocking.
    pub(super) fn reconcile_with(
        &self,
        repository: &RepoAddress,
        trust: Trust,
    ) -> Result<(), ReconcileError> {
        let store_error = |source| ReconcileError::Store {
            repository: repository.clone(),
            source,
        };
        failpoint::pass("reconcile.begun");
        let lock = self.git.lock(repository);
        // Read after the lock is held: whoever marked it before is in this snapshot, and whoever
        // marks it later keeps the mark, since its version is higher.
        let snapshot = self.store.snapshot().map_err(store_error)?;
        let view = view_of(&snapshot.view(), repository, History::Current).map_err(store_error)?;
        let archive = snapshot
            .view()
            .archive_of(repository)
            .map_err(store_error)?;
        let version = snapshot.version();
        drop(snapshot);
        self.apply(&lock, repository, &view, archive, trust)
            .map_err(|source| ReconcileError::Git {
                repository: repository.clone(),
                source: Box::new(source),
            })?;
        failpoint::pass("reconcile.done");
        self.store.clear_dirty(repository, version);
        Ok(())
    }

    fn apply(
        &self,
        lock: &RepoLock,
        repository: &RepoAddress,
        view: &RepoView,
        archive: Option<Archive>,
        trust: Trust,
    ) -> Result<(), grasp_git::Error> {
        let desired = refplan::desired(repository, view, &self.policy);
        let returning = match archive {
            Some(archive) if archive.returns => Some(archive.since),
            Some(archive) => {
                lock.archive(archive.since)?;
                None
            }
            None => None,
        };
        if !desired.exists {
            if self.git.exists(repository) || self.git.path(repository).exists() {
                debug!(%repository, "a repository leaves");
                lock.remove()?;
            }
            self.metrics
                .conditions
                .set(repository, Condition::default());
            return Ok(());
        }
        if let Some(since) = returning
            && !lock.restore(since)?
        {
            // Made anew before it could come back, or back already.
            lock.create()?;
            lock.absorb(since)?;
        } else if returning.is_none() {
            lock.create()?;
        }
        let current = self.git.refs(repository)?;
        let frozen = desired.refs == DesiredRefs::Frozen;
        let (mut refs, head) = match desired.refs {
            DesiredRefs::Winner { refs, head, .. } => (refs, head),
            DesiredRefs::Empty => (BTreeMap::new(), grasp_git::refs::default_head()),
            DesiredRefs::Frozen => (signed_refs(&current), current.head.clone()),
        };
        let by_history = Defect::HeadByHistory.is_on() && refs.contains_key(&current.head);
        let head = if by_history {
            current.head.clone()
        } else {
            head
        };
        refs.extend(desired.proposals);
        let wanted = refs.values().copied().collect();
        let trusted = match trust {
            Trust::Shown => current.refs.values().map(|value| value.oid).collect(),
            Trust::Nothing => BTreeSet::new(),
        };
        let complete = self.hold(repository, view, wanted, &trusted)?;
        let wanted = refs.len();
        refs.retain(|_, oid| complete.contains(oid));
        let degraded = refs.len() < wanted;
        if degraded {
            warn!(%repository, missing = wanted - refs.len(), "objects of a served state are gone: repository is degraded");
        }
        let condition = Condition { frozen, degraded };
        self.metrics.conditions.set(repository, condition);
        let same = head == current.head
            && refs.len() == current.refs.len()
            && refs.iter().all(|(name, oid)| {
                current
                    .refs
                    .get(name)
                    .is_some_and(|value| value.oid == *oid)
            });
        if !same {
            lock.write_refs(&refs, head)?;
        }
        Ok(())
    }

    /// Throws a copy in the archive away whose time is over. Blocking.
    pub(super) fn discard_archive(&self, repository: &RepoAddress, since: Timestamp) {
        let lock = self.git.lock(repository);
        if let Err(error) = lock.discard_archive(since) {
            // Found again by the next clean-up.
            error!(%error, %repository, "an archive could not be thrown away");
        }
    }

    /// Of `wanted` what the repository holds, after it took what its relatives have (AFTER-3, G6-7). What
    /// `trusted` names is whole if it is there.
    fn hold(
        &self,
        repository: &RepoAddress,
        view: &RepoView,
        wanted: BTreeSet<Oid>,
        trusted: &BTreeSet<Oid>,
    ) -> Result<BTreeSet<Oid>, grasp_git::Error> {
        if wanted.is_empty() {
            return Ok(wanted);
        }
        let lease = self.git.lease(repository);
        let objects = self.git.objects(&lease)?;
        // What is shown already is looked at too: the disk may have lost it (REF-8).
        let (present, missing): (Vec<Oid>, Vec<Oid>) =
            wanted.into_iter().partition(|oid| objects.contains(oid));
        let (mut held, fresh): (BTreeSet<Oid>, BTreeSet<Oid>) =
            present.into_iter().partition(|oid| trusted.contains(oid));
        let mut torn = Vec::new();
        if !fresh.is_empty() {
            let trusted: Vec<Oid> = trusted.iter().copied().collect();
            let fresh: Vec<Oid> = fresh.into_iter().collect();
            let whole = objects.complete(&fresh, &trusted);
            torn.extend(fresh.into_iter().filter(|oid| !whole.contains(oid)));
            held.extend(whole);
        }
        if missing.is_empty() && torn.is_empty() {
            return Ok(held);
        }
        let relatives: Vec<_> = facts::repositories(view)
            .into_iter()
            .filter(|other| other != repository && self.git.exists(other))
            .map(|other| self.git.lease(&other))
            .collect();
        // REF-8: what is nowhere stays missing, the rest is shown.
        held.extend(grasp_git::propagate(
            &self.git, &lease, &relatives, &missing,
        )?);
        if !torn.is_empty() {
            // There, and something below them is not: what is present bounds no walk here.
            held.extend(grasp_git::refill(
                &self.git,
                &lease,
                &relatives,
                &torn,
                &[],
                |_| Ok(()),
            )?);
        }
        Ok(held)
    }
}

/// The branches and tags that a repository shows: what stays when nothing decides about them (REF-5).
fn signed_refs(current: &RefSnapshot) -> BTreeMap<RefName, Oid> {
    let signed = |name: &RefName| matches!(name.space(), RefSpace::Branch | RefSpace::Tag);
    current
        .refs
        .iter()
        .filter(|(name, _)| signed(name))
        .map(|(name, value)| (name.clone(), value.oid))
        .collect()
}
