use std::fs;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use grasp_core::Timestamp;

use super::*;
use crate::testing::{Place, address, assert_sound, coordinate, git, git_text, refs};

/// Waits for something that another thread brings about.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::yield_now();
    }
}

/// CLI-3, case 84: two repositories never share a folder, and each is one that plain git takes.
#[test]
fn every_identifier_has_a_folder_of_its_own() {
    let place = Place::new();
    let mut homes = std::collections::BTreeSet::new();
    for identifier in [
        "a",
        "A",
        "a.git",
        "my 🚀 repo",
        "-rf",
        ".github",
        "prs",
        "é",
        "e\u{301}",
        "a:b\"c",
    ] {
        let repo = place.repository(identifier);
        let home = place.repositories.path(&repo);
        assert!(home.starts_with(place.repositories.root()));
        assert_eq!(
            git_text(&home, &["rev-parse", "--is-bare-repository"]),
            "true"
        );
        assert_sound(&home);
        assert!(homes.insert(home), "{identifier}");
    }
    let proposals = RepoAddress::Proposals(coordinate(1, "a"));
    assert!(!place.repositories.exists(&proposals));
    let hex = "01".repeat(32);
    let expected = place.repositories.root().join(format!("prs/{hex}/a.git"));
    assert_eq!(place.repositories.path(&proposals), expected);
}

/// A new repository is an empty one for plain git, its branch is `main`.
#[test]
fn a_new_repository_can_be_cloned_at_once() {
    let place = Place::new();
    let repo = place.repository("project");
    let home = place.repositories.path(&repo);
    git(
        place.folder.path(),
        &["clone", "--quiet", home.to_str().expect("text"), "clone"],
        b"",
    );
    assert_eq!(
        git_text(&home, &["symbolic-ref", "HEAD"]),
        "refs/heads/main"
    );
    place
        .repositories
        .lock(&repo)
        .create()
        .expect("twice is once");
}

/// REF-7: who reads goes on reading.
#[test]
fn a_lease_delays_the_deletion_of_what_was_removed() {
    let place = Place::new();
    let repo = place.repository("project");
    let work = place.work("work");
    let commit = work.commit("file", "content");
    let home = place.repositories.path(&repo);
    work.copy_objects_to(&home);

    let lease = place.repositories.lease(&repo);
    let objects = place.repositories.objects(&lease).expect("there");
    assert!(place.repositories.is_leased(&repo));
    place.repositories.lock(&repo).remove().expect("removed");

    assert!(!place.repositories.exists(&repo) && !home.exists());
    assert!(matches!(
        place.repositories.refs(&repo),
        Err(Error::NotFound { .. })
    ));
    assert!(
        !home.parent().expect("inside").exists(),
        "the owner's folder went too"
    );
    assert!(lease.is_removed() && lease.path().exists());
    assert_eq!(objects.complete(&[commit], &[]).len(), 1);
    assert!(
        !place.repositories.is_leased(&repo),
        "the new one is another"
    );

    place
        .repositories
        .lock(&repo)
        .create()
        .expect("created anew");
    let second = place.repositories.lease(&repo);
    assert_ne!(second.path(), lease.path());
    let trash = lease.path();
    drop((objects, lease));
    eventually("the deletion", || !trash.exists());
    assert!(second.path().exists());
}

const SINCE: Timestamp = Timestamp::from_secs(1_800_000_000);

/// DEL-5, DEL-6: a rename there and a rename back, and what reads goes on reading.
#[test]
fn an_archived_repository_comes_back_as_it_was() {
    let place = Place::new();
    let repo = place.repository("project");
    let work = place.work("work");
    let commit = work.commit("file", "content");
    let home = place.repositories.path(&repo);
    work.copy_objects_to(&home);
    let lock = place.repositories.lock(&repo);
    lock.write_refs(
        &refs([("refs/heads/topic", commit)]),
        crate::testing::name("refs/heads/topic"),
    )
    .expect("present");
    let lease = place.repositories.lease(&repo);
    let before = place.repositories.refs(&repo).expect("there").generation;

    lock.archive(SINCE).expect("archived");
    lock.archive(SINCE).expect("twice is once");
    assert!(!place.repositories.exists(&repo) && !home.exists());
    assert!(matches!(
        place.repositories.refs(&repo),
        Err(Error::NotFound { .. })
    ));
    let copy = place.repositories.root().join(format!(
        ".archive/{}/project-1800000000",
        grasp_core::name::npub(&repo.coordinate().owner)
    ));
    assert_eq!(lease.path(), copy, "a reader knows where it lies");
    let archived = place.repositories.archived(&repo, SINCE).expect("there");
    let objects = place.repositories.objects(&archived).expect("readable");
    assert_eq!(objects.complete(&[commit], &[]).len(), 1);
    drop((objects, archived));
    assert!(!lease.is_removed() && copy.exists());

    assert!(lock.restore(SINCE).expect("brought back"));
    assert!(!lock.restore(SINCE).expect("twice is once"));
    assert_eq!(lease.path(), home);
    let shown = place.repositories.refs(&repo).expect("there");
    assert_eq!(shown.oids(), refs([("refs/heads/topic", commit)]));
    assert!(shown.generation > before, "what was cached is of no use");
    assert_sound(&home);
    assert!(place.repositories.archived(&repo, SINCE).is_none());
}

