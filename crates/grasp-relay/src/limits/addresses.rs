//! Limits per client address, for relay and git alike (NAME-8).
//!
//! A private or loopback address is a proxy or a test and is never limited: [`ClientAddress::key`] is
//! `None` for it, and every question here is then answered with yes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Limit, TokenBucket};
use crate::address::{AddressKey, ClientAddress};
use crate::metrics::Metrics;

/// At most so many addresses are remembered. Beyond, those with nothing open are forgotten: they start
/// anew with full rates, which is the lesser evil against growing without end.
const ADDRESSES_MAX: usize = 100_000;

/// The bounds for one address. [`Default`] has the published figures (§16).
#[derive(Debug, Clone)]
pub struct AddressLimits {
    /// Websockets open at a time.
    pub connections_max: usize,
    /// Events a minute.
    pub events_per_minute: u32,
    /// `REQ`, `COUNT`, `NEG-OPEN` a minute.
    pub queries_per_minute: u32,
    /// Git requests a minute.
    pub git_per_minute: u32,
    /// Git requests that run at a time.
    pub git_running_max: usize,
    /// Git requests that wait for one of those; the next is refused.
    pub git_queued_max: usize,
    /// Pushes that run at a time.
    pub pushes_max: usize,
    /// Uploads without an event in an hour.
    pub uploads_per_hour: u32,
}

impl Default for AddressLimits {
    fn default() -> Self {
        Self {
            connections_max: 100,
            events_per_minute: 600,
            queries_per_minute: 6_000,
            git_per_minute: 600,
            git_running_max: 8,
            git_queued_max: 24,
            pushes_max: 4,
            uploads_per_hour: 20,
        }
    }
}

/// What is counted over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Events sent to the relay.
    Events,
    /// Queries of the relay.
    Queries,
    /// Git requests.
    Git,
    /// Uploads without an event.
    Uploads,
}

impl Rate {
    fn limit(self) -> Limit {
        match self {
            Self::Events => Limit::AddressEvents,
            Self::Queries => Limit::AddressQueries,
            Self::Git => Limit::AddressGit,
            Self::Uploads => Limit::AddressUploads,
        }
    }
}

/// An address is at a bound. `Display` names it, without a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// [`AddressLimits::connections_max`].
    #[error("this address has {0} connections open, the most it may have")]
    Connections(usize),
    /// One of the rates.
    #[error("this address sends more than {0} {1} in {2}")]
    Rate(u32, &'static str, &'static str),
    /// [`AddressLimits::git_queued_max`].
    #[error("this address has {0} git requests waiting, the most it may have")]
    GitQueued(usize),
    /// [`AddressLimits::pushes_max`].
    #[error("this address has {0} pushes running, the most it may have")]
    Pushes(usize),
}

/// Who does how much. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Addresses {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limits: AddressLimits,
    metrics: Arc<Metrics>,
    table: Mutex<HashMap<AddressKey, Arc<Account>>>,
}

/// What one address has done lately and has open.
#[derive(Debug)]
struct Account {
    rates: Mutex<Rates>,
    connections: Arc<Semaphore>,
    git_running: Arc<Semaphore>,
    git_queued: Arc<Semaphore>,
    pushes: Arc<Semaphore>,
}

#[derive(Debug)]
struct Rates {
    events: TokenBucket,
    queries: TokenBucket,
    git: TokenBucket,
    uploads: TokenBucket,
}

/// A place that is free again when this is dropped.
#[derive(Debug)]
pub struct Slot {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Addresses {
    /// Nobody has done anything yet.
    pub fn new(limits: AddressLimits, metrics: Arc<Metrics>) -> Self {
        let table = Mutex::default();
        let shared = Arc::new(Shared {
            limits,
            metrics,
            table,
        });
        Self { shared }
    }

