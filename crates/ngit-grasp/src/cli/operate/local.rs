//! Opens the data of a server that does not run, and answers from it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use grasp_git::Repositories;
use grasp_server::control::Request;
use grasp_server::{OpenError, Server};
use grasp_store::Store;
use tokio::sync::mpsc;

use super::print;
use crate::cli::serve::opening;
use crate::compose::{self, Folders};
use crate::config::Config;
use crate::failure::Failure;

/// Replies that wait to be printed.
const REPLIES: usize = 64;

/// Asks, and prints what the data says.
pub(super) fn ask(
    config: &Config,
    folders: &Folders,
    request: Request,
) -> Result<ExitCode, Failure> {
    require_data(folders)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start worker threads")?;
    runtime.block_on(async {
        let settings = compose::settings(config, folders, compose::nobody());
        let server = Server::open(settings).map_err(in_use_or)?;
        let (replies, mut lines) = mpsc::channel(REPLIES);
        let desk = std::sync::Arc::clone(server.desk());
        let answering = tokio::spawn(async move { desk.answer(request, replies).await });
        let mut ended = None;
        while let Some(reply) = lines.recv().await {
            match print(reply) {
                Ok(None) => {}
                end => {
                    ended = Some(end);
                    break;
                }
            }
        }
        drop(lines);
        answering.await.context("the answer was cut short")?;
        server.close().await;
        match ended {
            Some(Ok(Some(code))) => Ok(code),
            Some(Err(failure)) => Err(failure),
            Some(Ok(None)) | None => Err(Failure::other(anyhow!("there is no answer"))),
        }
    })
}

/// A command creates no folders: they must be there.
fn require_data(folders: &Folders) -> Result<(), Failure> {
    let events = Store::is_at(&folders.relay).map_err(|error| opening(error.into()))?;
    let repositories = Repositories::is_at(&folders.git).map_err(|error| opening(error.into()))?;
    let missing = |what: &str, folder: &Path, flag: &str| {
        Err(Failure::no_data(anyhow!(
            "no server runs here, and {} holds no {what} of one; {flag} names another folder",
            folder.display()
        )))
    };
    match (events, repositories) {
        (true, true) => Ok(()),
        (false, _) => missing("events", &folders.relay, "--relay-data-path"),
        (true, false) => missing("repositories", &folders.git, "--git-data-path"),
    }
}

/// Somebody holds the lock and does not answer: a server that is just starting or stopping, or one whose socket
/// could not be made.
fn in_use_or(error: OpenError) -> Failure {
    if error.is_in_use() {
        return Failure::try_again(
            anyhow::Error::new(error)
                .context("the data is in use by a server that does not answer on control.sock"),
        );
    }
    opening(error)
}
