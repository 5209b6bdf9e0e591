//! From which tips everything is there (ST-7).
//!
//! Commits are walked by date from the tips and from what is trusted at once, until only trusted history
//! is left; then the trees of the new commits are compared with those of the trusted parents, so that
//! only what changed is read. Clocks that lie make the walk longer, never wrong.

use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

use grasp_core::oid::Oid;

use super::links::{self, commit_time, links};
use super::{ObjectKind, Store, TAG_CHAIN_MAX};

/// Why a walk ended: an object is missing or cannot be read.
struct Hole;

pub(super) fn complete(store: &Store, tips: &[Oid], trusted: &BTreeSet<Oid>) -> BTreeSet<Oid> {
    let present: BTreeSet<Oid> = tips
        .iter()
        .filter(|tip| store.contains(tip))
        .copied()
        .collect();
    let mut sure = HashSet::new();
    let together: Vec<Oid> = present.iter().copied().collect();
    if Walk::new(store, trusted, &sure).run(&together).is_ok() {
        return present;
    }
    let whole = |tip: &Oid| {
        let mut walk = Walk::new(store, trusted, &sure);
        let fine = walk.run(&[*tip]).is_ok();
        if fine {
            let seen = walk.seen;
            sure.extend(seen);
        }
        fine
    };
    let mut whole = whole;
    present.into_iter().filter(|tip| whole(tip)).collect()
}

struct Walk<'a> {
    store: &'a Store,
    trusted: &'a BTreeSet<Oid>,
    /// Known whole from walks before.
    sure: &'a HashSet<Oid>,
    /// Visited by this one.
    seen: HashSet<Oid>,
    buffer: Vec<u8>,
}

/// A commit that is not known to be whole yet.
struct Fresh {
    tree: Oid,
    parents: Vec<Oid>,
}

impl<'a> Walk<'a> {
    fn new(store: &'a Store, trusted: &'a BTreeSet<Oid>, sure: &'a HashSet<Oid>) -> Self {
        Self {
            store,
            trusted,
            sure,
            seen: HashSet::new(),
            buffer: Vec::new(),
        }
    }

    fn run(&mut self, tips: &[Oid]) -> Result<(), Hole> {
        let mut commits = Vec::new();
        for tip in tips {
            if let Some(commit) = self.enter(*tip)? {
                commits.push(commit);
            }
        }
        let (fresh, known) = self.history(&commits)?;
        // Oldest first, so that each tree finds most of itself seen.
        for commit in fresh.into_iter().rev() {
            let mut bases = Vec::new();
            for parent in commit
                .parents
                .iter()
                .filter(|parent| known.contains(*parent))
            {
                bases.extend(self.commit(parent)?.map(|(commit, _)| commit.tree));
            }
            self.tree(commit.tree, bases)?;
        }
        Ok(())
    }

    fn is_known(&self, oid: &Oid) -> bool {
        self.trusted.contains(oid) || self.sure.contains(oid)
    }

    /// Walks a tip that is no commit, through tags to the commit they may end at.
    fn enter(&mut self, tip: Oid) -> Result<Option<Oid>, Hole> {
        let mut at = tip;
        loop {
            if self.is_known(&at) {
                return Ok(None);
            }
            match self.store.kind(&at).ok().flatten().ok_or(Hole)? {
                ObjectKind::Commit => return Ok(Some(at)),
                ObjectKind::Blob => {
                    self.seen.insert(at);
                    return Ok(None);
                }
                ObjectKind::Tree => {
                    self.tree(at, Vec::new())?;
                    return Ok(None);
                }
                ObjectKind::Tag => {
                    self.seen.insert(at);
                    self.read(&at)?;
                    at = links::tag_target(&self.buffer).ok_or(Hole)?;
                }
            }
        }
    }

