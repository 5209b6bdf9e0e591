//! A git server that is none of ours: `git http-backend` over real repositories, and any fault that a test gives it.
//!
//! Every request is answered by what [`GitHost::behave`] said last. What was asked is kept for the test to look at,
//! and so is how many requests ran side by side, which is what a polite peer bounds.

mod backend;
mod request;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::git::{GitHome, WorkTree};

pub use request::Asked;

/// So many requests are kept; later ones are counted only.
const ASKED_MAX: usize = 10_000;

/// How a host answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// As git does.
    #[default]
    Faithful,
    /// As a git that knows neither protocol v1 nor v2.
    VersionZero,
    /// As a plain file server: no service at all, only the files of the repository.
    Dumb,
    /// Takes requests and never answers.
    Silent,
    /// Answers as git does, but after so many bytes of the body nothing comes, and the connection stays.
    StallsAfter(usize),
    /// Answers as git does, so many bytes at a time, with a pause after each.
    Slow {
        /// Bytes at a time.
        bytes: usize,
        /// The pause.
        pause: Duration,
    },
    /// Breaks the connection off after so many bytes of the body.
    BreaksAfter(usize),
    /// Packs arrive with a byte changed.
    CorruptPack,
    /// A pack that never ends.
    EndlessPack,
    /// Progress text that never ends, and no pack.
    EndlessProgress,
    /// A list of refs that never ends.
    EndlessRefs,
    /// Answers as git does, as `text/html`.
    WrongType,
    /// This status with these headers and no body, whatever is asked: refusals and redirects.
    Status(u16, Vec<(String, String)>),
    /// These bytes, as they are.
    Raw(Vec<u8>),
}

impl Behaviour {
    /// A status without further headers.
    pub fn status(code: u16) -> Self {
        Self::Status(code, Vec::new())
    }

    /// HTTP 429, with `Retry-After` if there is one to send.
    pub fn too_many_requests(retry_after: Option<&str>) -> Self {
        let header = |value: &str| ("Retry-After".to_owned(), value.to_owned());
        Self::Status(429, retry_after.map(header).into_iter().collect())
    }

    /// Sends whoever asks to `url`.
    pub fn redirect(url: &str) -> Self {
        Self::Status(302, vec![("Location".to_owned(), url.to_owned())])
    }
}

/// Listens until it is dropped.
#[derive(Debug)]
pub struct GitHost {
    /// `host:port`.
    pub authority: String,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

/// What the connections share.
#[derive(Debug)]
struct Shared {
    home: GitHome,
    behaviour: watch::Sender<Behaviour>,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    asked: Vec<Asked>,
    requests: usize,
    running: usize,
    running_most: usize,
}

impl GitHost {
    /// A host that answers as git does.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let home = GitHome::new();
        std::fs::create_dir(home.path().join("served")).expect("the home is writable");
        let shared = Arc::new(Shared {
            home,
            behaviour: watch::Sender::default(),
            log: Mutex::default(),
        });
        let listening = tokio::spawn(listen(listener, Arc::clone(&shared)));
        Self {
            authority: address.to_string(),
            shared,
            listening,
        }
    }

    /// A host that answers so.
    pub async fn behaving(behaviour: Behaviour) -> Self {
        let host = Self::start().await;
        host.behave(behaviour);
        host
    }

    /// A clone URL on a port where nobody listens.
    pub async fn dead_url(name: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        format!("http://{address}/{name}.git")
    }

    /// The clone URL of a repository, whether it is held or not.
    pub fn url(&self, name: &str) -> String {
        format!("http://{}/{name}.git", self.authority)
    }

    /// The clone URL by another name of this machine, such as `localhost`: another host to whoever counts by name.
    pub fn url_at(&self, host: &str, name: &str) -> String {
        self.url(name).replacen("127.0.0.1", host, 1)
    }

    /// Where the repository lies, to look at or to change by hand.
    pub fn repository(&self, name: &str) -> PathBuf {
        self.shared.home.path().join(format!("served/{name}.git"))
    }

    /// Holds `refspecs` of `work` in a repository of that name from now on.
    pub async fn hold(&self, name: &str, work: &WorkTree, refspecs: &[&str]) {
        let path = self.repository(name);
        let path = path.to_str().expect("temporary paths are text");
        let home = &self.shared.home;
        let new = ["init", "-q", "--bare", "-b", "main", path];
        home.run(home.path(), new).await;
        work.push_to(path, refspecs).await.accepted();
    }

    /// How requests are answered from now on. One that stalls or is silent goes on with the new behaviour.
    pub fn behave(&self, behaviour: Behaviour) {
        self.shared.behaviour.send_replace(behaviour);
    }

    /// How many requests have come.
    pub fn requests(&self) -> usize {
        self.shared.log().requests
    }

    /// How many are being answered now.
    pub fn running(&self) -> usize {
        self.shared.log().running
    }

    /// The most that were ever answered side by side.
    pub fn running_most(&self) -> usize {
        self.shared.log().running_most
    }

    /// What was asked, oldest first.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.log().asked.clone()
    }
}

impl Drop for GitHost {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes connections; those that run end with it.
async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    let mut running = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while running.try_join_next().is_some() {}
        running.spawn(serve(stream, Arc::clone(&shared)));
    }
}

/// One request. Who hangs up early is nobody's concern.
async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let Ok(asked) = request::read(&mut stream).await else {
        return;
    };
    let _running = Running::count(&shared, &asked);
    let _ = backend::answer(&mut stream, &asked, &shared).await;
}

/// Counts a request for as long as it runs.
struct Running<'a>(&'a Shared);

impl<'a> Running<'a> {
    fn count(shared: &'a Shared, asked: &Asked) -> Self {
        let mut log = shared.log();
        log.requests += 1;
        log.running += 1;
        log.running_most = log.running_most.max(log.running);
        if log.asked.len() < ASKED_MAX {
            log.asked.push(asked.clone());
        }
        Self(shared)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.log().running -= 1;
    }
}

#[cfg(test)]
mod tests;
