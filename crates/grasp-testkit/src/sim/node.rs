//! One server of the network: its store and its admission are real, and so is what it decides to ask.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::Endpoint;
use grasp_core::filter::Filter;
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::service::ServiceAddress;
use grasp_core::{EventId, Timestamp};
use grasp_server::Follower;
use grasp_store::{Committed, QueryLimits, Store};
use grasp_sync::engine::{Delivery, Engine, Input, Output, PeerInfo, Settings, Time};
use grasp_sync::hunt;
use grasp_sync::intake;
use grasp_sync::relay_url::RelayUrl;
use nostr::key::{Keys, SecretKey};
use tokio::sync::broadcast::Receiver;

use super::dice::Dice;
use super::hunter::{self, Hunter};
use super::world::World;

/// What it lets others do as a relay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manners {
    pub(crate) info: PeerInfo,
    /// The most events it gives for one REQ.
    pub(crate) page: usize,
    pub(crate) filters_max: usize,
    pub(crate) has_negentropy: bool,
    pub(crate) wants_auth: bool,
    /// It gives the newest events, and those in any order.
    pub(crate) is_untidy: bool,
}

impl Manners {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let page = *dice.pick(&[3, 3, 20, 500]);
        let info = PeerInfo {
            max_subscriptions: *dice.pick(&[None, Some(3), Some(10), Some(100)]),
            default_limit: *dice.pick(&[None, Some(page)]),
            negentropy: *dice.pick(&[None, Some(true), Some(false)]),
        };
        Self {
            info,
            page,
            filters_max: *dice.pick(&[1, 4, 20]),
            has_negentropy: info.negentropy != Some(false) && !dice.one_in(4),
            wants_auth: dice.one_in(4),
            is_untidy: dice.one_in(4),
        }
    }
}

/// By how much a server's clock is wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Skew {
    ahead: Duration,
    behind: Duration,
}

impl Skew {
    pub(crate) fn draw(most: u64, dice: &mut Dice) -> Self {
        let wrong = Duration::from_secs(dice.below(most + 1));
        let right = Duration::ZERO;
        let (ahead, behind) = *dice.pick(&[(wrong, right), (right, wrong), (right, right)]);
        Self { ahead, behind }
    }

    /// What its clock shows.
    fn shown(self, now: Time) -> Time {
        (now + self.ahead).minus(self.behind)
    }

    /// When its clock shows that.
    fn true_time(self, shown: Time) -> Time {
        (shown + self.behind).minus(self.ahead)
    }
}

pub(crate) struct Node {
    pub(crate) number: usize,
    pub(crate) url: RelayUrl,
    pub(crate) manners: Manners,
    pub(crate) skew: Skew,
    pub(crate) world: World,
    /// `None` while it is down.
    pub(crate) running: Option<Running>,
    starts: u64,
}

pub(crate) struct Running {
    pub(crate) engine: Engine,
    hunter: Hunter,
    follower: Follower,
    served: Receiver<Arc<Committed<()>>>,
    /// What became visible since it started.
    shown: BTreeSet<EventId>,
}

/// The host of a server.
pub(crate) fn endpoint(number: usize) -> Endpoint {
    let host = format!("grasp-{number}.example.com");
    Endpoint {
        http: format!("https://{host}"),
        ws: format!("wss://{host}"),
        authority: host,
    }
}

/// Whoever is at a relay's address.
pub(crate) fn endpoint_at(ws: &str) -> Endpoint {
    let host = ws.trim_start_matches("wss://");
    Endpoint {
        http: format!("https://{host}"),
        ws: ws.to_owned(),
        authority: host.to_owned(),
    }
}

pub(crate) fn url(number: usize) -> RelayUrl {
    endpoint(number).ws.parse().expect("valid")
}

fn service(number: usize) -> ServiceAddress {
    ServiceAddress::parse(&endpoint(number).authority, "/").expect("valid")
}

impl Node {
    pub(crate) fn new(number: usize, start: Timestamp, manners: Manners, skew: Skew) -> Self {
        let start = skew.shown(Time::from_secs(start.as_secs()));
        let start = Timestamp::from_secs(start.as_secs());
        let world = World::begun(start, |settings| settings.policy.service = service(number));
        Self {
            number,
            url: url(number),
            manners,
            skew,
            world,
            running: None,
            starts: 0,
        }
    }

    /// Begins to follow others.
    pub(crate) fn follow(&mut self, seed: u64) -> Input {
        let settings = Settings {
            service: Some(service(self.number)),
            ..Settings::default()
        };
        self.starts += 1;
        let keys = Keys::new(SecretKey::from_slice(&[7; 32]).expect("a key"));
        let service = self.world.service();
        let running = Running {
            hunter: Hunter::new(service.store(), seed + self.starts),
            engine: Engine::new(settings, seed.wrapping_mul(1_000) + self.starts),
            served: service.store().changes(),
            shown: BTreeSet::new(),
            follower: Follower::new(service, keys, intake::Settings::default(), 500),
        };
        let loaded = running.follower.loaded().expect("readable");
        self.running = Some(running);
        loaded
    }

