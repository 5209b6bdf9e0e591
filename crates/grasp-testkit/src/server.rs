//! The real binary, started as an operator starts it: by environment alone, in an empty directory.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nostr::event::Event;
pub use rustix::process::{Pid, Signal, kill_process};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use crate::http::{HttpConnection, HttpResponse};
use crate::relay::{Answer, RelayClient, publish, query};
use crate::wait::eventually;

/// How long a start may take, on a machine that compiles at the same time.
const START: Duration = Duration::from_secs(30);
/// How long a clean stop may take.
const STOP: Duration = Duration::from_secs(15);
/// Another process may take a free port before we do.
const TRIES: usize = 5;

/// Where a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `host:port`.
    pub authority: String,
    /// `http://…`, base path included, no slash at the end.
    pub http: String,
    /// `ws://…`, base path included, no slash at the end.
    pub ws: String,
}

impl Endpoint {
    fn new(port: u16, base: &str) -> Self {
        let authority = format!("127.0.0.1:{port}");
        Self {
            http: format!("http://{authority}{base}"),
            ws: format!("ws://{authority}{base}"),
            authority,
        }
    }

    /// The clone URL of a repository. The identifier is written as it is: tests that need escapes
    /// write them.
    pub fn clone_url(&self, npub: &str, identifier: &str) -> String {
        format!("{}/{npub}/{}.git", self.http, escaped(identifier))
    }
}

