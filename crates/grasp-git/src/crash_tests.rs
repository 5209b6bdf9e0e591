//! Dies at every step of the write path, in a process of its own, and looks at what is left.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use grasp_core::Timestamp;
use grasp_core::oid::Oid;

use crate::testing::{Place, address, assert_sound, git_text, name, refs};
use crate::{GitConfig, PackLimits, RefSnapshot, Repositories, ingest, propagate};

/// Every failpoint of this crate.
const STEPS: [&str; 19] = [
    "repository.built",
    "repository.renamed",
    "ingest.scanned",
    "ingest.indexed",
    "ingest.packed",
    "ingest.synced",
    "ingest.linked",
    "ingest.indexed-in-place",
    "ingest.durable",
    "refs.written",
    "refs.renamed",
    "refs.head",
    // The second file that is replaced is HEAD.
    "refs.written@2",
    "propagate.packed",
    "ingest.durable@2",
    "repository.removed",
    "repository.archived",
    "repository.restored",
    "repository.absorbed",
];

/// When something is archived.
const SINCE: Timestamp = Timestamp::from_secs(1_800_000_000);

/// What the child is told: where the git folder is, and where the pack.
const FOLDER: &str = "GRASP_CRASH_FOLDER";

/// Design §6: whatever step the power fails at, refs are the old or the new, what they name is whole, and
/// the same work done again succeeds.
#[test]
fn a_crash_at_any_step_leaves_old_or_new() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        // This is the child.
        return the_work(Path::new(&folder));
    }
    for step in STEPS {
        let place = Place::new();
        let work = place.work("work");
        let old = work.commit("dir/a", "1");
        let folder = place.folder.path().to_owned();
        seed(&place.repositories, &work.pack("HEAD\n", &[]), old);
        let new = work.commit("dir/b", "2");
        // Something that no tip needs, so that the pack is written anew.
        let junk = work.object("blob", b"junk");
        let list = format!("{new}\n{junk}\n^{old}\n");
        fs::write(folder.join("pack"), work.pack(&list, &["--thin"])).expect("written");
        fs::write(folder.join("tip"), new.to_string()).expect("written");
        let Place {
            repositories,
            folder,
        } = place;
        drop(repositories);

        let status = run_child(folder.path(), Some(step));
        assert!(
            !status.success() && status.code().is_none(),
            "{step} is not reached: {status}"
        );
        check(folder.path(), old, new, step);
        let status = run_child(folder.path(), None);
        assert!(status.success(), "again after {step}: {status}");
        let after = check(folder.path(), old, new, step);
        assert_eq!(after.head_oid(), Some(new), "{step}");
    }
}

fn seed(repositories: &Repositories, pack: &[u8], tip: Oid) {
    for owner in [1, 2, 7] {
        let repo = address(owner, "project");
        let lock = repositories.lock(&repo);
        lock.create().expect("created");
        let lease = repositories.lease(&repo);
        ingest(
            repositories,
            &lease,
            &[],
            &mut &*pack,
            &PackLimits::default(),
            &Arc::default(),
        )
        .and_then(|quarantined| quarantined.finish(&[tip]))
        .expect("complete");
        lock.write_refs(&refs([("refs/heads/a", tip)]), name("refs/heads/a"))
            .expect("present");
    }
    for owner in [4, 6] {
        let lock = repositories.lock(&address(owner, "project"));
        lock.create().expect("created");
    }
}

fn run_child(folder: &Path, step: Option<&str>) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().expect("a test has a file"));
    command
        .args([
            "--exact",
            "crash_tests::a_crash_at_any_step_leaves_old_or_new",
        ])
        .env(FOLDER, folder)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    if let Some(step) = step {
        command.env("NGIT_FAILPOINT", step);
    }
    command.status().expect("it starts")
}