/// What is made at the address later is not what was to be archived.
#[test]
fn archiving_again_leaves_the_successor_alone() {
    let place = Place::new();
    let repo = place.repository("project");
    let lock = place.repositories.lock(&repo);
    lock.archive(SINCE).expect("archived");
    lock.create().expect("made anew");
    lock.archive(SINCE).expect("done before");
    assert!(place.repositories.exists(&repo));
    assert!(
        !lock.restore(SINCE).expect("nothing to do"),
        "there is one already"
    );

    drop(lock);
    let nothing = address(2, "never-there");
    let lock = place.repositories.lock(&nothing);
    lock.archive(SINCE).expect("nothing to archive is archived");
    lock.create().expect("made after that");
    lock.archive(SINCE).expect("done before");
    assert!(place.repositories.exists(&nothing));
    assert!(place.repositories.archived(&nothing, SINCE).is_none());
}

/// It left again before it was brought back.
#[test]
fn what_was_on_its_way_back_is_archived_from_where_it_lies() {
    let place = Place::new();
    let repo = place.repository("project");
    let later = SINCE + 5;
    let lock = place.repositories.lock(&repo);
    lock.archive(SINCE).expect("archived");
    lock.archive(later).expect("archived again");
    assert!(place.repositories.archived(&repo, SINCE).is_none());
    assert!(lock.restore(later).expect("brought back"));
    assert!(place.repositories.exists(&repo));
}

/// DEL-6: where it was made anew before, it gets what it had.
#[test]
fn a_repository_that_was_made_anew_absorbs_its_archive() {
    let place = Place::new();
    let repo = place.repository("project");
    let work = place.work("work");
    let commit = work.commit("file", "content");
    work.copy_objects_to(&place.repositories.path(&repo));
    let lock = place.repositories.lock(&repo);
    lock.archive(SINCE).expect("archived");
    lock.create().expect("made anew");
    lock.absorb(SINCE).expect("absorbed");
    lock.absorb(SINCE).expect("twice is once");
    let objects = place
        .repositories
        .objects(&place.repositories.lease(&repo))
        .expect("there");
    assert_eq!(objects.complete(&[commit], &[]).len(), 1);
    assert!(place.repositories.archived(&repo, SINCE).is_none());
    assert!(
        place
            .repositories
            .refs(&repo)
            .expect("there")
            .refs
            .is_empty(),
        "it shows nothing by itself"
    );
    assert_sound(&place.repositories.path(&repo));
}

#[test]
fn a_discarded_archive_is_deleted_with_its_last_lease() {
    let place = Place::new();
    let repo = place.repository("project");
    let lock = place.repositories.lock(&repo);
    lock.archive(SINCE).expect("archived");
    let reader = place.repositories.archived(&repo, SINCE).expect("there");
    lock.discard_archive(SINCE).expect("thrown away");
    lock.discard_archive(SINCE).expect("twice is once");
    assert!(place.repositories.archived(&repo, SINCE).is_none());
    let trash = reader.path();
    assert!(reader.is_removed() && trash.exists());
    drop(reader);
    eventually("the deletion", || !trash.exists());
    assert_eq!(
        fs::read_dir(place.repositories.root().join(".archive"))
            .expect("there")
            .count(),
        0,
        "the owner's folder went too"
    );
}

