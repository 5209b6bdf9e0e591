//! One pass over a new pack, in the order it was written.
//!
//! It decodes each commit, tree and tag once, checks it (GIT-11), and notes what it names. Blobs are passed
//! over by their headers. Deltas follow their bases in a pack, so a small cache serves; a walk from the
//! tips would decode the same chains again and again, ten times slower.
//!
//! *Why the pass proves completeness:* objects name objects by their hashes, so they form no cycle. If every
//! object but the tips is named by another one of the pack, the way back from each ends at a tip; so all
//! are needed, and if nothing named is missing, all that is needed is there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use gix_pack::cache::lru::MemoryCappedHashmap;
use gix_pack::data::entry::Header;
use grasp_core::oid::Oid;

use super::limits::{DELTA_DEPTH_MAX, IngestError, PackLimits, STRUCTURE_BYTES};
use crate::error::Error;
use crate::objects::{
    ObjectKind, Pack, Store, Suspects, check_gitmodules, check_object, decode, from_gix, links,
    to_gix,
};

const DELTA_CACHE_BYTES: usize = 32 << 20;

/// What the objects of a pack name.
#[derive(Debug, Default)]
pub(crate) struct Closure {
    /// By place in the index: whether another object of the pack names it.
    named: Vec<bool>,
    /// Something named is neither in the pack nor in the repository.
    has_holes: bool,
}

impl Closure {
    /// Whether the pack is exactly what `tips` need. Bases that were added to a thin pack may be left
    /// over, if the repository has them anyway.
    pub(crate) fn is_needed_whole(
        &self,
        pack: &Pack,
        own: &Store,
        tips: &[Oid],
        sent: u32,
    ) -> bool {
        if self.has_holes {
            return false;
        }
        let entry = |oid: &Oid| pack.index.lookup(to_gix(oid));
        if !tips
            .iter()
            .all(|tip| entry(tip).is_some() || own.contains(tip))
        {
            return false;
        }
        let tips: BTreeSet<u32> = tips.iter().filter_map(entry).collect();
        let mut bases_left = pack.index.num_objects().saturating_sub(sent);
        (0..pack.index.num_objects()).all(|entry| {
            let needed = self.named[entry as usize] || tips.contains(&entry);
            needed || {
                let is_base =
                    bases_left > 0 && own.contains(&from_gix(pack.index.oid_at_index(entry)));
                bases_left = bases_left.saturating_sub(1);
                is_base
            }
        })
    }
}

/// Checks every object of `pack`. `own` are the objects it is to join.
pub(crate) fn check(
    pack: &Pack,
    own: &Store,
    limits: &PackLimits,
    cancel: &AtomicBool,
) -> Result<Closure, IngestError> {
    let layout = Layout::read(pack)?;
    let mut closure = Closure {
        named: vec![false; layout.offsets.len()],
        has_holes: false,
    };
    let mut cache = MemoryCappedHashmap::new(DELTA_CACHE_BYTES);
    let mut inflate = gix_zlib::Inflate::default();
    let mut buffer = Vec::new();
    let mut suspects = Suspects::new();

    for nth in 0..layout.offsets.len() {
        if nth % 256 == 0 && cancel.load(Ordering::Relaxed) {
            return Err(IngestError::Interrupted);
        }
        if layout.kinds[nth] == ObjectKind::Blob {
            continue;
        }
        let (offset, entry) = layout.offsets[nth];
        let kind = decode(pack, offset, &mut buffer, &mut inflate, &mut cache)
            .map_err(|error| unreadable(pack, entry, error))?;
        let harmful = |finding| IngestError::Harmful {
            oid: from_gix(pack.index.oid_at_index(entry)),
            finding,
        };
        check_object(kind, &buffer, &mut suspects).map_err(harmful)?;
        let mut wrong_kind = false;
        links(kind, &buffer, |link| {
            let there = match pack.index.lookup(to_gix(&link.oid)) {
                Some(entry) => {
                    closure.named[entry as usize] = true;
                    Some(layout.kinds[layout.order[entry as usize] as usize])
                }
                None => own.kind(&link.oid).ok().flatten(),
            };
            closure.has_holes |= there.is_none();
            wrong_kind |= link.kind.is_some() && there.is_some() && there != link.kind;
        })
        .map_err(harmful)?;
        if wrong_kind {
            return Err(harmful("it names an object as what it is not"));
        }
    }
    check_suspects(pack, own, &suspects, limits, &mut buffer)?;
    Ok(closure)
}

