//! Reading the objects of one repository.
//!
//! *Invariant:* what is in `objects/` is complete, so an object that is present may serve as the boundary
//! of a walk. [`Objects::complete`] still walks (ST-7): presence is what a damaged disk fakes best.

mod check;
mod links;
mod store;
mod walk;

use std::cell::RefCell;
use std::collections::BTreeSet;

use grasp_core::oid::Oid;

use crate::error::Error;
use crate::repository::Lease;

pub(crate) use check::{Suspects, check_gitmodules, check_object};
pub(crate) use links::{links, tag_target};
pub(crate) use store::{Pack, Store, decode, from_gix, to_gix};

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A point in history.
    Commit,
    /// A folder.
    Tree,
    /// The content of a file.
    Blob,
    /// An annotated tag.
    Tag,
}

impl From<gix_object::Kind> for ObjectKind {
    fn from(kind: gix_object::Kind) -> Self {
        match kind {
            gix_object::Kind::Commit => Self::Commit,
            gix_object::Kind::Tree => Self::Tree,
            gix_object::Kind::Blob => Self::Blob,
            gix_object::Kind::Tag => Self::Tag,
        }
    }
}

/// What an object with this content is called; `None` if the hash itself refuses it, as a collision.
pub(crate) fn hash(kind: ObjectKind, content: &[u8]) -> Option<Oid> {
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    let name = match kind {
        ObjectKind::Commit => "commit",
        ObjectKind::Tree => "tree",
        ObjectKind::Blob => "blob",
        ObjectKind::Tag => "tag",
    };
    hasher.update(format!("{name} {}\0", content.len()).as_bytes());
    hasher.update(content);
    hasher.try_finalize().ok().map(|hash| from_gix(&hash))
}

/// The tree without entries. Git knows it without an object, so it is never missing.
pub(crate) const EMPTY_TREE: Oid = Oid::from_bytes([
    0x4b, 0x82, 0x5d, 0xc6, 0x42, 0xcb, 0x6e, 0xb9, 0xa0, 0x60, 0xe5, 0x4b, 0xf8, 0xd6, 0x92, 0x88,
    0xfb, 0xee, 0x49, 0x04,
]);

/// A tag that names a tag that names a tag: more links than this are not followed.
pub(crate) const TAG_CHAIN_MAX: usize = 64;

/// A handle over the objects of a repository, for one thread at a time. It holds a lease, so what it saw
/// stays.
#[derive(Debug)]
pub struct Objects {
    lease: Lease,
    store: Store,
    buffer: RefCell<Vec<u8>>,
}

impl Objects {
    pub(crate) fn open(lease: &Lease) -> Result<Self, Error> {
        Ok(Self {
            lease: lease.clone(),
            store: Store::open(lease)?,
            buffer: RefCell::default(),
        })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Whether the object is here.
    pub fn contains(&self, oid: &Oid) -> bool {
        self.store.contains(oid)
    }

    /// The packs in which any of `oids` is damaged, by name without ending. Others may hold them whole.
    pub fn packs_damaged_at(&self, oids: &[Oid]) -> Vec<String> {
        let packs = self.store.packs();
        let damaged = packs
            .iter()
            .filter(|pack| oids.iter().any(|oid| self.is_damaged_in(pack, oid)));
        damaged.map(|pack| pack.name()).collect()
    }

    pub(crate) fn is_damaged_in(&self, pack: &Pack, oid: &Oid) -> bool {
        let Some(offset) = pack.offset_of(oid) else {
            return false;
        };
        let mut content = self.buffer.borrow_mut();
        let kind = self.store.read_in(pack, offset, &mut content);
        kind.map_or(true, |kind| hash(kind, &content) != Some(*oid))
    }

    /// What the object is; `None` if it is not here, or not readable.
    pub fn kind(&self, oid: &Oid) -> Option<ObjectKind> {
        self.store.kind(oid).unwrap_or_else(|error| {
            tracing::warn!(%error, repo = %self.lease.address(), "an object cannot be read");
            None
        })
    }

    /// Follows tags to the commit they name; a commit is its own. `None` if there is no commit at the end.
    pub fn peel_to_commit(&self, oid: &Oid) -> Option<Oid> {
        let end = self.peel_tag(oid).unwrap_or(*oid);
        (self.kind(&end)? == ObjectKind::Commit).then_some(end)
    }

    /// What a tag object finally names; `None` for any other object.
    pub fn peel_tag(&self, oid: &Oid) -> Option<Oid> {
        let mut at = *oid;
        for _ in 0..TAG_CHAIN_MAX {
            if self.kind(&at)? != ObjectKind::Tag {
                return (at != *oid).then_some(at);
            }
            let mut buffer = self.buffer.borrow_mut();
            self.store.read(&at, &mut buffer).ok()??;
            at = links::tag_target(&buffer)?;
        }
        None
    }

    /// ST-7: those of `tips` from which everything that they reach is here. What `trusted_tips` reach is
    /// taken for granted: name what is served already, and the walk costs what is new.
    ///
    /// An object that cannot be read counts as missing.
    pub fn complete(&self, tips: &[Oid], trusted_tips: &[Oid]) -> BTreeSet<Oid> {
        let mut trusted: BTreeSet<Oid> = trusted_tips.iter().copied().collect();
        trusted.extend(self.lease.known_complete());
        let complete = walk::complete(&self.store, tips, &trusted);
        self.lease.remember_complete(complete.iter().copied());
        complete
    }
}

#[cfg(test)]
mod tests;
