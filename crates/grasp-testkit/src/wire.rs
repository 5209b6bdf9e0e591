//! Git's smart protocol by hand: requests git would never send, and answers read packet by packet.

use std::collections::BTreeMap;

use crate::git::Refs;
use crate::http::HttpResponse;
use crate::{pkt, pkt_lines};

/// The id that stands for "no object".
pub const ZERO: &str = "0000000000000000000000000000000000000000";

/// Capabilities of a usual push.
pub const USUAL: &str = "report-status side-band-64k object-format=sha1 agent=git/2.47.3";

/// A receive-pack request: `(old, new, name)` commands, the capabilities, the pack.
pub fn push_request(commands: &[(&str, &str, &str)], capabilities: &str, pack: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for (number, (old, new, name)) in commands.iter().enumerate() {
        let line = if number == 0 {
            format!("{old} {new} {name}\0 {capabilities}\n")
        } else {
            format!("{old} {new} {name}\n")
        };
        body.extend(pkt(line));
    }
    body.extend_from_slice(b"0000");
    body.extend_from_slice(pack);
    body
}

/// The answer to a push.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// What `unpack` said: `ok` or a reason. Empty if there was no report.
    pub unpack: String,
    /// Per ref: nothing if `ok`, else the reason.
    pub refs: BTreeMap<String, Option<String>>,
    /// Band 2: what git prints as `remote:`.
    pub progress: String,
    /// Band 3, or an `ERR` packet without a sideband.
    pub fatal: String,
    /// How many keepalives and texts came on band 2.
    pub packets_of_progress: usize,
}

impl Report {
    /// Reads the answer of a push that asked for `side-band-64k`.
    pub fn of(answer: &HttpResponse) -> Self {
        let mut report = Self::default();
        let mut inner = Vec::new();
        for line in pkt_lines(&answer.body) {
            match line.split_first() {
                Some((1, data)) => inner.extend_from_slice(data),
                Some((2, data)) => {
                    report.packets_of_progress += 1;
                    report.progress += &String::from_utf8_lossy(data);
                }
                Some((3, data)) => report.fatal += &String::from_utf8_lossy(data),
                Some(_) if line.starts_with(b"ERR ") => {
                    report.fatal += &String::from_utf8_lossy(&line);
                }
                _ => {}
            }
        }
        report.read_status(&inner);
        report
    }

    /// Reads the answer of a push that asked for no sideband.
    pub fn plain(answer: &HttpResponse) -> Self {
        let mut report = Self::default();
        report.read_status(&answer.body);
        report
    }

    /// Whether everything was accepted.
    pub fn is_ok(&self) -> bool {
        self.unpack == "ok" && self.fatal.is_empty() && self.refs.values().all(Option::is_none)
    }

    fn read_status(&mut self, bytes: &[u8]) {
        for line in pkt_lines(bytes) {
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end();
            if let Some(unpack) = line.strip_prefix("unpack ") {
                unpack.clone_into(&mut self.unpack);
            } else if let Some(name) = line.strip_prefix("ok ") {
                self.refs.insert(name.to_owned(), None);
            } else if let Some((name, why)) = line
                .strip_prefix("ng ")
                .and_then(|rest| rest.split_once(' '))
            {
                self.refs.insert(name.to_owned(), Some(why.to_owned()));
            } else if line.starts_with("ERR ") {
                line.clone_into(&mut self.fatal);
            }
        }
    }
}

/// A protocol-0 advertisement: the refs and the capabilities.
pub fn advertised(answer: &HttpResponse) -> (Refs, Vec<String>) {
    let mut refs = Refs::new();
    let mut capabilities = Vec::new();
    for line in pkt_lines(&answer.body) {
        let line = String::from_utf8_lossy(&line).into_owned();
        if line.starts_with('#') {
            continue;
        }
        let (reference, rest) = line.split_once('\0').unwrap_or((&line, ""));
        capabilities.extend(rest.split_whitespace().map(str::to_owned));
        if let Some((oid, name)) = reference.trim_end().split_once(' ')
            && name != "capabilities^{}"
        {
            refs.insert(name.to_owned(), oid.to_owned());
        }
    }
    (refs, capabilities)
}

/// The `info/refs` target of a service below a repository path.
pub fn info_refs(repository: &str, service: &str) -> String {
    format!("{repository}/info/refs?service={service}")
}
