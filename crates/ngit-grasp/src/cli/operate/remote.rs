//! Asks the running server over its control socket.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use grasp_server::control::{Reply, Request};

use super::{print, socket};
use crate::failure::Failure;

/// A server that listens.
pub(super) struct Remote(UnixStream);

/// The server of a relay folder; `None` if none listens, whatever a killed one left behind.
pub(super) fn connect(relay: &Path) -> Result<Option<Remote>, Failure> {
    let Some(place) = socket(relay)? else {
        return Ok(None);
    };
    match UnixStream::connect(place.address()) {
        Ok(stream) => Ok(Some(Remote(stream))),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(None),
            kind => {
                let text = format!("cannot ask the server at {}", place.path().display());
                let failed = anyhow::Error::new(error).context(text);
                Err(if kind == io::ErrorKind::PermissionDenied {
                    Failure::not_allowed(
                        failed.context("only the user that runs the server, and root, may ask"),
                    )
                } else {
                    Failure::other(failed)
                })
            }
        },
    }
}

impl Remote {
    /// Asks, and prints what it answers.
    pub(super) fn ask(mut self, request: &Request) -> Result<ExitCode, Failure> {
        let mut line = serde_json::to_vec(request).context("the request cannot be written")?;
        line.push(b'\n');
        self.0
            .write_all(&line)
            .context("the server does not listen")?;
        for line in BufReader::new(self.0).lines() {
            let line = line.context("the server ended the answer")?;
            let reply: Reply = serde_json::from_str(&line)
                .context("the server speaks another version of the control protocol")?;
            if let Some(code) = print(reply)? {
                return Ok(code);
            }
        }
        Err(Failure::try_again(anyhow!(
            "the server stopped before the end of the answer"
        )))
    }
}