    /// Counts one act of `client` against a rate.
    pub fn allow(&self, client: &ClientAddress, rate: Rate) -> Result<(), Refused> {
        let Some(account) = self.account(client) else {
            return Ok(());
        };
        let now = Instant::now();
        let granted = {
            let mut rates = lock(&account.rates);
            rates.of(rate).take(now)
        };
        let limits = &self.shared.limits;
        let refused = match rate {
            Rate::Events => Refused::Rate(limits.events_per_minute, "events", "a minute"),
            Rate::Queries => Refused::Rate(limits.queries_per_minute, "queries", "a minute"),
            Rate::Git => Refused::Rate(limits.git_per_minute, "git requests", "a minute"),
            Rate::Uploads => Refused::Rate(
                limits.uploads_per_hour,
                "uploads without an event",
                "an hour",
            ),
        };
        granted
            .then_some(())
            .ok_or_else(|| self.refuse(rate.limit(), refused))
    }

    /// A place for one more websocket of `client`.
    pub fn connect(&self, client: &ClientAddress) -> Result<Slot, Refused> {
        let refused = Refused::Connections(self.shared.limits.connections_max);
        self.slot(
            client,
            |account| &account.connections,
            Limit::AddressConnections,
            refused,
        )
    }

    /// A place for one more push of `client`.
    pub fn push(&self, client: &ClientAddress) -> Result<Slot, Refused> {
        let refused = Refused::Pushes(self.shared.limits.pushes_max);
        self.slot(
            client,
            |account| &account.pushes,
            Limit::AddressPushes,
            refused,
        )
    }

    /// A place for one more git request of `client`: waits in line while too many run, and is refused
    /// when the line is full too. Those who wait are served in the order they came.
    pub async fn git(&self, client: &ClientAddress) -> Result<Slot, Refused> {
        let Some(account) = self.account(client) else {
            return Ok(Slot { _permit: None });
        };
        if let Ok(permit) = Arc::clone(&account.git_running).try_acquire_owned() {
            return Ok(Slot {
                _permit: Some(permit),
            });
        }
        let refused = Refused::GitQueued(self.shared.limits.git_queued_max);
        let _waiting = Arc::clone(&account.git_queued)
            .try_acquire_owned()
            .map_err(|_| self.refuse(Limit::AddressGitQueued, refused))?;
        let permit = Arc::clone(&account.git_running).acquire_owned().await.ok();
        Ok(Slot { _permit: permit })
    }

    /// How many addresses are remembered.
    pub fn len(&self) -> usize {
        lock(&self.shared.table).len()
    }

    /// Whether no address is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn slot(
        &self,
        client: &ClientAddress,
        of: impl Fn(&Account) -> &Arc<Semaphore>,
        limit: Limit,
        refused: Refused,
    ) -> Result<Slot, Refused> {
        let Some(account) = self.account(client) else {
            return Ok(Slot { _permit: None });
        };
        let permit = Arc::clone(of(&account)).try_acquire_owned();
        permit
            .map(|permit| Slot {
                _permit: Some(permit),
            })
            .map_err(|_| self.refuse(limit, refused))
    }

    fn refuse(&self, limit: Limit, refused: Refused) -> Refused {
        self.shared.metrics.refused(limit);
        refused
    }

    fn account(&self, client: &ClientAddress) -> Option<Arc<Account>> {
        let key = client.key()?;
        let mut table = lock(&self.shared.table);
        if let Some(account) = table.get(&key) {
            return Some(Arc::clone(account));
        }
        let now = Instant::now();
        if table.len() >= ADDRESSES_MAX {
            table.retain(|_, account| !account.is_forgettable(&self.shared.limits, now));
        }
        if table.len() >= ADDRESSES_MAX {
            table.retain(|_, account| account.is_in_use(&self.shared.limits));
        }
        let account = Arc::new(Account::new(&self.shared.limits, now));
        table.insert(key, Arc::clone(&account));
        Some(account)
    }
}

