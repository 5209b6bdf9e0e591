//! Indexes a pack that is held in memory, without a process.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use gix_hash::Kind::Sha1;
use gix_pack::bundle::write::Options;
use gix_pack::data::input::Mode;
use gix_utils::progress::Discard;
use grasp_core::oid::Oid;

use super::limits::{IngestError, NO_SPACE, PackLimits};
use super::quarantine::Folder;
use super::scanner::Scanned;
use crate::error::Error;
use crate::objects::{ObjectKind, Objects, Pack, from_gix};
use crate::repository::Lease;

/// What came of it.
pub(super) enum Indexed {
    /// The index; the pack lies beside it.
    Whole(PathBuf),
    /// A base was added that the pack has itself.
    Undecided,
}

/// Writes pack and index into `folder`. Bases that a thin pack lacks are added from the repository and
/// its relatives.
pub(super) fn index(
    folder: &Folder,
    lease: &Lease,
    extra: &[Lease],
    pack: &[u8],
    scanned: Scanned,
    limits: &PackLimits,
    cancel: &AtomicBool,
) -> Result<Indexed, IngestError> {
    check_sum(pack)?;
    let options = Options {
        thread_limit: Some(1),
        iteration_mode: Mode::AsIs,
        alloc_limit_bytes: Some(usize::try_from(limits.object_bytes).unwrap_or(usize::MAX)),
        ..Options::default()
    };
    let bases = if scanned.named_bases > 0 {
        let stores = std::iter::once(lease).chain(extra).map(Objects::open);
        Some(Bases(stores.collect::<Result<_, Error>>()?))
    } else {
        None
    };
    let outcome = gix_pack::Bundle::write_to_directory(
        &mut &*pack,
        Some(folder.path()),
        &mut Discard,
        cancel,
        bases,
        Sha1,
        options,
    );
    let outcome = outcome.map_err(|error| {
        if cancel.load(Ordering::Relaxed) {
            IngestError::Interrupted
        } else if format!("{error:?}").contains(NO_SPACE) {
            IngestError::no_space(folder.path())
        } else {
            let text = error.to_string();
            IngestError::Malformed(text.lines().next().unwrap_or_default().to_owned())
        }
    })?;
    let path = outcome
        .index_path
        .ok_or_else(|| IngestError::Malformed("it has no objects".to_owned()))?;
    match doubled(&Pack::open(&path)?) {
        None => Ok(Indexed::Whole(path)),
        Some(_) if scanned.named_bases > 0 => Ok(Indexed::Undecided),
        Some(oid) => Err(IngestError::Twice(oid)),
    }
}

/// Whether the pack ends with the sum of what is before.
fn check_sum(pack: &[u8]) -> Result<(), IngestError> {
    let (content, sum) = pack.split_at(pack.len().saturating_sub(20));
    let mut hasher = gix_hash::hasher(Sha1);
    hasher.update(content);
    match hasher.try_finalize() {
        Ok(expected) if expected.as_slice() == sum => Ok(()),
        _ => Err(IngestError::Checksum),
    }
}

/// An object that stands more than once in the index.
pub(super) fn doubled(pack: &Pack) -> Option<Oid> {
    let oid = |entry| pack.index.oid_at_index(entry);
    (1..pack.index.num_objects())
        .find(|entry| oid(entry - 1) == oid(*entry))
        .map(|entry| from_gix(oid(entry)))
}

/// Looks for bases in several repositories.
struct Bases(Vec<Objects>);

impl gix_object::Find for Bases {
    fn try_find<'a>(
        &self,
        id: &gix_hash::oid,
        buffer: &'a mut Vec<u8>,
    ) -> gix_error::Result<Option<gix_object::Data<'a>>> {
        let oid = from_gix(id);
        for objects in &self.0 {
            let found = objects.store().read(&oid, buffer);
            let found = found.map_err(gix_error::ErrorExt::raise)?;
            if let Some(kind) = found {
                return Ok(Some(gix_object::Data::new(buffer, to_gix_kind(kind), Sha1)));
            }
        }
        Ok(None)
    }
}

fn to_gix_kind(kind: ObjectKind) -> gix_object::Kind {
    match kind {
        ObjectKind::Commit => gix_object::Kind::Commit,
        ObjectKind::Tree => gix_object::Kind::Tree,
        ObjectKind::Blob => gix_object::Kind::Blob,
        ObjectKind::Tag => gix_object::Kind::Tag,
    }
}
