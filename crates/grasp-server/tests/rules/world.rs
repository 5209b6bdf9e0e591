//! One server in this process: its clock, its folders, and ways to speak to it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use axum::body::Body;
use grasp_core::curation::Curation;
use grasp_core::filter::Filter;
use grasp_core::lifecycle::{Change, MarkReason, Stage};
use grasp_core::maintainers::MaintainerRule;
use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::policy::{Origin, Policy, PurgatoryLimits, RelatedLimits, UploadLimits};
use grasp_core::request::{RequestPolicy, Retention};
use grasp_core::service::ServiceAddress;
use grasp_core::{EventId, Timestamp};
use grasp_git::{GitConfig, PackLimits};
use grasp_relay::RelayLimits;
use grasp_relay::address::AddressLimits;
use grasp_relay::nip11::Info;
use grasp_server::{Clock, GitLimits, MonitoringSettings, Server, Service, Settings, Timers};
use grasp_store::{QueryLimits, StoreConfig};
use grasp_testkit::{Draft, Endpoint, Event, Person, json};
use http::{Request, StatusCode};
use tempfile::TempDir;

use crate::history::{self, Commit};

/// The identifier of repositories that need no other.
pub(crate) const REPO: &str = "project";
/// PUR-1, in seconds.
pub(crate) const WAITING: u64 = 1800;
/// PUR-4, phase 2.
pub(crate) const SOFT_EXPIRED: u64 = 86_400;
/// What the relay says of what waits for git data.
pub(crate) const PURGATORY: &str = "purgatory: won't be served until git data arrives";

pub(crate) const HOST: &str = "grasp.example.com";
pub(crate) const ZERO: &str = "0000000000000000000000000000000000000000";

/// A server whose time passes when a test says so.
pub(crate) struct World {
    clock: Clock,
    folder: TempDir,
    settings: Settings,
    server: Option<Server>,
    /// Where requests come from: this machine, unless a test says otherwise.
    pub(crate) peer: SocketAddr,
}

/// What a push was told.
#[derive(Debug)]
pub(crate) struct Pushed {
    /// Everything, sideband framing aside.
    pub(crate) text: String,
    accepted: bool,
}

impl Pushed {
    #[track_caller]
    pub(crate) fn accepted(self) {
        assert!(
            self.accepted,
            "the push should be accepted: {:?}",
            self.text
        );
    }

    /// Whether the command for this ref was carried out.
    pub(crate) fn took(&self, name: &str) -> bool {
        self.text.contains(&format!("ok {name}\n"))
    }

    #[track_caller]
    pub(crate) fn refused(self) -> String {
        assert!(!self.accepted, "the push should be refused: {}", self.text);
        self.text
    }
}

/// What the sender of an event was told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) accepted: bool,
    pub(crate) message: String,
}

impl Answer {
    /// Stored and served.
    #[track_caller]
    pub(crate) fn is_stored(&self) {
        assert_eq!((self.accepted, self.message.as_str()), (true, ""));
    }

    /// Accepted into purgatory.
    #[track_caller]
    pub(crate) fn waits(&self) {
        assert_eq!((self.accepted, self.message.as_str()), (true, PURGATORY));
    }

    /// `OK true duplicate: …`.
    #[track_caller]
    pub(crate) fn is_duplicate(&self) {
        assert!(
            self.accepted && self.message.starts_with("duplicate:"),
            "{self:?}"
        );
    }

