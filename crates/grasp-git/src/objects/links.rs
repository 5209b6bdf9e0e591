//! What an object names: the edges of the graph that has to be complete.

use grasp_core::oid::Oid;

use super::ObjectKind;

/// One object named by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    pub(crate) oid: Oid,
    /// What the name promises: `None` where a tag may name anything.
    pub(crate) kind: Option<ObjectKind>,
    /// The file name, for entries of a tree.
    pub(crate) name: &'a [u8],
}

/// Hands every object that `data` names to `each`. Gitlinks (mode 160000) name commits of other
/// repositories and are passed over. `Err` if `data` is no object of this kind.
pub(crate) fn links<'a>(
    kind: ObjectKind,
    data: &'a [u8],
    mut each: impl FnMut(Link<'a>),
) -> Result<(), &'static str> {
    let mut whole = |oid, kind| {
        each(Link {
            oid,
            kind,
            name: b"",
        });
    };
    match kind {
        ObjectKind::Blob => Ok(()),
        ObjectKind::Tag => {
            let (oid, kind) = tag(data).ok_or("a tag that does not parse")?;
            whole(oid, kind);
            Ok(())
        }
        ObjectKind::Commit => {
            let mut rest = data;
            let tree = take_oid_line(&mut rest, b"tree ").ok_or("a commit without a tree")?;
            whole(tree, Some(ObjectKind::Tree));
            while rest.starts_with(b"parent ") {
                let parent = take_oid_line(&mut rest, b"parent ")
                    .ok_or("a commit whose parent does not parse")?;
                whole(parent, Some(ObjectKind::Commit));
            }
            Ok(())
        }
        ObjectKind::Tree => entries(data, |entry| {
            let kind = match entry.mode & 0o170_000 {
                0o160_000 => return,
                0o040_000 => ObjectKind::Tree,
                _ => ObjectKind::Blob,
            };
            each(Link {
                oid: entry.oid,
                kind: Some(kind),
                name: entry.name,
            });
        }),
    }
}

/// One entry of a tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeEntry<'a> {
    pub(crate) mode: u32,
    pub(crate) name: &'a [u8],
    pub(crate) oid: Oid,
}

/// The entries of a tree, as they stand: `<octal mode> <name> NUL <20 bytes>`.
pub(crate) fn entries<'a>(
    mut data: &'a [u8],
    mut each: impl FnMut(TreeEntry<'a>),
) -> Result<(), &'static str> {
    const BROKEN: &str = "a tree that does not parse";
    while !data.is_empty() {
        let mut mode = 0_u32;
        let mut digits = 0;
        loop {
            let (byte, rest) = data.split_first().ok_or(BROKEN)?;
            data = rest;
            match byte {
                b'0'..=b'7' if digits < 9 => mode = mode * 8 + u32::from(byte - b'0'),
                b' ' if digits > 0 => break,
                _ => return Err(BROKEN),
            }
            digits += 1;
        }
        let end = data.iter().position(|byte| *byte == 0).ok_or(BROKEN)?;
        let (name, rest) = data.split_at(end);
        let (oid, rest) = rest[1..].split_first_chunk::<20>().ok_or(BROKEN)?;
        data = rest;
        each(TreeEntry {
            mode,
            name,
            oid: Oid::from_bytes(*oid),
        });
    }
    Ok(())
}

/// Takes `<key><40 digits>\n` off the front.
pub(crate) fn take_oid_line(data: &mut &[u8], key: &[u8]) -> Option<Oid> {
    let rest = data.strip_prefix(key)?;
    let (hex, rest) = rest.split_at_checked(40)?;
    *data = rest.strip_prefix(b"\n")?;
    Oid::from_hex(hex).ok()
}

/// What a tag object names, and what it says that is.
pub(crate) fn tag(mut data: &[u8]) -> Option<(Oid, Option<ObjectKind>)> {
    let oid = take_oid_line(&mut data, b"object ")?;
    let line = data.strip_prefix(b"type ")?;
    let kind = match line.split(|byte| *byte == b'\n').next()? {
        b"commit" => ObjectKind::Commit,
        b"tree" => ObjectKind::Tree,
        b"blob" => ObjectKind::Blob,
        b"tag" => ObjectKind::Tag,
        _ => return None,
    };
    Some((oid, Some(kind)))
}

/// What a tag object names.
pub(crate) fn tag_target(data: &[u8]) -> Option<Oid> {
    tag(data).map(|(oid, _)| oid)
}

/// The committer's clock, which orders a walk; 0 if it does not parse.
pub(crate) fn commit_time(data: &[u8]) -> i64 {
    let line = data
        .split(|byte| *byte == b'\n')
        .take_while(|line| !line.is_empty())
        .find(|line| line.starts_with(b"committer "));
    line.and_then(|line| {
        let after = line.iter().rposition(|byte| *byte == b'>')? + 1;
        let text = std::str::from_utf8(&line[after..]).ok()?;
        text.split_ascii_whitespace().next()?.parse().ok()
    })
    .unwrap_or(0)
}