/// An identifier as clients write it in URLs (NAME-2).
pub fn escaped(identifier: &str) -> String {
    identifier
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// What a server is started with.
#[derive(Debug, Clone, Default)]
pub struct ServerBuilder {
    env: BTreeMap<String, Option<String>>,
    wrapper: Vec<String>,
    args: Vec<String>,
}

impl ServerBuilder {
    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.env.insert(name.to_owned(), Some(value.to_string()));
        self
    }

    /// Leaves out a variable that tests set by default.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.env.insert(name.to_owned(), None);
        self
    }

    /// Gives the binary an argument.
    #[must_use]
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// Runs the binary below another program, such as `strace`.
    #[must_use]
    pub fn wrapped_in<A: AsRef<str>>(mut self, wrapper: impl IntoIterator<Item = A>) -> Self {
        self.wrapper = wrapper.into_iter().map(|a| a.as_ref().to_owned()).collect();
        self
    }

    /// Starts, and waits until `GET /` answers 200.
    pub async fn spawn(self) -> Server {
        let dir = TempDir::with_prefix("grasp-server-").expect("a temporary directory");
        let mut last = String::new();
        for _ in 0..TRIES {
            let mut server = Server {
                port: free_port().await,
                endpoint: Endpoint::new(0, ""),
                dir: dir.path().to_owned(),
                owned: None,
                builder: self.clone(),
                child: None,
            };
            server.endpoint = Endpoint::new(server.port, &server.base());
            match server.start().await {
                Ok(()) => {
                    server.owned = Some(dir);
                    return server;
                }
                Err(why) => last = why,
            }
        }
        panic!("the server does not start: {last}");
    }

    /// Runs the binary in a fresh directory until it ends by itself: for starts that must fail.
    pub async fn run_to_end(self, dir: &Path) -> (ExitStatus, String) {
        let port = free_port().await;
        let mut child = self.command(dir, port).spawn().expect("the binary starts");
        let Ok(status) = tokio::time::timeout(START, child.wait()).await else {
            panic!("it did not end but runs: {}", read_log(dir));
        };
        (status.expect("it can be waited for"), read_log(dir))
    }

    /// Runs the binary as a command in `dir`, with `args` after the builder's own, until it ends.
    pub async fn run(self, dir: &Path, args: &[&str]) -> Said {
        let port = free_port().await;
        self.run_on(dir, port, args).await
    }

    async fn run_on(&self, dir: &Path, port: u16, args: &[&str]) -> Said {
        let running = self
            .command(dir, port)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output();
        let Ok(output) = tokio::time::timeout(START, running).await else {
            panic!("{args:?} does not end");
        };
        let output = output.expect("the binary starts");
        Said {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn command(&self, dir: &Path, port: u16) -> Command {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(dir.join("server.log"))
            .expect("the log can be written");
        let mut line = self.wrapper.clone();
        line.push(binary().to_string_lossy().into_owned());
        line.extend(self.args.iter().cloned());
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .current_dir(dir)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .kill_on_drop(true);
        for name in ["PATH", "HOME", "TMPDIR", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let defaults = [
            ("NGIT_BIND_ADDRESS", format!("127.0.0.1:{port}")),
            ("NGIT_DOMAIN", format!("127.0.0.1:{port}")),
            ("NGIT_GIT_DATA_PATH", dir.join("git").display().to_string()),
            (
                "NGIT_RELAY_DATA_PATH",
                dir.join("relay").display().to_string(),
            ),
            ("NGIT_TEST", "1".to_owned()),
            ("NGIT_USER_INDEX_RELAYS", String::new()),
            ("NGIT_SYNC_PLUS_FALLBACK_RELAYS", String::new()),
            ("NGIT_SYNC_STARTUP_JITTER_MS", "0".to_owned()),
        ];
        command.envs(defaults);
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }
}

/// What a command of the binary said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// To standard output.
    pub out: String,
    /// To standard error.
    pub err: String,
}

impl Said {
    /// What it said if all is well.
    #[track_caller]
    pub fn fine(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// What it said in a line of JSON if all is well.
    #[track_caller]
    pub fn value(self) -> Value {
        self.fine().parse().expect("a value")
    }
}

/// A running server. It ends when this is dropped; its directory goes too.
#[derive(Debug)]
pub struct Server {
    port: u16,
    endpoint: Endpoint,
    dir: PathBuf,
    owned: Option<TempDir>,
    builder: ServerBuilder,
    child: Option<Child>,
}

impl Deref for Server {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Server {
    /// A server as tests mostly want it.
    pub async fn spawn() -> Self {
        ServerBuilder::default().spawn().await
    }

    /// Begins a server with settings of its own.
    pub fn configured() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Where it is reached.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Its working directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where its repositories are.
    pub fn git_dir(&self) -> PathBuf {
        self.dir.join("git")
    }

    /// Where its events are.
    pub fn relay_dir(&self) -> PathBuf {
        self.dir.join("relay")
    }

    /// Where a repository is on disk.
    pub fn repository(&self, npub: &str, identifier: &str) -> PathBuf {
        self.git_dir().join(npub).join(format!("{identifier}.git"))
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child
            .as_ref()
            .and_then(Child::id)
            .expect("the server runs")
    }

    /// What it has printed so far.
    pub fn log(&self) -> String {
        read_log(&self.dir)
    }

    /// A new connection to the relay.
    pub async fn relay(&self) -> RelayClient {
        RelayClient::connect(&self.ws).await
    }

    /// A new connection for HTTP by hand.
    pub async fn http(&self) -> HttpConnection {
        HttpConnection::connect(&self.authority).await
    }

    /// One request without a body, on a connection of its own. The base path is not added.
    pub async fn request(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> HttpResponse {
        self.http().await.request(method, target, headers).await
    }

    /// How often a limit has refused something, as monitoring sees it. Fails the test if it has no series.
    pub async fn refusals(&self, limit: &str) -> u64 {
        let series = format!("ngit_limit_refusals_total{{limit=\"{limit}\"}} ");
        let page = self.request("GET", &(self.base() + "/metrics"), &[]).await;
        let page = page.text();
        let count = page.lines().find_map(|line| line.strip_prefix(&series));
        let count = count.and_then(|count| count.parse().ok());
        count.unwrap_or_else(|| panic!("{limit} has no series"))
    }

    /// Publishes an event.
    pub async fn publish(&self, event: &Event) -> Answer {
        publish(&self.ws, event).await
    }

    /// The stored events that match one filter.
    pub async fn query(&self, filter: Value) -> Vec<Event> {
        query(&self.ws, &[filter]).await
    }

    /// Runs a command of the binary as the operator of this server, whether it runs or not.
    pub async fn operate(&self, args: &[&str]) -> Said {
        self.builder.run_on(&self.dir, self.port, args).await
    }

    /// Whether an event is served.
    pub async fn serves(&self, event: &Event) -> bool {
        !self
            .query(json!({"ids": [event.id.to_hex()]}))
            .await
            .is_empty()
    }

    /// Fails the test unless the event comes to be served.
    pub async fn eventually_serves(&self, event: &Event) {
        eventually("the event is served", async || self.serves(event).await).await;
    }

    /// Ends it without a warning.
    pub async fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().await.expect("it can be killed");
        }
    }

    /// Asks it to stop, and returns how it did.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait_end(STOP).await
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process id"), signal).expect("the server runs");
    }

    /// Waits until it has ended by itself.
    pub async fn wait_end(&mut self, limit: Duration) -> ExitStatus {
        let child = self.child.as_mut().expect("the server runs");
        let Ok(status) = tokio::time::timeout(limit, child.wait()).await else {
            panic!("the server does not end:\n{}", self.log());
        };
        self.child = None;
        status.expect("it can be waited for")
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(Some(_))),
            None => true,
        }
    }

    /// Stops it cleanly and starts it again on the same port and data.
    pub async fn restart(&mut self) {
        self.terminate().await;
        self.start_again().await;
    }

    /// Starts it again, after a kill, on the same port and data.
    pub async fn start_again(&mut self) {
        if let Err(why) = self.start().await {
            panic!("the server does not start again: {why}");
        }
    }

    /// As [`Server::start_again_with`]; says whether it came up.
    pub async fn try_start_again_with(&mut self, name: &str, value: Option<&str>) -> bool {
        let value = value.map(str::to_owned);
        self.builder.env.insert(name.to_owned(), value);
        self.start().await.is_ok()
    }

    /// As [`Server::start_again`], with another variable from now on.
    pub async fn start_again_with(&mut self, name: &str, value: Option<&str>) {
        let value = value.map(str::to_owned);
        self.builder.env.insert(name.to_owned(), value);
        self.start_again().await;
    }

    fn base(&self) -> String {
        match self.builder.env.get("NGIT_BASE_PATH") {
            Some(Some(base)) if base != "/" => base.clone(),
            _ => String::new(),
        }
    }

    /// Starts the process and waits until it is ready, or says why not.
    async fn start(&mut self) -> Result<(), String> {
        let mut child = self
            .builder
            .command(&self.dir, self.port)
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", binary().display()))?;
        let end = Instant::now() + START;
        loop {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(format!("it ended with {status}:\n{}", self.log()));
            }
            if is_ready(&self.endpoint).await {
                self.child = Some(child);
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("GET / never answered 200:\n{}", self.log()));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(60).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            eprintln!(
                "--- log of {} ---\n{}\n---",
                self.authority,
                tail.join("\n")
            );
        }
    }
}

