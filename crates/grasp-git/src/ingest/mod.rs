//! Takes a pack in: quarantine, checks, installation.
//!
//! A pack is anybody's until its tips have been walked. It is scanned while it streams into a folder of
//! its own, indexed there, checked object by object (GIT-11), and only what the accepted tips need is
//! linked into a repository (PUSH-18), after everything they need is known to be there. *Invariant:*
//! whatever goes wrong on the way, the folder goes and the repository has seen nothing.

pub(crate) mod closure;
mod install;
mod large;
mod limits;
mod quarantine;
mod scanner;
mod small;
mod whole;

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use grasp_core::failpoint;
use grasp_core::oid::Oid;

use crate::error::Error;
use crate::objects::{Objects, Pack};
use crate::packing::{self, Sources};
use crate::repository::{Lease, Repositories};

pub(crate) use install::install;
pub use limits::{IngestError, PackLimits};
pub(crate) use quarantine::{Folder, Quarantine, borrowing_repository};
pub use whole::Kept;

use closure::Closure;
use large::Large;
use limits::STRUCTURE_BYTES;
use scanner::{Scanned, Sink, scan};

/// A pack up to this size, whose objects come to no more than [`SMALL_EXPANDED_BYTES`], is held in memory
/// and indexed without a process.
const SMALL_BYTES: usize = 2 << 20;

/// See [`SMALL_BYTES`]: bounds the memory and the time that indexing takes.
const SMALL_EXPANDED_BYTES: u64 = 64 << 20;

/// A pack in quarantine: scanned, indexed, its objects decoded and found harmless. Dropping it leaves
/// nothing behind.
#[derive(Debug)]
pub struct Quarantined {
    folder: Folder,
    lease: Lease,
    own: Objects,
    /// `.have` relatives: they may hold bases and whatever else the tips need (GIT-4a).
    relatives: Vec<Lease>,
    /// What refs were at: whole, since they were moved there.
    shown: Vec<Oid>,
    /// `None` for a pack without objects.
    pack: Option<Arc<Pack>>,
    scanned: Scanned,
    /// What the objects of the pack name, if everything is there.
    closure: Closure,
    cancel: Arc<AtomicBool>,
}

/// What an ingestion has put into a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Installed {
    /// Objects in the new pack; 0 if everything was there already.
    pub objects: u64,
    /// Bytes of the new pack.
    pub bytes: u64,
}

/// Reads a pack for the repository of `lease` into quarantine. `extra` are the repositories whose tips
/// the sender was told of: a thin pack may build on them.
///
/// Blocks; reads `pack` to its end unless it refuses it. `cancel` ends it soon, also later in
/// [`Quarantined::finish`].
pub fn ingest(
    repositories: &Repositories,
    lease: &Lease,
    extra: &[Lease],
    pack: &mut dyn Read,
    limits: &PackLimits,
    cancel: &Arc<AtomicBool>,
) -> Result<Quarantined, IngestError> {
    let folder = Folder::create(repositories)?;
    let mut intake = Intake {
        folder,
        lease,
        extra,
        limits,
        state: State::Memory(Vec::new()),
    };
    let scanned = scan(pack, &mut intake, limits, cancel)?;
    let Intake { folder, state, .. } = intake;
    failpoint::pass("ingest.scanned");
    let index = match state {
        State::Memory(_) if scanned.objects == 0 => None,
        State::Memory(bytes) => {
            let small = small::index(&folder, lease, extra, &bytes, scanned, limits, cancel)?;
            match small {
                small::Indexed::Whole(index) => Some(index),
                // Only git sorts out packs that name their own objects as if they were elsewhere.
                small::Indexed::Undecided => {
                    let mut large = Large::start(&folder, lease, extra, limits)?;
                    large.feed(&bytes)?;
                    Some(large.finish(scanned, cancel)?)
                }
            }
        }
        State::Large(large) => Some(large.finish(scanned, cancel)?),
    };
    failpoint::pass("ingest.indexed");
    let own = Objects::open(lease)?;
    let closure = match &index {
        Some(index) => {
            let pack = Pack::open_limited(index, Some(STRUCTURE_BYTES))?;
            closure::check(&pack, own.store(), limits, cancel)?
        }
        None => Closure::default(),
    };
    let pack = index.map(|index| Pack::open(&index)).transpose()?;
    let pack = pack.map(Arc::new);
    let shown = repositories.refs(lease.address());
    let shown = shown.map_or_else(|_| Vec::new(), |refs| refs.oids().into_values().collect());
    Ok(Quarantined {
        shown,
        folder,
        lease: lease.clone(),
        own,
        relatives: extra.to_vec(),
        pack,
        scanned,
        closure,
        cancel: Arc::clone(cancel),
    })
}

impl Quarantined {
    /// Size of the pack as it was sent.
    pub fn bytes(&self) -> u64 {
        self.scanned.bytes
    }

    /// Objects in the pack as it was sent.
    pub fn objects(&self) -> u64 {
        u64::from(self.scanned.objects)
    }

