//! What an object may not contain (GIT-11).
//!
//! One list for everything that enters: pushes, hunts, imports. An error is what harms whoever reads the
//! repository: names that a checkout would write into `.git`, submodules that run commands, objects that
//! do not parse. Blemishes of age (padded or odd modes, broken dates, missing e-mails or taggers) are
//! let through, as real history is full of them.

use std::collections::BTreeSet;

use grasp_core::oid::Oid;

use super::ObjectKind;
use super::links::{TreeEntry, entries, tag, take_oid_line};

mod gitmodules;
mod spelling;

pub(crate) use gitmodules::check_gitmodules;

/// What is wrong with an object, in words.
pub(crate) type Finding = &'static str;

/// Blobs that stand as `.gitmodules` in some tree: their content is to be checked as well.
pub(crate) type Suspects = BTreeSet<Oid>;

/// Checks one decoded object. Blobs are checked only where a tree gives them a meaning.
pub(crate) fn check_object(
    kind: ObjectKind,
    data: &[u8],
    suspects: &mut Suspects,
) -> Result<(), Finding> {
    match kind {
        ObjectKind::Blob => Ok(()),
        ObjectKind::Tree => check_tree(data, suspects),
        ObjectKind::Commit => check_commit(data),
        ObjectKind::Tag => check_tag(data),
    }
}

fn check_commit(data: &[u8]) -> Result<(), Finding> {
    let mut rest = check_header(data)?;
    let tree = take_oid_line(&mut rest, b"tree ").ok_or("a commit without a tree")?;
    let mut null = tree.is_zero();
    while rest.starts_with(b"parent ") {
        let parent = take_oid_line(&mut rest, b"parent ");
        null |= parent
            .ok_or("a commit whose parent does not parse")?
            .is_zero();
    }
    if null {
        return Err("a commit that names the null object");
    }
    take_line(&mut rest, b"author ").ok_or("a commit without an author")?;
    // Some old tools wrote several authors.
    while take_line(&mut rest, b"author ").is_some() {}
    take_line(&mut rest, b"committer ").ok_or("a commit without a committer")?;
    Ok(())
}

fn check_tag(data: &[u8]) -> Result<(), Finding> {
    let header = check_header(data)?;
    let (target, _) = tag(header).ok_or("a tag that does not say what it names")?;
    if target.is_zero() {
        return Err("a tag that names the null object");
    }
    let named = header
        .split(|byte| *byte == b'\n')
        .nth(2)
        .is_some_and(|line| line.starts_with(b"tag "));
    named.then_some(()).ok_or("a tag without a name")
}

/// The part before the blank line, without NULs in it.
fn check_header(data: &[u8]) -> Result<&[u8], Finding> {
    let end = data.windows(2).position(|two| two == b"\n\n");
    let header = match end {
        Some(end) => &data[..=end],
        None if data.last() == Some(&b'\n') => data,
        None => return Err("a header without an end"),
    };
    if header.contains(&0) {
        return Err("a header with a NUL in it");
    }
    Ok(header)
}

fn take_line(data: &mut &[u8], key: &[u8]) -> Option<()> {
    let rest = data.strip_prefix(key)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    *data = &rest[end + 1..];
    Some(())
}

fn check_tree(data: &[u8], suspects: &mut Suspects) -> Result<(), Finding> {
    let mut finding = None;
    let mut order = Order::default();
    entries(data, |entry| {
        if finding.is_none() {
            finding = check_entry(entry, suspects)
                .and_then(|()| order.check(entry))
                .err();
        }
    })?;
    finding.map_or(Ok(()), Err)
}

fn check_entry(entry: TreeEntry<'_>, suspects: &mut Suspects) -> Result<(), Finding> {
    if entry.oid.is_zero() {
        return Err("a tree with a null object in it");
    }
    let name = entry.name;
    match name {
        b"" => return Err("a tree with an empty name in it"),
        b"." => return Err("a tree with the name '.' in it"),
        b".." => return Err("a tree with the name '..' in it"),
        _ if name.contains(&b'/') => return Err("a tree with a '/' in a name"),
        _ if spelling::is_git(name) => return Err("a tree with a '.git' in it"),
        _ => {}
    }
    let is_link = entry.mode & 0o170_000 == 0o120_000;
    if spelling::is_gitmodules(name) {
        if is_link {
            return Err("a '.gitmodules' that is a symbolic link");
        }
        if !is_folder(entry) && entry.mode & 0o170_000 != 0o160_000 {
            suspects.insert(entry.oid);
        }
    }
    if is_link && spelling::is_gitattributes(name) {
        return Err("a '.gitattributes' that is a symbolic link");
    }
    Ok(())
}

fn is_folder(entry: TreeEntry<'_>) -> bool {
    entry.mode & 0o170_000 == 0o040_000
}

/// Entries are sorted as if a folder's name ended in `/`, and no name stands twice.
#[derive(Default)]
struct Order<'a> {
    last: Option<(&'a [u8], bool)>,
    /// Files whose name a later folder may still repeat: each begins with the one before.
    files: Vec<&'a [u8]>,
}

impl<'a> Order<'a> {
    fn check(&mut self, entry: TreeEntry<'a>) -> Result<(), Finding> {
        const TWICE: Finding = "a tree with one name twice";
        let (name, folder) = (entry.name, is_folder(entry));
        if let Some((last, last_folder)) = self.last {
            if last == name {
                return Err(TWICE);
            }
            let key = |name: &'a [u8], folder: bool| {
                let slash: &[u8] = if folder { b"/" } else { b"\0" };
                name.iter().chain(slash)
            };
            if key(last, last_folder).ge(key(name, folder)) {
                return Err("a tree that is not sorted");
            }
        }
        while self
            .files
            .last()
            .is_some_and(|file| !name.starts_with(file))
        {
            self.files.pop();
        }
        if !folder {
            self.files.push(name);
        } else if self.files.contains(&name) {
            return Err(TWICE);
        }
        self.last = Some((name, folder));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
