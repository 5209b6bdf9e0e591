//! What can be seen of a server: by subscribers, by git, by monitoring, and by who reads its store and folders.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::Command;

use axum::body::Body;
use grasp_core::filter::Filter;
use grasp_core::lifecycle::{MarkReason, Stage};
use grasp_core::{EventId, Timestamp};
use grasp_store::QueryLimits;
use grasp_testkit::{Event, Person, json};
use http::{Request, StatusCode};

use super::{REPO, World};

impl World {
    /// How often a limit has refused something, as monitoring sees it.
    pub(crate) async fn refusals(&self, limit: &str) -> u64 {
        let series = format!("ngit_limit_refusals_total{{limit=\"{limit}\"}}");
        self.metric(&series).await
    }

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

    /// How many refs the `/prs/` repository of a submitter has; `None` without a directory.
    pub(crate) fn prs(&self, submitter: &Person) -> Option<usize> {
        let path = self.folder.path().join("git/prs").join(submitter.hex());
        let path = path.join(format!("{REPO}.git"));
        path.exists().then(|| refs_at(&path).len())
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
