//! §14: what other servers send, once it is here. How it is found and asked for is elsewhere.

use std::collections::BTreeSet;

use grasp_core::EventId;
use grasp_core::admission::Answer;
use grasp_core::clone_url::CloneUrl;
use grasp_core::event::VerifiedEvent;
use grasp_core::hunt::GroupKey;
use grasp_core::lifecycle::Stage;
use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::oid::Oid;
use grasp_core::state::StateEvent;
use grasp_server::{Landing, TakeError, Taken};
use grasp_store::CommitVersion;
use grasp_testkit::Person;
use tokio::io::AsyncWriteExt as _;
use tokio_util::sync::CancellationToken;

use crate::history::{self, Commit, commit};
use crate::world::{
    HOST, REPO, WAITING, World, address, announcing, listing, main_at, main_only, proposing,
    prs_url, refs_at,
};

fn alice() -> Person {
    Person::named("alice")
}

fn bob() -> Person {
    Person::named("bob")
}

fn oid(commit: &Commit) -> Oid {
    commit.oid.parse().expect("an oid")
}

fn wants(commits: &[&Commit]) -> BTreeSet<Oid> {
    commits.iter().map(|commit| oid(commit)).collect()
}

fn announced_at(owner: &Person) -> String {
    format!("https://{HOST}/{}/{REPO}.git", owner.npub())
}

fn prs(submitter: &Person) -> RepoAddress {
    let identifier = REPO.parse().expect("valid");
    RepoAddress::Proposals(Coordinate::new(submitter.key(), identifier))
}

impl World {
    /// Another server sends `sent` when it is asked for `wanted`.
    async fn fetch(&self, into: &RepoAddress, wanted: &[&Commit], sent: &[&Commit]) -> Taken {
        let pack = history::pack(sent).await.expect("some");
        let taken = self.try_fetch(into, wanted, &pack).await;
        taken.expect("a sound pack")
    }

    async fn try_fetch(
        &self,
        into: &RepoAddress,
        wanted: &[&Commit],
        pack: &[u8],
    ) -> Result<Taken, TakeError> {
        let pack = std::io::Cursor::new(pack.to_vec());
        self.service()
            .take_fetched(into, &wants(wanted), pack)
            .await
    }

    async fn land(&self, into: &RepoAddress, wanted: &[&Commit]) -> Landing {
        let landing = self.service().land(into, &wants(wanted)).await;
        landing.expect("readable").expect("it is needed")
    }

    /// The commit that last asked to look for the git data.
    fn asked_for(&self) -> CommitVersion {
        let snapshot = self.service().store().snapshot().expect("readable");
        let hunts = snapshot.view().hunts(None, 2).expect("readable");
        hunts.first().expect("it was announced").asked_in
    }

    fn packs_of(&self, owner: &Person) -> usize {
        let home = self.service().repositories().path(&address(owner));
        std::fs::read_dir(home.join("objects/pack")).map_or(0, Iterator::count)
    }
}

fn kept(commits: &[&Commit], taken: &Taken) {
    match taken {
        Taken::Kept { whole, .. } => assert_eq!(*whole, wants(commits)),
        Taken::Overtaken => panic!("it was needed"),
    }
}

/// HUNT-12, AFTER-2, AFTER-7: announcement and state are served, and refs show it, as after a push.
#[tokio::test]
async fn a_state_whose_objects_were_fetched_is_served_with_its_refs() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let first = commit(0).await;
    let state = main_at(&alice(), first);
    world.send(&state).await.waits();
    let taken = world.fetch(&address(&alice()), &[first], &[first]).await;
    kept(&[first], &taken);
    assert!(world.serves(&announcement) && world.serves(&state));
    assert_eq!(world.refs(&alice()), Some(main_only(first)));
}

/// AFTER-3: every owner's repository shows it.
#[tokio::test]
async fn what_one_repository_fetched_all_of_the_group_show() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let state = main_at(&bob(), commit(1).await);
    world.send(&state).await.waits();
    world
        .fetch(&address(&alice()), &[commit(1).await], &[commit(1).await])
        .await;
    assert!(world.serves(&state));
    for owner in [alice(), bob()] {
        assert_eq!(world.refs(&owner), Some(main_only(commit(1).await)));
    }
}

/// HUNT-5, HUNT-12: what is whole is kept for the next source to complete; nothing shows meanwhile.
#[tokio::test]
async fn two_servers_complete_a_state_that_neither_has_whole() {
    let world = World::new();
    world.serving(&alice()).await;
    let (main, side) = (commit(5).await, commit(7).await);
    let state = alice()
        .state(
            REPO,
            [
                ("refs/heads/main", &main.oid),
                ("refs/heads/side", &side.oid),
            ],
        )
        .sign();
    world.send(&state).await.waits();
    let at = address(&alice());
    let taken = world.fetch(&at, &[main, side], &[main]).await;
    kept(&[main], &taken);
    assert_eq!(world.stage(&state), Some(Stage::Waiting));
    assert_eq!(world.refs(&alice()), Some(main_only(commit(0).await)));
    let taken = world.fetch(&at, &[side], &[side]).await;
    kept(&[side], &taken);
    assert!(world.serves(&state));
}

