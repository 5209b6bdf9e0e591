//! Reads and hashes everything that tips reach.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use grasp_core::oid::Oid;

use crate::objects::{EMPTY_TREE, ObjectKind, Objects, Pack, hash, links};

/// Of the holes of one walk so many are told.
const HOLES_MAX: usize = 100;
/// Blobs from this size on are looked for, and not read into memory.
const BLOB_BYTES_MAX: u64 = 256 << 20;

/// What a walk met.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Walked {
    /// Objects that are there and are what they are called.
    pub objects: u64,
    /// Those that are not, the first ones.
    pub holes: Vec<Hole>,
    /// How many more there are.
    pub more: u64,
    /// It was given up before its end.
    pub is_cut: bool,
}

/// An object that should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hole {
    /// Which.
    pub oid: Oid,
    /// What names it; `None` for a tip itself.
    pub by: Option<Oid>,
    /// The first tip from which it was reached.
    pub tip: Oid,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// It is not there.
    Missing,
    /// It is there and cannot be used.
    Damaged(String),
}

impl Objects {
    /// Reads everything that `tips` reach, each object once. Nothing is trusted. Ends early if `given_up` becomes
    /// true.
    pub fn walk(&self, tips: impl IntoIterator<Item = Oid>, given_up: &AtomicBool) -> Walked {
        let mut walk = Walk {
            objects: self,
            packs: self.store().packs(),
            seen: HashSet::new(),
            walked: Walked::default(),
            buffer: Vec::new(),
        };
        for tip in tips {
            walk.from(tip, given_up);
            if walk.walked.is_cut {
                break;
            }
        }
        walk.walked
    }
}

struct Walk<'a> {
    objects: &'a Objects,
    packs: Vec<Arc<Pack>>,
    seen: HashSet<Oid>,
    walked: Walked,
    buffer: Vec<u8>,
}

impl Walk<'_> {
    fn from(&mut self, tip: Oid, given_up: &AtomicBool) {
        let mut stack: Vec<(Oid, Option<Oid>)> = vec![(tip, None)];
        while let Some((oid, by)) = stack.pop() {
            if given_up.load(Ordering::Relaxed) {
                self.walked.is_cut = true;
                return;
            }
            if oid == EMPTY_TREE || !self.seen.insert(oid) {
                continue;
            }
            match self.look(&oid) {
                Ok(None) => self.walked.objects += 1,
                Ok(Some(kind)) => {
                    let data = std::mem::take(&mut self.buffer);
                    let named = links(kind, &data, |link| stack.push((link.oid, Some(oid))));
                    self.buffer = data;
                    match named {
                        Ok(()) => self.walked.objects += 1,
                        Err(broken) => self.hole(oid, by, tip, Problem::Damaged(broken.to_owned())),
                    }
                }
                Err(problem) => self.hole(oid, by, tip, problem),
            }
        }
    }

    /// Reads and hashes one object into the buffer; `None` for a blob, which leads nowhere.
    fn look(&mut self, oid: &Oid) -> Result<Option<ObjectKind>, Problem> {
        let damaged = |error: crate::Error| Problem::Damaged(error.to_string());
        let store = self.objects.store();
        let header = store.header(oid).map_err(damaged)?;
        let (kind, size) = header.ok_or(Problem::Missing)?;
        if kind == ObjectKind::Blob && size >= BLOB_BYTES_MAX {
            return Ok(None);
        }
        let kind = store
            .read(oid, &mut self.buffer)
            .map_err(damaged)?
            .ok_or(Problem::Missing)?;
        if hash(kind, &self.buffer).is_none_or(|hash| hash != *oid) {
            return Err(Problem::Damaged(
                "its content is another object's".to_owned(),
            ));
        }
        if let Some(pack) = self.damaged_copy(oid) {
            return Err(Problem::Damaged(format!("its copy in {pack}")));
        }
        Ok((kind != ObjectKind::Blob).then_some(kind))
    }

    /// A pack that holds the object too, and not whole: another day it may be the one that is asked.
    fn damaged_copy(&self, oid: &Oid) -> Option<String> {
        let packs = self.packs.iter();
        let mut holding = packs.filter(|pack| pack.offset_of(oid).is_some());
        holding.clone().nth(1)?;
        let damaged = holding.find(|pack| self.objects.is_damaged_in(pack, oid));
        damaged.map(|pack| pack.name())
    }

    fn hole(&mut self, oid: Oid, by: Option<Oid>, tip: Oid, problem: Problem) {
        if self.walked.holes.len() < HOLES_MAX {
            self.walked.holes.push(Hole {
                oid,
                by,
                tip,
                problem,
            });
        } else {
            self.walked.more += 1;
        }
    }
}
