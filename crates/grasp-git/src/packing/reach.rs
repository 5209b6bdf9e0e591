//! The walk from tips through several sources of objects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use grasp_core::oid::Oid;

use crate::error::Error;
use crate::ingest::IngestError;
use crate::objects::{EMPTY_TREE, ObjectKind, Pack, Store, decode, links, to_gix};

/// Decoded bases of deltas that a walk keeps.
const DELTA_CACHE_BYTES: usize = 32 << 20;

/// Where a walk finds objects, first match first.
pub(crate) struct Sources<'a> {
    packs: Vec<Arc<Pack>>,
    /// For objects that lie in no pack.
    stores: Vec<&'a Store>,
}

/// What tips need that is not there yet.
#[derive(Default)]
pub(crate) struct Needed {
    /// Each source pack, with a mark for every object of it (by its place in the index) that is needed.
    pub(crate) packs: Vec<(Arc<Pack>, Vec<bool>)>,
    /// Needed objects that lie in no pack.
    pub(crate) loose: BTreeSet<Oid>,
    /// How many objects that is.
    pub(crate) objects: u32,
}

enum Place {
    Packed { pack: usize, entry: u32 },
    Loose,
}

impl<'a> Sources<'a> {
    /// `first`, a pack of its own, then everything in `stores`.
    pub(crate) fn new(first: Option<&Arc<Pack>>, stores: Vec<&'a Store>) -> Self {
        let packs = first.cloned().into_iter();
        let packs = packs.chain(stores.iter().flat_map(|store| store.packs()));
        Self {
            packs: packs.collect(),
            stores,
        }
    }

    /// Has `packs` searched after all others.
    pub(crate) fn ask_last(&mut self, packs: &[Arc<Pack>]) {
        let is_last = |pack: &Arc<Pack>| packs.iter().any(|last| Arc::ptr_eq(last, pack));
        self.packs.sort_by_key(is_last);
    }

    /// The packs, in the order they are searched.
    pub(crate) fn packs(&self) -> &[Arc<Pack>] {
        &self.packs
    }

    /// Walks from `tips`, not past what `present` says is complete where the objects shall go.
    pub(crate) fn need(
        &self,
        tips: &[Oid],
        mut present: impl FnMut(&Oid) -> bool,
        cancel: &AtomicBool,
    ) -> Result<Needed, IngestError> {
        let mut needed = Needed {
            packs: self
                .packs
                .iter()
                .map(|pack| {
                    (
                        Arc::clone(pack),
                        vec![false; pack.index.num_objects() as usize],
                    )
                })
                .collect(),
            loose: BTreeSet::new(),
            objects: 0,
        };
        let mut cache = gix_pack::cache::lru::MemoryCappedHashmap::new(DELTA_CACHE_BYTES);
        let mut inflate = gix_zlib::Inflate::default();
        let mut buffer = Vec::new();
        let mut stack: Vec<(Oid, Option<Oid>)> = tips.iter().map(|tip| (*tip, None)).collect();

        while let Some((oid, by)) = stack.pop() {
            if cancel.load(Ordering::Relaxed) {
                return Err(IngestError::Interrupted);
            }
            let place = self.place(&oid);
            if place.as_ref().is_some_and(|place| needed.has(place, &oid))
                || oid == EMPTY_TREE
                || present(&oid)
            {
                continue;
            }
            let Some(place) = place else {
                return Err(IngestError::Missing { missing: oid, by });
            };
            let kind = match &place {
                Place::Packed { pack, entry } => {
                    let pack = &self.packs[*pack];
                    let offset = pack.index.pack_offset_at_index(*entry);
                    decode(pack, offset, &mut buffer, &mut inflate, &mut cache)?
                }
                Place::Loose => self.read_loose(&oid, &mut buffer)?,
            };
            needed.add(&place, oid);
            let broken = links(kind, &buffer, |link| {
                // Blobs lead nowhere: note them without reading them.
                if link.kind == Some(ObjectKind::Blob)
                    && self.note_blob(&mut needed, &link.oid, &mut present)
                {
                    return;
                }
                stack.push((link.oid, Some(oid)));
            });
            broken.map_err(|finding| IngestError::Harmful { oid, finding })?;
        }
        Ok(needed)
    }

