//! A relay on loopback with a real store, and an intake that takes whatever is signed.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test crate uses its own part of this"
)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use axum::Router;
use axum::extract::{ConnectInfo, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use bytes::Bytes;
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::{Change, Stage, Standing};
use grasp_relay::address::{AddressLimits, AddressResolver, Addresses};
use grasp_relay::limits::Limit;
use grasp_relay::{Answered, Fanout, Intake, Metrics, Parts, Relay, RelayLimits, Submitter};
use grasp_store::{Store, StoreConfig};
use grasp_testkit::{Person, RelayClient};
use nostr::event::Event;
use nostr::types::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// What the relay calls itself in NIP-42.
pub const URL: &str = "wss://relay.example.com";

/// A content that makes the intake wait until the test opens its gate.
pub const SLOW: &str = "slow";
/// A content that makes the intake ask who is there.
pub const PROTECTED: &str = "protected";

/// Serves what is signed, at once.
pub struct Shelf {
    store: Store,
    fanout: Arc<Fanout>,
    pub gate: Semaphore,
}

impl Intake for Shelf {
    async fn submit(&self, event: Event, from: Submitter) -> Answered {
        let answered = |accepted, message: &str| Answered {
            accepted,
            message: message.to_owned(),
        };
        if event.content == SLOW {
            self.gate.acquire().await.expect("never closed").forget();
        }
        if event.content == PROTECTED && !from.authenticated.contains(&event.pubkey) {
            return answered(false, "auth-required: you must auth");
        }
        let event = match VerifiedEvent::verify(event) {
            Ok(event) => event,
            Err(error) => return answered(false, &format!("invalid: {error}")),
        };
        if kind::is_ephemeral(event.kind()) {
            let json = Bytes::from(event.event().as_json());
            self.fanout.publish_ephemeral(&event, &json);
            return answered(true, "");
        }
        if self.serve(vec![event]).await {
            answered(true, "")
        } else {
            answered(true, "duplicate: already have this event")
        }
    }

    fn is_this_relay(&self, url: &str) -> bool {
        url == URL
    }
}

impl Shelf {
    /// Whether they were new.
    async fn serve(&self, events: Vec<VerifiedEvent>) -> bool {
        let decide = move |view: &grasp_store::View<'_>| {
            let mut batch = Vec::new();
            for event in &events {
                if view.event(&event.id())?.is_none() {
                    batch.push(Change::Insert {
                        event: event.clone(),
                        stage: Stage::Served,
                        deadline: None,
                        standing: Standing::Anchor,
                    });
                }
            }
            let all_new = batch.len() == events.len();
            Ok((batch, all_new))
        };
        let committed = self.store.commit(decide).await.expect("the store works");
        for served in &committed.served {
            self.fanout.publish(served);
        }
        committed.value
    }
}

/// A relay that ends with the test.
pub struct TestRelay {
    pub url: String,
    pub shelf: Arc<Shelf>,
    pub store: Store,
    pub metrics: Arc<Metrics>,
    pub addresses: Addresses,
    pub fanout: Arc<Fanout>,
    pub relay: Relay<Shelf>,
    pub shutdown: CancellationToken,
    now: Arc<AtomicU64>,
    _folder: tempfile::TempDir,
}

impl Drop for TestRelay {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl TestRelay {
    /// Bounds wide enough for a test that is about something else.
    pub async fn spawn() -> Self {
        Self::with(wide()).await
    }

    pub async fn with(limits: RelayLimits) -> Self {
        Self::with_both(limits, AddressLimits::default()).await
    }

    pub async fn with_both(limits: RelayLimits, address_limits: AddressLimits) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = StoreConfig {
            disk_floor: 0,
            ..StoreConfig::default()
        };
        let store = Store::open(folder.path(), config).expect("a new store");
        let now = Arc::new(AtomicU64::new(Timestamp::now().as_secs()));
        let clock = Arc::clone(&now);
        let (metrics, fanout) = (Arc::<Metrics>::default(), Arc::new(Fanout::new()));
        let shelf = Arc::new(Shelf {
            store: store.clone(),
            fanout: Arc::clone(&fanout),
            gate: Semaphore::new(0),
        });
        let addresses = Addresses::new(address_limits, Arc::clone(&metrics));
        let relay = Relay::new(Parts {
            store: store.clone(),
            intake: Arc::clone(&shelf),
            fanout: Arc::clone(&fanout),
            addresses: addresses.clone(),
            metrics: Arc::clone(&metrics),
            limits,
            clock: Arc::new(move || Timestamp::from_secs(clock.load(Relaxed))),
        });
        let shutdown = CancellationToken::new();
        Self {
            url: listen(relay.clone(), shutdown.clone()).await,
            shelf,
            store,
            metrics,
            addresses,
            fanout,
            relay,
            shutdown,
            now,
            _folder: folder,
        }
    }

