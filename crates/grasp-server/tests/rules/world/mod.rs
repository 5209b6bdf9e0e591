//! One server in this process: its clock, its folders, and ways to speak to it.

mod drafts;
mod look;
mod running;
mod settings;
mod told;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Instant;

use axum::body::Body;
use grasp_core::Timestamp;
use grasp_core::curation::Curation;
use grasp_core::lifecycle::{Change, Stage};
use grasp_core::policy::{Origin, Policy};
use grasp_server::{Clock, Server, Service, Settings};
use grasp_testkit::{Event, Person};
use http::{Request, StatusCode};
use tempfile::TempDir;

use crate::history::{self, Commit};

pub(crate) use drafts::*;
pub(crate) use look::{git, refs_at};
use running::Running;
pub(crate) use told::{Answer, Pushed};

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
    running: Option<Running>,
    /// Where requests come from: this machine, unless a test says otherwise.
    pub(crate) peer: SocketAddr,
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

    pub(crate) fn begun(start: Timestamp, adjust: impl FnOnce(&mut Settings)) -> Self {
        let folder = grasp_testkit::disk::scratch("grasp-rules-");
        let mut settings = settings::settings(&folder);
        adjust(&mut settings);
        let clock = Clock::manual(start);
        let server = Server::open_at(settings.clone(), clock.clone()).expect("a fresh folder");
        Self {
            clock,
            folder,
            settings,
            server: Some(server),
            running: None,
            peer: ([127, 0, 0, 1], 1).into(),
        }
    }

    fn server(&self) -> &Server {
        self.server
            .as_ref()
            .expect("only `restart` stops it, and `run` takes it")
    }

    pub(crate) fn service(&self) -> &Service {
        match &self.running {
            Some(running) => &running.service,
            None => self.server().service(),
        }
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

    /// The server stops, and starts with another policy.
    pub(crate) async fn restart_as(&mut self, adjust: impl FnOnce(&mut Policy)) {
        self.stop().await;
        adjust(&mut self.settings.policy);
        self.start().await;
    }

    /// The server stops, and starts when the disk is too full for it (BND-2).
    pub(crate) async fn restart_below_the_disk_floor(&mut self) {
        self.stop().await;
        self.settings.store.disk_floor = u64::MAX;
        self.start().await;
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

    async fn ask(&self, request: Request<Body>) -> (StatusCode, Vec<u8>) {
        let response = self.server().answer(request, self.peer).await;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 24)
            .await
            .expect("a body");
        (status, body.to_vec())
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
