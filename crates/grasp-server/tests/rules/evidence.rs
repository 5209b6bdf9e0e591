//! PUR-14: what expired here and other servers still speak of is looked for where its maintainers say.

use std::sync::Arc;
use std::time::Duration;

use grasp_core::filter::Filter;
use grasp_server::Follower;
use grasp_sync::intake;
use grasp_testkit::wait::eventually_within;
use grasp_testkit::{Event, GitHome, GitHost, Person, WorkTree};
use nostr::key::Keys;

use crate::world::{HOST, REPO, WAITING, World, announcing};

/// Only a test that fails ever waits for so long.
const DEADLINE: Duration = Duration::from_mins(1);
/// Between two addresses, and a little more.
const PACE: Duration = Duration::from_secs(61);
/// Between two rounds over the addresses of one state, in seconds.
const ROUND: u64 = 3_600;

/// A state that expired here, in a server that runs and has heard of it again from another one. Its repository names a git
/// host, which has nothing yet.
struct Expired {
    world: World,
    alice: Person,
    work: WorkTree,
    host: GitHost,
    announcement: Event,
    state: Event,
    tip: String,
}

impl Expired {
    async fn new() -> Self {
        let mut world = World::with(|policy| policy.hunt_delay_sync = Duration::ZERO);
        let (alice, host) = (Person::named("alice"), GitHost::start().await);
        let work = GitHome::new().init("work").await;
        let tip = work.commit("first").await;
        let now = world.now().as_secs();
        let own = format!("https://{HOST}/{}/{REPO}.git", alice.npub());
        let clone = ["clone", &own, &host.url(REPO)];
        let announcement = announcing(&alice).without("clone").tag(clone).at(now);
        let announcement = announcement.sign();
        let state = alice
            .state(REPO, [("refs/heads/main", &tip)])
            .at(now)
            .sign();
        world.send(&announcement).await.waits();
        world.send(&state).await.waits();
        world.pass(WAITING).await;
        world.run().await;
        hears(&world, &state).await;
        let expired = Self {
            world,
            alice,
            work,
            host,
            announcement,
            state,
            tip,
        };
        expired.stays_away();
        expired
    }

    fn stays_away(&self) {
        assert!(self.world.is_marked(&self.state));
        assert_eq!(self.world.stage(&self.state), None);
    }
}

/// Another server sends it.
async fn hears(world: &World, event: &Event) {
    let owner = Keys::parse(&"01".repeat(32)).expect("a key");
    let follower = Follower::new(world.service(), owner, intake::Settings::default(), 10);
    let relay = "wss://relay.example.com".parse().expect("a relay");
    let asked = Arc::from([Filter::default()]);
    follower.hear(&relay, event.as_json(), asked).await;
}

/// All timers go on by so much at once; what is under way takes the time that it takes.
async fn timers_go_on(span: Duration) {
    tokio::time::pause();
    tokio::time::advance(span).await;
    tokio::time::resume();
}

/// PUR-14, PUR-8: its mark goes, it is fetched, and it is served with its repository.
#[tokio::test]
async fn what_expired_is_fetched_once_its_data_is_shown_elsewhere() {
    let expired = Expired::new().await;
    let (world, state) = (&expired.world, &expired.state);
    expired.host.hold(REPO, &expired.work, &["main"]).await;
    timers_go_on(PACE).await;
    // The refs follow what the store says, so they are the last to show it.
    eventually_within(DEADLINE, "its branch is there", async || {
        let refs = world.refs(&expired.alice).unwrap_or_default();
        refs.get("refs/heads/main") == Some(&expired.tip)
    })
    .await;
    assert!(world.serves(state) && !world.is_marked(state));
    assert!(world.serves(&expired.announcement));
}

/// PUR-14, PUR-8: a host that has another history speaks for nothing. An hour later it is asked again.
#[tokio::test]
async fn what_expired_stays_away_while_its_data_is_shown_nowhere() {
    let expired = Expired::new().await;
    let (world, host) = (&expired.world, &expired.host);
    let other = GitHome::new().init("other").await;
    other.commit("another history").await;
    host.hold(REPO, &other, &["main"]).await;
    timers_go_on(PACE).await;
    eventually_within(DEADLINE, "it is asked", async || host.requests() > 0).await;
    let before = host.requests();
    // That it is asked again shows what came of the first time.
    eventually_within(DEADLINE, "it is asked again", async || {
        if host.running() == 0 && host.requests() == before {
            world.clock().advance(ROUND);
            timers_go_on(PACE).await;
        }
        host.requests() > before
    })
    .await;
    expired.stays_away();
    assert!(!world.serves(&expired.announcement));
    for asked in host.asked() {
        let text = asked.text();
        assert!(!text.contains(&expired.tip), "nothing is fetched: {text}");
    }
}