    pub async fn client(&self) -> RelayClient {
        RelayClient::connect(&self.url).await
    }

    /// A client that seems to come from a public address.
    pub async fn client_from(&self, address: &str) -> RelayClient {
        RelayClient::try_connect(&self.url, &[("x-forwarded-for", address)])
            .await
            .expect("the upgrade is never refused")
    }

    /// Has the relay ask who is there; its challenge.
    pub async fn challenge(&self, client: &mut RelayClient) -> String {
        let protected = Person::named("somebody").draft(1).content(PROTECTED).sign();
        client.publish(&protected).await.refused();
        let asked = client.expect_where(|m| m[0] == "AUTH").await;
        asked[1].as_str().expect("text").to_owned()
    }

    pub fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    pub fn set_now(&self, now: u64) {
        self.now.store(now, Relaxed);
    }

    pub fn refusals(&self, limit: Limit) -> u64 {
        self.metrics.refusals_of(limit)
    }

    /// Serves `count` events of `kind` with the content `content`, one second apart, in one commit.
    pub async fn fill(&self, count: u64, kind: u16, content: &str) -> Vec<Event> {
        let alice = Person::named("alice");
        let draft = |n: u64| {
            let draft = alice.draft(kind).at(1_700_000_000 + n);
            draft.content(content).tag(["n", &n.to_string()]).sign()
        };
        let events: Vec<Event> = (0..count).map(draft).collect();
        let verified = events.iter().cloned().map(VerifiedEvent::from_own_store);
        assert!(self.shelf.serve(verified.collect()).await);
        events
    }
}

impl TestRelay {
    /// Stores events of `kind`, tagged `held`, that nobody sees before they are promoted.
    pub async fn hold_back(&self, count: u64, kind: u16) -> Vec<Event> {
        let bob = Person::named("bob");
        let draft = |n: u64| {
            bob.draft(kind)
                .at(1_600_000_000 + n)
                .tag(["n", "held"])
                .sign()
        };
        let events: Vec<Event> = (0..count).map(draft).collect();
        let batch: Vec<Change> = events
            .iter()
            .map(|event| Change::Insert {
                event: VerifiedEvent::from_own_store(event.clone()),
                stage: Stage::Waiting,
                deadline: None,
                standing: Standing::Anchor,
            })
            .collect();
        let stored = self.store.commit(move |_| Ok((batch.clone(), ()))).await;
        stored.expect("the store works");
        events
    }

    /// Makes such an event visible, and publishes it.
    pub async fn promote(&self, event: nostr::event::EventId) {
        let promotion = Change::Move {
            event,
            stage: Stage::Served,
            deadline: None,
        };
        let committed = self
            .store
            .commit(move |_| Ok((vec![promotion.clone()], ())))
            .await;
        for served in &committed.expect("the store works").served {
            self.fanout.publish(served);
        }
    }
}

/// The answer of a person to a challenge (NIP-42).
pub fn proof(who: &str, challenge: &str) -> Event {
    Person::named(who)
        .draft(22_242)
        .at(Timestamp::now().as_secs())
        .tag(["relay", URL])
        .tag(["challenge", challenge])
        .sign()
}

/// The published bounds, but rates that no test reaches by accident.
pub fn wide() -> RelayLimits {
    RelayLimits {
        events_per_minute: 1_000_000,
        messages_per_minute: 1_000_000,
        queries_per_minute: 1_000_000,
        ..RelayLimits::default()
    }
}

async fn listen(relay: Relay<Shelf>, shutdown: CancellationToken) -> String {
    let trusted = vec!["127.0.0.0/8".parse().expect("a net")];
    let resolver = Arc::new(AddressResolver::new(trusted, "TRUSTED"));
    let stop = shutdown.clone();
    let upgrade = move |ConnectInfo(peer): ConnectInfo<SocketAddr>,
                        headers: HeaderMap,
                        upgrade: WebSocketUpgrade| async move {
        let client = resolver.resolve(peer.ip(), &headers);
        relay
            .configure(upgrade)
            .on_upgrade(move |socket| async move { relay.serve(socket, client, shutdown).await })
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("bound");
    let listener = listener.tap_io(|tcp| tcp.set_nodelay(true).expect("a TCP socket"));
    let router = Router::new().route("/", get(upgrade));
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move {
        let serve = axum::serve(listener, service).with_graceful_shutdown(stop.cancelled_owned());
        serve.await.expect("serves");
    });
    format!("ws://{address}")
}