    /// Its clock goes on.
    pub(crate) fn wind(&self, now: Time) {
        let behind = self
            .skew
            .shown(now)
            .as_secs()
            .saturating_sub(self.world.now().as_secs());
        if behind > 0 {
            self.world.clock().advance(behind);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let running = self.running.as_ref()?;
        let of_hunt = running.hunter.next_deadline();
        let deadline = running
            .engine
            .next_deadline()
            .into_iter()
            .chain(of_hunt)
            .min()?;
        Some(self.skew.true_time(deadline))
    }

    pub(crate) fn handle(&mut self, input: Input, now: Time) -> Vec<Output> {
        let now = self.skew.shown(now);
        let running = self.running.as_mut();
        running.map_or_else(Vec::new, |running| running.engine.handle(input, now))
    }

    pub(crate) fn hunts(&mut self, input: hunt::Input, now: Time) -> Vec<hunt::Output> {
        let now = self.skew.shown(now);
        let hunter = self.hunter();
        hunter.map_or_else(Vec::new, |hunter| hunter.handle(input, now))
    }

    /// Its hunt; `None` while it is down.
    pub(crate) fn hunter(&mut self) -> Option<&mut Hunter> {
        self.running.as_mut().map(|running| &mut running.hunter)
    }

    /// What its hunt hears first.
    pub(crate) fn to_hunt(&self) -> hunt::Input {
        hunter::loaded(self.store())
    }

    pub(crate) fn store(&self) -> &Store {
        self.world.service().store()
    }

    /// What of these a repository here has, with all it needs.
    pub(crate) fn objects(&self, repository: &RepoAddress, of: &BTreeSet<Oid>) -> BTreeSet<Oid> {
        let repositories = self.world.service().repositories();
        if !repositories.exists(repository) {
            return BTreeSet::new();
        }
        let lease = repositories.lease(repository);
        let objects = repositories.objects(&lease).expect("readable");
        of.iter()
            .copied()
            .filter(|oid| objects.contains(oid))
            .collect()
    }

    /// What a relay sent for what it was asked, and what the engine is to hear of it. `None` while it is down.
    pub(crate) async fn hear(
        &self,
        from: &RelayUrl,
        text: String,
        asked: Arc<[Filter]>,
    ) -> Option<Delivery> {
        let running = self.running.as_ref()?;
        let delivery = running.follower.hear(from, text, asked).await;
        self.settle().await;
        Some(delivery)
    }

    /// Whatever it does by itself after an event is done.
    pub(crate) async fn settle(&self) {
        let heard = self.running.as_ref().map(|running| &running.served);
        if heard.is_none_or(|commits| !commits.is_empty()) {
            self.world.service().run_plans().await;
        }
    }

    pub(crate) fn knows(&self, id: &EventId) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| running.follower.knows(id))
    }

    pub(crate) async fn remember(&self, output: Output) {
        let Some(running) = &self.running else { return };
        match output {
            Output::SaveCursor { relay, cursor } => {
                running.follower.remember(relay, Some(cursor)).await;
            }
            Output::ForgetCursor { relay } => running.follower.remember(relay, None).await,
            _ => {}
        }
    }

    /// What its own commits since the last call mean for its engine.
    pub(crate) fn heard(&mut self) -> Vec<Input> {
        let running = self.running.as_mut();
        running.map_or_else(Vec::new, |running| {
            running.follower.heard().expect("readable")
        })
    }

    /// What became visible since the last call.
    pub(crate) fn served_since(&mut self) -> Vec<EventId> {
        let mut served = Vec::new();
        while let Some(Ok(committed)) = self.running.as_mut().map(|r| r.served.try_recv()) {
            served.extend(committed.served.iter().map(|it| it.event.id()));
        }
        if let Some(running) = &mut self.running {
            for id in &served {
                assert!(running.shown.insert(*id), "{id} is told of twice");
            }
        }
        served
    }

    /// How long nothing that waited is due.
    pub(crate) fn pause(&self, now: Time) -> Option<Duration> {
        let next = self.running.as_ref()?.follower.next_pass()?;
        Some(next.since(self.skew.shown(now)))
    }

    /// What waited and can be tried again, and what to ask for.
    pub(crate) async fn pass(&self) -> Vec<Input> {
        match &self.running {
            Some(running) => {
                let asked = running.follower.pass().await;
                self.settle().await;
                asked
            }
            None => Vec::new(),
        }
    }

    /// What it gives for these filters as a relay: the newest first, at most a page in all.
    pub(crate) fn stored(&self, filters: &[Filter]) -> Vec<EventId> {
        let mut found = Vec::new();
        for filter in filters.iter().filter(|filter| filter.limit != Some(0)) {
            let limits = QueryLimits {
                default_limit: self.manners.page,
                max_limit: self.manners.page,
                now: self.world.now(),
            };
            let store = self.world.service().store();
            let asked = store.query(std::slice::from_ref(filter), limits, &mut |row| {
                found.push((Reverse(row.created_at), row.id));
                ControlFlow::Continue(())
            });
            asked.expect("readable");
        }
        found.sort_unstable();
        found.dedup();
        let newest = found.into_iter().take(self.manners.page);
        newest.map(|(_, id)| id).collect()
    }

    /// An event as it keeps it.
    pub(crate) fn text_of(&self, id: &EventId) -> String {
        let snapshot = self.world.service().store().snapshot().expect("readable");
        let stored = snapshot.view().event(id).expect("readable");
        stored.expect("it is served").event.event().as_json()
    }

    /// Everything that it serves of a filter.
    pub(crate) fn all(&self, filter: &Filter) -> Vec<EventId> {
        self.world.query(filter)
    }

    /// `kill -9`. What the engine and the intake knew is gone, what was committed is not.
    pub(crate) async fn kill(&mut self) {
        self.running = None;
        self.world.kill_and_start_after(0).await;
    }
}
