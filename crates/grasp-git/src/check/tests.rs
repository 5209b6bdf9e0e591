use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;

use super::*;
use crate::testing::{Place, Work, address, assert_sound, git, git_text, name, refs};
use crate::{Objects, refill};

/// A repository with two commits, whose objects are loose: `main` at the second.
struct Kept {
    place: Place,
    work: Work,
    repo: RepoAddress,
    first: Oid,
    tip: Oid,
}

impl Kept {
    fn new() -> Self {
        let place = Place::new();
        let work = place.work("work");
        let first = work.commit("one", "1\n");
        let tip = work.commit("two", "2\n");
        let repo = place.repository("project");
        let kept = Self {
            place,
            work,
            repo,
            first,
            tip,
        };
        kept.fill(&kept.repo);
        let lock = kept.place.repositories.lock(&kept.repo);
        lock.write_refs(&refs([("refs/heads/main", tip)]), name("refs/heads/main"))
            .expect("written");
        drop(lock);
        kept
    }

    /// Copies all objects as loose ones.
    fn fill(&self, repo: &RepoAddress) {
        let pack = git(
            &self.work.path,
            &["pack-objects", "--all", "--stdout", "--quiet"],
            b"",
        );
        git(&self.home_of(repo), &["unpack-objects", "-q"], &pack);
    }

    fn home_of(&self, repo: &RepoAddress) -> PathBuf {
        self.place.repositories.path(repo)
    }

    fn home(&self) -> PathBuf {
        self.home_of(&self.repo)
    }

    fn objects(&self) -> Objects {
        let lease = self.place.repositories.lease(&self.repo);
        self.place.repositories.objects(&lease).expect("opens")
    }

    fn walk(&self) -> Walked {
        self.objects().walk([self.tip], &AtomicBool::new(false))
    }

    fn inspect(&self) -> Inspection {
        let found = self.place.repositories.inspect(&self.repo);
        found.expect("readable").expect("there")
    }

    fn mend(&self, damaged: &[Oid]) {
        let found = self.inspect();
        let lock = self.place.repositories.lock(&self.repo);
        lock.mend(&found, damaged).expect("mended");
    }

    fn loose(&self, oid: Oid) -> PathBuf {
        let hex = oid.to_string();
        self.home().join("objects").join(&hex[..2]).join(&hex[2..])
    }
}

fn overwrite(path: &Path, content: &[u8]) {
    if path.exists() {
        fs::remove_file(path).expect("removable");
    }
    fs::write(path, content).expect("writable");
}

#[test]
fn everything_that_a_tip_reaches_is_read() {
    let kept = Kept::new();
    let walked = kept.walk();
    // Two commits, two trees, two files.
    assert_eq!(walked.objects, 6);
    assert_eq!(walked.holes, []);
    assert!(!walked.is_cut);
}

/// ST-7: presence of a tip says nothing about what is below it.
#[test]
fn an_object_that_is_gone_is_found_however_deep() {
    let kept = Kept::new();
    let blob = kept.work.oid("HEAD~1:one");
    let tree = kept.work.oid("HEAD^{tree}");
    fs::remove_file(kept.loose(blob)).expect("there");
    let walked = kept.walk();
    assert_eq!(walked.holes.len(), 1, "{walked:?}");
    let hole = &walked.holes[0];
    assert_eq!((hole.oid, hole.tip), (blob, kept.tip));
    assert_eq!(hole.problem, Problem::Missing);
    assert!(
        hole.by
            .is_some_and(|by| by == tree || kept.work.oid("HEAD~1^{tree}") == by)
    );
}

#[test]
fn an_object_whose_content_changed_is_damaged() {
    let kept = Kept::new();
    let (one, two) = (kept.work.oid("HEAD:one"), kept.work.oid("HEAD:two"));
    let other = fs::read(kept.loose(two)).expect("there");
    overwrite(&kept.loose(one), &other);
    let holes = kept.walk().holes;
    assert!(
        matches!(&holes[..], [hole] if hole.oid == one && matches!(hole.problem, Problem::Damaged(_)))
    );
    overwrite(&kept.loose(one), b"rubbish");
    let holes = kept.walk().holes;
    assert!(
        matches!(&holes[..], [hole] if hole.oid == one && matches!(hole.problem, Problem::Damaged(_)))
    );
}

#[test]
fn a_walk_can_be_given_up() {
    let walked = Kept::new().objects().walk([], &AtomicBool::new(true));
    assert!(!walked.is_cut, "nothing was to be done");
    let kept = Kept::new();
    let walked = kept.objects().walk([kept.tip], &AtomicBool::new(true));
    assert!(walked.is_cut);
}

