//! `status`: how the server is, on one screen.

use std::time::Duration;

use grasp_core::Timestamp;
use grasp_core::lifecycle::Stage;
use grasp_core::name::RepoAddress;
use grasp_store::{Overview, StageStats};
use serde::Serialize;
use serde_json::Value;

use super::Desk;
use super::desk::Failure;
use super::disk::Disk;
use super::text::{Rows, bytes, duration, from_now};
use crate::pages::Links;
use crate::words::counted;

/// Of the repositories that want a look so many are named; of the others the number.
const NAMED_MAX: usize = 20;

/// How the server is.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    version: &'static str,
    commit: &'static str,
    /// Absent if no server runs and the command looked at the data itself.
    running: Option<Running>,
    domain: String,
    web: String,
    relay: String,
    git_data: Folder,
    relay_data: Folder,
    disk_floor_bytes: u64,
    below_disk_floor: bool,
    events: Events,
    repositories: Repositories,
    purgatory: Purgatory,
    #[serde(skip)]
    now: Timestamp,
}

/// What only a process has.
#[derive(Debug, Serialize)]
struct Running {
    uptime_seconds: u64,
    listens_on: Option<String>,
    monitoring_on: Option<String>,
    connections: u64,
    client_addresses: usize,
    subscriptions: usize,
    pushes: usize,
    pushes_max: usize,
    fetches: usize,
}

#[derive(Debug, Serialize)]
struct Folder {
    path: String,
    disk: Option<Disk>,
}

/// Events by stage.
#[derive(Debug, Serialize)]
struct Events {
    served: Count,
    waiting: Count,
    parked: Count,
    superseded: Count,
    held: Count,
}

#[derive(Debug, Serialize)]
struct Count {
    events: u64,
    bytes: u64,
}

/// By what their announcements and refs are.
#[derive(Debug, Serialize)]
struct Repositories {
    served: u64,
    waiting: u64,
    parked: u64,
    /// Known to a running server.
    frozen: Option<Named>,
    /// Known to a running server.
    degraded: Option<Named>,
    /// Not yet in line with their events.
    dirty: Named,
}

/// How many, and the first of them by name.
#[derive(Debug, Serialize)]
struct Named {
    count: usize,
    first: Vec<String>,
}

/// What waits for git data.
#[derive(Debug, Serialize)]
struct Purgatory {
    announcements: u64,
    states: u64,
    proposals: u64,
    uploads: u64,
    bytes: u64,
    /// Seconds since 1970.
    next_expiry: Option<u64>,
    /// Of the one that waits longest, since its time last began anew.
    longest_wait_seconds: Option<u64>,
    /// Identifiers whose git data is looked for elsewhere.
    hunts: u64,
}

impl Status {
    pub(super) async fn of(desk: &Desk) -> Result<Self, Failure> {
        let service = desk.service().clone();
        let overview = service
            .clone()
            .blocking(move || service.store.snapshot()?.view().overview())
            .await?;
        let service = desk.service();
        let conditions = &service.metrics.conditions;
        let dirty = service.store.dirty().list();
        let dirty = dirty.iter().map(|(repository, _)| repository.to_string());
        let links = Links::new(&service.policy.service);
        let now = service.clock.now();
        let running = Running::of(desk);
        let known = |those: Vec<RepoAddress>| {
            let names = those.iter().map(ToString::to_string);
            running.is_some().then(|| Named::of(names))
        };
        Ok(Self {
            version: desk.monitoring.build.version,
            commit: desk.monitoring.build.commit,
            domain: service.policy.service.authority(),
            web: links.web(),
            relay: links.relay(),
            git_data: Folder::of(&desk.place.git_root),
            relay_data: Folder::of(&desk.place.relay_root),
            disk_floor_bytes: desk.place.disk_floor,
            below_disk_floor: service.store.below_disk_floor(),
            events: Events::of(&overview),
            repositories: Repositories {
                served: overview.stats.of(Stage::Served).announcements,
                waiting: overview.stats.of(Stage::Waiting).announcements,
                parked: overview.stats.of(Stage::Parked).announcements,
                frozen: known(conditions.frozen_ones()),
                degraded: known(conditions.degraded_ones()),
                dirty: Named::of(dirty),
            },
            purgatory: Purgatory::of(&overview, now),
            running,
            now,
        })
    }

    pub(super) fn value(&self) -> Value {
        serde_json::to_value(self).expect("numbers and texts")
    }

    pub(super) fn text(&self) -> String {
        let mut rows = Rows::default();
        rows.heading(&format!("ngit-grasp {}", self.version));
        rows.row("commit", self.commit);
        match &self.running {
            Some(running) => running.rows(&mut rows),
            None => rows.row("state", "no server runs; this is what its data says"),
        }
        rows.heading("address");
        rows.row("domain", &self.domain);
        rows.row("web and git", &self.web);
        rows.row("relay", &self.relay);
        rows.heading("data");
        rows.row("repositories", self.git_data.words());
        rows.row("events", self.relay_data.words());
        let floor = bytes(self.disk_floor_bytes);
        rows.row(
            "disk floor",
            if self.below_disk_floor {
                format!("{floor}: REACHED, events and pushes are refused")
            } else {
                floor
            },
        );
        self.events.rows(&mut rows);
        self.repositories.rows(&mut rows);
        self.purgatory.rows(&mut rows, self.now);
        rows.text()
    }
}

