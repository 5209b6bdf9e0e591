//! What a push asks for: its commands and options, up to the first byte of its pack.

use std::collections::BTreeSet;

use grasp_core::oid::Oid;
use grasp_core::push::Command;
use grasp_core::refname::RefName;
use tokio::io::AsyncRead;

use super::Capabilities;
use crate::pktline::{DecodeError, Packet, ReadError, Reader};

/// The longest line: two object names, a ref name, and room for capabilities.
const LINE_MAX: usize = 2 * 41 + RefName::LEN_MAX + 4096;
/// What a command may take on average. Keeps a push of very many very long names out of memory.
const COMMAND_BYTES: usize = 256;
/// `shallow` lines, of which nothing is kept.
const SHALLOW_MAX: usize = 100_000;
/// Push options of one push; more is no mistake that a person makes.
const OPTIONS_MAX: usize = 256;

/// The commands of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// At least one.
    pub commands: Vec<Command>,
    /// What the client can take and asks for.
    pub capabilities: Capabilities,
    /// Whether the client's own history is cut off (PUSH-17).
    pub shallow: bool,
    /// What the user gave by `git push -o`.
    pub push_options: Vec<String>,
}

impl Request {
    /// Whether a pack follows: a push of nothing but deletions has none.
    pub fn brings_pack(&self) -> bool {
        self.commands.iter().any(|command| !command.new.is_zero())
    }
}

/// Why a push cannot be read. Nothing was decided and nothing changes.
#[derive(Debug, thiserror::Error)]
#[error("{fault}")]
pub struct RequestError {
    /// What is wrong.
    #[source]
    pub fault: RequestFault,
    /// As far as they were read: how the client can be told.
    pub capabilities: Capabilities,
}

/// What is wrong with a push.
#[derive(Debug, thiserror::Error)]
pub enum RequestFault {
    /// The body is not what git sends, or breaks off.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A line is no command.
    #[error("not a push command: {}", .0.escape_ascii())]
    Malformed(Vec<u8>),
    /// A ref name is not UTF-8, so no state can declare it.
    #[error("ref names must be UTF-8: {}", .0.escape_ascii())]
    NotUtf8(Vec<u8>),
    /// One ref is named twice.
    #[error("{0} is named twice in one push")]
    Duplicate(String),
    /// PUSH-1
    #[error("signed pushes are not supported; sign a repository state instead")]
    Certificate,
    /// PUSH-17
    #[error("this service keeps SHA-1 repositories, but the push comes from a {0} repository")]
    HashFunction(String),
    /// More than is taken at once.
    #[error("a push has at most {max} {what}")]
    TooMany {
        /// The limit.
        max: usize,
        /// Of what.
        what: &'static str,
    },
}

impl RequestFault {
    /// Whether the connection failed, so that nobody hears an answer.
    pub const fn is_io(&self) -> bool {
        matches!(self, Self::Read(ReadError::Io(_)))
    }
}

/// Reads commands and options, and stops exactly before the pack. `None` if there are no commands: git
/// sends a bare flush to try the way before a large push (HTTP-6).
pub async fn read_request<R: AsyncRead + Unpin>(
    body: &mut R,
    commands_max: usize,
) -> Result<Option<Request>, RequestError> {
    let mut reader = Reader::new(body, LINE_MAX);
    let mut parser = Parser::new(commands_max);
    let read = async {
        parser.commands(&mut reader).await?;
        parser.options(&mut reader).await
    };
    let read = read.await;
    match read {
        Ok(()) => Ok(parser.finish()),
        Err(fault) => Err(RequestError {
            fault,
            capabilities: parser.capabilities.unwrap_or_default(),
        }),
    }
}

struct Parser {
    commands: Vec<Command>,
    /// Set by the first line.
    capabilities: Option<Capabilities>,
    shallow: usize,
    push_options: Vec<String>,
    commands_max: usize,
    bytes_left: usize,
}

impl Parser {
    fn new(commands_max: usize) -> Self {
        Self {
            commands: Vec::new(),
            capabilities: None,
            shallow: 0,
            push_options: Vec::new(),
            commands_max,
            bytes_left: commands_max
                .saturating_mul(COMMAND_BYTES)
                .saturating_add(LINE_MAX),
        }
    }

    async fn commands<R: AsyncRead + Unpin>(
        &mut self,
        reader: &mut Reader<R>,
    ) -> Result<(), RequestFault> {
        loop {
            match reader.next().await? {
                Some(packet @ Packet::Data(_)) => self.line(packet.text().unwrap_or_default())?,
                Some(Packet::Flush) => break,
                // No body at all asks for as little as a bare flush.
                None if self.capabilities.is_none() => break,
                Some(Packet::Delimiter | Packet::ResponseEnd) | None => {
                    return Err(ReadError::from(DecodeError::Truncated).into());
                }
            }
        }
        self.unique()
    }

