//! DEL-5, DEL-6: what becomes of the git data of a scope that leaves, and how the scope comes back.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use grasp_testkit::{Event, Person};

use crate::history::commit;
use crate::world::{REPO, World, git, main_at, main_only, refs_at};

fn alice() -> Person {
    Person::named("alice")
}

/// A request for everything at the address.
fn deletion_of_scope(owner: &Person) -> Event {
    owner.draft(5).tag(["a", &owner.coordinate(REPO)]).sign()
}

/// What tells a moved folder from a copied one.
fn inode(folder: &Path) -> u64 {
    std::fs::metadata(folder).expect("it is there").ino()
}

/// DEL-5: out of sight, whole, and under the time it left at.
#[tokio::test]
async fn a_deleted_repository_lies_in_the_archive() {
    let world = World::new();
    world.serving(&alice()).await;
    let before = inode(&world.path(&alice()));
    world.send(&deletion_of_scope(&alice())).await.is_stored();
    assert!(!world.exists(&alice()) && world.advertised(&alice()).await.is_none());
    let copies = world.archived(&alice());
    let [copy] = copies.as_slice() else {
        panic!("one copy: {copies:?}");
    };
    let name = format!("project-{}", world.now().as_secs());
    assert!(copy.ends_with(name), "{copy:?}");
    assert_eq!(refs_at(copy), main_only(commit(0).await));
    git(copy, &["fsck", "--strict"]);
    assert_eq!(inode(copy), before, "a rename, not a copy");
}

/// DEL-2: the announcement waits again, and nothing of the deleted state can be fetched.
#[tokio::test]
async fn deleting_the_last_state_archives_git_and_leaves_an_empty_repository() {
    let mut world = World::new();
    let (_, state) = world.serving(&alice()).await;
    world
        .send(&alice().deletion(&state).sign())
        .await
        .is_stored();
    assert_eq!(world.advertised(&alice()).await, Some([].into()));
    let objects = git(&world.path(&alice()), &["count-objects", "-v"]);
    assert!(objects.contains("in-pack: 0\n"), "{objects}");
    assert_eq!(world.archived(&alice()).len(), 1);
    // Nothing is archived twice.
    let again = main_at(&alice(), commit(1).await);
    world.send(&again).await.waits();
    world.restart_after(1).await;
    world
        .push(&alice(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    world.recheck(&alice()).await;
    assert_eq!(world.refs(&alice()), Some(main_only(commit(1).await)));
}