/// NAME-3: an identifier may fill a path component, and look like the copy of another.
#[test]
fn copies_of_any_identifier_are_told_apart() {
    let place = Place::new();
    let long = "x".repeat(251);
    let names = [
        "a",
        "a-1800000000",
        "a~",
        "é",
        &long,
        &"y".repeat(234),
        &"y".repeat(235),
    ];
    for name in names {
        let repo = place.repository(name);
        place
            .repositories
            .lock(&repo)
            .archive(SINCE)
            .expect("archived");
    }
    let mut all = place.repositories.archives().expect("readable");
    all.sort();
    let mut expected: Vec<_> = names.map(|name| (address(1, name), SINCE)).into();
    expected.sort();
    assert_eq!(all, expected);
    for name in names {
        let repo = address(1, name);
        assert!(!place.repositories.exists(&repo));
        let copies = place.repositories.copies(&repo).expect("readable");
        assert_eq!(copies, [SINCE], "{name}");
        let lock = place.repositories.lock(&repo);
        assert!(lock.restore(SINCE).expect("brought back"), "{name}");
        assert_sound(&place.repositories.path(&repo));
    }
    let left = fs::read_dir(place.repositories.root().join(".archive")).expect("there");
    assert_eq!(left.count(), 0);
}

#[test]
fn a_removal_without_leases_deletes_at_once() {
    let place = Place::new();
    let repo = place.repository("project");
    let lock = place.repositories.lock(&repo);
    lock.remove().expect("removed");
    lock.remove().expect("twice is once");
    let trash = place.repositories.root().join(".grasp/trash");
    eventually("the deletion", || {
        fs::read_dir(&trash).expect("there").count() == 0
    });
}

/// REF-6: what is to leave leaves, also where somebody has tidied the trash away.
#[test]
fn a_removal_makes_a_trash_that_is_gone() {
    let place = Place::new();
    let (removed, archived) = (place.repository("project"), place.repository("other"));
    place
        .repositories
        .lock(&archived)
        .archive(SINCE)
        .expect("archived");
    let trash = place.repositories.root().join(".grasp/trash");
    for gone in [&removed, &archived] {
        fs::remove_dir_all(&trash).expect("there");
        let lock = place.repositories.lock(gone);
        lock.remove().expect("removed");
        lock.discard_archive(SINCE).expect("thrown away");
    }
    assert!(!place.repositories.path(&removed).exists());
    assert_eq!(place.repositories.archives().expect("readable"), []);
}

/// REF-7: a clone that runs does not notice the removal.
#[test]
fn a_child_in_the_folder_survives_the_move() {
    let place = Place::new();
    let repo = place.repository("project");
    let work = place.work("work");
    let commit = work.commit("file", "content");
    let home = place.repositories.path(&repo);
    work.copy_objects_to(&home);
    place
        .repositories
        .lock(&repo)
        .write_refs(
            &refs([("refs/heads/main", commit)]),
            crate::refs::default_head(),
        )
        .expect("written");
    let lease = place.repositories.lease(&repo);
    let mut child = std::process::Command::new("git")
        .args(["upload-pack", "--stateless-rpc", "."])
        .env("GIT_PROTOCOL", "version=2")
        .current_dir(lease.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("git is installed");
    // It has read the refs once the answer to this comes, so it is inside before the folder moves.
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    let pkt = |text: &str| format!("{:04x}{text}", text.len() + 4);
    stdin
        .write_all(format!("{}0000", pkt("command=ls-refs\n")).as_bytes())
        .expect("taken");
    let mut answer = [0; 4];
    stdout.read_exact(&mut answer).expect("an answer");
    place.repositories.lock(&repo).remove().expect("removed");
    drop(stdin);
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).expect("to its end");
    child.wait().expect("it ends");
    let clone = git(&lease.path(), &["rev-list", "--objects", "main"], b"");
    assert!(!clone.is_empty());
}

/// Case 90: racing creators make one healthy repository each.
#[test]
fn racing_creators_and_removers_leave_whole_repositories() {
    let place = Place::new();
    let repos: Vec<RepoAddress> = ["a", "b", "c"].map(|id| address(1, id)).into();
    std::thread::scope(|scope| {
        for nth in 0..6 {
            let (repositories, repos) = (&place.repositories, &repos);
            scope.spawn(move || {
                for turn in 0..20 {
                    let lock = repositories.lock(&repos[(nth + turn) % 3]);
                    lock.create().expect("created");
                    if (nth + turn) % 2 == 0 {
                        lock.remove().expect("removed");
                    }
                }
            });
        }
    });
    for repo in &repos {
        place.repositories.lock(repo).create().expect("created");
        assert_sound(&place.repositories.path(repo));
    }
}

