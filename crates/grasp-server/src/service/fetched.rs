//! Takes in what another server sent (AFTER-7, HUNT-5a, HUNT-12).
//!
//! A fetched pack takes the path of a push: quarantine, checks, exactly what is wanted and whole, one commit that
//! settles, then what follows. Only its judge is another one: no command says what it brings, but what waits here
//! says what it may bring. *Invariant:* nothing is installed that nothing asks for at that moment.

mod interruptible;

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use grasp_core::lifecycle::{Batch, Change};
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::refplan::{DesiredRefs, Planner};
use grasp_core::settle::settle;
use grasp_core::view::RepoView;
use grasp_git::{IngestError, Kept, Lease};
use grasp_store::{CommitError, StoreError};
use tokio::io::AsyncRead;
use tokio_util::io::SyncIoBridge;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use self::interruptible::Interruptible;
use super::facts::{self, Wanted};
use super::pack::Interrupt;
use super::{Service, reconcile};
use crate::metrics::Bound;

/// So many tips of ours are told to another server, so that it sends little.
const HAVES_MAX: usize = 256;

/// Why a fetched pack was not taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// The pack is not taken, or did not come whole.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// Repositories cannot be used.
    #[error(transparent)]
    Git(#[from] grasp_git::Error),
    /// It could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// Events cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TakeError {
    /// Whether the fault is this server's, and no mark against whoever sent the pack.
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Ingest(IngestError::QuarantineFull { .. })
            | Self::Git(_)
            | Self::Commit(_)
            | Self::Store(_) => true,
            Self::Ingest(error) => error.is_ours(),
        }
    }
}

/// What became of a fetched pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// These of the wanted objects are in the repository now, with all they need.
    Kept {
        /// Which; those that are wanted no longer are not among them.
        whole: BTreeSet<Oid>,
        /// What the pack weighed.
        bytes: u64,
    },
    /// Nothing of it is needed any more: a push or another fetch was first, or what waited for it is gone.
    Overtaken,
}

/// A place for what is fetched: as long as there is one, its repository stays, and what waits for the objects does
/// not expire (PUR-2, REF-7). Clones are the same place.
#[derive(Clone)]
pub struct Landing {
    service: Service,
    into: RepoAddress,
    lease: Lease,
    relatives: Vec<Lease>,
    wants: BTreeSet<Oid>,
}

/// What of the wanted objects is needed at a moment.
#[derive(Debug, Default)]
struct Needed {
    oids: BTreeSet<Oid>,
    /// Of those, which only count as commits (PR-6).
    commits: BTreeSet<Oid>,
}

impl Service {
    /// Prepares to fetch `wants` into a repository. `None` if nothing of it is needed there.
    pub async fn land(
        &self,
        into: &RepoAddress,
        wants: &BTreeSet<Oid>,
    ) -> Result<Option<Landing>, TakeError> {
        if self.store.below_disk_floor() {
            self.metrics.refusals.count(Bound::DiskFloor);
            return Err(CommitError::DiskFull.into()); // BND-2
        }
        let (service, into, wants) = (self.clone(), into.clone(), wants.clone());
        self.blocking(move || {
            let lease = service.git.lease(&into);
            let needed = service.needed(&into, &wants)?.oids;
            let relatives = service.relatives(&into)?;
            Ok((!needed.is_empty()).then_some(Landing {
                service,
                into,
                lease,
                relatives,
                wants: needed,
            }))
        })
        .await
    }

