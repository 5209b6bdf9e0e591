//! Protocol v2 `ls-refs`: the refs a client asks for, answered from memory.

use std::ops::Bound;

use bytes::Bytes;

use super::v2::RequestError;
use crate::pktline;
use crate::refs::{RefSnapshot, RefValue};

/// More prefixes than this narrow nothing down: all refs are listed, as git does.
const PREFIXES_MAX: usize = 65_536;

/// What an `ls-refs` request asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    peel: bool,
    symrefs: bool,
    unborn: bool,
    prefixes: Vec<Vec<u8>>,
}

impl Query {
    /// Takes one argument of the request. Like git, refuses what was not advertised.
    pub(super) fn argument(&mut self, line: &[u8]) -> Result<(), RequestError> {
        match line {
            b"peel" => self.peel = true,
            b"symrefs" => self.symrefs = true,
            b"unborn" => self.unborn = true,
            _ => match line.strip_prefix(b"ref-prefix ") {
                // One more than narrows anything down: enough to know that there were too many.
                Some(_) if self.prefixes.len() > PREFIXES_MAX => {}
                Some(prefix) => self.prefixes.push(prefix.to_vec()),
                None => return Err(RequestError::UnexpectedLine(line.to_vec())),
            },
        }
        Ok(())
    }

    /// The answer: `HEAD` first, then the refs in order, then a flush.
    pub(super) fn answer(mut self, refs: &RefSnapshot) -> Bytes {
        let mut out = Vec::new();
        self.head(&mut out, refs);
        for prefix in self.disjoint_prefixes() {
            self.below(&mut out, refs, &prefix);
        }
        pktline::flush(&mut out);
        out.into()
    }

    fn head(&self, out: &mut Vec<u8>, refs: &RefSnapshot) {
        let asked = self.prefixes.is_empty()
            || self.prefixes.len() > PREFIXES_MAX
            || self
                .prefixes
                .iter()
                .any(|prefix| b"HEAD".starts_with(prefix));
        if !asked {
            return;
        }
        let symref = self.symrefs.then_some(refs.head.as_str());
        match refs.head_value() {
            Some(value) => self.line(out, "HEAD", value, symref),
            None if self.unborn && self.symrefs => {
                pktline::line(out, format_args!("unborn HEAD symref-target:{}", refs.head));
            }
            None => {}
        }
    }

    /// The prefixes in order, none covered by another: their ranges follow each other.
    fn disjoint_prefixes(&mut self) -> Vec<Vec<u8>> {
        if self.prefixes.is_empty() || self.prefixes.len() > PREFIXES_MAX {
            return vec![Vec::new()];
        }
        let mut prefixes = std::mem::take(&mut self.prefixes);
        prefixes.sort_unstable();
        // In order, whatever a prefix covers follows it directly.
        prefixes.dedup_by(|later, kept| later.starts_with(kept));
        prefixes
    }

    /// Lists the refs below `prefix`, and looks at no others: many proposals cost nothing to a
    /// client that wants branches (GIT-4).
    fn below(&self, out: &mut Vec<u8>, refs: &RefSnapshot, prefix: &[u8]) {
        // Names are UTF-8: where the prefix is not, only its valid part can narrow the search.
        let start = match std::str::from_utf8(prefix) {
            Ok(start) => start,
            Err(error) => std::str::from_utf8(&prefix[..error.valid_up_to()]).unwrap_or_default(),
        };
        for (name, value) in refs
            .refs
            .range::<str, _>((Bound::Included(start), Bound::Unbounded))
            .take_while(|(name, _)| name.as_str().starts_with(start))
            .filter(|(name, _)| name.as_str().as_bytes().starts_with(prefix))
        {
            self.line(out, name.as_str(), value, None);
        }
    }

    fn line(&self, out: &mut Vec<u8>, name: &str, value: &RefValue, symref: Option<&str>) {
        pktline::packet(out, |out| {
            pktline::hex(out, &value.oid);
            out.push(b' ');
            out.extend_from_slice(name.as_bytes());
            if let Some(target) = symref {
                out.extend_from_slice(b" symref-target:");
                out.extend_from_slice(target.as_bytes());
            }
            if let Some(peeled) = value.peeled.filter(|_| self.peel) {
                out.extend_from_slice(b" peeled:");
                pktline::hex(out, &peeled);
            }
            out.push(b'\n');
        });
    }
}
