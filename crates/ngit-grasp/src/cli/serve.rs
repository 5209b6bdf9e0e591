//! `serve`: from the configuration to a running server and its clean end.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use grasp_server::control::Socket;
use grasp_server::pages::Links;
use grasp_server::{OpenError, Server};
use nostr::key::PublicKey;
use rustix::process::{self, Resource};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::welcome;
use crate::config::source::Sources;
use crate::config::{Config, Loaded, owner};
use crate::failure::Failure;
use crate::{compose, git_version};

/// Where settings are read from besides flags and environment.
const DOTENV: &str = ".env";

/// How often data is tried that another process holds: five seconds in all.
const IN_USE_ATTEMPTS: u32 = 51;
const IN_USE_PAUSE: Duration = Duration::from_millis(100);

/// Everything that settings are read from.
pub(super) fn sources(flags: BTreeMap<String, String>) -> Sources {
    let mut sources = Sources {
        flags,
        ..Sources::default()
    };
    sources.take_environment(std::env::vars_os());
    sources.take_dotenv(Path::new(DOTENV));
    sources
}

/// Runs the server until it is told to stop.
pub(crate) fn serve(flags: BTreeMap<String, String>) -> Result<(), Failure> {
    let sources = sources(flags);
    let Loaded {
        config,
        warnings,
        listener_fd,
    } = Config::load(&sources).map_err(Failure::configuration)?;
    start_logging(&config);
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    git_version::check().map_err(Failure::other)?;
    let owner = owner::load(&owner::Places {
        credentials: std::env::var_os("CREDENTIALS_DIRECTORY").map(Into::into),
        sources: &sources,
        directory: Path::new("."),
    })
    .map_err(Failure::configuration)?
    .into_keys();
    let key = owner.public_key();
    drop(sources);
    raise_file_limit();

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start worker threads")?;
    runtime.block_on(async {
        let mut stop = Stop::listen()?;
        let folders = compose::Folders::of(&config).context("cannot prepare the data folders")?;
        let server = open(&config, &folders, key)
            .await
            .map_err(opening)?
            .introduced(compose::identity(&config, owner.clone()))
            .following(compose::following(&config, owner));
        let server = match monitoring_address(&config) {
            Some(own) => server.monitored_on(listen_for_monitoring(own).await?),
            None => server,
        };
        let server = match Socket::bind(&folders.relay) {
            Ok(socket) => server.controlled_by(socket),
            Err(error) => {
                tracing::warn!(%error, "no control socket: status, explain and their like cannot ask this server");
                server
            }
        };
        let listener = listen(&config, listener_fd)?;
        let address = listener.local_addr().context("the socket has no address")?;
        let listener = tokio::net::TcpListener::from_std(listener)
            .context("the socket cannot be waited for")?;
        let text = welcome::text(&welcome::Welcome {
            address,
            links: &Links::new(&config.public),
            folders: &folders,
            owner: key,
        });
        // Nobody may be reading; that is no reason to stop.
        let _ = io::stdout().write_all(text.as_bytes());
        server.run(listener, stop.asked()).await;
        drop(folders);
        Ok(())
    })
}

/// Opens the data. A former server that was just ended may hold it a moment longer: a child that it was
/// starting has its locks open too.
async fn open(
    config: &Config,
    folders: &compose::Folders,
    owner: PublicKey,
) -> Result<Server, OpenError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match Server::open(compose::settings(config, folders, owner)) {
            Err(error) if error.is_in_use() && attempts < IN_USE_ATTEMPTS => {
                if attempts == 1 {
                    tracing::warn!(%error, "waiting some seconds for it");
                }
                tokio::time::sleep(IN_USE_PAUSE).await;
            }
            result => return result,
        }
    }
}

pub(super) fn start_logging(config: &Config) {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(
            &config.service.log_level.0,
        ))
        .with_writer(io::stderr)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        .init();
}

/// CLI-4: what is not ours is a matter of configuration, and not to be tried again.
pub(super) fn opening(error: OpenError) -> Failure {
    match error {
        OpenError::Store(
            grasp_store::OpenError::Foreign { .. } | grasp_store::OpenError::Format { .. },
        )
        | OpenError::Git(
            grasp_git::OpenError::Foreign { .. } | grasp_git::OpenError::Format { .. },
        ) => Failure::configuration(error),
        other => Failure::other(other),
    }
}

fn listen(config: &Config, inherited: Option<i32>) -> anyhow::Result<TcpListener> {
    let listener = match inherited {
        Some(number) => inherit(number).with_context(|| {
            format!("NGIT_TEST_LISTENER_FD: {number} is no socket of this process")
        })?,
        None => TcpListener::bind(config.service.bind_address).with_context(|| {
            format!(
                "cannot listen on {} (NGIT_BIND_ADDRESS)",
                config.service.bind_address
            )
        })?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Where `/metrics` is, if it is on and not a public route.
fn monitoring_address(config: &Config) -> Option<SocketAddr> {
    let metrics = &config.metrics;
    metrics
        .metrics_bind_address
        .filter(|_| metrics.metrics_enabled)
}

async fn listen_for_monitoring(own: SocketAddr) -> anyhow::Result<tokio::net::TcpListener> {
    tokio::net::TcpListener::bind(own).await.with_context(|| {
        format!("cannot listen on {own}; NGIT_METRICS_BIND_ADDRESS names another address")
    })
}

/// A copy of a descriptor that the parent process left open. The kernel hands it over like another process's
/// would be, which needs no promise about who else owns the number.
fn inherit(number: i32) -> io::Result<TcpListener> {
    let us = process::pidfd_open(process::getpid(), process::PidfdFlags::empty())?;
    let socket = process::pidfd_getfd(us, number, process::PidfdGetfdFlags::empty())?;
    Ok(TcpListener::from(socket))
}

/// Takes as many file descriptors as the system grants: each connection is one.
fn raise_file_limit() {
    let mut limit = process::getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = process::setrlimit(Resource::Nofile, limit) {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
    }
}

/// CLI-2: Ctrl-C and SIGTERM.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("cannot wait for Ctrl-C")?,
            terminate: signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?,
        })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_socket_that_somebody_else_opened_is_taken_by_its_number() {
        let theirs = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let ours = inherit(theirs.as_raw_fd()).expect("it is open");
        assert_eq!(
            ours.local_addr().expect("bound"),
            theirs.local_addr().expect("bound")
        );
        assert!(inherit(1_000_000).is_err());
    }
}
