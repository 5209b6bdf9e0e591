//! A fetcher that may go everywhere, and what came of a fetch.

use std::collections::BTreeSet;
use std::ops::Deref;

use grasp_core::oid::Oid;
use grasp_git::scratch::Bounds;
use grasp_git::{GitConfig, Repositories};
use grasp_sync::dial::{RootCertStore, Settings, web_roots};
use grasp_sync::fetch::{FetchError, FetchRequest, Fetcher, Progress, Scratch};
use grasp_sync::hunt::Fingerprint;
use grasp_sync::outbound::OutboundPolicy;
use grasp_testkit::{GitHome, GitHost, TempDir, WorkTree};
use tokio::io::AsyncReadExt as _;

/// All that came, until there was nothing more to ask for.
#[derive(Debug, Default)]
pub(crate) struct Came {
    pub(crate) packs: Vec<Vec<u8>>,
    pub(crate) lacking: BTreeSet<Oid>,
    pub(crate) advertisement: Option<Fingerprint>,
}

pub(crate) fn settings() -> Settings {
    Settings {
        policy: OutboundPolicy {
            allow_non_global: true,
            ..OutboundPolicy::default()
        },
        owner: None,
        user_agent: "ngit-grasp/test".to_owned(),
    }
}

/// A fetcher with a git folder of its own.
pub(crate) struct Place {
    pub(crate) fetcher: Fetcher,
    pub(crate) repositories: Repositories,
    _folder: TempDir,
}

impl Deref for Place {
    type Target = Fetcher;

    fn deref(&self) -> &Fetcher {
        &self.fetcher
    }
}

impl Place {
    pub(crate) fn new(settings: Settings, bounds: Bounds) -> Self {
        Self::trusting(web_roots(), settings, bounds)
    }

    pub(crate) fn trusting(roots: RootCertStore, settings: Settings, bounds: Bounds) -> Self {
        let folder = TempDir::new().unwrap();
        let repositories = Repositories::open(&folder.path().join("git"), GitConfig::default());
        let repositories = repositories.unwrap();
        let scratch = Scratch {
            repositories: repositories.clone(),
            bounds,
        };
        Self {
            fetcher: Fetcher::new(settings, roots, scratch),
            repositories,
            _folder: folder,
        }
    }

    /// What is left in quarantine.
    pub(crate) fn quarantined(&self) -> usize {
        let quarantine = self.repositories.root().join(".grasp/quarantine");
        std::fs::read_dir(quarantine).unwrap().count()
    }
}

pub(crate) fn fetcher() -> Place {
    Place::new(settings(), Bounds::default())
}

pub(crate) fn oid(hex: &str) -> Oid {
    hex.parse().unwrap()
}

/// An object that nobody has.
pub(crate) fn nobodys(number: u8) -> Oid {
    Oid::from_bytes([number; 20])
}

pub(crate) fn request(url: &str, wants: impl IntoIterator<Item = Oid>) -> FetchRequest {
    FetchRequest {
        source: url.parse().unwrap(),
        wants: wants.into_iter().collect(),
        haves: Vec::new(),
        lenders: Vec::new(),
        unless: None,
    }
}

/// Fetches with nothing in hand.
pub(crate) async fn fetch(
    url: &str,
    wants: impl IntoIterator<Item = Oid>,
) -> Result<Came, FetchError> {
    fetch_with(&fetcher(), request(url, wants), &Progress::new()).await
}

pub(crate) async fn fetch_with(
    fetcher: &Fetcher,
    request: FetchRequest,
    progress: &Progress,
) -> Result<Came, FetchError> {
    let mut fetching = fetcher.fetch(request, progress.clone()).await?;
    let mut packs = Vec::new();
    while let Some(mut stream) = fetching.next().await? {
        let mut pack = Vec::new();
        let read = stream.read_to_end(&mut pack).await;
        read.map_err(FetchError::of)?;
        packs.push(pack);
    }
    Ok(Came {
        packs,
        lacking: fetching.lacking().clone(),
        advertisement: fetching.advertisement(),
    })
}

/// A host that holds `project`, and whose work it is.
pub(crate) async fn held() -> (GitHost, WorkTree, Oid) {
    let work = GitHome::new().init("work").await;
    let tip = work.commit("first").await;
    let host = GitHost::start().await;
    host.hold("project", &work, &["main"]).await;
    (host, work, oid(&tip))
}

/// Whether these packs together make `tip` whole, in a repository that had nothing.
pub(crate) async fn make_whole(packs: &[Vec<u8>], tip: Oid) -> bool {
    let home = GitHome::new();
    let work = home.init("taken").await;
    for pack in packs {
        let args = ["index-pack", "--stdin", "--strict"];
        home.run_with_input(work.path(), args, pack).await;
    }
    let args = ["rev-list", "--objects", &tip.to_string()];
    work.try_git(args).await.status.success()
}