    #[track_caller]
    pub(crate) fn is_refused(&self) {
        assert!(!self.accepted, "{self:?}");
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// A server whose policy differs from the defaults.
    pub(crate) fn with(adjust: impl FnOnce(&mut Policy)) -> Self {
        Self::adjusted(|settings| adjust(&mut settings.policy))
    }

    /// A server any of whose settings differ from the defaults.
    pub(crate) fn adjusted(adjust: impl FnOnce(&mut Settings)) -> Self {
        Self::begun(Timestamp::now(), adjust)
    }

    /// A server whose clock begins at `start`: two of them are told the same and do the same.
    pub(crate) fn since(start: Timestamp) -> Self {
        Self::begun(start, |_| {})
    }

    fn begun(start: Timestamp, adjust: impl FnOnce(&mut Settings)) -> Self {
        let folder = TempDir::with_prefix("grasp-rules-").expect("a temporary folder");
        let mut settings = settings(&folder);
        adjust(&mut settings);
        let clock = Clock::manual(start);
        let server = Server::open_at(settings.clone(), clock.clone()).expect("a fresh folder");
        Self {
            clock,
            folder,
            settings,
            server: Some(server),
            peer: ([127, 0, 0, 1], 1).into(),
        }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("only `restart` stops it")
    }

    pub(crate) fn service(&self) -> &Service {
        self.server().service()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Time passes, and then the sweep comes.
    pub(crate) async fn pass(&self, secs: u64) {
        self.clock.advance(secs);
        self.sweep().await;
    }

    pub(crate) async fn sweep(&self) {
        self.service().sweep().await.expect("the sweep succeeds");
        let cleaned = self.service().clean_up_holding().await;
        cleaned.expect("the clean-up succeeds");
    }

    /// The server stops, and starts with other lists.
    pub(crate) async fn restart_with(&mut self, curation: Curation) {
        self.stop().await;
        self.settings.policy.curation = curation;
        self.start().await;
        let applied = self.service().apply_lists().await;
        applied.expect("the lists are carried out");
    }

    /// The server stops, `secs` pass, it starts again on the same folders and does what it does first.
    pub(crate) async fn restart_after(&mut self, secs: u64) {
        self.stop().await;
        self.clock.advance(secs);
        self.start().await;
    }

    /// Nothing is closed and nothing is told that it ends; `secs` later a server starts on what is there.
    pub(crate) async fn kill_and_start_after(&mut self, secs: u64) {
        drop(self.server.take());
        self.clock.advance(secs);
        self.start().await;
    }

    pub(crate) async fn stop(&mut self) {
        self.server.take().expect("it runs").close().await;
    }

    pub(crate) async fn start(&mut self) {
        // A task that has just reported a push may hold the old store for a moment longer.
        let deadline = Instant::now() + grasp_testkit::DEADLINE;
        let server = loop {
            match Server::open_at(self.settings.clone(), self.clock.clone()) {
                Ok(server) => break server,
                Err(held) => assert!(Instant::now() < deadline, "{held}"),
            }
            tokio::task::yield_now().await;
        };
        self.server = Some(server);
        self.service().retry_marked().await;
        self.sweep().await;
    }

    /// A client sends an event.
    pub(crate) async fn send(&self, event: &Event) -> Answer {
        self.submit(event, Origin::Client).await
    }

    /// Another server has the event for us.
    pub(crate) async fn sync(&self, event: &Event) -> Answer {
        self.submit(event, Origin::Sync).await
    }

    async fn submit(&self, event: &Event, origin: Origin) -> Answer {
        let (accepted, message) = self.service().submit(event.clone(), origin).await;
        Answer { accepted, message }
    }

    /// Pushes commits to refs.
    pub(crate) async fn push(&self, owner: &Person, refs: &[(&str, &Commit)]) -> Pushed {
        self.push_all(owner, refs, &[]).await
    }

    /// Pushes deletions.
    pub(crate) async fn push_deletions(&self, owner: &Person, names: &[&str]) -> Pushed {
        self.push_all(owner, &[], names).await
    }

    /// Pushes commits to refs, and deletions of others.
    pub(crate) async fn push_all(
        &self,
        owner: &Person,
        refs: &[(&str, &Commit)],
        deleted: &[&str],
    ) -> Pushed {
        let moved = refs
            .iter()
            .map(|(name, commit)| ((*name).to_owned(), commit.oid.clone()));
        let gone = deleted
            .iter()
            .map(|name| ((*name).to_owned(), ZERO.to_owned()));
        let commands: Vec<_> = moved.chain(gone).collect();
        let commits: Vec<&Commit> = refs.iter().map(|(_, commit)| *commit).collect();
        let pack = history::pack(&commits).await;
        let path = format!("/{}/{REPO}.git", owner.npub());
        self.push_commands(&path, &commands, false, pack.as_ref())
            .await
    }

    /// Pushes one proposal to a `/prs/` repository.
    pub(crate) async fn push_to_prs(
        &self,
        submitter: &Person,
        name: &str,
        commit: &Commit,
    ) -> Pushed {
        let path = format!("/prs/{}/{REPO}.git", submitter.npub());
        let commands = [(name.to_owned(), commit.oid.clone())];
        self.push_commands(&path, &commands, false, Some(&commit.pack))
            .await
    }

    /// Pushes to the repository at `path`: names with their new values, and the pack that goes with them.
    pub(crate) async fn push_commands(
        &self,
        repository: &str,
        commands: &[(String, String)],
        atomic: bool,
        pack: Option<&Vec<u8>>,
    ) -> Pushed {
        let mut body = Vec::new();
        for (number, (name, new)) in commands.iter().enumerate() {
            // PUSH-2: the old value is not compared.
            let mut line = format!("{ZERO} {new} {name}");
            if number == 0 {
                line.push_str("\0 report-status side-band-64k delete-refs");
                if atomic {
                    line.push_str(" atomic");
                }
            }
            body.extend(grasp_testkit::pkt(line));
        }
        body.extend(b"0000");
        body.extend(pack.into_iter().flatten());
        let request = Request::post(format!("{repository}/git-receive-pack"))
            .header("content-type", "application/x-git-receive-pack-request")
            .body(Body::from(body))
            .expect("a request");
        let (status, answer) = self.ask(request).await;
        if status != StatusCode::OK {
            return Pushed {
                text: status.to_string(),
                accepted: false,
            };
        }
        let mut text = String::new();
        for line in grasp_testkit::pkt_lines(&answer) {
            let payload = line.get(1..).unwrap_or_default();
            let _ = write!(text, "{}", String::from_utf8_lossy(payload));
        }
        let mut pushed = Pushed {
            text,
            accepted: false,
        };
        pushed.accepted = commands.iter().all(|(name, _)| pushed.took(name));
        pushed
    }

    /// How often a limit has refused something, as monitoring sees it.
    pub(crate) async fn refusals(&self, limit: &str) -> u64 {
        let series = format!("ngit_limit_refusals_total{{limit=\"{limit}\"}}");
        self.metric(&series).await
    }

    async fn ask(&self, request: Request<Body>) -> (StatusCode, Vec<u8>) {
        let response = self.server().answer(request, self.peer).await;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 24)
            .await
            .expect("a body");
        (status, body.to_vec())
    }

    /// What monitoring reads of a series, named with its labels.
    pub(crate) async fn metric(&self, series: &str) -> u64 {
        let request = Request::get("/metrics").body(Body::empty());
        let (status, body) = self.ask(request.expect("a request")).await;
        assert_eq!(status, StatusCode::OK);
        let text = String::from_utf8(body).expect("text");
        let found = text.lines().find_map(|line| {
            let value = line.strip_prefix(series)?.strip_prefix(' ')?;
            value.parse().ok()
        });
        found.unwrap_or_else(|| panic!("there is no series {series}"))
    }

    /// The number of the last commit.
    pub(crate) fn commits(&self) -> u64 {
        let snapshot = self.service().store().snapshot().expect("readable");
        snapshot.version().number()
    }

    /// The refs that the git route advertises; `None` if there is no such repository.
    pub(crate) async fn advertised(&self, owner: &Person) -> Option<BTreeMap<String, String>> {
        let (status, body) = self.advertisement(owner).await;
        (status == StatusCode::OK).then(|| {
            grasp_testkit::pkt_lines(&body)
                .iter()
                .filter_map(|line| {
                    let text = String::from_utf8_lossy(line);
                    let (oid, name) = text.trim_end().split('\0').next()?.split_once(' ')?;
                    name.starts_with("refs/")
                        .then(|| (name.to_owned(), oid.to_owned()))
                })
                .collect()
        })
    }

    /// How the git route answers who asks for refs.
    pub(crate) async fn advertisement(&self, owner: &Person) -> (StatusCode, Vec<u8>) {
        let path = format!(
            "/{}/{REPO}.git/info/refs?service=git-upload-pack",
            owner.npub()
        );
        let request = Request::get(path).body(Body::empty()).expect("a request");
        self.ask(request).await
    }

    /// Where an event is in its life.
    pub(crate) fn stage(&self, event: &Event) -> Option<Stage> {
        self.stored(event.id).map(|(stage, _)| stage)
    }

    /// When its stage ends, in seconds from now.
    pub(crate) fn left(&self, event: &Event) -> Option<u64> {
        let (_, deadline) = self.stored(event.id)?;
        Some(deadline?.as_secs() - self.now().as_secs())
    }

    /// Where an event is in its life, and when that ends by itself.
    pub(crate) fn kept(&self, event: &Event) -> (Option<Stage>, Option<u64>) {
        let stored = self.stored(event.id);
        let until = stored.and_then(|(_, deadline)| deadline);
        let stage = stored.map(|(stage, _)| stage);
        (stage, until.map(|until| until.as_secs()))
    }

    fn stored(&self, event: EventId) -> Option<(Stage, Option<Timestamp>)> {
        let snapshot = self.service().store().snapshot().expect("readable");
        let stored = snapshot.view().event(&event).expect("readable")?;
        Some((stored.stage, stored.deadline))
    }

    /// Whether the id is marked expired (PUR-8).
    pub(crate) fn is_marked(&self, event: &Event) -> bool {
        let snapshot = self.service().store().snapshot().expect("readable");
        snapshot
            .view()
            .is_marked(&event.id, MarkReason::Expired, self.now())
            .expect("readable")
    }

    /// Whether subscribers can see it: by query and by count, which must agree.
    pub(crate) fn serves(&self, event: &Event) -> bool {
        let filter = Filter::parse(&json!({"ids": [event.id.to_hex()]})).expect("a filter");
        let found = self.query(&filter).contains(&event.id);
        let counted = self
            .service()
            .store()
            .count(std::slice::from_ref(&filter), self.now())
            .expect("readable");
        assert_eq!(counted, u64::from(found), "REQ and COUNT agree");
        let items = self
            .service()
            .store()
            .negentropy_items(&filter, self.now(), 10)
            .expect("readable")
            .expect("few");
        assert_eq!(items.len(), usize::from(found), "REQ and NEG agree");
        found
    }

    /// The ids that a filter finds.
    pub(crate) fn query(&self, filter: &Filter) -> Vec<EventId> {
        let mut found = Vec::new();
        self.service()
            .store()
            .query(
                std::slice::from_ref(filter),
                QueryLimits::unlimited(self.now()),
                &mut |row| {
                    found.push(row.id);
                    ControlFlow::Continue(())
                },
            )
            .expect("readable");
        found
    }

    /// Where a repository lies.
    pub(crate) fn path(&self, owner: &Person) -> PathBuf {
        self.folder
            .path()
            .join("git")
            .join(owner.npub())
            .join(format!("{REPO}.git"))
    }

    /// Takes events out of sight as a cascade would.
    pub(crate) async fn hold<const N: usize>(&self, events: [&Event; N]) {
        let deadline = Some(self.now() + 86_400 * 90);
        let moves = events.map(|event| Change::Move {
            event: event.id,
            stage: Stage::Held,
            deadline,
        });
        let batch = moves.to_vec();
        let store = self.service().store();
        let held = store.commit(move |_| Ok((batch.clone(), ()))).await;
        held.expect("the store works");
    }

    /// What monitoring reads.
    pub(crate) async fn metrics(&self) -> String {
        let request = Request::get("/metrics")
            .body(Body::empty())
            .expect("a request");
        let (_, body) = self.ask(request).await;
        String::from_utf8(body).expect("text")
    }

    /// The copies of an owner's repository in the archive, by the time in their name.
    pub(crate) fn archived(&self, owner: &Person) -> Vec<PathBuf> {
        let folder = self.folder.path().join("git/.archive").join(owner.npub());
        let Ok(entries) = std::fs::read_dir(folder) else {
            return Vec::new();
        };
        let mut copies: Vec<_> = entries
            .map(|entry| entry.expect("readable").path())
            .collect();
        copies.sort();
        copies
    }

    pub(crate) fn exists(&self, owner: &Person) -> bool {
        self.path(owner).exists()
    }

    /// Name to oid, as plain git lists them; `None` without a directory.
    pub(crate) fn refs(&self, owner: &Person) -> Option<BTreeMap<String, String>> {
        let path = self.path(owner);
        path.exists().then(|| refs_at(&path))
    }

    /// What HEAD names, as plain git says.
    pub(crate) fn head(&self, owner: &Person) -> String {
        git(&self.path(owner), &["symbolic-ref", "HEAD"])
            .trim()
            .to_owned()
    }

    /// Has a repository looked at again although no event changed.
    pub(crate) async fn recheck(&self, owner: &Person) {
        let repository = address(owner);
        self.service()
            .store()
            .commit(move |_| Ok((vec![Change::Dirty(repository.clone())], ())))
            .await
            .expect("a commit");
        self.service().retry_marked().await;
    }

    /// Announced, stated and pushed: a served repository with `main` at the first commit.
    pub(crate) async fn serving(&self, owner: &Person) -> (Event, Event) {
        let announcement = announcing(owner).sign();
        self.send(&announcement).await.waits();
        let first = history::commit(0).await;
        let state = main_at(owner, first);
        self.send(&state).await.waits();
        self.push(owner, &[("refs/heads/main", first)])
            .await
            .accepted();
        assert!(self.serves(&announcement) && self.serves(&state));
        (announcement, state)
    }

    /// Two maintainers who list each other, both served, `main` of both at the first commit.
    pub(crate) async fn serving_together(&self, alice: &Person, bob: &Person) -> Event {
        let announcement = listing(alice, &[bob]).sign();
        self.send(&announcement).await.waits();
        let theirs = listing(bob, &[alice]).sign();
        self.send(&theirs).await.waits();
        let first = history::commit(0).await;
        let state = main_at(alice, first);
        self.send(&state).await.waits();
        self.push(alice, &[("refs/heads/main", first)])
            .await
            .accepted();
        assert!(self.serves(&announcement) && self.serves(&theirs));
        state
    }
}

/// An announcement of [`REPO`] that lists this service.
pub(crate) fn announcing(owner: &Person) -> Draft<'_> {
    owner.announcement(REPO, &endpoint())
}

