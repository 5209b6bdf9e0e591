//! Brings tips that one repository of a family has into another.
//!
//! A maintainer pushes once, and every repository of the group shows it. Where a whole pack is just what is
//! needed it is hard-linked, so that the family shares its bytes and yet each repository stands alone: a
//! link outlives the repository it came from. Otherwise what is needed is packed anew, so that nothing
//! else, say an upload that nobody has signed for, comes along (PUSH-18).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use grasp_core::failpoint;
use grasp_core::oid::Oid;

use crate::error::Error;
use crate::ingest::{Folder, IngestError, Installed, PackLimits, closure, install};
use crate::objects::{Objects, Pack, from_gix};
use crate::packing::{self, Needed, Sources};
use crate::repository::{Lease, Repositories};

/// From this size on a pack is looked through in its own order first, which is faster than a walk.
const LARGE_OBJECTS: u32 = 1000;

/// Makes `tips` complete in the repository of `to`, with what the repositories of `from` have. The
/// repository is not touched unless all of it is there: then [`Error::Incomplete`].
///
/// Blocks.
pub fn propagate(
    repositories: &Repositories,
    to: &Lease,
    from: &[Lease],
    tips: &[Oid],
) -> Result<Installed, Error> {
    let own = Objects::open(to)?;
    let missing: Vec<Oid> = tips
        .iter()
        .filter(|tip| !own.contains(tip))
        .copied()
        .collect();
    let installed = if missing.is_empty() {
        Installed::default()
    } else {
        bring(repositories, to, &own, from, &missing)?
    };
    to.remember_complete(tips.iter().copied());
    Ok(installed)
}

fn bring(
    repositories: &Repositories,
    to: &Lease,
    own: &Objects,
    from: &[Lease],
    tips: &[Oid],
) -> Result<Installed, Error> {
    let relatives = from.iter().map(Objects::open);
    let relatives: Vec<Objects> = relatives.collect::<Result<_, Error>>()?;
    let sources = Sources::new(None, relatives.iter().map(Objects::store).collect());
    if let Some(pack) = whole_pack(&sources, own, tips)
        && let Some(installed) = link(&[pack], to)
    {
        return Ok(installed);
    }
    let never = AtomicBool::new(false);
    let needed = sources
        .need(tips, |oid| own.contains(oid), &never)
        .map_err(as_error)?;
    if let Some(packs) = linkable(&needed, own)
        && let Some(installed) = link(&packs, to)
    {
        return Ok(installed);
    }
    let folder = Folder::create(repositories)?;
    let index = packing::write(folder.path(), &needed, &sources)?;
    failpoint::pass("propagate:packed");
    let bytes = install(&[index], to)?;
    Ok(Installed {
        objects: u64::from(needed.objects),
        bytes,
    })
}

/// A large pack that has all the tips, and nothing else than what they need.
fn whole_pack(sources: &Sources<'_>, own: &Objects, tips: &[Oid]) -> Option<Arc<Pack>> {
    let has_tips = |pack: &&Arc<Pack>| {
        pack.index.num_objects() >= LARGE_OBJECTS
            && tips.iter().all(|tip| pack.offset_of(tip).is_some())
    };
    let pack = sources.packs().iter().find(has_tips)?;
    let never = AtomicBool::new(false);
    // What this refuses, for whatever reason, the walk judges anew.
    let closure = closure::check(pack, own.store(), &PackLimits::default(), &never).ok()?;
    let count = pack.index.num_objects();
    closure
        .is_needed_whole(pack, own.store(), tips, count)
        .then(|| Arc::clone(pack))
}

/// The packs that hold what is needed, if they hold nothing that is not: every other object in them must be
/// here already, and be the smaller part.
fn linkable(needed: &Needed, own: &Objects) -> Option<Vec<Arc<Pack>>> {
    if !needed.loose.is_empty() {
        return None;
    }
    let mut packs = Vec::new();
    for (pack, marks) in &needed.packs {
        let count = marks.iter().filter(|mark| **mark).count();
        if count == 0 {
            continue;
        }
        let is_here = |entry| own.contains(&from_gix(pack.index.oid_at_index(entry)));
        let rest_is_here = (0..)
            .zip(marks)
            .filter(|(_, mark)| !**mark)
            .all(|(entry, _)| is_here(entry));
        if count * 2 < marks.len() || !rest_is_here {
            return None;
        }
        packs.push(Arc::clone(pack));
    }
    Some(packs)
}

/// Links packs into the repository of `to`. `None` if that cannot be done, whatever the reason: they may
/// have been moved, or lie on another file system. Nothing is left of a try.
fn link(packs: &[Arc<Pack>], to: &Lease) -> Option<Installed> {
    let indexes: Vec<PathBuf> = packs
        .iter()
        .map(|pack| pack.path().with_extension("idx"))
        .collect();
    let objects = packs
        .iter()
        .map(|pack| u64::from(pack.index.num_objects()))
        .sum();
    match install(&indexes, to) {
        Ok(bytes) => Some(Installed { objects, bytes }),
        Err(error) => {
            tracing::debug!(%error, repo = %to.address(), "packs are copied, as they cannot be linked");
            None
        }
    }
}

fn as_error(error: IngestError) -> Error {
    match error {
        IngestError::Store(error) => error,
        IngestError::Missing { missing, .. } => Error::Incomplete {
            missing: vec![missing],
        },
        IngestError::Harmful { oid, finding } => Error::Damaged {
            oid,
            problem: finding.to_owned(),
        },
        other => Error::Damaged {
            oid: Oid::ZERO,
            problem: other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests;
