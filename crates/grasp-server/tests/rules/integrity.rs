//! `integrity-check`: what is wrong on the disk is found, and mended without losing anything.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grasp_git::Problem;
use grasp_server::{Checked, Finding};
use grasp_testkit::Person;

use crate::history::commit;
use crate::world::{World, address, announcing, git, main_at, main_only};

fn alice() -> Person {
    Person::named("alice")
}

fn bob() -> Person {
    Person::named("bob")
}

async fn check(world: &World, owner: &Person) -> Checked {
    let (repository, given_up) = (address(owner), Arc::default());
    let checked = world.service().check(&repository, &given_up).await;
    checked.expect("readable")
}

async fn repair(world: &World, owner: &Person) -> Vec<Finding> {
    let checked = check(world, owner).await;
    let after = world.service().repair(&checked, &Arc::default()).await;
    after.expect("repaired").findings
}

/// The names of what is found.
async fn found(world: &World, owner: &Person) -> Vec<&'static str> {
    let findings = check(world, owner).await.findings;
    findings.iter().map(Finding::name).collect()
}

/// Unpacks a repository, so that each object is a file.
fn loosen(home: &PathBuf) {
    let packs: Vec<PathBuf> = entries(&home.join("objects/pack"));
    let aside = home.join("aside");
    fs::create_dir(&aside).expect("made");
    for file in packs {
        fs::rename(&file, aside.join(file.file_name().expect("a file"))).expect("ours");
    }
    for pack in entries(&aside) {
        if pack.extension().is_some_and(|ending| ending == "pack") {
            let file = fs::File::open(&pack).expect("there");
            let status = std::process::Command::new("git")
                .arg("--git-dir")
                .arg(home)
                .args(["unpack-objects", "-q"])
                .stdin(file)
                .status();
            assert!(status.expect("git runs").success());
        }
    }
    fs::remove_dir_all(aside).expect("ours");
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("readable");
    entries
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

fn only_pack(home: &Path) -> PathBuf {
    let files = entries(&home.join("objects/pack")).into_iter();
    let mut packs = files.filter(|file| file.extension().is_some_and(|ending| ending == "pack"));
    let pack = packs.next().expect("a pack");
    assert_eq!(packs.next(), None);
    pack
}

/// Relatives share packs by hard link: damages the copy of one.
fn damage(pack: &Path) {
    let mut bytes = fs::read(pack).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    bytes[middle + 1] ^= 0xff;
    fs::remove_file(pack).expect("ours");
    fs::write(pack, bytes).expect("writable");
}

fn remove_loose(home: &PathBuf, object: &str) -> String {
    let oid = git(home, &["rev-parse", object]).trim().to_owned();
    fs::remove_file(home.join("objects").join(&oid[..2]).join(&oid[2..])).expect("loose");
    oid
}

#[tokio::test]
async fn a_healthy_repository_has_no_findings() {
    let world = World::new();
    world.serving(&alice()).await;
    let checked = check(&world, &alice()).await;
    assert_eq!(checked.findings, []);
    assert!(checked.objects >= 2, "{checked:?}");
    // A state that waits for objects from elsewhere is no damage.
    world
        .send(&main_at(&alice(), commit(2).await))
        .await
        .waits();
    assert_eq!(found(&world, &alice()).await, [""; 0]);
    // Nor is an announcement that waits.
    world.send(&announcing(&bob()).sign()).await.waits();
    assert_eq!(found(&world, &bob()).await, [""; 0]);
}

/// REF-8: the tip is there, what is below it is gone, and nobody else has it.
#[tokio::test]
async fn a_deep_hole_is_found_and_its_refs_are_not_shown_until_a_push_fills_it() {
    let world = World::new();
    world.serving(&alice()).await;
    let state = main_at(&alice(), commit(1).await);
    world.send(&state).await.waits();
    world
        .push(&alice(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    let home = world.path(&alice());
    loosen(&home);
    let gone = remove_loose(&home, "main~1^{tree}");
    let checked = check(&world, &alice()).await;
    let [Finding::Object { hole, needed_by }] = &checked.findings[..] else {
        panic!("one object is gone: {:?}", checked.findings);
    };
    assert_eq!(hole.oid.to_string(), gone);
    assert_eq!(hole.problem, Problem::Missing);
    assert_eq!(needed_by, "refs/heads/main");
    let left = repair(&world, &alice()).await;
    assert!(!left.is_empty(), "what is gone stays a finding");
    assert_eq!(world.refs(&alice()), Some([].into()), "and is not shown");
    world.recheck(&alice()).await;
    assert_eq!(world.refs(&alice()), Some([].into()), "whoever looks again");
    assert!(world.serves(&state), "no event is lost");
    world
        .push(&alice(), &[("refs/heads/main", commit(1).await)])
        .await
        .accepted();
    assert_eq!(world.refs(&alice()), Some(main_only(commit(1).await)));
    assert_eq!(found(&world, &alice()).await, [""; 0]);
    git(&home, &["fsck", "--full", "--strict"]);
}

/// REF-8: a co-maintainer's repository gives it back.
#[tokio::test]
async fn a_deep_hole_is_filled_from_a_relative() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let home = world.path(&alice());
    loosen(&home);
    remove_loose(&home, "main^{tree}");
    assert_eq!(found(&world, &alice()).await, ["object_missing"]);
    assert_eq!(repair(&world, &alice()).await, []);
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    git(&home, &["fsck", "--full", "--strict"]);
}

#[tokio::test]
async fn a_damaged_object_is_moved_aside_and_replaced() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let home = world.path(&alice());
    loosen(&home);
    let oid = git(&home, &["rev-parse", "main^{tree}"]).trim().to_owned();
    let file = home.join("objects").join(&oid[..2]).join(&oid[2..]);
    fs::remove_file(&file).expect("loose");
    fs::write(&file, b"rubbish").expect("writable");
    assert_eq!(found(&world, &alice()).await, ["object_damaged"]);
    assert_eq!(repair(&world, &alice()).await, []);
    assert_eq!(entries(&home.join("damaged")).len(), 1);
    git(&home, &["fsck", "--full", "--strict"]);
}

#[tokio::test]
async fn a_pack_with_a_damaged_object_is_replaced_by_one_from_a_relative() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let home = world.path(&alice());
    let pack = only_pack(&home);
    damage(&pack);
    let names = found(&world, &alice()).await;
    assert!(names.contains(&"object_damaged"), "{names:?}");
    assert_eq!(repair(&world, &alice()).await, []);
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    git(&home, &["fsck", "--full", "--strict"]);
}

