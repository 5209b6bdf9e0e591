//! The packs and loose objects of one `objects/` folder.
//!
//! A folder that gets a pack while it is read is looked at again on the first miss. Alternates are not
//! followed: a repository is what it holds itself.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gix_hash::Kind::Sha1;
use gix_pack::cache::DecodeEntry;
use gix_pack::cache::lru::MemoryCappedHashmap;
use gix_pack::data::decode::{entry::ResolvedBase, header};
use grasp_core::oid::Oid;

use super::{EMPTY_TREE, ObjectKind};
use crate::error::{Attempt, Error};
use crate::repository::Lease;

/// Decoded bases of deltas that one reader keeps.
const DELTA_CACHE_BYTES: usize = 16 << 20;

/// A folder changed less than this before it was listed may have changed again without a new time stamp.
const CLOCK_STEP: Duration = Duration::from_millis(100);

/// One pack with its index.
pub(crate) struct Pack {
    pub(crate) index: gix_pack::index::File,
    data: gix_pack::data::File,
    path: PathBuf,
}

/// Where an object lies.
#[derive(Clone)]
pub(crate) enum Location {
    /// In a pack, at an offset.
    Packed { pack: Arc<Pack>, offset: u64 },
    /// In a file of its own.
    Loose,
}

/// Reads the `objects/` folder of a leased repository, wherever it lies by now.
pub(crate) struct Store {
    lease: Lease,
    packs: RefCell<Packs>,
    decoder: RefCell<Decoder>,
}

#[derive(Default)]
struct Packs {
    list: Vec<Arc<Pack>>,
    /// The folder's time stamp when it was listed; `None` if it may be older than its content.
    listed: Option<SystemTime>,
}

struct Decoder {
    inflate: gix_zlib::Inflate,
    cache: Option<MemoryCappedHashmap>,
}

impl Pack {
    /// Opens the pack of the index at `path`. Both files are mapped, so that they may move or vanish later.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        Self::open_limited(path, None)
    }

    /// The same, for a pack nobody has judged: reading an object fails if that takes more memory than
    /// `limit` for one piece.
    pub(crate) fn open_limited(path: &Path, limit: Option<usize>) -> Result<Self, Error> {
        let failed = |path: &Path, error: &dyn ToString| Error::Pack {
            path: path.to_owned(),
            problem: error.to_string(),
        };
        let data_path = path.with_extension("pack");
        let index = gix_pack::index::File::at(path, Sha1).map_err(|error| failed(path, &error))?;
        let data = gix_pack::data::File::at(&data_path, Sha1)
            .map_err(|error| failed(&data_path, &error))?;
        Ok(Self {
            index,
            data: data.with_alloc_limit_bytes(limit),
            path: data_path,
        })
    }

    /// Its name, without ending.
    pub(crate) fn name(&self) -> String {
        let name = self.path.file_stem().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The pack file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The content of the pack.
    pub(crate) fn data(&self) -> &gix_pack::data::File {
        &self.data
    }

    /// Where the pack has an object.
    pub(crate) fn offset_of(&self, oid: &Oid) -> Option<u64> {
        let at = self.index.lookup(to_gix(oid))?;
        Some(self.index.pack_offset_at_index(at))
    }

    /// The entry at an offset that the index gave.
    pub(crate) fn entry(&self, offset: u64) -> Result<gix_pack::data::Entry, Error> {
        self.data.entry(offset).map_err(|error| Error::Pack {
            path: self.path.clone(),
            problem: error.to_string(),
        })
    }
}

impl fmt::Debug for Pack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Pack").field(&self.path).finish()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Store").field(&self.lease.path()).finish()
    }
}

impl Store {
    pub(crate) fn open(lease: &Lease) -> Result<Self, Error> {
        let store = Self {
            lease: lease.clone(),
            packs: RefCell::default(),
            decoder: RefCell::new(Decoder {
                inflate: gix_zlib::Inflate::default(),
                cache: None,
            }),
        };
        store.list()?;
        Ok(store)
    }

    /// Whether the object lies in a file of its own.
    pub(crate) fn has_loose(&self, oid: &Oid) -> bool {
        self.loose().contains(to_gix(oid))
    }

