//! Brings tips that one repository of a family has into another.
//!
//! A maintainer pushes once, and every repository of the group shows it. Where a whole pack is just what is
//! needed it is hard-linked, so that the family shares its bytes and yet each repository stands alone: a
//! link outlives the repository it came from. Otherwise what is needed is packed anew, so that nothing
//! else, say an upload that nobody has signed for, comes along (PUSH-18).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use grasp_core::failpoint;
use grasp_core::oid::Oid;

use crate::error::Error;
use crate::ingest::{Folder, IngestError, PackLimits, closure, install};
use crate::objects::{Objects, Pack, from_gix};
use crate::packing::{self, Needed, Sources};
use crate::repository::{Lease, Repositories};

/// From this size on a pack is looked through in its own order first, which is faster than a walk.
const LARGE_OBJECTS: u32 = 1000;

/// Makes those of `tips` complete in the repository of `to` that it and the repositories of `from` have
/// together, and returns them. A tip that is not whole anywhere is left out and changes nothing.
///
/// Blocks.
pub fn propagate(
    repositories: &Repositories,
    to: &Lease,
    from: &[Lease],
    tips: &[Oid],
) -> Result<BTreeSet<Oid>, Error> {
    let own = Objects::open(to)?;
    let (mut complete, missing): (BTreeSet<Oid>, BTreeSet<Oid>) =
        tips.iter().partition(|tip| own.contains(tip));
    if !missing.is_empty() {
        complete.extend(bring(repositories, to, &own, from, missing)?);
    }
    to.remember_complete(complete.iter().copied());
    Ok(complete)
}

/// Makes those of `tips` whole in the repository of `to` that it and the repositories of `from` have together, and
/// returns them, although parts of them may be there: [`propagate`] stops at what is present, here nothing is
/// believed, and packs of its own named in `damaged` are asked last. What is needed is packed anew; `before` is called with what is whole, when that is written and not yet
/// installed: a pack that is replaced may have the new one's name. For mending only: it reads
/// everything that the tips reach.
///
/// Blocks.
pub fn refill(
    repositories: &Repositories,
    to: &Lease,
    from: &[Lease],
    tips: &[Oid],
    damaged: &[String],
    before: impl FnOnce(&BTreeSet<Oid>) -> Result<(), Error>,
) -> Result<BTreeSet<Oid>, Error> {
    let own = Objects::open(to)?;
    let relatives = from.iter().map(Objects::open);
    let relatives: Vec<Objects> = relatives.collect::<Result<_, Error>>()?;
    // Theirs first: own ones may be the damage.
    let stores = relatives.iter().chain([&own]).map(Objects::store);
    let mut sources = Sources::new(None, stores.collect());
    let mut last = own.store().packs();
    last.retain(|pack| damaged.contains(&pack.name()));
    sources.ask_last(&last);
    let never = AtomicBool::new(false);
    // An object that cannot be read is a hole like one that is not there.
    let is_whole = |tip: &&Oid| sources.need(&[**tip], |_| false, &never).is_ok();
    let whole: BTreeSet<Oid> = tips.iter().filter(is_whole).copied().collect();
    let together: Vec<Oid> = whole.iter().copied().collect();
    let needed = match sources.need(&together, |_| false, &never) {
        Ok(needed) if needed.objects > 0 => needed,
        Ok(_) => {
            before(&whole)?;
            return Ok(whole);
        }
        Err(IngestError::Store(error)) => return Err(error),
        Err(_) => return Ok(BTreeSet::new()), // gone since it was looked at
    };
    let folder = Folder::create(repositories)?;
    let index = packing::write(folder.path(), &needed, &sources)?;
    before(&whole)?;
    install(&[index], to)?;
    to.remember_complete(whole.iter().copied());
    Ok(whole)
}

/// Brings what can be brought of `tips`, none of which is in `own`.
fn bring(
    repositories: &Repositories,
    to: &Lease,
    own: &Objects,
    from: &[Lease],
    tips: BTreeSet<Oid>,
) -> Result<BTreeSet<Oid>, Error> {
    let relatives = from.iter().map(Objects::open);
    let relatives: Vec<Objects> = relatives.collect::<Result<_, Error>>()?;
    let sources = Sources::new(None, relatives.iter().map(Objects::store).collect());
    if let Some(pack) = whole_pack(&sources, own, &tips)
        && link(&[pack], to)
    {
        return Ok(tips);
    }
    let (tips, needed) = whole_tips(&sources, own, tips)?;
    if needed.objects == 0 {
        return Ok(tips);
    }
    if let Some(packs) = linkable(&needed, own)
        && link(&packs, to)
    {
        return Ok(tips);
    }
    let folder = Folder::create(repositories)?;
    let index = packing::write(folder.path(), &needed, &sources)?;
    failpoint::pass("propagate.packed");
    install(&[index], to)?;
    Ok(tips)
}

/// Those of `tips` that are whole in the sources, and what they need. They are walked together; only if
/// that meets a hole, one by one.
fn whole_tips(
    sources: &Sources<'_>,
    own: &Objects,
    tips: BTreeSet<Oid>,
) -> Result<(BTreeSet<Oid>, Needed), Error> {
    let need = |tips: &[Oid]| {
        let never = AtomicBool::new(false);
        match sources.need(tips, |oid| own.contains(oid), &never) {
            Ok(needed) => Ok(Some(needed)),
            Err(IngestError::Store(error)) => Err(error),
            // A hole, or an object that is none.
            Err(_) => Ok(None),
        }
    };
    let together: Vec<Oid> = tips.iter().copied().collect();
    if let Some(needed) = need(&together)? {
        return Ok((tips, needed));
    }
    let mut whole = BTreeSet::new();
    for tip in tips {
        if need(&[tip])?.is_some() {
            whole.insert(tip);
        }
    }
    let together: Vec<Oid> = whole.iter().copied().collect();
    let needed = need(&together)?.unwrap_or_default();
    Ok((whole, needed))
}

/// A large pack that has all the tips, and nothing else than what they need.
fn whole_pack(sources: &Sources<'_>, own: &Objects, tips: &BTreeSet<Oid>) -> Option<Arc<Pack>> {
    let has_tips = |pack: &&Arc<Pack>| {
        pack.index.num_objects() >= LARGE_OBJECTS
            && tips.iter().all(|tip| pack.offset_of(tip).is_some())
    };
    let pack = sources.packs().iter().find(has_tips)?;
    let never = AtomicBool::new(false);
    // What this refuses, for whatever reason, the walk judges anew.
    let closure = closure::check(pack, own.store(), &PackLimits::default(), &never).ok()?;
    let count = pack.index.num_objects();
    let tips: Vec<Oid> = tips.iter().copied().collect();
    closure
        .is_needed_whole(pack, own.store(), &tips, count)
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

/// Links packs into the repository of `to`. `false` if that cannot be done, whatever the reason: they may
/// have been moved, or lie on another file system. Nothing is left of a try.
fn link(packs: &[Arc<Pack>], to: &Lease) -> bool {
    let index = |pack: &Arc<Pack>| pack.path().with_extension("idx");
    let indexes: Vec<PathBuf> = packs.iter().map(index).collect();
    let linked = install(&indexes, to);
    if let Err(error) = &linked {
        tracing::debug!(%error, repo = %to.address(), "packs are copied, as they cannot be linked");
    }
    linked.is_ok()
}

#[cfg(test)]
mod tests;
