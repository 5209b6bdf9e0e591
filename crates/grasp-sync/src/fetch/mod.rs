//! From a clone URL to the bytes of a pack.
//!
//! A host is a stranger's, and so is everything it sends: the address was judged and is pinned (NET-*), every answer is read
//! with a bound, and a pack is handed on as it comes. What is known from signed events is asked for at once, without
//! listing refs (HUNT-14); where that does not bring it, refs are listed, the wanted ones that are there fetched in one
//! go, and the rest one by one (HUNT-5), by git itself if the host speaks only the old protocol (HUNT-10). *Invariants:* nothing here waits for a total time or runs by itself; who drops
//! a [`Fetching`] or its [`PackStream`] ends the connection (HUNT-9).

mod by_git;
mod error;
mod http;
mod listing;
mod pack;
mod probe;
mod v2;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::http::HeaderName;
use grasp_core::clone_url::CloneUrl;
use grasp_core::oid::Oid;
use grasp_git::Lease;
use tokio::io::AsyncRead;

use crate::dial::{Dialler, RootCertStore, Settings};
use crate::hunt::Fingerprint;

pub use by_git::Scratch;
pub use error::FetchError;
pub use listing::BYTES_MAX as LISTING_BYTES_MAX;
pub use pack::PackStream;

use http::Site;
use listing::{Advertisement, Listing};
use pack::SideBand;
use v2::Said;

/// So often a host may refuse an object before its refs are listed.
const STRAIGHT_REFUSALS_MAX: usize = 2;
/// So often it may refuse one in all. What is left then counts as lacking.
const REFUSALS_MAX: usize = 16;
/// So many objects that are not listed are asked for one by one. The others count as lacking, until the next pass.
const SINGLY_MAX: usize = 16;

/// How many bytes a peer has sent, for whoever watches. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of all answers so far.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What to fetch, and from where.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// The host and its repository.
    pub source: CloneUrl,
    /// The objects, with all they need.
    pub wants: BTreeSet<Oid>,
    /// Tips that are complete here: what they reach need not be sent. A few hundred at most.
    pub haves: Vec<Oid>,
    /// The repositories that these are in, for git to look by itself.
    pub lenders: Vec<Lease>,
    /// All of it was missing when the host's refs had this fingerprint: ask for nothing while they have it still (HUNT-11).
    pub unless: Option<Fingerprint>,
}

/// Goes to git hosts.
pub struct Fetcher {
    dialler: Dialler,
    scratch: Scratch,
}

impl Fetcher {
    /// A fetcher that goes where `settings` allow, and trusts certificates below `roots`. For hosts of the old protocol
    /// git works in `scratch`; it trusts whom the machine trusts.
    pub fn new(settings: Settings, roots: RootCertStore, scratch: Scratch) -> Self {
        Self {
            dialler: Dialler::new(settings, roots),
            scratch,
        }
    }

    /// Begins to fetch: judges and resolves the address. [`Fetching::next`] asks.
    pub async fn fetch(
        &self,
        request: FetchRequest,
        progress: Progress,
    ) -> Result<Fetching<'_>, FetchError> {
        let site = Site::find(&self.dialler, request.source.as_str(), progress).await?;
        Ok(Fetching {
            scratch: &self.scratch,
            site,
            source: request.source,
            haves: request.haves,
            lenders: request.lenders,
            unless: request.unless,
            way: Way::Straight,
            tally: Tally::default(),
            batches: VecDeque::from([Batch {
                wants: request.wants,
                is_listed: false,
            }]),
            lacking: BTreeSet::new(),
            refusals: 0,
            advertisement: None,
        })
    }

    /// Whether refs at `source` name all of `oids` now (PUR-14). Nothing is fetched.
    pub async fn shows(
        &self,
        source: &CloneUrl,
        oids: &BTreeSet<Oid>,
        progress: Progress,
    ) -> Result<bool, FetchError> {
        let site = Site::find(&self.dialler, source.as_str(), progress).await?;
        let (_, listing) = list(&site, oids, true).await?;
        Ok(listing.listed == *oids)
    }

    /// Whether the host of `at` names itself a GRASP server that syncs (HUNT-14). Asked as a relay is (NET-3).
    pub async fn probe_host(&self, at: &CloneUrl) -> bool {
        probe::is_grasp(&self.dialler, at).await
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Fetcher").finish_non_exhaustive()
    }
}