/// One that lists it and names maintainers.
pub(crate) fn listing<'p>(owner: &'p Person, others: &[&Person]) -> Draft<'p> {
    maintained(announcing(owner), others)
}

/// A state of `main` alone.
pub(crate) fn main_at(author: &Person, commit: &Commit) -> Event {
    author
        .state(REPO, [("refs/heads/main", &commit.oid)])
        .sign()
}

/// A pull request to `owner`.
pub(crate) fn proposing(author: &Person, owner: &Person, commit: &Commit) -> Event {
    author
        .pull_request(&owner.coordinate(REPO), &commit.oid)
        .sign()
}

/// The same announcement with a `maintainers` tag.
pub(crate) fn maintained<'p>(draft: Draft<'p>, others: &[&Person]) -> Draft<'p> {
    let names = std::iter::once("maintainers".to_owned());
    draft
        .without("maintainers")
        .tag(names.chain(others.iter().map(|other| other.hex())))
}

/// Where the `/prs/` repository of a submitter is cloned from.
pub(crate) fn prs_url(submitter: &Person) -> String {
    format!("https://{HOST}/prs/{}/{REPO}.git", submitter.npub())
}

/// The repository of `owner`.
pub(crate) fn address(owner: &Person) -> RepoAddress {
    let identifier = REPO.parse().expect("valid");
    RepoAddress::Announced(Coordinate::new(owner.key(), identifier))
}