/// GIT-12
#[test]
fn refs_are_looked_at_on_the_disk_and_written_anew_as_they_were_last_known() {
    let kept = Kept::new();
    assert!(kept.inspect().refs_are_sound());
    let packed = kept.home().join("packed-refs");
    let before = fs::read(&packed).expect("there");
    overwrite(&packed, b"\0\0rubbish\n");
    overwrite(&kept.home().join("HEAD"), b"ref: refs/heads/ma");
    fs::write(kept.home().join("packed-refs.lock"), b"").expect("writable");
    let found = kept.inspect();
    assert_eq!((found.refs.len(), found.refs_damaged), (0, 1));
    assert!(found.head_damaged);
    assert_eq!(found.leftovers, ["packed-refs.lock"]);
    kept.mend(&[]);
    assert_eq!(fs::read(&packed).expect("there"), before);
    let found = kept.inspect();
    assert!(found.refs_are_sound() && found.leftovers.is_empty());
    assert_sound(&kept.home());
}

#[test]
fn loose_refs_are_seen_and_leave() {
    let kept = Kept::new();
    let first = kept.first.to_string();
    git_text(&kept.home(), &["update-ref", "refs/heads/other", &first]);
    assert_eq!(kept.inspect().loose_refs, 1);
    kept.mend(&[]);
    let found = kept.inspect();
    assert_eq!((found.loose_refs, found.refs.len()), (0, 1));
}

#[test]
fn a_pack_without_its_data_is_moved_aside_and_the_repository_opens_again() {
    let kept = Kept::new();
    git_text(&kept.home(), &["repack", "-adq"]);
    let packs = kept.home().join("objects/pack");
    let pack = fs::read_dir(&packs).expect("there").find_map(|entry| {
        let path = entry.expect("readable").path();
        (path.extension()? == "pack").then_some(path)
    });
    fs::remove_file(pack.expect("a pack")).expect("removable");
    let lease = kept.place.repositories.lease(&kept.repo);
    assert!(kept.place.repositories.objects(&lease).is_err());
    assert_eq!(kept.inspect().unreadable_packs.len(), 1);
    kept.mend(&[]);
    assert_eq!(kept.inspect().unreadable_packs, [""; 0]);
    assert_eq!(kept.walk().holes[0].problem, Problem::Missing);
    let aside = fs::read_dir(kept.home().join("damaged")).expect("there");
    assert!(aside.count() >= 1, "nothing is deleted");
}

/// REF-8
#[test]
fn a_relative_fills_a_hole_below_a_tip_that_is_there() {
    let kept = Kept::new();
    let other = address(2, "project");
    kept.place.repositories.lock(&other).create().expect("made");
    kept.fill(&other);
    let blob = kept.work.oid("HEAD~1:one");
    overwrite(&kept.loose(blob), b"rubbish");
    kept.mend(&[blob]);
    assert_eq!(kept.walk().holes[0].problem, Problem::Missing);
    let to = kept.place.repositories.lease(&kept.repo);
    let from = kept.place.repositories.lease(&other);
    let alone = refill(&kept.place.repositories, &to, &[], &[kept.tip], &[], |_| {
        Ok(())
    });
    assert!(alone.expect("readable").is_empty());
    let whole = refill(
        &kept.place.repositories,
        &to,
        &[from],
        &[kept.tip],
        &[],
        |_| Ok(()),
    );
    assert!(whole.expect("readable").contains(&kept.tip));
    assert_eq!(kept.walk().holes, []);
    assert_sound(&kept.home());
}

/// REF-6
#[test]
fn the_folder_is_listed_by_what_can_be_a_repository() {
    let kept = Kept::new();
    let prs = RepoAddress::Proposals(address(3, "project").coordinate().clone());
    kept.place.repositories.lock(&prs).create().expect("made");
    let root = kept.place.repositories.root().to_owned();
    let owner = kept.home().parent().expect("below").to_owned();
    for stray in [root.join("backup"), owner.join("notes"), root.join("prs/x")] {
        fs::create_dir(stray).expect("made");
    }
    fs::write(owner.join("file.git"), b"").expect("written");
    let listed = kept.place.repositories.list().expect("readable");
    assert_eq!(listed.repositories, [kept.repo.clone(), prs].into());
    assert_eq!(listed.strays.len(), 4, "{:?}", listed.strays);
}

#[test]
fn a_repository_without_objects_is_empty() {
    let place = Place::new();
    let repo = place.repository("empty");
    let found = place.repositories.inspect(&repo).expect("readable");
    assert!(found.expect("there").is_empty);
    assert!(!Kept::new().inspect().is_empty);
    let nowhere = place.repositories.inspect(&address(9, "nowhere"));
    assert_eq!(nowhere.expect("readable"), None);
}