/// Says of an object that may not be read whole what it is.
fn unreadable(pack: &Pack, entry: u32, error: Error) -> IngestError {
    match error {
        Error::Memory { .. } => IngestError::StructureTooLarge {
            oid: from_gix(pack.index.oid_at_index(entry)),
            limit: STRUCTURE_BYTES,
        },
        error => error.into(),
    }
}

/// Reads the `.gitmodules` files of all trees seen, wherever they lie.
fn check_suspects(
    pack: &Pack,
    own: &Store,
    suspects: &Suspects,
    limits: &PackLimits,
    buffer: &mut Vec<u8>,
) -> Result<(), IngestError> {
    let mut inflate = gix_zlib::Inflate::default();
    let mut bytes = 0_u64;
    for oid in suspects {
        let found = match pack.offset_of(oid) {
            Some(offset) => {
                let mut cache = gix_pack::cache::Never;
                let read = decode(pack, offset, buffer, &mut inflate, &mut cache);
                let entry = pack.index.lookup(to_gix(oid)).unwrap_or_default();
                Some(read.map_err(|error| unreadable(pack, entry, error))?)
            }
            None => own.read(oid, buffer)?,
        };
        if found == Some(ObjectKind::Blob) {
            check_gitmodules(buffer)
                .map_err(|finding| IngestError::Harmful { oid: *oid, finding })?;
        }
        bytes = bytes.saturating_add(buffer.len() as u64);
        if bytes > limits.inflated_bytes {
            let limit = limits.inflated_bytes;
            return Err(IngestError::InflatedTooLarge { limit });
        }
    }
    Ok(())
}

/// How a pack is laid out: found from the entry headers alone.
struct Layout {
    /// Offset and place in the index, by offset.
    offsets: Vec<(u64, u32)>,
    /// From the place in the index to the place by offset.
    order: Vec<u32>,
    /// What each object is, by offset.
    kinds: Vec<ObjectKind>,
}

impl Layout {
    fn read(pack: &Pack) -> Result<Self, IngestError> {
        let count = pack.index.num_objects();
        let mut offsets: Vec<(u64, u32)> = (0..count)
            .map(|entry| (pack.index.pack_offset_at_index(entry), entry))
            .collect();
        offsets.sort_unstable();
        let mut order = vec![0; offsets.len()];
        for (nth, (_, entry)) in (0..).zip(&offsets) {
            order[*entry as usize] = nth;
        }
        let kinds = kinds(pack, &offsets, &order)?;
        Ok(Self {
            offsets,
            order,
            kinds,
        })
    }
}

/// Follows each chain of deltas to the object at its end; no chain may be too deep.
fn kinds(
    pack: &Pack,
    offsets: &[(u64, u32)],
    order: &[u32],
) -> Result<Vec<ObjectKind>, IngestError> {
    let broken = || IngestError::Malformed("a delta has no base".to_owned());
    let mut known: Vec<Option<(ObjectKind, u16)>> = vec![None; offsets.len()];
    let mut chain = Vec::new();
    for start in 0..offsets.len() {
        let mut at = start;
        let (kind, mut depth) = loop {
            if let Some(found) = known[at] {
                break found;
            }
            let (offset, _) = offsets[at];
            match pack.entry(offset)?.header {
                Header::Commit => break (ObjectKind::Commit, 0),
                Header::Tree => break (ObjectKind::Tree, 0),
                Header::Blob => break (ObjectKind::Blob, 0),
                Header::Tag => break (ObjectKind::Tag, 0),
                Header::OfsDelta { base_distance } => {
                    let base = offset.checked_sub(base_distance).ok_or_else(broken)?;
                    chain.push(at);
                    at = offsets
                        .binary_search_by_key(&base, |(offset, _)| *offset)
                        .map_err(|_| broken())?;
                }
                Header::RefDelta { base_id } => {
                    chain.push(at);
                    let entry = pack.index.lookup(base_id).ok_or_else(broken)?;
                    at = order[entry as usize] as usize;
                }
            }
            if chain.len() > usize::from(DELTA_DEPTH_MAX) {
                let limit = DELTA_DEPTH_MAX;
                return Err(IngestError::DeltaTooDeep { limit });
            }
        };
        known[at] = Some((kind, depth));
        while let Some(delta) = chain.pop() {
            depth += 1;
            if depth > DELTA_DEPTH_MAX {
                let limit = DELTA_DEPTH_MAX;
                return Err(IngestError::DeltaTooDeep { limit });
            }
            known[delta] = Some((kind, depth));
        }
    }
    let kinds = known.into_iter().map(|known| known.map(|(kind, _)| kind));
    kinds.collect::<Option<_>>().ok_or_else(broken)
}