/// `main` at this commit and nothing else.
pub(crate) fn main_only(commit: &Commit) -> BTreeMap<String, String> {
    BTreeMap::from([("refs/heads/main".to_owned(), commit.oid.clone())])
}

/// What plain git lists in a bare repository.
pub(crate) fn refs_at(path: &PathBuf) -> BTreeMap<String, String> {
    git(path, &["for-each-ref", "--format=%(refname) %(objectname)"])
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, oid)| (name.to_owned(), oid.to_owned()))
        .collect()
}

/// Plain git in a bare repository.
pub(crate) fn git(path: &PathBuf, args: &[&str]) -> String {
    let output = Command::new("git")
        .arg("--git-dir")
        .arg(path)
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .output()
        .expect("git is installed");
    assert!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("names are text here")
}

/// How this server is reached.
pub(crate) fn endpoint() -> Endpoint {
    Endpoint {
        authority: HOST.to_owned(),
        http: format!("https://{HOST}"),
        ws: format!("wss://{HOST}"),
    }
}

fn settings(folder: &TempDir) -> Settings {
    let owner = Person::named("the relay owner").key();
    Settings {
        policy: Policy {
            service: ServiceAddress::parse(HOST, "/").expect("valid"),
            curation: Curation::default(),
            relay_owner: owner,
            maintainer_rule: MaintainerRule::Reciprocal,
            proposals_hosted: true,
            created_at_ahead_max: Duration::from_mins(15),
            holding_retention: Duration::from_hours(90 * 24),
            parked_retention: Duration::from_hours(30 * 24),
            hunt_delay_client: Duration::from_mins(3),
            hunt_delay_sync: Duration::from_millis(500),
            purgatory: PurgatoryLimits {
                events: 20_000,
                bytes: 256 << 20,
                author_announcements: 100,
                author_events: 1000,
            },
            related: RelatedLimits {
                events: 2000,
                bytes: 20 << 20,
            },
            requests: RequestPolicy {
                retention: Retention {
                    unused_served: Duration::from_hours(30 * 24),
                    unused_gating: Duration::from_hours(180 * 24),
                    used_served: Duration::from_hours(270 * 24),
                    used_gating: Duration::from_hours(90 * 24),
                },
                respected: true,
                unused_per_author: 5000,
            },
            idle_events: 100_000,
            uploads: UploadLimits {
                bytes: 100 << 20,
                per_repository: 50,
                disk_percent: 5,
            },
            push_commands_max: 20_000,
        },
        git_root: folder.path().join("git"),
        relay_root: folder.path().join("relay"),
        store: StoreConfig {
            map_size: 1 << 30,
            disk_floor: 0,
            ..StoreConfig::default()
        },
        git: GitConfig::default(),
        pack: PackLimits::default(),
        git_limits: GitLimits::default(),
        relay: RelayLimits::default(),
        address: AddressLimits::default(),
        trusted_proxies: Vec::new(),
        info: Info {
            name: HOST.to_owned(),
            description: String::new(),
            pubkey: owner,
            icon: None,
            contact: None,
            software: String::new(),
            version: String::new(),
            supported_nips: vec![1],
            supported_grasps: vec!["GRASP-01".to_owned()],
            repo_acceptance_criteria: String::new(),
            curation: None,
            created_at_ahead_max: None,
            auth_required: false,
        },
        monitoring: MonitoringSettings::default(),
        timers: Timers::default(),
    }
}