#[test]
fn what_a_former_process_left_is_wiped() {
    let place = Place::new();
    let root = place.repositories.root().to_owned();
    let repo = place.repository("project");
    let Place {
        repositories,
        folder,
    } = place;
    drop(repositories);
    for left in ["quarantine/7", "trash/8", "cache/9"] {
        fs::create_dir(root.join(".grasp").join(left)).expect("made");
    }
    let again = Repositories::open(&root, GitConfig::default()).expect("ours");
    for name in ["quarantine", "trash", "cache"] {
        let left = fs::read_dir(root.join(".grasp").join(name)).expect("there");
        assert_eq!(left.count(), 0, "{name}");
    }
    assert!(again.exists(&repo) && again.refs(&repo).is_ok());
    drop(folder);
}

/// CLI-2
#[test]
fn a_folder_has_one_process() {
    let place = Place::new();
    let second = Repositories::open(place.repositories.root(), GitConfig::default());
    assert!(matches!(second, Err(OpenError::InUse { .. })));
}

/// CLI-4
#[test]
fn a_foreign_folder_is_refused_and_not_touched() {
    for found in [
        "purgatory-state.json",
        ".archive/",
        "data.mdb",
        "npub1abc/",
        "prs/",
        ".grasp/store/",
        ".grasp/format",
    ] {
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let path = folder.path().join(found);
        if found.ends_with('/') {
            fs::create_dir_all(&path).expect("made");
        } else {
            fs::create_dir_all(path.parent().expect("inside")).expect("made");
            fs::write(&path, "theirs").expect("written");
        }
        let list = || -> Vec<PathBuf> {
            let mut all: Vec<_> = fs::read_dir(folder.path())
                .expect("there")
                .map(|entry| entry.expect("readable").path())
                .collect();
            all.sort();
            all
        };
        let before = list();
        let refused = Repositories::open(folder.path(), GitConfig::default());
        assert!(
            matches!(refused, Err(OpenError::Foreign { .. })),
            "{found}: {refused:?}"
        );
        assert_eq!(list(), before, "{found}");
    }
}

#[test]
fn a_later_format_is_refused() {
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    fs::create_dir(folder.path().join(".grasp")).expect("made");
    fs::write(folder.path().join(".grasp/format"), "ngit-grasp git 2\n").expect("written");
    let refused = Repositories::open(folder.path(), GitConfig::default());
    assert!(matches!(refused, Err(OpenError::Format { .. })));
}

/// NAME-4: here only that an honest file system passes.
#[test]
fn this_file_system_tells_names_apart() {
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    assert_eq!(probe::folding(folder.path()).expect("writable"), None);
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0);
}

#[test]
fn snapshots_beyond_the_bound_are_read_again() {
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    let config = GitConfig {
        refs_cached_max: 0,
        ..GitConfig::default()
    };
    let repositories = Repositories::open(folder.path(), config).expect("empty");
    let repo = address(1, "project");
    repositories.lock(&repo).create().expect("created");
    assert!(repositories.refs(&repo).expect("there").refs.is_empty());
    assert!(repositories.refs(&address(1, "other")).is_err());
}

/// What a child has of an open file of ours until its exec: another descriptor of the same opening.
fn as_a_child_has_it(path: &Path) -> std::os::fd::OwnedFd {
    let mut ours = fs::read_dir("/proc/self/fd").expect("on Linux").flatten();
    let is_it = |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|to| to == path);
    let name = ours.find(is_it).expect("it is open").file_name();
    let number = name.to_str().and_then(|name| name.parse().ok());
    let us = rustix::process::pidfd_open(
        rustix::process::getpid(),
        rustix::process::PidfdFlags::empty(),
    );
    rustix::process::pidfd_getfd(
        us.expect("we run"),
        number.expect("a number"),
        rustix::process::PidfdGetfdFlags::empty(),
    )
    .expect("it is ours")
}

/// CLI-2: a folder that is let go can be taken again at once, whatever is being started just then.
#[test]
fn a_child_that_is_being_started_does_not_keep_the_folder() {
    let Place {
        repositories,
        folder,
    } = Place::new();
    let root = repositories.root().to_owned();
    let child = as_a_child_has_it(&root.join(".grasp/format"));
    drop(repositories);
    Repositories::open(&root, GitConfig::default()).expect("it is free");
    drop((child, folder));
}