    /// Whether the repository will have `oid` once this is finished with it among the tips: it is in the
    /// pack, or there already.
    pub fn brings(&self, oid: &Oid) -> bool {
        self.pack
            .as_ref()
            .is_some_and(|pack| pack.offset_of(oid).is_some())
            || self.own.contains(oid)
    }

    /// Installs exactly what `tips` need, durably (PUSH-18). Every tip is complete in the repository's own
    /// objects when this returns; on failure nothing has changed.
    pub fn finish(self, tips: &[Oid]) -> Result<Installed, IngestError> {
        self.install(tips)
    }

    fn install(&self, tips: &[Oid]) -> Result<Installed, IngestError> {
        let own = &self.own;
        let index = match &self.pack {
            _ if tips.iter().all(|tip| own.contains(tip)) => {
                if own.complete(tips, &self.shown).len() == tips.len() {
                    None
                } else {
                    self.mending_pack(tips)?
                }
            }
            Some(pack)
                if self
                    .closure
                    .is_needed_whole(pack, own.store(), tips, self.scanned.objects) =>
            {
                Some(pack.path().with_extension("idx"))
            }
            _ => self.exact_pack(tips)?,
        };
        let installed = match index {
            Some(index) => {
                let objects = Pack::open(&index)?.index.num_objects();
                let bytes = install(&[index], &self.lease)?;
                Installed {
                    objects: u64::from(objects),
                    bytes,
                }
            }
            None => Installed::default(),
        };
        self.lease.remember_complete(tips.iter().copied());
        Ok(installed)
    }

    /// The tips are here, and something that they need is not: a damaged disk. Then nothing that is present counts as
    /// whole, and everything the tips need is written as a new pack.
    fn mending_pack(&self, tips: &[Oid]) -> Result<Option<PathBuf>, IngestError> {
        let sources = Sources::new(self.pack.as_ref(), vec![self.own.store()]);
        let needed = sources.need(tips, |_| false, &self.cancel)?;
        if let Some(sent) = &self.pack
            && needed.is_exactly(sent)
        {
            return Ok(Some(sent.path().with_extension("idx")));
        }
        Ok(Some(packing::write(self.folder.path(), &needed, &sources)?))
    }

    /// Walks from the tips, and writes what they need as a new pack: from what was sent, and from the
    /// relatives. `None` if they need nothing.
    fn exact_pack(&self, tips: &[Oid]) -> Result<Option<PathBuf>, IngestError> {
        let relatives = self.open_relatives()?;
        let sources = self.sources(&relatives);
        let needed = sources.need(tips, |oid| self.own.contains(oid), &self.cancel)?;
        if needed.objects == 0 {
            return Ok(None);
        }
        let index = packing::write(self.folder.path(), &needed, &sources)?;
        failpoint::pass("ingest.packed");
        Ok(Some(index))
    }

    fn open_relatives(&self) -> Result<Vec<Objects>, Error> {
        self.relatives.iter().map(Objects::open).collect()
    }

    /// Where objects are that the repository does not have yet.
    fn sources<'a>(&self, relatives: &'a [Objects]) -> Sources<'a> {
        let stores = relatives.iter().map(Objects::store).collect();
        Sources::new(self.pack.as_ref(), stores)
    }
}

/// Takes the bytes of a pack: into memory, and from a certain size on into a child that indexes them.
struct Intake<'a> {
    folder: Folder,
    lease: &'a Lease,
    extra: &'a [Lease],
    limits: &'a PackLimits,
    state: State,
}

enum State {
    Memory(Vec<u8>),
    Large(Large),
}

impl Sink for Intake<'_> {
    fn take(&mut self, bytes: &[u8], seen: &Scanned) -> Result<(), IngestError> {
        self.folder.grow(bytes.len() as u64)?;
        match &mut self.state {
            State::Memory(held)
                if held.len() + bytes.len() <= SMALL_BYTES
                    && seen.expanded <= SMALL_EXPANDED_BYTES =>
            {
                held.extend_from_slice(bytes);
                Ok(())
            }
            State::Memory(held) => {
                let held = std::mem::take(held);
                let mut large = Large::start(&self.folder, self.lease, self.extra, self.limits)?;
                let fed = large.feed(&held).and_then(|()| large.feed(bytes));
                self.state = State::Large(large);
                fed
            }
            State::Large(large) => large.feed(bytes),
        }
    }
}

/// Whether the scanner takes a pack, which is read to its end and kept nowhere: for whoever only wants the
/// judgement, such as a fuzzer.
pub fn scan_pack(pack: &mut dyn Read, limits: &PackLimits) -> Result<(), IngestError> {
    struct Nowhere;
    impl Sink for Nowhere {
        fn take(&mut self, _bytes: &[u8], _seen: &Scanned) -> Result<(), IngestError> {
            Ok(())
        }
    }
    scan(pack, &mut Nowhere, limits, &AtomicBool::new(false)).map(drop)
}

#[cfg(test)]
mod tests;