    /// Takes in a pack with some of `wants`, for the repository `into`: [`Service::land`] and [`Landing::take`].
    pub async fn take_fetched(
        &self,
        into: &RepoAddress,
        wants: &BTreeSet<Oid>,
        pack: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<Taken, TakeError> {
        match self.land(into, wants).await? {
            Some(landing) => landing.take(pack, CancellationToken::new()).await,
            None => Ok(Taken::Overtaken),
        }
    }

    /// What of `wants` something in the view around the repository waits for, or it should show and does not
    /// have (REF-8). Blocking.
    fn needed(&self, into: &RepoAddress, wants: &BTreeSet<Oid>) -> Result<Needed, TakeError> {
        let snapshot = self.store.snapshot()?;
        let view = reconcile::view_to_settle(&snapshot.view(), into, [])?;
        drop(snapshot);
        let (hosted, shown) = self.to_show(into, &view);
        if !hosted && matches!(into, RepoAddress::Announced(_)) {
            return Ok(Needed::default());
        }
        let waiting = Wanted::default().waiting_in(&view);
        let named = waiting.objects.union(&shown).chain(&waiting.commits);
        let named: BTreeSet<Oid> = named.copied().collect();
        let mut oids: BTreeSet<Oid> = wants.intersection(&named).copied().collect();
        if self.git.exists(into) {
            let objects = self.git.objects(&self.git.lease(into))?;
            let asked: Vec<Oid> = oids.iter().copied().collect();
            for oid in facts::complete_among(&*self.git.refs(into)?, &objects, &asked) {
                oids.remove(&oid);
            }
        }
        let only_commits = waiting.commits.difference(&waiting.objects);
        let only_commits = only_commits.filter(|oid| !shown.contains(oid));
        Ok(Needed {
            commits: only_commits.copied().collect(),
            oids,
        })
    }

    /// Whether the repository exists by its events, and the objects that it shall show.
    fn to_show(&self, repository: &RepoAddress, view: &RepoView) -> (bool, BTreeSet<Oid>) {
        let desired = Planner::new(view, &self.policy).desired(repository);
        let mut shown: BTreeSet<Oid> = desired.proposals.into_values().collect();
        if let DesiredRefs::Winner { refs, .. } = desired.refs {
            shown.extend(refs.into_values());
        }
        (desired.exists, shown)
    }

    /// Serves what `whole` completes, and has repositories that lacked some of it show it again.
    async fn settle_fetched(
        &self,
        into: &RepoAddress,
        whole: &BTreeSet<Oid>,
    ) -> Result<(), TakeError> {
        let (service, at) = (self.clone(), into.clone());
        let measured = self.blocking(move || {
            let snapshot = service.store.snapshot()?;
            let view = reconcile::view_to_settle(&snapshot.view(), &at, [])?;
            drop(snapshot);
            let measured = facts::measure_with([at], &service.git, &view, Wanted::default())?;
            Ok::<_, TakeError>(measured)
        });
        let measured = measured.await?;
        let (service, at, whole) = (self.clone(), into.clone(), whole.clone());
        let facts = measured.facts;
        let committed = self
            .store
            .commit(move |view| {
                let view = reconcile::view_to_settle(view, &at, [])?;
                let mut batch = settle(&view, &facts, service.at_present());
                service.mark_refilled(&view, &whole, &mut batch);
                Ok((batch, ()))
            })
            .await?;
        drop(measured.leases);
        self.finish(committed, Some(into)).await;
        Ok(())
    }

    /// REF-8: a repository that should show some of `whole` and has less refs than that has the same view as
    /// before, and still more to show.
    fn mark_refilled(&self, view: &RepoView, whole: &BTreeSet<Oid>, batch: &mut Batch) {
        for repository in facts::repositories(view) {
            let mark = Change::Dirty(repository.clone());
            if batch.contains(&mark) || self.to_show(&repository, view).1.is_disjoint(whole) {
                continue;
            }
            batch.push(mark);
        }
    }
}

impl Landing {
    /// What is wanted.
    pub fn wants(&self) -> &BTreeSet<Oid> {
        &self.wants
    }

