//! The look at all repositories that follows a start: GIT-13, REF-5, REF-8.

use std::fs;

use grasp_server::Surveyed;
use grasp_testkit::Person;

use crate::history::commit;
use crate::world::{World, git, main_only};

const DEGRADED: &str = "ngit_repositories_degraded";

fn alice() -> Person {
    Person::named("alice")
}

fn bob() -> Person {
    Person::named("bob")
}

async fn survey(world: &World) -> (usize, usize) {
    let surveyed = world.service().survey(&[]).await;
    let Surveyed { looked_at, marked } = surveyed.expect("readable");
    (looked_at, marked)
}

#[tokio::test]
async fn a_start_after_an_orderly_end_finds_nothing_to_do() {
    let mut world = World::new();
    world.serving_together(&alice(), &bob()).await;
    world.restart_after(0).await;
    let commits = world.commits();
    assert_eq!(survey(&world).await, (2, 0));
    assert_eq!(world.commits(), commits);
    let other = ["other".parse().expect("valid")];
    let surveyed = world.service().survey(&other).await;
    assert_eq!(surveyed.expect("readable").looked_at, 0, "not asked for");
}

/// REF-2, REF-6: no event changed, so no mark tells of it.
#[tokio::test]
async fn what_was_done_to_the_disk_while_no_server_ran_is_noticed() {
    let mut world = World::new();
    world.serving_together(&alice(), &bob()).await;
    world.stop().await;
    let name = "refs/heads/main";
    git(&world.path(&alice()), &["update-ref", "-d", name]);
    fs::remove_dir_all(world.path(&bob())).expect("there");
    world.start().await;
    assert_eq!(world.refs(&alice()), Some([].into()));
    assert_eq!(survey(&world).await, (2, 2));
    for owner in [alice(), bob()] {
        assert_eq!(world.refs(&owner), Some(main_only(commit(0).await)));
    }
    assert_eq!(survey(&world).await, (2, 0));
}

/// GIT-12: a HEAD that git cannot read is in the way of every clone, a loose ref shadows what is right.
#[tokio::test]
async fn ref_files_that_are_damaged_or_in_the_way_are_written_anew() {
    let mut world = World::new();
    world.serving(&alice()).await;
    let home = world.path(&alice());
    let elsewhere = commit(1).await.oid.clone() + "\n";
    for (file, content) in [
        ("HEAD", ""),
        ("packed-refs", "rubbish"),
        ("refs/heads/main", elsewhere.as_str()),
    ] {
        world.stop().await;
        let file = home.join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("writable");
        fs::write(file, content).expect("writable");
        world.start().await;
        assert_eq!(survey(&world).await, (1, 1));
        assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
        assert_eq!(world.head(&alice()), "refs/heads/main");
        assert_eq!(survey(&world).await, (1, 0));
    }
}

/// REF-4
#[tokio::test]
async fn a_head_that_somebody_moved_is_noticed() {
    let mut world = World::new();
    world.serving(&alice()).await;
    world.stop().await;
    let elsewhere = ["symbolic-ref", "HEAD", "refs/heads/elsewhere"];
    git(&world.path(&alice()), &elsewhere);
    world.start().await;
    assert_eq!(survey(&world).await, (1, 1));
    assert_eq!(world.head(&alice()), "refs/heads/main");
}

/// REF-8: a new process knows again of what is degraded, and looks again whether it still is.
#[tokio::test]
async fn what_was_degraded_before_a_start_is_known_after_it() {
    let mut world = World::new();
    world.serving(&alice()).await;
    let packs = world.path(&alice()).join("objects/pack");
    let aside = world.path(&alice()).join("aside");
    fs::rename(&packs, &aside).expect("there");
    world.restart_after(0).await;
    world.recheck(&alice()).await;
    assert_eq!(world.metric(DEGRADED).await, 1);
    world.restart_after(0).await;
    assert_eq!(world.metric(DEGRADED).await, 0, "nobody has looked yet");
    assert_eq!(survey(&world).await, (1, 1));
    assert_eq!(world.metric(DEGRADED).await, 1);
    world.stop().await;
    fs::rename(&aside, &packs).expect("there");
    world.start().await;
    assert_eq!(survey(&world).await, (1, 1));
    assert_eq!(world.metric(DEGRADED).await, 0);
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
}
