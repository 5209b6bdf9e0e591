//! Fetching by git itself, from hosts that our own client does not understand (HUNT-10).
//!
//! A child fetches into a repository of its own in quarantine, which borrows the objects of those that lend theirs, so that little
//! is sent. Nothing it brings counts: its pack is read like one that a peer sends, through the same scanner and checks.
//! *Invariants:* the child goes where it was pinned and nowhere else; it is watched, bounded and reaped; the folder goes
//! with the [`Pack`].

mod command;
mod watch;

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll};
use std::time::Duration;

use grasp_core::oid::Oid;
use tokio::io::{AsyncRead, AsyncWriteExt as _, ReadBuf};

use crate::child::GroupChild;
use crate::error::{Attempt as _, Error};
use crate::ingest::{Folder, IngestError, borrowing_repository};
use crate::repository::{Lease, Repositories};

use watch::{Watched, watch};

/// What to fetch, and from where.
#[derive(Debug, Clone)]
pub struct Errand<'a> {
    /// Of the repository, `http` or `https`.
    pub url: &'a str,
    /// Where that is.
    pub pin: Pinned<'a>,
    /// The objects, with all they need.
    pub wants: Vec<Oid>,
    /// Whose objects need not be sent.
    pub lenders: &'a [Lease],
}

/// A host with the addresses that were judged.
#[derive(Debug, Clone)]
pub struct Pinned<'a> {
    /// The name in the URL.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
    /// What it stands for. Only these are dialled (NET-2).
    pub addresses: Vec<IpAddr>,
}

/// How much a child may bring, and how long it may be silent (HUNT-9).
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Bytes of the pack.
    pub pack_bytes: u64,
    /// After so long without a sign a warning is logged.
    pub warn_after: Duration,
    /// After so long without a sign it is asked to end.
    pub silence_max: Duration,
    /// So long after that it is killed.
    pub grace: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            pack_bytes: crate::PackLimits::default().bytes,
            warn_after: Duration::from_mins(1),
            silence_max: Duration::from_mins(5),
            grace: Duration::from_secs(10),
        }
    }
}

/// Why nothing was fetched.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// Git gave up, and these are its last words.
    #[error("git cannot fetch: {0}")]
    Git(String),
    /// [`Bounds::pack_bytes`].
    #[error("the pack is larger than the limit of {0} bytes")]
    TooLarge(u64),
    /// It printed more than anybody reads.
    #[error("git prints more than {0} bytes")]
    TooMuch(u64),
    /// [`Bounds::silence_max`].
    #[error("nothing came for {} s", .0.as_secs())]
    Silent(Duration),
    /// Our side failed: the disk, or the quarantine is full.
    #[error("the pack cannot be stored")]
    Store(#[source] Box<IngestError>),
}

impl From<IngestError> for ScratchError {
    fn from(error: IngestError) -> Self {
        Self::Store(Box::new(error))
    }
}

impl From<Error> for ScratchError {
    fn from(error: Error) -> Self {
        IngestError::from(error).into()
    }
}

/// A pack that a child fetched. What it lies in goes with it.
#[derive(Debug)]
pub struct Pack {
    file: tokio::fs::File,
    _folder: Folder,
}

impl AsyncRead for Pack {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.file).poll_read(context, buffer)
    }
}

/// Fetches what `errand` wants; `None` if nothing of it had to be sent. `came` is told of bytes as they come. Whoever
/// drops the future kills the child.
pub async fn fetch(
    repositories: &Repositories,
    errand: &Errand<'_>,
    bounds: &Bounds,
    came: impl Fn(u64) + Send + Sync,
) -> Result<Option<Pack>, ScratchError> {
    let mut folder = Folder::create(repositories)?;
    let path = folder.path().join("fetch.git");
    borrowing_repository(&path, errand.lenders)?;
    let mut command = command::fetch(&path, errand);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = GroupChild::spawn(command).attempt("start git for", &path)?;
    watch::limit_files(&child, bounds.pack_bytes);
    // It reads what to ask for before it goes anywhere: no child of its own escapes the limit.
    tell(&mut child, &errand.wants)
        .await
        .attempt("write to git in", &path)?;
    let watched = Watched {
        child,
        packs: path.join("objects/pack"),
        folder: &mut folder,
        bounds,
        came: &came,
    };
    watch(watched).await?;
    let Some(pack) = only_pack(&path.join("objects/pack"))? else {
        return Ok(None);
    };
    let file = fs::File::open(&pack).attempt("open", &pack)?;
    Ok(Some(Pack {
        file: tokio::fs::File::from_std(file),
        _folder: folder,
    }))
}

async fn tell(child: &mut GroupChild, wants: &[Oid]) -> io::Result<()> {
    let lines: String = wants
        .iter()
        .flat_map(|want| [want.to_string(), "\n".to_owned()])
        .collect();
    let mut stdin = child.stdin().ok_or(io::ErrorKind::BrokenPipe)?;
    match stdin.write_all(lines.as_bytes()).await {
        // It ended early, and says why.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// One fetch makes one pack at most.
fn only_pack(packs: &Path) -> Result<Option<PathBuf>, Error> {
    for entry in fs::read_dir(packs).attempt("list", packs)? {
        let path = entry.attempt("list", packs)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "pack")
        {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