    fn loose(&self) -> gix_odb::loose::Store {
        gix_odb::loose::Store::at(self.lease.path().join("objects"), Sha1)
    }

    /// The packs as last listed.
    pub(crate) fn packs(&self) -> Vec<Arc<Pack>> {
        self.packs.borrow().list.clone()
    }

    pub(crate) fn contains(&self, oid: &Oid) -> bool {
        *oid == EMPTY_TREE || self.locate(oid).is_some()
    }

    /// Where the object is; looks at the folder again before it says that it is nowhere.
    pub(crate) fn locate(&self, oid: &Oid) -> Option<Location> {
        self.locate_listed(oid).or_else(|| {
            let again = self.list_if_changed().unwrap_or_else(|error| {
                tracing::warn!(%error, "a folder of packs cannot be read");
                false
            });
            again.then(|| self.locate_listed(oid)).flatten()
        })
    }

    fn locate_listed(&self, oid: &Oid) -> Option<Location> {
        let packs = self.packs.borrow();
        let packed = packs.list.iter().find_map(|pack| {
            let offset = pack.offset_of(oid)?;
            let pack = Arc::clone(pack);
            Some(Location::Packed { pack, offset })
        });
        packed.or_else(|| {
            self.loose()
                .contains(to_gix(oid))
                .then_some(Location::Loose)
        })
    }

    /// What the object is; `None` if it is not here.
    pub(crate) fn kind(&self, oid: &Oid) -> Result<Option<ObjectKind>, Error> {
        match self.locate(oid) {
            Some(Location::Packed { pack, offset }) => self.kind_in(&pack, offset).map(Some),
            Some(Location::Loose) => self
                .loose()
                .try_header(to_gix(oid))
                .map(|header| header.map(|(_, kind)| kind.into()))
                .map_err(|error| damaged(oid, &error)),
            None => Ok((*oid == EMPTY_TREE).then_some(ObjectKind::Tree)),
        }
    }

    /// What the object is and how large; `None` if it is not here.
    pub(crate) fn header(&self, oid: &Oid) -> Result<Option<(ObjectKind, u64)>, Error> {
        match self.locate(oid) {
            Some(Location::Packed { pack, offset }) => self.header_in(&pack, offset).map(Some),
            Some(Location::Loose) => self
                .loose()
                .try_header(to_gix(oid))
                .map(|header| header.map(|(size, kind)| (kind.into(), size)))
                .map_err(|error| damaged(oid, &error)),
            None => Ok((*oid == EMPTY_TREE).then_some((ObjectKind::Tree, 0))),
        }
    }

    fn kind_in(&self, pack: &Pack, offset: u64) -> Result<ObjectKind, Error> {
        self.header_in(pack, offset).map(|(kind, _)| kind)
    }

    fn header_in(&self, pack: &Pack, offset: u64) -> Result<(ObjectKind, u64), Error> {
        let mut decoder = self.decoder.borrow_mut();
        let resolve = |id: &gix_hash::oid| {
            let entry = pack
                .index
                .lookup(id)
                .map(|at| pack.index.pack_offset_at_index(at));
            let entry = entry.and_then(|offset| pack.data.entry(offset).ok());
            Ok(entry.map(header::ResolvedBase::InPack))
        };
        pack.data
            .decode_header(pack.entry(offset)?, &mut decoder.inflate, &resolve)
            .map(|outcome| (outcome.kind.into(), outcome.object_size))
            .map_err(|error| Error::Pack {
                path: pack.path.clone(),
                problem: error.to_string(),
            })
    }

    /// Reads the object into `out`; `None` if it is not here.
    pub(crate) fn read(&self, oid: &Oid, out: &mut Vec<u8>) -> Result<Option<ObjectKind>, Error> {
        match self.locate(oid) {
            Some(Location::Packed { pack, offset }) => self.read_in(&pack, offset, out).map(Some),
            Some(Location::Loose) => {
                let loose = self.loose();
                let found = loose.try_find(to_gix(oid), out);
                let kind = found
                    .map_err(|error| damaged(oid, &error))?
                    .map(|object| object.kind.into());
                Ok(kind)
            }
            None if *oid == EMPTY_TREE => {
                out.clear();
                Ok(Some(ObjectKind::Tree))
            }
            None => Ok(None),
        }
    }

