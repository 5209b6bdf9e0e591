//! The head of a protocol v2 request: its command and capabilities.
//!
//! Judged as git's own server does, so that a client meets the same limits here as there. What a
//! `fetch` brings is kept as it came and handed on; the child checks it again and reads the rest.

use tokio::io::AsyncRead;

use super::ls_refs::Query;
use crate::pktline::{DATA_MAX, DecodeError, Packet, ReadError, Reader};

/// The most bytes of one `ls-refs` request, or of the head of a `fetch`. A prefix is some 60 bytes, and
/// git sends six for each ref that a user names.
pub(super) const HEAD_MAX: usize = 4 << 20;

/// What a request asks for.
#[derive(Debug)]
pub(super) enum Request {
    /// Nothing: a bare flush, or no body at all.
    Empty,
    /// List refs.
    LsRefs(Query),
    /// Send a pack. Holds the bytes read so far; the arguments are still in the body.
    Fetch(Vec<u8>),
}

/// Why a request is none. The texts are git's own where it has one.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("no command requested")]
    NoCommand,
    #[error("invalid command '{}'", .0.escape_ascii())]
    InvalidCommand(Vec<u8>),
    #[error("command requested twice")]
    SecondCommand,
    #[error("unknown capability '{}'", .0.escape_ascii())]
    UnknownCapability(Vec<u8>),
    #[error("mismatched object format: server sha1; client {}", .0.escape_ascii())]
    ObjectFormat(Vec<u8>),
    #[error("unexpected line: '{}'", .0.escape_ascii())]
    UnexpectedLine(Vec<u8>),
    #[error("expected flush after arguments")]
    NoFlush,
    #[error("request is larger than {HEAD_MAX} bytes")]
    TooLarge,
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Reads as much of a request as it takes to know the command; `ls-refs` to its end.
pub(super) async fn read_request<R: AsyncRead + Unpin>(
    reader: &mut Reader<R>,
) -> Result<Request, RequestError> {
    let mut head = Head::default();
    let delimited = loop {
        match reader.next().await? {
            Some(packet @ Packet::Data(_)) => head.line(packet.text().unwrap_or_default())?,
            Some(Packet::Flush) | None if head.raw.is_empty() => return Ok(Request::Empty),
            Some(Packet::Flush) => break false,
            Some(Packet::Delimiter) => break true,
            Some(Packet::ResponseEnd) | None => return Err(truncated()),
        }
        head.keep(reader.raw())?;
    };
    head.keep(reader.raw())?;
    match head.command.ok_or(RequestError::NoCommand)? {
        Command::Fetch => Ok(Request::Fetch(head.raw)),
        Command::LsRefs if delimited => read_query(reader, HEAD_MAX - head.raw.len()).await,
        Command::LsRefs => Ok(Request::LsRefs(Query::default())),
    }
}

async fn read_query<R: AsyncRead + Unpin>(
    reader: &mut Reader<R>,
    mut bytes_left: usize,
) -> Result<Request, RequestError> {
    let mut query = Query::default();
    loop {
        match reader.next().await? {
            Some(packet @ Packet::Data(_)) => query.argument(packet.text().unwrap_or_default())?,
            Some(Packet::Flush) => return Ok(Request::LsRefs(query)),
            _ => return Err(RequestError::NoFlush),
        }
        bytes_left = bytes_left
            .checked_sub(reader.raw().len())
            .ok_or(RequestError::TooLarge)?;
    }
}

fn truncated() -> RequestError {
    ReadError::from(DecodeError::Truncated).into()
}

/// A reader for requests: git's own lines may be as long as a packet.
pub(super) const fn reader<R: AsyncRead + Unpin>(body: R) -> Reader<R> {
    Reader::new(body, DATA_MAX)
}

#[derive(Debug, Clone, Copy)]
enum Command {
    LsRefs,
    Fetch,
}

#[derive(Default)]
struct Head {
    command: Option<Command>,
    raw: Vec<u8>,
}

impl Head {
    fn line(&mut self, line: &[u8]) -> Result<(), RequestError> {
        if let Some(name) = line.strip_prefix(b"command=") {
            let command = match name {
                b"ls-refs" => Command::LsRefs,
                b"fetch" => Command::Fetch,
                _ => return Err(RequestError::InvalidCommand(name.to_vec())),
            };
            return match self.command.replace(command) {
                None => Ok(()),
                Some(_) => Err(RequestError::SecondCommand),
            };
        }
        let (key, value) = match line.iter().position(|byte| *byte == b'=') {
            Some(at) => (&line[..at], Some(&line[at + 1..])),
            None => (line, None),
        };
        match (key, value) {
            (b"agent" | b"server-option", _) | (b"object-format", Some(b"sha1")) => Ok(()),
            (b"object-format", Some(other)) => Err(RequestError::ObjectFormat(other.to_vec())),
            _ => Err(RequestError::UnknownCapability(line.to_vec())),
        }
    }

    fn keep(&mut self, raw: &[u8]) -> Result<(), RequestError> {
        if self.raw.len() + raw.len() > HEAD_MAX {
            return Err(RequestError::TooLarge);
        }
        self.raw.extend_from_slice(raw);
        Ok(())
    }
}