/// HUNT-12, PUSH-18: another history than the one that was asked for leaves nothing.
#[tokio::test]
async fn a_pack_of_something_else_leaves_nothing() {
    let world = World::new();
    world.serving(&alice()).await;
    let state = main_at(&alice(), commit(5).await);
    world.send(&state).await.waits();
    let before = world.packs_of(&alice());
    let at = address(&alice());
    let taken = world
        .fetch(&at, &[commit(5).await], &[commit(7).await])
        .await;
    kept(&[], &taken);
    assert_eq!(world.packs_of(&alice()), before);
    let mut broken = commit(5).await.pack.clone();
    let middle = broken.len() / 2;
    broken[middle] ^= 0x55;
    let refused = world.try_fetch(&at, &[commit(5).await], &broken).await;
    assert!(!refused.expect_err("it is broken").is_ours());
    assert_eq!(world.packs_of(&alice()), before);
    assert_eq!(world.stage(&state), Some(Stage::Waiting));
}

/// HUNT-12: nobody's server says what is taken in here.
#[tokio::test]
async fn what_nothing_waits_for_is_not_taken() {
    let world = World::new();
    world.serving(&alice()).await;
    let before = world.packs_of(&alice());
    let taken = world
        .fetch(&address(&alice()), &[commit(5).await], &[commit(5).await])
        .await;
    assert_eq!(taken, Taken::Overtaken);
    let taken = world
        .fetch(&address(&bob()), &[commit(5).await], &[commit(5).await])
        .await;
    assert_eq!(taken, Taken::Overtaken, "there is no such repository");
    assert_eq!(world.packs_of(&alice()), before);
}

/// AFTER-7, HUNT-5a: a push during the fetch wins, and the fetch ends quietly.
#[tokio::test]
async fn a_push_during_a_fetch_wins() {
    let world = World::new();
    world.serving(&alice()).await;
    let next = commit(5).await;
    let state = main_at(&alice(), next);
    world.send(&state).await.waits();
    let landing = world.land(&address(&alice()), &[next]).await;
    let (mut sender, pack) = tokio::io::duplex(64);
    let fetch = tokio::spawn(async move { landing.take(pack, CancellationToken::new()).await });
    sender.write_all(&next.pack[..20]).await.expect("read");
    world
        .push(&alice(), &[("refs/heads/main", next)])
        .await
        .accepted();
    let packs = world.packs_of(&alice());
    sender.write_all(&next.pack[20..]).await.expect("read");
    drop(sender);
    let taken = fetch.await.expect("no panic").expect("a sound pack");
    assert_eq!(taken, Taken::Overtaken);
    assert_eq!(world.packs_of(&alice()), packs);
    assert!(world.serves(&state));
}

/// DEL-2, HUNT-5a: what is deleted during the fetch is not brought.
#[tokio::test]
async fn what_is_deleted_during_a_fetch_is_not_installed() {
    let world = World::new();
    world.serving(&alice()).await;
    let next = commit(5).await;
    let state = main_at(&alice(), next);
    world.send(&state).await.waits();
    let landing = world.land(&address(&alice()), &[next]).await;
    let packs = world.packs_of(&alice());
    world
        .send(&alice().deletion(&state).sign())
        .await
        .is_stored();
    let pack = std::io::Cursor::new(next.pack.clone());
    let taken = landing.take(pack, CancellationToken::new()).await;
    assert_eq!(taken.expect("a sound pack"), Taken::Overtaken);
    assert_eq!(world.packs_of(&alice()), packs);
}

/// DEL-4, REF-7: so too if the whole repository goes.
#[tokio::test]
async fn a_repository_that_leaves_during_a_fetch_gets_nothing() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let first = commit(0).await;
    world.send(&main_at(&alice(), first)).await.waits();
    let landing = world.land(&address(&alice()), &[first]).await;
    let deletion = alice()
        .draft(5)
        .tag(["a", &alice().coordinate(REPO)])
        .sign();
    world.send(&deletion).await.is_stored();
    let pack = std::io::Cursor::new(first.pack.clone());
    let taken = landing.take(pack, CancellationToken::new()).await;
    assert_eq!(taken.expect("a sound pack"), Taken::Overtaken);
    assert!(
        !world
            .service()
            .repositories()
            .path(&address(&alice()))
            .exists()
    );
}