    /// Whether a walk before has found this object to be needed.
    pub(crate) fn covers(&self, needed: &Needed, oid: &Oid) -> bool {
        let place = self.place(oid);
        place.is_some_and(|place| needed.has(&place, oid))
    }

    /// Reads an object; `None` if it is nowhere.
    pub(crate) fn read(
        &self,
        oid: &Oid,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<ObjectKind>, Error> {
        match self.place(oid) {
            None => Ok(None),
            Some(Place::Loose) => self.read_loose(oid, buffer).map(Some),
            Some(Place::Packed { pack, entry }) => {
                let pack = &self.packs[pack];
                let offset = pack.index.pack_offset_at_index(entry);
                let mut inflate = gix_zlib::Inflate::default();
                let mut cache = gix_pack::cache::Never;
                decode(pack, offset, buffer, &mut inflate, &mut cache).map(Some)
            }
        }
    }

    /// Takes a blob along without reading it; `false` if it is not found here.
    fn note_blob(
        &self,
        needed: &mut Needed,
        oid: &Oid,
        present: &mut impl FnMut(&Oid) -> bool,
    ) -> bool {
        let Some(place) = self.place(oid) else {
            return false;
        };
        if !needed.has(&place, oid) && !present(oid) {
            needed.add(&place, *oid);
        }
        true
    }

    fn place(&self, oid: &Oid) -> Option<Place> {
        let packed = self.packs.iter().enumerate().find_map(|(pack, file)| {
            let entry = file.index.lookup(to_gix(oid))?;
            Some(Place::Packed { pack, entry })
        });
        packed.or_else(|| {
            let loose = self.stores.iter().any(|store| store.has_loose(oid));
            loose.then_some(Place::Loose)
        })
    }

    fn read_loose(&self, oid: &Oid, buffer: &mut Vec<u8>) -> Result<ObjectKind, Error> {
        for store in &self.stores {
            if let Some(kind) = store.read(oid, buffer)? {
                return Ok(kind);
            }
        }
        Err(Error::Damaged {
            oid: *oid,
            problem: "it vanished".to_owned(),
        })
    }

    /// Reads a needed object that lies in no pack.
    pub(crate) fn loose(&self, oid: &Oid, buffer: &mut Vec<u8>) -> Result<ObjectKind, Error> {
        self.read_loose(oid, buffer)
    }
}

impl Needed {
    /// Whether it is this pack, all of it and nothing else.
    pub(crate) fn is_exactly(&self, pack: &Arc<Pack>) -> bool {
        let whole = |(one, marks): &(Arc<Pack>, Vec<bool>)| {
            let wanted = Arc::ptr_eq(one, pack);
            marks.iter().all(|mark| *mark == wanted)
        };
        self.loose.is_empty() && self.packs.iter().all(whole)
    }

    /// Adds what another walk through the same sources found.
    pub(crate) fn merge(&mut self, other: Self) {
        if self.packs.is_empty() {
            *self = other;
            return;
        }
        for ((_, marks), (_, more)) in self.packs.iter_mut().zip(other.packs) {
            for (mark, new) in marks.iter_mut().zip(more) {
                *mark |= new;
            }
        }
        self.loose.extend(other.loose);
        self.objects += other.objects;
    }

    fn has(&self, place: &Place, oid: &Oid) -> bool {
        match place {
            Place::Packed { pack, entry } => {
                let marks = self.packs.get(*pack);
                marks.is_some_and(|(_, marks)| marks[*entry as usize])
            }
            Place::Loose => self.loose.contains(oid),
        }
    }

    fn add(&mut self, place: &Place, oid: Oid) {
        match place {
            Place::Packed { pack, entry } => self.packs[*pack].1[*entry as usize] = true,
            Place::Loose => {
                self.loose.insert(oid);
            }
        }
        self.objects += 1;
    }
}