/// Objects that are asked for in one go.
struct Batch {
    wants: BTreeSet<Oid>,
    /// Whether refs of the host name them all.
    is_listed: bool,
}

/// How a host is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// For what is known, without a word before.
    Straight,
    /// As its list of refs allows.
    Listed,
    /// As its list of refs allows, by git: it speaks no version 2.
    ByGit,
}

/// How the wanted objects were asked for, once refs were listed (HUNT-5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Refs name them: in one go.
    pub listed: usize,
    /// One by one.
    pub singly: usize,
    /// Not at all, this time.
    pub skipped: usize,
}

/// One fetch, which may take several packs.
pub struct Fetching<'a> {
    scratch: &'a Scratch,
    site: Site<'a>,
    source: CloneUrl,
    haves: Vec<Oid>,
    lenders: Vec<Lease>,
    unless: Option<Fingerprint>,
    way: Way,
    tally: Tally,
    batches: VecDeque<Batch>,
    lacking: BTreeSet<Oid>,
    refusals: usize,
    advertisement: Option<Fingerprint>,
}

impl Fetching<'_> {
    /// The next pack; `None` once the host has been asked for everything.
    pub async fn next(&mut self) -> Result<Option<PackStream>, FetchError> {
        if let Some(known) = self.unless.take() {
            self.look_again(known).await?;
        }
        while let Some(batch) = self.batches.pop_front() {
            if batch.wants.is_empty() {
                continue;
            }
            match self.ask(&batch.wants).await? {
                Said::Pack(pack) => return Ok(Some(pack)),
                Said::Nothing => {}
                Said::Lacks(oid) => self.without(oid, batch).await?,
                Said::Otherwise(_) if self.way == Way::Straight => {
                    self.list(batch.wants, false).await?;
                }
                Said::Otherwise(error) if batch.is_listed => return Err(error),
                Said::Otherwise(_) => self.lacking.extend(batch.wants),
            }
        }
        Ok(None)
    }

    /// These came meanwhile, so they are not asked for any more.
    pub fn brought(&mut self, oids: &BTreeSet<Oid>) {
        for batch in &mut self.batches {
            batch.wants.retain(|oid| !oids.contains(oid));
        }
    }

    /// What the host lacks, of what it was asked for so far.
    pub fn lacking(&self) -> &BTreeSet<Oid> {
        &self.lacking
    }

    /// What the host said that it has, if its refs were listed.
    pub fn advertisement(&self) -> Option<Fingerprint> {
        self.advertisement
    }

    /// How the objects were asked for.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    async fn ask(&self, wants: &BTreeSet<Oid>) -> Result<Said, FetchError> {
        if self.way == Way::ByGit {
            let (site, source) = (&self.site, &self.source);
            return self.scratch.ask(site, source, wants, &self.lenders).await;
        }
        let answer = match self.site.post(v2::fetch(wants, &self.haves)).await {
            Ok(answer) => answer,
            Err(error) if is_final(&error) => return Err(error),
            Err(error) => return Ok(Said::Otherwise(error)),
        };
        match answer.of_kind(v2::RESULT) {
            Some(body) => v2::answer(body, wants).await.map(Said::streamed),
            None => Ok(Said::Otherwise(FetchError::NotGit(
                "its answer is of another kind",
            ))),
        }
    }

    /// Goes on with what is left of a batch that was refused because of one object.
    async fn without(&mut self, oid: Oid, mut batch: Batch) -> Result<(), FetchError> {
        self.lacking.insert(oid);
        self.refusals += 1;
        batch.wants.remove(&oid);
        if self.way != Way::Straight && self.refusals > REFUSALS_MAX {
            self.lacking.extend(batch.wants);
            return Ok(());
        }
        // With nothing left to ask for the list still tells when it is worth while to come again (HUNT-11).
        let is_stuck = batch.wants.is_empty() || self.refusals >= STRAIGHT_REFUSALS_MAX;
        if self.way == Way::Straight && is_stuck {
            return self.list(batch.wants, true).await;
        }
        self.batches.push_front(batch);
        Ok(())
    }

    /// Asks for nothing if the host's refs are as they were.
    async fn look_again(&mut self, known: Fingerprint) -> Result<(), FetchError> {
        let wants = std::mem::take(&mut self.batches);
        let wants = wants.into_iter().flat_map(|batch| batch.wants).collect();
        self.list(wants, true).await?;
        if self.advertisement == Some(known) {
            let batches = std::mem::take(&mut self.batches);
            let wants = batches.into_iter().flat_map(|batch| batch.wants);
            self.lacking.extend(wants);
        }
        Ok(())
    }

    /// HUNT-5: lists the refs, and plans what to ask for.
    async fn list(&mut self, wants: BTreeSet<Oid>, speaks_v2: bool) -> Result<(), FetchError> {
        let (way, listing) = list(&self.site, &wants, speaks_v2).await?;
        self.way = way;
        self.advertisement = Some(listing.fingerprint);
        let rest: Vec<Oid> = wants.difference(&listing.listed).copied().collect();
        self.tally.listed += listing.listed.len();
        self.batches.push_back(Batch {
            wants: listing.listed,
            is_listed: true,
        });
        let singly = if listing.gives_unlisted {
            SINGLY_MAX
        } else {
            0
        };
        for (number, oid) in rest.into_iter().enumerate() {
            if number < singly {
                self.tally.singly += 1;
                self.batches.push_back(Batch {
                    wants: BTreeSet::from([oid]),
                    is_listed: false,
                });
            } else {
                self.tally.skipped += 1;
                self.lacking.insert(oid);
            }
        }
        Ok(())
    }
}