    /// The commits that `tips` reach and trusted ones do not, newest first, and the trusted ones met.
    fn history(&mut self, tips: &[Oid]) -> Result<(Vec<Fresh>, HashSet<Oid>), Hole> {
        let mut queue = BinaryHeap::new();
        let mut known: HashSet<Oid> = HashSet::new();
        let mut waiting: HashSet<Oid> = HashSet::new();
        let mut dates: HashMap<Oid, i64> = HashMap::new();
        let mut fresh = Vec::new();

        for tip in tips {
            if self.seen.insert(*tip) {
                let (_, date) = self.commit(tip)?.ok_or(Hole)?;
                dates.insert(*tip, date);
                waiting.insert(*tip);
                queue.push((date, *tip));
            }
        }
        if waiting.is_empty() {
            return Ok((fresh, known));
        }
        let trusted: Vec<Oid> = self.trusted.iter().copied().collect();
        for oid in trusted {
            // What is trusted and gone bounds no walk.
            if let Some((commit, date)) = self.commit_behind(oid) {
                known.insert(commit);
                queue.push((date, commit));
            }
        }
        while !waiting.is_empty() {
            let Some((_, oid)) = queue.pop() else { break };
            let is_known = known.contains(&oid) || self.is_known(&oid);
            if !is_known && !waiting.remove(&oid) {
                continue;
            }
            let commit = match self.commit(&oid) {
                Ok(Some((commit, _))) => commit,
                _ if is_known => continue,
                _ => return Err(Hole),
            };
            for parent in &commit.parents {
                if is_known {
                    waiting.remove(parent);
                    if known.insert(*parent)
                        && let Ok(Some((_, date))) = self.commit(parent)
                    {
                        queue.push((date, *parent));
                    }
                } else if self.is_known(parent) || known.contains(parent) {
                    known.insert(*parent);
                } else if self.seen.insert(*parent) {
                    let (_, date) = self.commit(parent)?.ok_or(Hole)?;
                    waiting.insert(*parent);
                    queue.push((date, *parent));
                }
            }
            if !is_known {
                fresh.push(commit);
            }
        }
        Ok((fresh, known))
    }

    fn read(&mut self, oid: &Oid) -> Result<ObjectKind, Hole> {
        match self.store.read(oid, &mut self.buffer) {
            Ok(Some(kind)) => Ok(kind),
            Ok(None) => Err(Hole),
            Err(error) => {
                tracing::warn!(%error, "an object cannot be read");
                Err(Hole)
            }
        }
    }

    /// Reads a commit and its date; `None` if the object is something else.
    fn commit(&mut self, oid: &Oid) -> Result<Option<(Fresh, i64)>, Hole> {
        if self.read(oid)? != ObjectKind::Commit {
            return Ok(None);
        }
        let mut tree = None;
        let mut parents = Vec::new();
        links(ObjectKind::Commit, &self.buffer, |link| match link.kind {
            Some(ObjectKind::Tree) => tree = Some(link.oid),
            _ => parents.push(link.oid),
        })
        .map_err(|_| Hole)?;
        let tree = tree.ok_or(Hole)?;
        Ok(Some((Fresh { tree, parents }, commit_time(&self.buffer))))
    }

    /// The commit itself, or the one that a tag finally names, with its date.
    fn commit_behind(&mut self, oid: Oid) -> Option<(Oid, i64)> {
        let mut at = oid;
        for _ in 0..TAG_CHAIN_MAX {
            match self.read(&at).ok()? {
                ObjectKind::Commit => return Some((at, commit_time(&self.buffer))),
                ObjectKind::Tag => at = links::tag_target(&self.buffer)?,
                ObjectKind::Tree | ObjectKind::Blob => return None,
            }
        }
        None
    }

    /// Walks a tree; what stands in `bases` at the same place is whole.
    fn tree(&mut self, root: Oid, bases: Vec<Oid>) -> Result<(), Hole> {
        let mut stack = vec![(root, bases)];
        while let Some((oid, bases)) = stack.pop() {
            if bases.contains(&oid) || self.is_known(&oid) || !self.seen.insert(oid) {
                continue;
            }
            let mut below: HashMap<Vec<u8>, Vec<Oid>> = HashMap::new();
            let mut whole: HashSet<Oid> = HashSet::new();
            for base in &bases {
                if matches!(self.read(base), Ok(ObjectKind::Tree)) {
                    links(ObjectKind::Tree, &self.buffer, |link| {
                        whole.insert(link.oid);
                        if link.kind == Some(ObjectKind::Tree) {
                            below.entry(link.name.to_vec()).or_default().push(link.oid);
                        }
                    })
                    .map_err(|_| Hole)?;
                }
            }
            if self.read(&oid)? != ObjectKind::Tree {
                return Err(Hole);
            }
            let data = std::mem::take(&mut self.buffer);
            let mut hole = false;
            let parsed = links(ObjectKind::Tree, &data, |link| {
                if whole.contains(&link.oid) {
                    return;
                }
                if link.kind == Some(ObjectKind::Tree) {
                    stack.push((link.oid, below.get(link.name).cloned().unwrap_or_default()));
                } else if !self.is_known(&link.oid) && self.seen.insert(link.oid) {
                    hole |= !self.store.contains(&link.oid);
                }
            });
            self.buffer = data;
            if hole || parsed.is_err() {
                return Err(Hole);
            }
        }
        Ok(())
    }
}
