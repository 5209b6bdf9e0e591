//! Frames what a push is told.
//!
//! Three audiences share one stream: the client's git (the report, band 1), the person in front of it
//! (progress, band 2) and proxies, which cut a connection on which nothing moves (GIT-7). What a client
//! did not offer to take is not sent to it.

use std::fmt;

use bytes::Bytes;
use grasp_core::push::Refusal;

use super::Capabilities;
use crate::pktline::{self, BAND_DATA_MAX, Band, DATA_MAX};

/// Turns the steps of a push into bytes of its response. Each method's bytes go out as they are; empty
/// ones mean that the client cannot take or does not want them. [`refuse`](Self::refuse),
/// [`fail`](Self::fail) and [`report`](Self::report) end the response.
#[derive(Debug, Clone)]
pub struct Responder {
    capabilities: Capabilities,
}

impl Responder {
    /// Speaks to a client with `capabilities`.
    pub const fn new(capabilities: Capabilities) -> Self {
        Self { capabilities }
    }

    /// A step of the work, for the person at the terminal; nothing if they asked for quiet.
    pub fn progress(&self, text: &str) -> Bytes {
        if self.capabilities.quiet {
            return Bytes::new();
        }
        self.message(text)
    }

    /// Words that the person needs even if they asked for quiet.
    pub fn message(&self, text: &str) -> Bytes {
        let mut out = Vec::new();
        if self.capabilities.side_band {
            put_message(&mut out, text);
        }
        out.into()
    }

    /// GIT-7: a sign of life that names the present `step`; empty of words for the quiet.
    pub fn keepalive(&self, step: &str) -> Bytes {
        match (self.capabilities.side_band, self.capabilities.quiet) {
            (false, _) => Bytes::new(),
            (true, true) => Bytes::from_static(b"0005\x02"),
            (true, false) => self.message(step),
        }
    }

    /// GIT-5: none of the push is accepted. `refs` are the names and the reason for each.
    pub fn refuse<'a>(
        &self,
        refusal: &Refusal,
        refs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Bytes {
        let headline = format!("authorisation failed: {}", refusal.summary);
        if !(self.capabilities.side_band && self.capabilities.reports()) {
            return self.fail(&headline);
        }
        let mut out = Vec::new();
        put_message(&mut out, &headline);
        for line in &refusal.advice {
            put_message(&mut out, line);
        }
        let refs = refs.into_iter().map(|(name, reason)| (name, Err(reason)));
        self.put_report(&mut out, Ok(()), refs);
        out.into()
    }

    /// The push cannot be judged at all: it is malformed, or too large.
    pub fn fail(&self, message: &str) -> Bytes {
        let mut out = Vec::new();
        if self.capabilities.side_band {
            // A bare `ERR` packet would be read as a packet of band `E`.
            let text = format!("ERR {}\n", one_line(message));
            pktline::band(&mut out, Band::Fatal, cut(&text, BAND_DATA_MAX).as_bytes());
        } else {
            pktline::error(&mut out, message);
        }
        out.into()
    }

    /// What became of the pack and of each ref. The last word of a push (cases 10): whoever sends it
    /// has committed and reconciled.
    pub fn report<'a>(
        &self,
        unpack: Result<(), &str>,
        refs: impl IntoIterator<Item = (&'a str, Result<(), &'a str>)>,
    ) -> Bytes {
        let mut out = Vec::new();
        self.put_report(&mut out, unpack, refs);
        out.into()
    }

    fn put_report<'a>(
        &self,
        out: &mut Vec<u8>,
        unpack: Result<(), &str>,
        refs: impl IntoIterator<Item = (&'a str, Result<(), &'a str>)>,
    ) {
        if self.capabilities.reports() {
            let report = report(unpack, refs);
            if self.capabilities.side_band {
                pktline::band(out, Band::Data, &report);
            } else {
                out.extend_from_slice(&report);
            }
        }
        if self.capabilities.side_band {
            pktline::flush(out);
        }
    }
}

/// `report-status`, which is also a valid `report-status-v2`: that one adds only lines for refs that
/// ended elsewhere than the client asked, and here none does.
fn report<'a>(
    unpack: Result<(), &str>,
    refs: impl IntoIterator<Item = (&'a str, Result<(), &'a str>)>,
) -> Vec<u8> {
    let mut out = Vec::new();
    put_line(&mut out, "unpack ", unpack.err().unwrap_or("ok"));
    for (name, outcome) in refs {
        match outcome {
            Ok(()) => put_line(&mut out, "ok ", name),
            Err(reason) => put_line(&mut out, &format!("ng {name} "), reason),
        }
    }
    pktline::flush(&mut out);
    out
}

fn put_line(out: &mut Vec<u8>, start: &str, rest: &str) {
    let rest = one_line(rest);
    let room = DATA_MAX.saturating_sub(start.len() + 1);
    pktline::line(out, format_args!("{start}{}", cut(&rest, room)));
}

/// Each line of the text in packets of its own: git prints a line when it is complete.
fn put_message(out: &mut Vec<u8>, text: &str) {
    for line in text.lines() {
        let line = format!("{}\n", one_line(line));
        pktline::band(out, Band::Progress, line.as_bytes());
    }
}

/// Control characters are not for somebody's terminal, and a newline would start another line of the
/// report.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

fn cut(text: impl fmt::Display + AsRef<str>, max: usize) -> String {
    let text = text.as_ref();
    text[..text.floor_char_boundary(max)].to_owned()
}