/// The refs of a host, and how it is asked from then on. One that may well speak version 2 is asked for them at once.
async fn list(
    site: &Site<'_>,
    sought: &BTreeSet<Oid>,
    speaks_v2: bool,
) -> Result<(Way, Listing), FetchError> {
    if speaks_v2 {
        match list_v2(site, sought).await {
            Ok(listing) => return Ok((Way::Listed, listing)),
            Err(FetchError::NotGit(_) | FetchError::Remote(_)) => {}
            Err(error) if is_final(&error) => return Err(error),
            Err(_) => {}
        }
    }
    let version = (HeaderName::from_static("git-protocol"), "version=2");
    let below = site.below("/info/refs?service=git-upload-pack");
    let answer = site.get(&below, version).await?;
    let body = answer.of_kind("application/x-git-upload-pack-advertisement");
    let body = body.ok_or(FetchError::NotGit("it has no git service"))?;
    match listing::advertisement(body, sought).await? {
        Advertisement::VersionTwo => Ok((Way::Listed, list_v2(site, sought).await?)),
        Advertisement::Refs(listing) => Ok((Way::ByGit, listing)),
    }
}

async fn list_v2(site: &Site<'_>, sought: &BTreeSet<Oid>) -> Result<Listing, FetchError> {
    let answer = site.post(v2::list_refs()).await?;
    let body = answer.of_kind(v2::RESULT);
    let body = body.ok_or(FetchError::NotGit("its answer is of another kind"))?;
    listing::refs(body, sought).await
}

/// Reads an answer to a fetch of `wants` as a fetch does, and drops the pack: for whoever only wants to see how that ends, such
/// as a fuzzer. How many bytes the pack has, if there is one.
pub async fn read_answer(
    answer: impl AsyncRead + Unpin,
    wants: &BTreeSet<Oid>,
) -> Result<Option<u64>, FetchError> {
    let Said::Pack(packets) = v2::answer(answer, wants).await? else {
        return Ok(None);
    };
    let mut pack = SideBand::new(packets);
    let copied = tokio::io::copy(&mut pack, &mut tokio::io::sink()).await;
    copied.map(Some).map_err(FetchError::of)
}

/// Reads a list of refs as a fetch does, in either protocol, and says which of `sought` it names. As [`read_answer`].
pub async fn read_refs(list: &[u8], sought: &BTreeSet<Oid>) -> Result<BTreeSet<Oid>, FetchError> {
    match listing::advertisement(list, sought).await {
        Ok(Advertisement::Refs(listing)) => Ok(listing.listed),
        Ok(Advertisement::VersionTwo) => Ok(BTreeSet::new()),
        Err(_) => Ok(listing::refs(list, sought).await?.listed),
    }
}

/// Whether asking in another way is of no use. A server that does not know what is wanted of it answers with nearly
/// any status.
fn is_final(error: &FetchError) -> bool {
    !matches!(error, FetchError::Status(status) if !matches!(status, 401 | 408 | 502..=504))
}

impl fmt::Debug for Fetching<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Fetching")
            .field("lacking", &self.lacking)
            .finish_non_exhaustive()
    }
}