/// REF-8: nobody here has a whole copy, until the operator brings one.
#[tokio::test]
async fn a_pack_with_a_damaged_object_is_replaced_by_what_an_operator_brings() {
    let world = World::new();
    world.serving(&alice()).await;
    let home = world.path(&alice());
    let pack = only_pack(&home);
    // On the same disk: git makes the pack in the repository and moves it.
    let root = world.service().repositories().root();
    let beside = root.parent().expect("the world's folder");
    let elsewhere = tempfile::tempdir_in(beside).expect("a folder");
    let copy = elsewhere.path().join("pack");
    let copy = copy.to_str().expect("text");
    // Packed anew, or it would be the same file.
    let anew = ["--no-reuse-object", "--compression=0"];
    let packed = [&["pack-objects", "--all", "-q"][..], &anew, &[copy]].concat();
    git(&home, &packed);
    damage(&pack);
    let left = repair(&world, &alice()).await;
    assert!(
        left.iter()
            .any(|finding| finding.name() == "object_damaged"),
        "{left:?}"
    );
    assert!(pack.exists(), "better than nothing");
    for file in entries(elsewhere.path()) {
        let name = file.file_name().expect("a file");
        let place = home.join("objects/pack").join(name);
        assert!(!place.exists(), "another pack");
        fs::copy(&file, place).expect("writable");
    }
    assert_ne!(found(&world, &alice()).await, [""; 0], "whichever is asked");
    assert_eq!(repair(&world, &alice()).await, []);
    assert!(!pack.exists());
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    git(&home, &["fsck", "--full", "--strict"]);
}

/// A pack whose data is gone makes every object unreadable: it moves aside, and a push refills (PUSH-9).
#[tokio::test]
async fn a_pack_without_data_is_moved_aside_and_a_push_refills() {
    let world = World::new();
    world.serving(&alice()).await;
    let home = world.path(&alice());
    for file in entries(&home.join("objects/pack")) {
        if file.extension().is_some_and(|ending| ending == "pack") {
            fs::remove_file(file).expect("ours");
        }
    }
    assert_eq!(found(&world, &alice()).await, ["unreadable_pack"]);
    let left = repair(&world, &alice()).await;
    let names: Vec<_> = left.iter().map(Finding::name).collect();
    assert_eq!(names, ["object_missing"]);
    assert_eq!(world.refs(&alice()), Some([].into()));
    world
        .push(&alice(), &[("refs/heads/main", commit(0).await)])
        .await
        .accepted();
    assert_eq!(found(&world, &alice()).await, [""; 0]);
}