/// A push to one owner, its refs, the other owner's, a creation, a removal, and what comes back from the
/// archive: as `reconcile` does them.
fn the_work(folder: &Path) {
    let repositories = Repositories::open(&folder.join("git"), GitConfig::default()).expect("ours");
    let pack = fs::read(folder.join("pack")).expect("there");
    let tip: Oid = fs::read_to_string(folder.join("tip"))
        .expect("there")
        .parse()
        .expect("an oid");
    let (first, second) = (address(1, "project"), address(2, "project"));

    repositories
        .lock(&address(3, "project"))
        .create()
        .expect("created");
    let lease = repositories.lease(&first);
    ingest(
        &repositories,
        &lease,
        &[],
        &mut &*pack,
        &PackLimits::default(),
        &Arc::default(),
    )
    .and_then(|quarantined| quarantined.finish(&[tip]))
    .expect("complete");
    let wanted = refs([("refs/heads/a/b", tip)]);
    let lock = repositories.lock(&first);
    lock.write_refs(&wanted, name("refs/heads/a/b"))
        .expect("present");
    drop(lock);
    let to = repositories.lease(&second);
    // From a pack with more in it than is needed, which is therefore not linked.
    let source = address(5, "project");
    repositories.lock(&source).create().expect("created");
    let lent = repositories.lease(&source);
    let all: Vec<Oid> = git_text(
        &lease.path(),
        &["rev-list", "--objects", "--no-object-names", "--all"],
    )
    .lines()
    .map(|hex| hex.parse().expect("an oid"))
    .collect();
    crate::testing::copy_packed(&lease.path(), &lent.path(), &all, b"an upload");
    propagate(&repositories, &to, &[lent], &[tip]).expect("readable");
    let lock = repositories.lock(&second);
    lock.write_refs(&wanted, name("refs/heads/a/b"))
        .expect("present");
    drop(lock);
    repositories
        .lock(&address(4, "project"))
        .remove()
        .expect("removed");
    let lock = repositories.lock(&address(6, "project"));
    lock.archive(SINCE).expect("archived");
    lock.restore(SINCE).expect("brought back");
    drop(lock);
    // One in whose place another was made.
    let lock = repositories.lock(&address(7, "project"));
    lock.archive(SINCE).expect("archived");
    lock.create().expect("made anew");
    lock.absorb(SINCE).expect("readable");
}

/// Opens the folder as a new process would.
fn check(folder: &Path, old: Oid, new: Oid, step: &str) -> RefSnapshot {
    let root = folder.join("git");
    let repositories = Repositories::open(&root, GitConfig::default()).expect("ours");
    let left = fs::read_dir(root.join(".grasp/quarantine")).expect("there");
    assert_eq!(left.count(), 0, "{step}");
    for owner in [1, 2] {
        let repo = address(owner, "project");
        let snapshot = repositories.refs(&repo).expect("there");
        let before = refs([("refs/heads/a", old)]);
        let after = refs([("refs/heads/a/b", new)]);
        assert!(
            [&before, &after].contains(&&snapshot.oids()),
            "{step}: {snapshot:?}"
        );
        assert_sound(&repositories.path(&repo));
        let objects = repositories
            .objects(&repositories.lease(&repo))
            .expect("there");
        let tips: Vec<Oid> = snapshot.oids().into_values().collect();
        assert_eq!(objects.complete(&tips, &[]).len(), tips.len(), "{step}");
        if objects.contains(&new) {
            assert!(
                objects.complete(&[new], &[]).contains(&new),
                "{step}: present is complete"
            );
        }
    }
    let archived = repositories.archived(&address(6, "project"), SINCE);
    let there = repositories.exists(&address(6, "project"));
    assert_ne!(
        archived.is_some(),
        there,
        "{step}: in one place, never in two or none"
    );
    let seventh = address(7, "project");
    let home = repositories
        .exists(&seventh)
        .then(|| repositories.lease(&seventh));
    let places = home
        .into_iter()
        .chain(repositories.archived(&seventh, SINCE));
    let whole = places.filter(|place| {
        let objects = repositories.objects(place).expect("readable");
        objects.complete(&[old], &[]).contains(&old)
    });
    assert!(whole.count() > 0, "{step}: nothing is lost on the way");
    for owner in [3, 4, 5, 6, 7] {
        let repo = address(owner, "project");
        if repositories.exists(&repo) {
            assert_sound(&repositories.path(&repo));
        }
    }
    (*repositories.refs(&address(1, "project")).expect("there")).clone()
}