/// PUR-2: what a running fetch is bringing does not expire, for a day at most.
#[tokio::test]
async fn what_a_fetch_is_bringing_does_not_expire() {
    let world = World::new();
    let announcement = announcing(&alice()).sign();
    world.send(&announcement).await.waits();
    let first = commit(0).await;
    let state = main_at(&alice(), first);
    world.send(&state).await.waits();
    let landing = world.land(&address(&alice()), &[first]).await;
    world.pass(WAITING * 4).await;
    assert_eq!(world.stage(&state), Some(Stage::Waiting));
    let pack = std::io::Cursor::new(first.pack.clone());
    kept(
        &[first],
        &landing
            .take(pack, CancellationToken::new())
            .await
            .expect("sound"),
    );
    assert!(world.serves(&state) && world.serves(&announcement));

    let next = main_at(&alice(), commit(1).await);
    world.send(&next).await.waits();
    let landing = world.land(&address(&alice()), &[commit(1).await]).await;
    world.pass(WAITING + 86_400).await;
    assert_ne!(world.stage(&next), Some(Stage::Waiting), "a day is enough");
    drop(landing);
}

/// HUNT-9: a fetch that is stopped ends although the other side is silent, and leaves nothing.
#[tokio::test]
async fn a_fetch_that_is_stopped_ends() {
    let world = World::new();
    world.serving(&alice()).await;
    world
        .send(&main_at(&alice(), commit(5).await))
        .await
        .waits();
    let landing = world.land(&address(&alice()), &[commit(5).await]).await;
    let packs = world.packs_of(&alice());
    let (mut sender, pack) = tokio::io::duplex(64);
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let fetch = tokio::spawn(async move { landing.take(pack, stopping).await });
    sender
        .write_all(&commit(5).await.pack[..30])
        .await
        .expect("read");
    stop.cancel();
    fetch.await.expect("no panic").expect_err("it was stopped");
    assert_eq!(world.packs_of(&alice()), packs);
}

/// G2-3, AFTER-5, PR-3: a fetched commit of a proposal ends as a pushed one.
#[tokio::test]
async fn a_fetched_commit_serves_its_proposal_with_its_ref() {
    let world = World::new();
    world.serving_together(&alice(), &bob()).await;
    let carol = Person::named("carol");
    let proposal = proposing(&carol, &alice(), commit(2).await);
    world.send(&proposal).await.waits();
    world
        .fetch(&address(&alice()), &[commit(2).await], &[commit(2).await])
        .await;
    assert!(world.serves(&proposal));
    let name = format!("refs/nostr/{}", proposal.id.to_hex());
    for owner in [alice(), bob()] {
        let refs = world.refs(&owner).expect("served");
        assert_eq!(refs.get(&name), Some(&commit(2).await.oid));
    }
}

/// PR-6: what is no commit is not taken for a proposal's.
#[tokio::test]
async fn a_proposal_that_names_no_commit_gets_nothing() {
    let world = World::new();
    world.serving(&alice()).await;
    let tree = history::tree(2).await;
    let proposal = proposing(&bob(), &alice(), &tree);
    world.send(&proposal).await.waits();
    let packs = world.packs_of(&alice());
    kept(
        &[],
        &world
            .fetch(&address(&alice()), &[&tree], &[commit(2).await])
            .await,
    );
    assert_eq!(world.packs_of(&alice()), packs);
    assert_eq!(world.stage(&proposal), Some(Stage::Waiting));
}

/// G6-4, G2-3, REF-6: into the submitter's own place, which is only made for what is wanted there.
#[tokio::test]
async fn a_commit_is_fetched_into_the_submitter_s_own_place() {
    let world = World::new();
    let home = world.service().repositories().path(&prs(&bob()));
    let proposal = bob()
        .pull_request(&alice().coordinate(REPO), &commit(5).await.oid)
        .tag(["clone", &prs_url(&bob())])
        .sign();
    world.send(&proposal).await.waits();
    let taken = world
        .fetch(&prs(&bob()), &[commit(5).await], &[commit(7).await])
        .await;
    kept(&[], &taken);
    assert!(!home.exists());
    let taken = world
        .fetch(&prs(&bob()), &[commit(5).await], &[commit(5).await])
        .await;
    kept(&[commit(5).await], &taken);
    assert!(world.serves(&proposal));
    let name = format!("refs/nostr/{}", proposal.id.to_hex());
    assert_eq!(refs_at(&home).get(&name), Some(&commit(5).await.oid));
}

