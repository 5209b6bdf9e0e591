use std::fs;
use std::io;
use std::path::Path;

use grasp_core::name::RepoAddress;

use super::*;
use crate::refs::default_head;
use crate::testing::{
    Place, RawPack, Work, address, assert_sound, entry, git, git_text, lines, oid_of, refs,
};

mod arriving;
mod broken;
mod harmful;
mod random;
mod whole;

/// A repository that packs are taken into.
struct Target {
    place: Place,
    repo: RepoAddress,
    lease: Lease,
    limits: PackLimits,
}

impl Target {
    fn new() -> Self {
        let place = Place::new();
        let repo = place.repository("project");
        let lease = place.repositories.lease(&repo);
        Self {
            place,
            repo,
            lease,
            limits: PackLimits::default(),
        }
    }

    fn receive(&self, pack: &[u8]) -> Result<Quarantined, IngestError> {
        self.receive_beside(&[], pack)
    }

    fn receive_beside(&self, extra: &[Lease], pack: &[u8]) -> Result<Quarantined, IngestError> {
        let never = Arc::default();
        ingest(
            &self.place.repositories,
            &self.lease,
            extra,
            &mut &*pack,
            &self.limits,
            &never,
        )
    }

    fn push(&self, pack: &[u8], tips: &[Oid]) -> Result<Installed, IngestError> {
        self.receive(pack)?.finish(tips)
    }

    fn home(&self) -> std::path::PathBuf {
        self.place.repositories.path(&self.repo)
    }

    fn packs(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.home().join("objects/pack"))
            .expect("there")
            .map(|entry| {
                entry
                    .expect("readable")
                    .file_name()
                    .into_string()
                    .expect("text")
            })
            .collect();
        names.sort();
        names
    }

    /// Everything in the repository, by plain git.
    fn objects(&self) -> Vec<String> {
        let format = "--batch-check=%(objectname)";
        let listed = git_text(&self.home(), &["cat-file", "--batch-all-objects", format]);
        listed.lines().map(str::to_owned).collect()
    }

    fn assert_quarantine_is_empty(&self) {
        let folder = self.place.repositories.root().join(".grasp/quarantine");
        assert_eq!(fs::read_dir(folder).expect("there").count(), 0);
    }

    fn assert_untouched(&self) {
        assert!(self.packs().is_empty());
        self.assert_quarantine_is_empty();
    }

    fn show(&self, tip: Oid) {
        let lock = self.place.repositories.lock(&self.repo);
        lock.write_refs(&refs([("refs/heads/main", tip)]), default_head())
            .expect("present");
    }
}

fn commit_text(tree: Oid, parents: &[Oid]) -> Vec<u8> {
    let parents = lines(parents.iter().map(|parent| format!("parent {parent}")));
    format!("tree {tree}\n{parents}author A <a@e> 1 +0000\ncommitter A <a@e> 1 +0000\n\nx\n")
        .into_bytes()
}

fn tree_entry(mode: &str, name: &[u8], oid: Oid) -> Vec<u8> {
    [mode.as_bytes(), b" ", name, b"\0", oid.as_bytes()].concat()
}

/// A commit of one tree with one blob, as a pack; the commit's name.
fn commit_pack(tree: &[u8], blob: &[u8]) -> (Vec<u8>, Oid) {
    let commit = commit_text(oid_of("tree", tree), &[]);
    let pack = RawPack::new()
        .object(entry::COMMIT, &commit)
        .object(entry::TREE, tree)
        .object(entry::BLOB, blob);
    (pack.finish(), oid_of("commit", &commit))
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next)
        .flatten()
        .take(bytes)
        .collect()
}
