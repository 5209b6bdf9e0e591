use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use grasp_core::name::RepoAddress;

use super::*;
use crate::ingest::ingest;
use crate::refs::default_head;
use crate::testing::{Place, Work, address, assert_sound, git, git_text, lines, refs};

/// Two owners' repositories of one project.
struct Family {
    place: Place,
    first: RepoAddress,
    second: RepoAddress,
}

impl Family {
    fn new() -> Self {
        let place = Place::new();
        let first = address(1, "project");
        let second = address(2, "project");
        for repo in [&first, &second] {
            place.repositories.lock(repo).create().expect("created");
        }
        Self {
            place,
            first,
            second,
        }
    }

    fn push(&self, repo: &RepoAddress, pack: &[u8], tips: &[Oid]) {
        let lease = self.place.repositories.lease(repo);
        let limits = PackLimits::default();
        ingest(
            &self.place.repositories,
            &lease,
            &[],
            &mut &*pack,
            &limits,
            &Arc::default(),
        )
        .and_then(|quarantined| quarantined.finish(tips))
        .expect("complete");
    }

    fn propagate(&self, tips: &[Oid]) -> BTreeSet<Oid> {
        let to = self.place.repositories.lease(&self.second);
        let from = self.place.repositories.lease(&self.first);
        propagate(&self.place.repositories, &to, &[from], tips).expect("readable")
    }

    fn home(&self, repo: &RepoAddress) -> std::path::PathBuf {
        self.place.repositories.path(repo)
    }

    fn show(&self, repo: &RepoAddress, tip: Oid) {
        let lock = self.place.repositories.lock(repo);
        lock.write_refs(&refs([("refs/heads/main", tip)]), default_head())
            .expect("present");
    }

    fn objects(&self, repo: &RepoAddress) -> BTreeSet<String> {
        let format = "--batch-check=%(objectname)";
        let listed = git_text(
            &self.home(repo),
            &["cat-file", "--batch-all-objects", format],
        );
        listed.lines().map(str::to_owned).collect()
    }
}

fn links(home: &Path) -> Vec<u64> {
    let packs = fs::read_dir(home.join("objects/pack")).expect("there");
    packs
        .map(|entry| entry.expect("readable").metadata().expect("there").nlink())
        .collect()
}

fn reachable(work: &Work, tip: &str) -> BTreeSet<String> {
    let listed = work.git(&["rev-list", "--objects", "--no-object-names", tip]);
    listed.lines().map(str::to_owned).collect()
}

/// Case 91: shared bytes, and yet each stands alone.
#[test]
fn a_linked_pack_outlives_the_repository_it_came_from() {
    let family = Family::new();
    let work = family.place.work("work");
    let tip = work.commit("dir/a", "1");
    family.push(&family.first, &work.pack("HEAD\n", &[]), &[tip]);
    assert!(family.propagate(&[tip]).contains(&tip));
    assert_eq!(links(&family.home(&family.second)), [2, 2]);

    family
        .place
        .repositories
        .lock(&family.first)
        .remove()
        .expect("removed");
    family.show(&family.second, tip);
    assert_sound(&family.home(&family.second));
    assert_eq!(family.objects(&family.second), reachable(&work, "HEAD"));
}

/// Case 91: a repack of one does not reach the other.
#[test]
fn a_repack_of_one_leaves_the_other_whole() {
    let family = Family::new();
    let work = family.place.work("work");
    let mut tip = Oid::ZERO;
    for nth in 0..3 {
        let before = tip;
        tip = work.commit(&format!("dir/{nth}"), format!("{nth}"));
        let not = if before.is_zero() {
            String::new()
        } else {
            format!("^{before}\n")
        };
        family.push(
            &family.first,
            &work.pack(&format!("{tip}\n{not}"), &["--thin"]),
            &[tip],
        );
    }
    family.show(&family.first, tip);
    assert!(family.propagate(&[tip]).contains(&tip));
    family.show(&family.second, tip);
    git(&family.home(&family.first), &["repack", "-adq"], b"");
    for repo in [&family.first, &family.second] {
        assert_sound(&family.home(repo));
        assert_eq!(family.objects(repo), reachable(&work, "HEAD"));
    }
}