/// GIT-12, REF-2
#[tokio::test]
async fn damaged_refs_are_written_as_they_were() {
    let world = World::new();
    world.serving(&alice()).await;
    let home = world.path(&alice());
    for content in ["\0\0rubbish", ""] {
        fs::write(home.join("packed-refs"), content).expect("writable");
        assert!(!check(&world, &alice()).await.findings.is_empty());
        assert_eq!(repair(&world, &alice()).await, []);
        assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    }
    fs::write(home.join("HEAD"), "ref: refs/heads/ma").expect("writable");
    fs::write(home.join("packed-refs.lock"), "").expect("writable");
    let oid = &commit(0).await.oid;
    git(&home, &["update-ref", "refs/heads/mine", oid]);
    let names = found(&world, &alice()).await;
    for name in ["head_damaged", "leftover", "loose_refs", "ref"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert_eq!(repair(&world, &alice()).await, []);
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    assert_eq!(world.head(&alice()), "refs/heads/main");
}

/// REF-6
#[tokio::test]
async fn a_folder_that_is_gone_is_made_again() {
    let world = World::new();
    world.serving(&alice()).await;
    fs::remove_dir_all(world.path(&alice())).expect("ours");
    assert_eq!(found(&world, &alice()).await, ["directory_missing"]);
    repair(&world, &alice()).await;
    assert!(world.exists(&alice()));
    world
        .push(&alice(), &[("refs/heads/main", commit(0).await)])
        .await
        .accepted();
    assert_eq!(found(&world, &alice()).await, [""; 0]);
}

/// REF-6: only reconciling removes, and a repair never does.
#[tokio::test]
async fn a_folder_that_no_event_asks_for_is_told_and_left_until_it_is_taken_away() {
    let world = World::new();
    world.serving(&alice()).await;
    let home = world.path(&bob());
    fs::create_dir_all(&home).expect("made");
    git(&home, &["init", "--bare", "--quiet"]);
    assert_eq!(found(&world, &bob()).await, ["directory_unwanted"]);
    repair(&world, &bob()).await;
    assert!(home.exists());
    let unwanted = world.service().orphaned(&address(&bob())).await;
    let unwanted = unwanted.expect("readable").expect("nobody asks for it");
    assert!(unwanted.is_empty);
    assert_eq!(
        world
            .service()
            .orphaned(&address(&alice()))
            .await
            .expect("readable"),
        None
    );
    // By the time it would go, somebody asks for it.
    world.send(&announcing(&bob()).sign()).await.waits();
    world
        .service()
        .clear_orphan(&unwanted)
        .await
        .expect("looked at");
    assert!(world.exists(&bob()));
    world.pass(1801).await;
    assert!(!home.exists(), "expired as ever");
    fs::create_dir_all(&home).expect("made");
    let unwanted = world.service().orphaned(&address(&bob())).await;
    let unwanted = unwanted.expect("readable").expect("nobody asks for it");
    world
        .service()
        .clear_orphan(&unwanted)
        .await
        .expect("taken");
    assert!(!home.exists());
}

/// What is to be looked at is everything that events speak of, and everything on the disk.
#[tokio::test]
async fn places_are_those_of_events_and_those_of_the_disk() {
    let world = World::new();
    world.serving(&alice()).await;
    fs::remove_dir_all(world.path(&alice())).expect("ours");
    fs::create_dir_all(world.path(&bob())).expect("made");
    let git_root = world.path(&bob());
    let stray = git_root.parent().expect("below").join("notes");
    fs::create_dir(&stray).expect("made");
    let places = world.service().places(None).await.expect("readable");
    let both = [address(&alice()), address(&bob())];
    assert_eq!(places.repositories, both.clone().into());
    assert_eq!(places.strays, [stray.canonicalize().expect("there")]);
    let named = crate::world::REPO.parse().expect("valid");
    let places = world.service().places(Some(named)).await.expect("readable");
    assert_eq!(places.repositories, both.into());
    let other = "other".parse().expect("valid");
    let places = world.service().places(Some(other)).await.expect("readable");
    assert_eq!(places.repositories, [].into());
}
