//! Commands of operators: ask the running server, or open the data of one that does not run (CLI-5).
//!
//! Both ways end at the same desk, so they answer alike. *Invariant:* a command makes no data folder and no key: what
//! is not there is said, not created.

mod events;
mod local;
mod remote;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use grasp_server::control::{Reply, Request, SocketPath, Unanswered};

use super::serve::{sources, start_logging};
use crate::compose::Folders;
use crate::config::{Backend, Config};
use crate::failure::Failure;

pub(crate) use events::check_events;

/// The exit code of a check that found something.
const FINDINGS: u8 = 3;

/// Asks, and prints the answer.
pub(crate) fn ask(flags: BTreeMap<String, String>, request: Request) -> Result<ExitCode, Failure> {
    let (config, folders) = configured(flags)?;
    match remote::connect(&folders.relay)? {
        Some(server) => server.ask(&request),
        None => local::ask(&config, &folders, request),
    }
}

/// The settings, and the folders that a server with them has.
fn configured(flags: BTreeMap<String, String>) -> Result<(Config, Folders), Failure> {
    let config = Config::load(&sources(flags))
        .map_err(Failure::configuration)?
        .config;
    start_logging(&config);
    if config.storage.database_backend == Backend::Memory {
        return Err(Failure::other(anyhow!(
            "NGIT_DATABASE_BACKEND=memory: the data of such a server is its own, and no command finds it"
        )));
    }
    let folders = Folders::of(&config).context("cannot find the data folders")?;
    Ok((config, folders))
}

/// Prints one reply. The last one decides how the command ends.
fn print(reply: Reply) -> Result<Option<ExitCode>, Failure> {
    let text = match reply {
        Reply::Text(text) => text,
        Reply::Value(value) => format!("{value}\n"),
        Reply::Done { findings: 0 } => return Ok(Some(ExitCode::SUCCESS)),
        Reply::Done { .. } => return Ok(Some(ExitCode::from(FINDINGS))),
        Reply::Failed { reason, message } => return Err(failure(reason, message)),
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Some(ExitCode::SUCCESS)),
        written => {
            written.context("cannot write the answer")?;
            Ok(None)
        }
    }
}

fn failure(reason: Unanswered, message: String) -> Failure {
    let error = anyhow!(message);
    match reason {
        Unanswered::NotAllowed => Failure::not_allowed(error),
        Unanswered::Busy => Failure::try_again(error),
        Unanswered::Misunderstood | Unanswered::NotFound | Unanswered::Fault => {
            Failure::other(error)
        }
    }
}

/// Where the socket is.
fn socket(relay: &std::path::Path) -> Result<Option<SocketPath>, Failure> {
    match SocketPath::of(relay) {
        Ok(place) => Ok(Some(place)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::other(
            anyhow::Error::new(error).context(format!("cannot look into {}", relay.display())),
        )),
    }
}