/// G6-4, G2-3, HUNT-4: owed to the submitter until it is there, wherever else the proposal says that it is.
#[tokio::test]
async fn what_is_proposed_for_a_repository_elsewhere_is_owed_to_its_submitter() {
    let world = World::new();
    let proposal = bob()
        .pull_request(&alice().coordinate(REPO), &commit(5).await.oid)
        .tag(["clone", &prs_url(&bob()), "https://fork.example/x.git"])
        .sign();
    world.send(&proposal).await.waits();
    let owed = |pending: &[EventId]| {
        let identifier = REPO.parse().expect("valid");
        let owed = world.service().owed(&identifier, pending, 8);
        owed.expect("readable").0.groups
    };
    let snapshot = world.service().store().snapshot().expect("readable");
    let pending = snapshot.view().pending_proposals().expect("readable");
    drop(snapshot);
    let pending: Vec<EventId> = pending.into_iter().map(|it| it.event).collect();
    let [group] = &owed(&pending)[..] else {
        panic!("one group");
    };
    assert_eq!(group.group, GroupKey::Submitter(bob().key()));
    assert_eq!(
        (&group.into, &group.wants),
        (&prs(&bob()), &vec![oid(commit(5).await)])
    );
    assert_eq!(owed(&[]), [], "nothing leads there from the identifier");
    world
        .fetch(&prs(&bob()), &[commit(5).await], &[commit(5).await])
        .await;
    assert_eq!(owed(&pending), []);
}

/// REF-8: what a served state lost comes back.
#[tokio::test]
async fn a_degraded_repository_is_refilled() {
    let mut world = World::new();
    world.serving(&alice()).await;
    let first = commit(0).await;
    let asked = world.asked_for();
    world.stop().await;
    for entry in std::fs::read_dir(world.path(&alice()).join("objects/pack")).expect("a folder") {
        std::fs::remove_file(entry.expect("an entry").path()).expect("ours");
    }
    world.start().await;
    world.recheck(&alice()).await;
    assert_ne!(world.refs(&alice()), Some(main_only(first)));
    assert!(world.asked_for() > asked, "the hunt is woken");
    kept(
        &[first],
        &world.fetch(&address(&alice()), &[first], &[first]).await,
    );
    assert_eq!(world.refs(&alice()), Some(main_only(first)));
}

/// HUNT-5a: relatives complete what was sent.
#[tokio::test]
async fn what_a_relative_has_need_not_be_sent() {
    let world = World::new();
    let state = world.serving_together(&alice(), &bob()).await;
    assert!(world.serves(&state));
    let stranger = listing(&Person::named("carol"), &[&alice()]).sign();
    world.send(&stranger).await.waits();
    let landing = {
        world
            .send(&main_at(&alice(), commit(2).await))
            .await
            .waits();
        world.land(&address(&bob()), &[commit(2).await]).await
    };
    assert!(landing.haves().await.contains(&oid(commit(0).await)));
    let thin = history::pack_between(commit(0).await, commit(2).await).await;
    let pack = std::io::Cursor::new(thin);
    kept(
        &[commit(2).await],
        &landing
            .take(pack, CancellationToken::new())
            .await
            .expect("sound"),
    );
    assert_eq!(world.refs(&bob()), Some(main_only(commit(2).await)));
}

/// BND-2: below the floor nothing is fetched, and that is nobody else's fault.
#[tokio::test]
async fn below_the_disk_floor_nothing_is_fetched() {
    let mut world = World::new();
    world.serving(&alice()).await;
    let next = commit(5).await;
    world.send(&main_at(&alice(), next)).await.waits();
    world.restart_below_the_disk_floor().await;
    let refused = world
        .try_fetch(&address(&alice()), &[next], &next.pack)
        .await;
    assert!(refused.expect_err("the disk is full").is_ours());
    assert_eq!(world.refusals("disk_floor").await, 1);
}

/// PUR-14, PUR-5: what expired here waits again once its data was seen elsewhere.
#[tokio::test]
async fn a_mark_yields_when_the_data_was_seen() {
    let world = World::new();
    let place = "https://there.example/project.git";
    let clone = ["clone", &announced_at(&alice()), place];
    let announcement = announcing(&alice()).without("clone").tag(clone).sign();
    world.send(&announcement).await.waits();
    let state = main_at(&alice(), commit(0).await);
    world.send(&state).await.waits();
    world.pass(WAITING).await;
    assert!(world.is_marked(&state) && world.stage(&state).is_none());
    world.sync(&state).await.is_refused();
    let verified = VerifiedEvent::verify(state.clone()).expect("it is signed");
    let parsed = StateEvent::parse(verified.clone()).expect("a state");
    let witnesses = world.service().witnesses(&parsed).expect("readable");
    let witnesses: Vec<&str> = witnesses.iter().map(CloneUrl::as_str).collect();
    assert_eq!(witnesses, [place]);
    let answer = world.service().believe(verified).await.expect("stored");
    assert_eq!(answer, Answer::Purgatory);
    assert_eq!(world.stage(&state), Some(Stage::Waiting));
    assert_eq!(world.stage(&announcement), Some(Stage::Waiting));
    let none = world.service().witnesses(&parsed).expect("readable");
    assert_eq!(none, [], "it is not marked any more");
}