impl Running {
    fn of(desk: &Desk) -> Option<Self> {
        let listening = desk.listening.get()?;
        let (service, relay) = (desk.service(), &desk.monitoring.relay);
        let connections = relay
            .connections_active
            .load(std::sync::atomic::Ordering::Relaxed);
        Some(Self {
            uptime_seconds: service.metrics.started.elapsed().as_secs(),
            listens_on: listening.public.map(|address| address.to_string()),
            monitoring_on: listening.monitoring.map(|address| address.to_string()),
            connections,
            client_addresses: relay.clients.unique(),
            subscriptions: service.fanout.subscriptions(),
            pushes: service.pushes_running(desk.place.pushes_max),
            pushes_max: desk.place.pushes_max,
            fetches: desk.monitoring.fetches.running(),
        })
    }

    fn rows(&self, rows: &mut Rows) {
        let up = duration(Duration::from_secs(self.uptime_seconds));
        rows.row("state", format!("running for {up}"));
        if let Some(address) = &self.listens_on {
            rows.row("listens on", address);
        }
        if let Some(address) = &self.monitoring_on {
            rows.row("metrics on", address);
        }
        rows.row(
            "connections",
            format!(
                "{} from {}, {}",
                self.connections,
                counted(self.client_addresses, "address", "addresses"),
                counted(self.subscriptions, "subscription", "subscriptions"),
            ),
        );
        rows.row(
            "git",
            format!(
                "{} of at most {}, {}",
                self.pushes,
                counted(self.pushes_max, "push", "pushes"),
                counted(self.fetches, "fetch", "fetches"),
            ),
        );
    }
}

impl Folder {
    fn of(path: &std::path::Path) -> Self {
        Self {
            path: path.display().to_string(),
            disk: Disk::of(path),
        }
    }

    fn words(&self) -> String {
        match self.disk {
            Some(disk) => format!(
                "{} ({} of {} free)",
                self.path,
                bytes(disk.free),
                bytes(disk.size)
            ),
            None => self.path.clone(),
        }
    }
}

impl Events {
    fn of(overview: &Overview) -> Self {
        let count = |stage| {
            let StageStats { events, bytes, .. } = overview.stats.of(stage);
            Count { events, bytes }
        };
        Self {
            served: count(Stage::Served),
            waiting: count(Stage::Waiting),
            parked: count(Stage::Parked),
            superseded: count(Stage::Superseded),
            held: count(Stage::Held),
        }
    }

    fn rows(&self, rows: &mut Rows) {
        rows.heading("events");
        for (stage, count) in [
            ("served", &self.served),
            ("waiting", &self.waiting),
            ("parked", &self.parked),
            ("superseded", &self.superseded),
            ("held", &self.held),
        ] {
            rows.row(stage, format!("{}, {}", count.events, bytes(count.bytes)));
        }
    }
}

impl Repositories {
    fn rows(&self, rows: &mut Rows) {
        rows.heading("repositories");
        rows.row("served", self.served);
        rows.row("waiting", self.waiting);
        rows.row("parked", self.parked);
        for (what, named) in [
            ("frozen", self.frozen.as_ref()),
            ("degraded", self.degraded.as_ref()),
            ("not in line", Some(&self.dirty)),
        ] {
            let Some(named) = named else {
                continue;
            };
            rows.row(what, named.count);
            for name in &named.first {
                rows.row("", name);
            }
            if named.count > named.first.len() {
                rows.row("", format!("and {} more", named.count - named.first.len()));
            }
        }
    }
}

impl Named {
    fn of(those: impl Iterator<Item = String>) -> Self {
        let mut named = Self {
            count: 0,
            first: Vec::new(),
        };
        for name in those {
            named.count += 1;
            if named.first.len() < NAMED_MAX {
                named.first.push(name);
            }
        }
        named
    }
}

impl Purgatory {
    fn of(overview: &Overview, now: Timestamp) -> Self {
        let waiting = overview.stats.of(Stage::Waiting);
        Self {
            announcements: waiting.announcements,
            states: waiting.states,
            proposals: waiting.proposals,
            uploads: overview.uploads,
            bytes: waiting.bytes,
            next_expiry: overview.first_waiting_deadline.map(|at| at.as_secs()),
            longest_wait_seconds: overview.longest_wait(now),
            hunts: overview.hunts,
        }
    }

    fn rows(&self, rows: &mut Rows, now: Timestamp) {
        rows.heading("waiting for git data");
        rows.row("announcements", self.announcements);
        rows.row("states", self.states);
        rows.row("pull requests", self.proposals);
        rows.row("uploads", self.uploads);
        rows.row("size", bytes(self.bytes));
        if let Some(at) = self.next_expiry {
            rows.row("next expiry", from_now(Timestamp::from_secs(at), now));
        }
        if let Some(secs) = self.longest_wait_seconds {
            rows.row("longest wait", duration(Duration::from_secs(secs)));
        }
        rows.row(
            "looked for",
            counted(self.hunts, "identifier", "identifiers"),
        );
    }
}