    /// Tips that are here or with relatives: what they reach need not be sent. A few hundred at most.
    pub async fn haves(&self) -> Vec<Oid> {
        let git = self.service.git.clone();
        let places: Vec<RepoAddress> = std::iter::once(&self.lease)
            .chain(&self.relatives)
            .map(|lease| lease.address().clone())
            .collect();
        let gather = move || {
            let mut haves = Vec::new();
            let mut told = BTreeSet::new();
            for place in places {
                // One that cannot be read makes the other server send more, no less.
                let Ok(refs) = git.refs(&place) else { continue };
                let tips = refs.refs.values().map(|value| value.oid);
                haves.extend(tips.filter(|oid| told.insert(*oid)));
            }
            haves.truncate(HAVES_MAX);
            haves
        };
        self.service.blocking(gather).await
    }

    /// The repository and its relatives, for whoever borrows their objects.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        std::iter::once(&self.lease).chain(&self.relatives)
    }

    /// Takes in a pack. What is wanted and whole is kept, everything else leaves nothing. `stop` ends it early.
    pub async fn take(
        &self,
        pack: impl AsyncRead + Send + Unpin + 'static,
        stop: CancellationToken,
    ) -> Result<Taken, TakeError> {
        let Self { service, into, .. } = self;
        let landing = self.clone();
        // Whoever waits for this may go away too.
        let stop = stop.child_token();
        let _gone = stop.clone().drop_guard();
        let interrupt = Interrupt::default();
        let flag = interrupt.flag();
        let reader = Interruptible::new(pack, stop.clone());
        let mut reader = SyncIoBridge::new(reader);
        let taking = service.blocking(move || landing.install(&mut reader, &flag));
        tokio::pin!(taking);
        let kept = tokio::select! {
            kept = &mut taking => kept?,
            () = stop.cancelled() => {
                interrupt.raise();
                taking.await?
            }
        };
        let Some((kept, bytes)) = kept else {
            return Ok(Taken::Overtaken);
        };
        if !kept.whole.is_empty() {
            info!(repository = %into, objects = kept.installed.objects, bytes, "objects came from another server");
            service.settle_fetched(into, &kept.whole).await?;
        }
        Ok(Taken::Kept {
            whole: kept.whole,
            bytes,
        })
    }

    /// Blocking.
    fn install(
        &self,
        reader: &mut dyn Read,
        flag: &Arc<AtomicBool>,
    ) -> Result<Option<(Kept, u64)>, TakeError> {
        let is_new =
            matches!(self.into, RepoAddress::Proposals(_)) && !self.service.git.exists(&self.into);
        if is_new {
            self.service.git.lock(&self.into).create()?;
        }
        let installed = self.ingest(reader, flag);
        let is_kept = matches!(&installed, Ok(Some((kept, _))) if !kept.whole.is_empty());
        if is_new
            && !is_kept
            && let Err(failure) = self.service.reconcile(&self.into)
        {
            error!(
                error = &failure as &dyn std::error::Error,
                "a repository that nothing asks for is left behind"
            );
        }
        installed
    }

    fn ingest(
        &self,
        reader: &mut dyn Read,
        flag: &Arc<AtomicBool>,
    ) -> Result<Option<(Kept, u64)>, TakeError> {
        let service = &self.service;
        if self.lease.is_removed() {
            return Ok(None);
        }
        let quarantined = grasp_git::ingest(
            &service.git,
            &self.lease,
            &self.relatives,
            reader,
            &service.push_limits.pack,
            flag,
        );
        let quarantined = quarantined.inspect_err(|error| service.metrics.refused_pack(error))?;
        // Hours may have passed since this was asked for.
        let mut needed = service.needed(&self.into, &self.wants)?;
        if self.lease.is_removed() || needed.oids.is_empty() {
            return Ok(None);
        }
        for oid in &needed.commits {
            if needed.oids.contains(oid) && !quarantined.leads_to_commit(oid)? {
                needed.oids.remove(oid);
            }
        }
        let bytes = quarantined.bytes();
        Ok(Some((quarantined.finish_whole(&needed.oids)?, bytes)))
    }
}

impl fmt::Debug for Landing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Landing")
            .field("into", &self.into)
            .field("wants", &self.wants.len())
            .finish_non_exhaustive()
    }
}