impl Account {
    fn new(limits: &AddressLimits, now: Instant) -> Self {
        let places = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Self {
            rates: Mutex::new(Rates {
                events: TokenBucket::per_minute(limits.events_per_minute, now),
                queries: TokenBucket::per_minute(limits.queries_per_minute, now),
                git: TokenBucket::per_minute(limits.git_per_minute, now),
                uploads: TokenBucket::new(limits.uploads_per_hour, Duration::from_hours(1), now),
            }),
            connections: places(limits.connections_max),
            git_running: places(limits.git_running_max),
            git_queued: places(limits.git_queued_max),
            pushes: places(limits.pushes_max),
        }
    }

    fn is_in_use(&self, limits: &AddressLimits) -> bool {
        self.connections.available_permits() < limits.connections_max
            || self.git_running.available_permits() < limits.git_running_max
            || self.pushes.available_permits() < limits.pushes_max
    }

    fn is_forgettable(&self, limits: &AddressLimits, now: Instant) -> bool {
        let mut rates = lock(&self.rates);
        !self.is_in_use(limits)
            && rates.events.is_full(now)
            && rates.queries.is_full(now)
            && rates.git.is_full(now)
            && rates.uploads.is_full(now)
    }
}

impl Rates {
    fn of(&mut self, rate: Rate) -> &mut TokenBucket {
        match rate {
            Rate::Events => &mut self.events,
            Rate::Queries => &mut self.queries,
            Rate::Git => &mut self.git,
            Rate::Uploads => &mut self.uploads,
        }
    }
}

/// A panic while the lock was held leaves counters, never half a structure.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> (Addresses, Arc<Metrics>) {
        let metrics = Arc::new(Metrics::default());
        let limits = AddressLimits {
            connections_max: 2,
            events_per_minute: 3,
            git_running_max: 1,
            git_queued_max: 1,
            pushes_max: 1,
            ..AddressLimits::default()
        };
        (Addresses::new(limits, Arc::clone(&metrics)), metrics)
    }

    fn client(text: &str) -> ClientAddress {
        ClientAddress::direct(text.parse().expect("an address"))
    }

    /// NAME-8, BND-1
    #[test]
    fn each_address_has_its_own_rates_and_places() {
        let (addresses, metrics) = addresses();
        let (one, other) = (client("1.2.3.4"), client("1.2.3.5"));
        assert_eq!(
            (0..5)
                .filter(|_| addresses.allow(&one, Rate::Events).is_ok())
                .count(),
            3
        );
        assert!(addresses.allow(&other, Rate::Events).is_ok());
        assert_eq!(metrics.refusals_of(Limit::AddressEvents), 2);
        let slots = [addresses.connect(&one), addresses.connect(&one)];
        let refusal = addresses.connect(&one).expect_err("both places are taken");
        assert!(refusal.to_string().contains("2 connections"));
        drop(slots);
        assert!(addresses.connect(&one).is_ok());
    }

    /// NAME-8
    #[tokio::test]
    async fn a_private_address_is_never_limited() {
        let (addresses, metrics) = addresses();
        let local = client("127.0.0.1");
        let mut slots = Vec::new();
        for _ in 0..50 {
            assert!(addresses.allow(&local, Rate::Events).is_ok());
            slots.push(addresses.connect(&local).expect("no limit"));
            slots.push(addresses.git(&local).await.expect("no limit"));
        }
        assert_eq!(metrics.refusals_of(Limit::AddressEvents), 0);
        assert!(addresses.is_empty());
    }

    /// NAME-8
    #[tokio::test]
    async fn a_git_request_waits_in_line_until_the_line_is_full() {
        let (addresses, metrics) = addresses();
        let one = client("1.2.3.4");
        let running = addresses.git(&one).await.expect("free");
        let waiting = tokio::spawn({
            let addresses = addresses.clone();
            async move { addresses.git(&one).await }
        });
        while addresses
            .account(&one)
            .expect("limited")
            .git_queued
            .available_permits()
            > 0
        {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            addresses.git(&one).await.expect_err("line full"),
            Refused::GitQueued(1)
        );
        assert_eq!(metrics.refusals_of(Limit::AddressGitQueued), 1);
        drop(running);
        assert!(waiting.await.expect("no panic").is_ok());
    }
}
