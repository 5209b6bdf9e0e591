//! What a host says that it has, read in passing.
//!
//! Of its refs nothing is kept but which of the sought objects they name, and a hash of them all: a list may have millions
//! of lines, and they come from anybody.

use std::collections::BTreeSet;

use bitcoin_hashes::{HashEngine as _, sha256};
use grasp_core::oid::Oid;
use grasp_git::pktline::{Packet, Reader};
use tokio::io::AsyncRead;

use super::FetchError;
use crate::hunt::Fingerprint;

/// A longer list of refs is not read (HUNT-9).
pub const BYTES_MAX: u64 = 16 << 20;
/// The longest line: a name of a ref has at most some thousand bytes, and the first line also what the host can do.
const LINE_BYTES_MAX: usize = 16 * 1_024;

/// What was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listing {
    /// Of the sought objects those that refs name.
    pub(super) listed: BTreeSet<Oid>,
    pub(super) fingerprint: Fingerprint,
    /// Whether the host gives out what it does not list. Only the old protocol says.
    pub(super) gives_unlisted: bool,
}

/// The first words of a host that is asked what it has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Advertisement {
    /// It speaks version 2, and has to be asked for its refs.
    VersionTwo,
    /// It speaks an older version, and these are its refs.
    Refs(Listing),
}

/// Reads the answer to `info/refs`.
pub(super) async fn advertisement<R: AsyncRead + Unpin>(
    body: R,
    sought: &BTreeSet<Oid>,
) -> Result<Advertisement, FetchError> {
    let mut reading = Reading::new(body, sought);
    if reading.line().await?.as_deref() != Some(b"# service=git-upload-pack") {
        return Err(FetchError::NotGit("it advertises no git service"));
    }
    // The flush packet behind the name of the service; some leave it out.
    let mut line = match reading.line().await? {
        None => reading.line().await?,
        line => line,
    };
    match line.as_deref() {
        Some(b"version 2") => return Ok(Advertisement::VersionTwo),
        Some(b"version 1") => line = reading.line().await?,
        _ => {}
    }
    let mut gives_unlisted = false;
    while let Some(text) = line {
        let mut parts = text.splitn(2, |byte| *byte == 0);
        let named = parts.next().unwrap_or_default();
        if let Some(abilities) = parts.next() {
            let mut words = abilities.split(|byte| *byte == b' ');
            gives_unlisted |= words.any(|word| {
                matches!(
                    word,
                    b"allow-reachable-sha1-in-want" | b"allow-tip-sha1-in-want"
                )
            });
        }
        reading.hash(named);
        // What a tag stands for is listed, but the old protocol gives out only what a ref names.
        if !named.ends_with(b"^{}") {
            reading.look(named);
        }
        line = reading.line().await?;
    }
    Ok(Advertisement::Refs(reading.finish(gives_unlisted)))
}

/// Reads the answer to `ls-refs`.
pub(super) async fn refs<R: AsyncRead + Unpin>(
    body: R,
    sought: &BTreeSet<Oid>,
) -> Result<Listing, FetchError> {
    let mut reading = Reading::new(body, sought);
    while let Some(line) = reading.line().await? {
        reading.hash(&line);
        reading.look(&line);
    }
    Ok(reading.finish(true))
}

struct Reading<'a, R> {
    reader: Reader<R>,
    sought: &'a BTreeSet<Oid>,
    listed: BTreeSet<Oid>,
    hash: sha256::HashEngine,
    bytes: u64,
}

impl<'a, R: AsyncRead + Unpin> Reading<'a, R> {
    fn new(body: R, sought: &'a BTreeSet<Oid>) -> Self {
        Self {
            reader: Reader::new(body, LINE_BYTES_MAX),
            sought,
            listed: BTreeSet::new(),
            hash: sha256::HashEngine::default(),
            bytes: 0,
        }
    }

    /// The next line without its end; `None` for a flush packet. A stream that ends elsewhere broke off.
    async fn line(&mut self) -> Result<Option<Vec<u8>>, FetchError> {
        let packet = self.reader.next().await?;
        let packet = packet.ok_or(FetchError::NotGit("its list of refs breaks off"))?;
        let text = match packet {
            Packet::Data(_) => packet.text().unwrap_or_default(),
            Packet::Flush => return Ok(None),
            Packet::Delimiter | Packet::ResponseEnd => {
                return Err(FetchError::NotGit("its list of refs is none"));
            }
        };
        self.bytes += text.len() as u64 + 5;
        if self.bytes > BYTES_MAX {
            return Err(FetchError::TooMuch {
                what: "refs",
                limit: BYTES_MAX,
            });
        }
        match text.strip_prefix(b"ERR ") {
            Some(words) => Err(FetchError::remote(words)),
            None => Ok(Some(text.to_vec())),
        }
    }

    fn hash(&mut self, line: &[u8]) {
        self.hash.input(line);
        self.hash.input(b"\n");
    }

    /// A ref: its object, its name, and what its object stands for if it is a tag.
    fn look(&mut self, line: &[u8]) {
        for word in line.split(|byte| *byte == b' ') {
            let word = word.strip_prefix(b"peeled:").unwrap_or(word);
            let oid = Oid::from_hex(word).ok();
            self.listed
                .extend(oid.filter(|oid| self.sought.contains(oid)));
        }
    }

    fn finish(self, gives_unlisted: bool) -> Listing {
        let hash = sha256::Hash::from_engine(self.hash);
        Listing {
            listed: self.listed,
            fingerprint: Fingerprint(hash.to_byte_array()),
            gives_unlisted,
        }
    }
}