/// PUSH-18: what else lies in the pack stays where it is.
#[test]
fn only_what_the_tips_need_comes_along() {
    let family = Family::new();
    let work = family.place.work("work");
    let text = lines((0..500).map(|n| format!("line {n}")));
    work.commit("file", &text);
    let tip = work.commit("file", text.replace("line 7\n", "changed\n"));
    let wanted = reachable(&work, "HEAD");
    let upload = work.commit("file", text.replace("line 9\n", "an upload\n"));
    family.push(&family.first, &work.pack("HEAD\n", &[]), &[upload]);

    assert!(family.propagate(&[tip]).contains(&tip));
    assert_eq!(family.objects(&family.second), wanted);
    family.show(&family.second, tip);
    assert_sound(&family.home(&family.second));
    assert!(family.propagate(&[upload]).contains(&upload));
    assert_eq!(family.objects(&family.second), reachable(&work, "HEAD"));
    assert_sound(&family.home(&family.second));
}

#[test]
fn a_tip_that_is_whole_nowhere_is_left_out() {
    let family = Family::new();
    let work = family.place.work("work");
    let first = work.commit("a", "1");
    let tip = work.commit("b", "2");
    family.push(
        &family.first,
        &work.pack(&format!("{first}\n"), &[]),
        &[first],
    );
    assert!(family.propagate(&[tip]).is_empty());
    assert!(links(&family.home(&family.second)).is_empty());
    assert_eq!(family.propagate(&[first, tip]), BTreeSet::from([first]));
    assert_eq!(family.objects(&family.second).len(), 3);
}

#[test]
fn what_is_there_already_costs_nothing() {
    let family = Family::new();
    let work = family.place.work("work");
    let tip = work.commit("a", "1");
    for repo in [&family.first, &family.second] {
        family.push(repo, &work.pack("HEAD\n", &[]), &[tip]);
    }
    assert_eq!(family.propagate(&[tip]), BTreeSet::from([tip]));
    assert!(family.propagate(&[]).is_empty());
    assert_eq!(links(&family.home(&family.second)), [1, 1]);
}

/// Loose objects, as an operator's git leaves them, and several relatives.
#[test]
fn loose_objects_and_several_relatives_are_gathered() {
    let family = Family::new();
    let work = family.place.work("work");
    let first = work.commit("a", "1");
    family.push(&family.first, &work.pack("HEAD\n", &[]), &[first]);
    let third = address(3, "project");
    family
        .place
        .repositories
        .lock(&third)
        .create()
        .expect("created");
    let tip = work.commit("b", "2");
    let pack = work.pack("HEAD\n", &[]);
    git(&family.home(&third), &["unpack-objects", "-q"], &pack);

    let lease = |repo| family.place.repositories.lease(repo);
    let (to, from) = (lease(&family.second), [lease(&family.first), lease(&third)]);
    propagate(&family.place.repositories, &to, &from, &[tip]).expect("together they have it");
    family.show(&family.second, tip);
    assert_sound(&family.home(&family.second));
    assert_eq!(family.objects(&family.second), reachable(&work, "HEAD"));
}

/// A large first propagation is a link, found by looking through the pack once.
#[test]
fn a_large_pack_is_linked_whole() {
    let family = Family::new();
    let work = family.place.work("work");
    for nth in 0..LARGE_OBJECTS {
        fs::write(work.path.join(format!("f{nth}")), nth.to_string()).expect("written");
    }
    let tip = work.commit("last", "1");
    family.push(&family.first, &work.pack("HEAD\n", &[]), &[tip]);
    assert!(family.propagate(&[tip]).contains(&tip));
    assert_eq!(links(&family.home(&family.second)), [2, 2]);
    family.show(&family.second, tip);
    assert_sound(&family.home(&family.second));
}