    fn line(&mut self, line: &[u8]) -> Result<(), RequestFault> {
        // The list may stand behind any first line: a `shallow` one too.
        let (line, list) = match line.iter().position(|byte| *byte == 0) {
            Some(at) => (&line[..at], Some(&line[at + 1..])),
            None => (line, None),
        };
        if self.capabilities.is_none() || list.is_some_and(|_| self.commands.is_empty()) {
            let capabilities = Capabilities::parse(list.unwrap_or_default());
            let format = capabilities.object_format.clone();
            self.capabilities = Some(capabilities);
            if let Some(other) = format.filter(|name| name != "sha1") {
                return Err(RequestFault::HashFunction(other));
            }
        }
        if line == b"push-cert" {
            return Err(RequestFault::Certificate);
        }
        match line.strip_prefix(b"shallow ") {
            Some(oid) => self.shallow(line, oid),
            None => self.command(line),
        }
    }

    fn shallow(&mut self, line: &[u8], oid: &[u8]) -> Result<(), RequestFault> {
        Oid::from_hex(oid).map_err(|_| RequestFault::Malformed(line.to_vec()))?;
        self.shallow += 1;
        limit(self.shallow, SHALLOW_MAX, "shallow commits")
    }

    fn command(&mut self, line: &[u8]) -> Result<(), RequestFault> {
        limit(self.commands.len() + 1, self.commands_max, "commands")?;
        self.bytes_left = self
            .bytes_left
            .checked_sub(line.len())
            .ok_or(RequestFault::TooMany {
                max: self.commands_max.saturating_mul(COMMAND_BYTES),
                what: "bytes of commands",
            })?;
        let command = parse_command(line)?;
        self.commands.push(command);
        Ok(())
    }

    fn unique(&self) -> Result<(), RequestFault> {
        let mut names = BTreeSet::new();
        match self
            .commands
            .iter()
            .find(|command| !names.insert(&command.name))
        {
            Some(command) => Err(RequestFault::Duplicate(command.name.clone())),
            None => Ok(()),
        }
    }

    async fn options<R: AsyncRead + Unpin>(
        &mut self,
        reader: &mut Reader<R>,
    ) -> Result<(), RequestFault> {
        if !self.capabilities.as_ref().is_some_and(|c| c.push_options) {
            return Ok(());
        }
        loop {
            match reader.next().await? {
                Some(packet @ Packet::Data(_)) => {
                    let option = String::from_utf8_lossy(packet.text().unwrap_or_default());
                    self.push_options.push(option.into_owned());
                    limit(self.push_options.len(), OPTIONS_MAX, "push options")?;
                }
                Some(Packet::Flush) => return Ok(()),
                Some(Packet::Delimiter | Packet::ResponseEnd) | None => {
                    return Err(ReadError::from(DecodeError::Truncated).into());
                }
            }
        }
    }

    fn finish(self) -> Option<Request> {
        (!self.commands.is_empty()).then(|| Request {
            commands: self.commands,
            capabilities: self.capabilities.unwrap_or_default(),
            shallow: self.shallow > 0,
            push_options: self.push_options,
        })
    }
}

fn limit(count: usize, max: usize, what: &'static str) -> Result<(), RequestFault> {
    if count > max {
        return Err(RequestFault::TooMany { max, what });
    }
    Ok(())
}

/// PUSH-1: `<old> <new> <ref>`.
fn parse_command(line: &[u8]) -> Result<Command, RequestFault> {
    let malformed = || RequestFault::Malformed(line.to_vec());
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let (Some(old), Some(new), Some(name)) = (words.next(), words.next(), words.next()) else {
        return Err(malformed());
    };
    if [old, new].iter().all(|oid| is_sha256(oid)) {
        return Err(RequestFault::HashFunction("SHA-256".to_owned()));
    }
    if name.is_empty() || name.len() > RefName::LEN_MAX {
        return Err(malformed());
    }
    let name = std::str::from_utf8(name).map_err(|_| RequestFault::NotUtf8(name.to_vec()))?;
    Ok(Command {
        old: Oid::from_hex(old).map_err(|_| malformed())?,
        new: Oid::from_hex(new).map_err(|_| malformed())?,
        name: name.to_owned(),
    })
}

fn is_sha256(oid: &[u8]) -> bool {
    oid.len() == 64 && oid.iter().all(u8::is_ascii_hexdigit)
}
