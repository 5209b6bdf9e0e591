//! A server that is nothing but a set of events, and a driver that works for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use grasp_core::event::VerifiedEvent;
use grasp_core::filter::Filter;
use grasp_core::{Event, EventId, PublicKey};
use grasp_sync::client::Patience;
use grasp_sync::dial::{self, Dialler, Outcome, RootCertStore};
use grasp_sync::driver::{Driver, Handle};
use grasp_sync::engine::{Cursor, Settings};
use grasp_sync::home::{Home, LocalSet, Phase, Tally, Verdict};
use grasp_sync::outbound::OutboundPolicy;
use grasp_sync::relay_url::RelayUrl;
use grasp_testkit::{Person, eventually};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Holds events in memory.
pub(crate) struct MemoryHome {
    events: Mutex<BTreeMap<EventId, VerifiedEvent>>,
    cursors: Mutex<BTreeMap<RelayUrl, Cursor>>,
    tallies: Mutex<Vec<(RelayUrl, Tally)>>,
    /// From this relay events are taken in only as long as there are permits.
    slow: Option<RelayUrl>,
    gate: Semaphore,
    owner: Option<Person>,
}

impl MemoryHome {
    pub(crate) fn new() -> Self {
        Self {
            events: Mutex::default(),
            cursors: Mutex::default(),
            tallies: Mutex::default(),
            slow: None,
            gate: Semaphore::new(0),
            owner: None,
        }
    }

    pub(crate) fn owned_by(self, owner: &Person) -> Self {
        let owner = Some(owner.clone());
        Self { owner, ..self }
    }

    /// Nothing from `relay` finds its way in until [`Self::open`].
    pub(crate) fn closed_for(self, relay: &RelayUrl) -> Self {
        let slow = Some(relay.clone());
        Self { slow, ..self }
    }

    pub(crate) fn open(&self) {
        self.gate.add_permits(1_000);
    }

    pub(crate) fn with(self, events: &[&Event]) -> Self {
        for event in events {
            let event = VerifiedEvent::verify((*event).clone()).unwrap();
            self.events.lock().unwrap().insert(event.id(), event);
        }
        self
    }

    pub(crate) fn has(&self, event: &Event) -> bool {
        self.events.lock().unwrap().contains_key(&event.id)
    }

    pub(crate) fn len(&self) -> usize {
        self.events.lock().unwrap().len()
    }

    pub(crate) fn cursor(&self, relay: &RelayUrl) -> Option<Cursor> {
        self.cursors.lock().unwrap().get(relay).cloned()
    }

    pub(crate) fn counted(&self, what: Tally) -> usize {
        let tallies = self.tallies.lock().unwrap();
        tallies.iter().filter(|(_, tally)| *tally == what).count()
    }

    pub(crate) async fn eventually_has(&self, event: &Event) {
        eventually("the event is here", async || self.has(event)).await;
    }

    pub(crate) async fn eventually_judges(&self, verdict: Verdict, times: usize) {
        eventually("events are judged", async || {
            let phases = [Phase::Live, Phase::Historic];
            let judged = phases.map(|phase| self.counted(Tally::Delivered(phase, verdict)));
            judged.iter().sum::<usize>() == times
        })
        .await;
    }

    pub(crate) async fn eventually_dialled(&self, outcome: Outcome) {
        eventually("a dial ends so", async || {
            self.counted(Tally::Dialled(outcome)) > 0
        })
        .await;
    }
}

impl Home for MemoryHome {
    async fn intake(&self, from: &RelayUrl, event: VerifiedEvent) {
        if self.slow.as_ref() == Some(from) {
            self.gate.acquire().await.unwrap().forget();
        }
        self.events.lock().unwrap().insert(event.id(), event);
    }

    fn knows(&self, id: &EventId) -> bool {
        self.events.lock().unwrap().contains_key(id)
    }

    async fn gather(&self, filter: Filter) -> Option<LocalSet> {
        let events = self.events.lock().unwrap();
        let matching = events
            .values()
            .filter(|event| filter.matches(event.event()));
        let items = matching.map(|event| (event.created_at().as_secs(), event.id()));
        Some(LocalSet::seal(items))
    }

    async fn remember(&self, cursors: Vec<(RelayUrl, Option<Cursor>)>) {
        let mut known = self.cursors.lock().unwrap();
        for (relay, cursor) in cursors {
            match cursor {
                Some(cursor) => known.insert(relay, cursor),
                None => known.remove(&relay),
            };
        }
    }

    fn authenticate(&self, relay: &RelayUrl, challenge: &str) -> Option<Event> {
        let owner = self.owner.as_ref()?;
        let proof = owner.draft(22_242).at(now());
        let proof = proof.tag(["relay", relay.as_str()]);
        Some(proof.tag(["challenge", challenge]).sign())
    }

    fn count(&self, relay: &RelayUrl, what: Tally) {
        self.tallies.lock().unwrap().push((relay.clone(), what));
    }
}

/// Relays take no proof that was made long ago.
#[expect(clippy::disallowed_methods, reason = "a server knows what time it is")]
fn now() -> u64 {
    grasp_core::Timestamp::now().as_secs()
}

/// A driver that runs.
pub(crate) struct Running {
    pub(crate) home: Arc<MemoryHome>,
    pub(crate) handle: Handle,
    pub(crate) task: JoinHandle<()>,
}

/// How a driver is made.
pub(crate) struct Following {
    pub(crate) settings: Settings,
    pub(crate) dial: dial::Settings,
    pub(crate) roots: RootCertStore,
    pub(crate) patience: Patience,
}

impl Following {
    /// In a closed network (NET-4), and impatient with relays that fail.
    pub(crate) fn new() -> Self {
        let policy = OutboundPolicy {
            allow_non_global: true,
            ..OutboundPolicy::default()
        };
        Self {
            settings: Settings {
                startup_jitter: Duration::ZERO,
                batch_window: Duration::ZERO,
                backoff_base: Duration::from_millis(20),
                backoff_max: Duration::from_millis(100),
                // A busy machine must not turn a dial into a failed one.
                connect_timeout: grasp_testkit::DEADLINE,
                ..Settings::default()
            },
            dial: dial::Settings {
                policy,
                owner: None,
                user_agent: "grasp-sync test".to_owned(),
            },
            roots: RootCertStore::empty(),
            patience: Patience::default(),
        }
    }

    pub(crate) fn bootstrap(mut self, relay: &RelayUrl) -> Self {
        self.settings.bootstrap = Some(relay.clone());
        self
    }

    pub(crate) fn owner(mut self, owner: PublicKey) -> Self {
        self.dial.owner = Some(owner);
        self
    }

    pub(crate) fn start(self, home: MemoryHome) -> Running {
        let dialler = Arc::new(Dialler::new(self.dial, self.roots));
        let home = Arc::new(home);
        let (driver, handle) = Driver::new(self.settings, 7, dialler, Arc::clone(&home));
        let driver = driver.with_patience(self.patience);
        let task = tokio::spawn(driver.run(Vec::new(), Vec::new()));
        Running { home, handle, task }
    }
}
