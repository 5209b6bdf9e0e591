//! Protocol version 2: what we ask, and what comes back.
//!
//! Known objects are asked for at once, without a word before: most servers give out whatever they hold (HUNT-14).
//! No capability is named, as one that a server does not know would be fatal.

use std::collections::BTreeSet;

use grasp_core::oid::Oid;
use grasp_git::pktline::{DATA_MAX, Packet, Reader, delimiter, flush, line};
use tokio::io::AsyncRead;

use super::http::Body;
use super::{FetchError, PackStream};

/// The kind of every answer of the service.
pub(super) const RESULT: &str = "application/x-git-upload-pack-result";
/// What a host may say before the pack begins (HUNT-9).
const PREFACE_BYTES_MAX: usize = 1 << 20;

/// Asks for `wants`; of what `haves` reach nothing need be sent.
pub(super) fn fetch(wants: &BTreeSet<Oid>, haves: &[Oid]) -> Vec<u8> {
    let mut body = Vec::new();
    line(&mut body, "command=fetch");
    delimiter(&mut body);
    for option in ["thin-pack", "no-progress", "ofs-delta"] {
        line(&mut body, option);
    }
    for want in wants {
        line(&mut body, format_args!("want {want}"));
    }
    for have in haves {
        line(&mut body, format_args!("have {have}"));
    }
    line(&mut body, "done");
    flush(&mut body);
    body
}

/// Asks for all refs, and what tags stand for.
pub(super) fn list_refs() -> Vec<u8> {
    let mut body = Vec::new();
    line(&mut body, "command=ls-refs");
    delimiter(&mut body);
    line(&mut body, "peel");
    flush(&mut body);
    body
}

/// What a host says to a wish.
#[derive(Debug)]
pub(super) enum Said<P = PackStream> {
    /// Here it is.
    Pack(P),
    /// Nothing had to be sent: all of it is here.
    Nothing,
    /// It has no such object, or does not give it out.
    Lacks(Oid),
    /// Something else: it may not have understood.
    Otherwise(FetchError),
}

impl Said<Body> {
    /// With the pack as a stream of its own bytes.
    pub(super) fn streamed(self) -> Said {
        match self {
            Self::Pack(body) => Said::Pack(PackStream::of_peer(body)),
            Self::Nothing => Said::Nothing,
            Self::Lacks(oid) => Said::Lacks(oid),
            Self::Otherwise(error) => Said::Otherwise(error),
        }
    }
}

/// Reads an answer to [`fetch`] up to where the packets of its pack begin.
pub(super) async fn answer<R: AsyncRead + Unpin>(
    body: R,
    wants: &BTreeSet<Oid>,
) -> Result<Said<R>, FetchError> {
    let mut reader = Reader::new(body, DATA_MAX);
    let mut left = PREFACE_BYTES_MAX;
    loop {
        let packet = match reader.next().await.map_err(FetchError::from) {
            Ok(packet) => packet,
            Err(error @ FetchError::NotGit(_)) => return Ok(Said::Otherwise(error)),
            Err(error) => return Err(error),
        };
        let text = match packet {
            Some(Packet::Flush) | None => {
                let without = FetchError::NotGit("its answer is without a pack");
                return Ok(Said::Otherwise(without));
            }
            Some(packet) => packet.text().unwrap_or_default(),
        };
        if text == b"packfile" {
            break;
        }
        if let Some(words) = text.strip_prefix(b"ERR ") {
            return Ok(match named(words, wants) {
                Some(oid) => Said::Lacks(oid),
                None => Said::Otherwise(FetchError::remote(words)),
            });
        }
        let spent = text.len() + 4;
        left = left.checked_sub(spent).ok_or(FetchError::TooMuch {
            what: "words before a pack",
            limit: PREFACE_BYTES_MAX as u64,
        })?;
    }
    Ok(Said::Pack(reader.into_inner()))
}

/// Which of `wants` a refusal names. Git says `upload-pack: not our ref <oid>`, others put it differently.
pub(super) fn named(words: &[u8], wants: &BTreeSet<Oid>) -> Option<Oid> {
    let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
    words
        .split(|byte| !is_digit(byte))
        .filter_map(|word| Oid::from_hex(word).ok())
        .find(|oid| wants.contains(oid))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HUNT-14
    #[test]
    fn the_object_that_a_refusal_names_is_found() {
        let known: Oid = "a".repeat(40).parse().unwrap();
        let wants = BTreeSet::from([known]);
        for words in [
            format!("upload-pack: not our ref {known}"),
            format!("want {known} not valid"),
            format!("{known}"),
        ] {
            assert_eq!(named(words.as_bytes(), &wants), Some(known), "{words}");
        }
        let other = format!("not our ref {}", "b".repeat(40));
        for words in [other.as_str(), "out of memory", ""] {
            assert_eq!(named(words.as_bytes(), &wants), None, "{words}");
        }
    }
}