/// The binary under test: named by the caller, by cargo, or beside the test's own.
fn binary() -> PathBuf {
    for name in ["NGIT_GRASP_BIN", "CARGO_BIN_EXE_ngit-grasp"] {
        if let Some(path) = std::env::var_os(name) {
            return path.into();
        }
    }
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.parent().and_then(Path::parent);
    profile
        .expect("tests lie in <profile>/deps")
        .join("ngit-grasp")
}

/// A port that nobody listens on, outside the range from which the kernel picks ports for clients: a
/// server that is down for a moment must find its own free.
async fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let offset = std::process::id().wrapping_mul(97).wrapping_add(step) % COUNT;
        let port = u16::try_from(FIRST + offset).expect("below 30,000");
        if TcpListener::bind(("127.0.0.1", port)).await.is_ok() {
            return port;
        }
    }
    panic!("no free port");
}

/// Whether `GET /` answers 200. Nothing here fails the test: a server that starts may do anything.
async fn is_ready(endpoint: &Endpoint) -> bool {
    let base = endpoint.http.rsplit_once(&endpoint.authority);
    let base = base.map_or("", |(_, base)| base);
    let request = format!(
        "GET {base}/ HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        endpoint.authority
    );
    let probe = async {
        let mut stream = TcpStream::connect(&endpoint.authority).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut status = [0; 12];
        stream.read_exact(&mut status).await?;
        std::io::Result::Ok(&status == b"HTTP/1.1 200")
    };
    let answer = tokio::time::timeout(Duration::from_secs(5), probe).await;
    matches!(answer, Ok(Ok(true)))
}

fn read_log(dir: &Path) -> String {
    let bytes = std::fs::read(dir.join("server.log")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
