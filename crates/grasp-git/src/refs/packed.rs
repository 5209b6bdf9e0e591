//! The `packed-refs` file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use grasp_core::oid::Oid;
use grasp_core::refname::{RefName, RefSpace};

use super::RefValue;
use crate::error::{Attempt, Error};

pub(super) const FILE: &str = "packed-refs";

/// Claims what [`render`] keeps: every tag object has its `^` line, names are in byte order. Git wants
/// the blank at the end.
const HEADER: &str = "# pack-refs with: peeled fully-peeled sorted ";

/// What the file says.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub(super) refs: BTreeMap<RefName, RefValue>,
    /// Names for which the file does not say whether they name a tag object.
    pub(super) unpeeled: BTreeSet<RefName>,
    /// Lines that were passed over.
    pub(super) foreign_lines: usize,
}

/// Reads the file of a repository; a missing one is an empty one.
pub(super) fn read(home: &Path) -> Result<Packed, Error> {
    let path = home.join(FILE);
    match fs::read(&path) {
        Ok(content) => Ok(parse(&content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Packed::default()),
        Err(error) => Err(error).attempt("read", &path),
    }
}

/// Understands what git and we write. A line that neither would write is passed over: the names it may
/// have held are not ours.
pub(super) fn parse(content: &[u8]) -> Packed {
    let mut packed = Packed::default();
    let mut traits = Traits::default();
    let mut last: Option<RefName> = None;
    for line in content.split(|byte| *byte == b'\n') {
        if let Some(header) = line.strip_prefix(b"# pack-refs with:") {
            traits = Traits::parse(header);
        } else if let Some(peeled) = line.strip_prefix(b"^") {
            let peeled = Oid::from_hex(peeled).ok();
            if let Some(name) = last.take()
                && let Some(value) = packed.refs.get_mut(&name)
            {
                value.peeled = peeled;
                packed.unpeeled.remove(&name);
            }
        } else if let Some((name, oid)) = parse_ref(line) {
            if !traits.says_peeled(&name) {
                packed.unpeeled.insert(name.clone());
            }
            packed
                .refs
                .insert(name.clone(), RefValue { oid, peeled: None });
            last = Some(name);
        } else if !line.is_empty() && !line.starts_with(b"#") {
            packed.foreign_lines += 1;
        }
    }
    packed
}

fn parse_ref(line: &[u8]) -> Option<(RefName, Oid)> {
    let (hex, rest) = line.split_at_checked(40)?;
    let name = std::str::from_utf8(rest.strip_prefix(b" ")?).ok()?;
    let oid = Oid::from_hex(hex).ok().filter(|oid| !oid.is_zero())?;
    Some((name.parse().ok()?, oid))
}

/// What a header promises about `^` lines.
#[derive(Debug, Default, Clone, Copy)]
struct Traits {
    tags: bool,
    all: bool,
}

impl Traits {
    fn parse(header: &[u8]) -> Self {
        let has = |wanted: &[u8]| {
            header
                .split(|byte| *byte == b' ')
                .any(|word| word == wanted)
        };
        Self {
            tags: has(b"peeled"),
            all: has(b"fully-peeled"),
        }
    }

    fn says_peeled(self, name: &RefName) -> bool {
        self.all || (self.tags && name.space() == RefSpace::Tag)
    }
}

/// The file that holds exactly `refs`.
pub(super) fn render(refs: &BTreeMap<RefName, RefValue>) -> String {
    let mut out = String::with_capacity(64 + refs.len() * 96);
    out.push_str(HEADER);
    out.push('\n');
    for (name, value) in refs {
        let written = writeln!(out, "{} {name}", value.oid).and_then(|()| match value.peeled {
            Some(peeled) => writeln!(out, "^{peeled}"),
            None => Ok(()),
        });
        written.expect("a String takes everything");
    }
    out
}