    /// Reads the object at an offset of a pack.
    pub(crate) fn read_in(
        &self,
        pack: &Pack,
        offset: u64,
        out: &mut Vec<u8>,
    ) -> Result<ObjectKind, Error> {
        let mut decoder = self.decoder.borrow_mut();
        let Decoder { inflate, cache } = &mut *decoder;
        let cache = cache.get_or_insert_with(|| MemoryCappedHashmap::new(DELTA_CACHE_BYTES));
        decode(pack, offset, out, inflate, cache)
    }

    fn pack_folder(&self) -> PathBuf {
        self.lease.path().join("objects/pack")
    }

    fn list_if_changed(&self) -> Result<bool, Error> {
        let changed = fs::metadata(self.pack_folder())
            .and_then(|folder| folder.modified())
            .ok();
        if changed.is_some() && changed == self.packs.borrow().listed {
            return Ok(false);
        }
        self.list()?;
        Ok(true)
    }

    /// Reads which packs there are. Ones that are open already stay as they are.
    fn list(&self) -> Result<(), Error> {
        let folder = self.pack_folder();
        let mut packs = self.packs.borrow_mut();
        let changed = match fs::metadata(&folder).and_then(|folder| folder.modified()) {
            Ok(changed) => changed,
            // Not there yet, or on its way to the trash: what is open stays readable.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).attempt("read", &folder),
        };
        let age = SystemTime::now()
            .duration_since(changed)
            .unwrap_or_default();
        packs.listed = (age > CLOCK_STEP).then_some(changed);

        let mut list = Vec::new();
        for entry in fs::read_dir(&folder).attempt("read", &folder)? {
            let path = entry.attempt("read", &folder)?.path();
            if path.extension() != Some(OsStr::new("idx")) {
                continue;
            }
            let data = path.with_extension("pack");
            match packs.list.iter().find(|pack| pack.path == data) {
                Some(open) => list.push(Arc::clone(open)),
                None => match Pack::open(&path) {
                    Ok(pack) => list.push(Arc::new(pack)),
                    Err(_) if !path.exists() => {}
                    Err(error) => return Err(error),
                },
            }
        }
        packs.list = list;
        Ok(())
    }
}

/// Decodes the object at `offset`, whose bases lie in the same pack, as they do in every pack at rest.
pub(crate) fn decode(
    pack: &Pack,
    offset: u64,
    out: &mut Vec<u8>,
    inflate: &mut gix_zlib::Inflate,
    cache: &mut dyn DecodeEntry,
) -> Result<ObjectKind, Error> {
    let resolve = |id: &gix_hash::oid, _: &mut Vec<u8>| {
        let entry = pack
            .index
            .lookup(id)
            .map(|at| pack.index.pack_offset_at_index(at));
        let entry = entry.and_then(|offset| pack.data.entry(offset).ok());
        Ok(entry.map(ResolvedBase::InPack))
    };
    out.clear();
    pack.data
        .decode_entry(pack.entry(offset)?, out, inflate, &resolve, cache)
        .map(|outcome| outcome.kind.into())
        .map_err(|error| {
            let path = pack.path.clone();
            if error.is_resource_exhausted() {
                return Error::Memory { path };
            }
            let problem = error.to_string();
            Error::Pack { path, problem }
        })
}

/// Our name of an object as the library's.
pub(crate) fn to_gix(oid: &Oid) -> &gix_hash::oid {
    gix_hash::oid::from_bytes_unchecked(oid.as_bytes())
}

/// The library's name of an object as ours.
pub(crate) fn from_gix(oid: &gix_hash::oid) -> Oid {
    let mut bytes = [0; 20];
    bytes.copy_from_slice(&oid.as_bytes()[..20]);
    Oid::from_bytes(bytes)
}

fn damaged(oid: &Oid, problem: &impl ToString) -> Error {
    Error::Damaged {
        oid: *oid,
        problem: problem.to_string(),
    }
}
