//! Plumbing for tests: a git folder that goes with the test, and real git to compare with.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use grasp_core::PublicKey;
use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::oid::Oid;
use grasp_core::refname::RefName;
use tempfile::TempDir;

use crate::{GitConfig, Repositories};

/// A git folder.
pub(crate) struct Place {
    pub(crate) repositories: Repositories,
    pub(crate) folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let repositories = Repositories::open(&folder.path().join("git"), GitConfig::default())
            .expect("an empty folder is fine");
        Self {
            repositories,
            folder,
        }
    }

    /// A created repository.
    pub(crate) fn repository(&self, identifier: &str) -> RepoAddress {
        let repo = address(1, identifier);
        self.repositories
            .lock(&repo)
            .create()
            .expect("it can be created");
        repo
    }

    /// An empty repository with a working tree, to make history in.
    pub(crate) fn work(&self, name: &str) -> Work {
        let path = self.folder.path().join(name);
        fs::create_dir_all(&path).expect("a folder");
        let work = Work { path };
        work.git(&["init", "--quiet", "--initial-branch=main"]);
        work
    }
}

pub(crate) fn address(owner: u8, identifier: &str) -> RepoAddress {
    RepoAddress::Announced(coordinate(owner, identifier))
}

pub(crate) fn coordinate(owner: u8, identifier: &str) -> Coordinate {
    let owner = PublicKey::from_slice(&[owner; 32]).expect("32 bytes");
    Coordinate::new(owner, identifier.parse().expect("a legal identifier"))
}

pub(crate) fn name(text: &str) -> RefName {
    text.parse().expect("a legal ref name")
}

pub(crate) fn refs<'a>(pairs: impl IntoIterator<Item = (&'a str, Oid)>) -> BTreeMap<RefName, Oid> {
    pairs
        .into_iter()
        .map(|(text, oid)| (name(text), oid))
        .collect()
}

/// Runs git in `folder` without any configuration of this machine; its standard output.
pub(crate) fn git(folder: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("git")
        .args(["-c", "safe.directory=*"])
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(std::env::vars().filter(|(key, _)| key == "PATH"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", folder)
        .env("GIT_AUTHOR_NAME", "A")
        .env("GIT_AUTHOR_EMAIL", "a@example.org")
        .env("GIT_AUTHOR_DATE", "1700000000 +0000")
        .env("GIT_COMMITTER_NAME", "A")
        .env("GIT_COMMITTER_EMAIL", "a@example.org")
        .env("GIT_COMMITTER_DATE", "1700000000 +0000")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("git is installed");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("git ends");
    let _ = writer.join();
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// What git prints, as text without its newline.
pub(crate) fn git_text(folder: &Path, arguments: &[&str]) -> String {
    let text = String::from_utf8(git(folder, arguments, b"")).expect("text");
    text.trim_end().to_owned()
}

/// Everything plain git has to say against a repository.
pub(crate) fn assert_sound(home: &Path) {
    git(home, &["fsck", "--strict", "--full"], b"");
}

/// A repository to make history in.
pub(crate) struct Work {
    pub(crate) path: PathBuf,
}

impl Work {
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git_text(&self.path, arguments)
    }

    /// Commits `content` as `file`.
    pub(crate) fn commit(&self, file: &str, content: impl AsRef<[u8]>) -> Oid {
        let path = self.path.join(file);
        fs::create_dir_all(path.parent().expect("inside")).expect("a folder");
        fs::write(path, content).expect("a file");
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", file]);
        self.oid("HEAD")
    }

    pub(crate) fn oid(&self, name: &str) -> Oid {
        self.git(&["rev-parse", name]).parse().expect("an oid")
    }

    /// Writes an object of any kind without checks.
    pub(crate) fn object(&self, kind: &str, content: &[u8]) -> Oid {
        let arguments = ["hash-object", "--literally", "-t", kind, "-w", "--stdin"];
        let text = String::from_utf8(git(&self.path, &arguments, content)).expect("text");
        text.trim().parse().expect("an oid")
    }

    /// A pack of what `revisions` (as for `rev-list`) name.
    pub(crate) fn pack(&self, revisions: &str, options: &[&str]) -> Vec<u8> {
        let mut arguments = vec!["pack-objects", "--revs", "--stdout", "--quiet"];
        arguments.extend(options);
        git(&self.path, &arguments, revisions.as_bytes())
    }

    /// A pack of exactly these objects.
    pub(crate) fn pack_of(&self, oids: &[Oid]) -> Vec<u8> {
        let list = lines(oids);
        git(
            &self.path,
            &["pack-objects", "--stdout", "--quiet"],
            list.as_bytes(),
        )
    }

    /// Copies all objects into a bare repository, as a test's short cut.
    pub(crate) fn copy_objects_to(&self, home: &Path) {
        let pack = git(
            &self.path,
            &["pack-objects", "--all", "--stdout", "--quiet"],
            b"",
        );
        git(home, &["index-pack", "--stdin"], &pack);
    }
}

/// The type numbers of pack entries.
pub(crate) mod entry {
    pub(crate) const COMMIT: u8 = 1;
    pub(crate) const TREE: u8 = 2;
    pub(crate) const BLOB: u8 = 3;
}

/// Writes packs byte by byte, as an attacker would.
pub(crate) struct RawPack {
    bytes: Vec<u8>,
    count: u32,
}

impl RawPack {
    pub(crate) fn new() -> Self {
        Self {
            bytes: b"PACK\0\0\0\x02\0\0\0\0".to_vec(),
            count: 0,
        }
    }

    /// An entry of `kind` that says it has `size` bytes, between header and content `extra`.
    pub(crate) fn entry(mut self, kind: u8, size: u64, extra: &[u8], content: &[u8]) -> Self {
        let low = u8::try_from(size & 15).expect("four bits");
        let mut rest = size >> 4;
        self.bytes
            .push((kind << 4) | low | if rest > 0 { 0x80 } else { 0 });
        while rest > 0 {
            let low = u8::try_from(rest & 0x7f).expect("seven bits");
            rest >>= 7;
            self.bytes.push(low | if rest > 0 { 0x80 } else { 0 });
        }
        self.bytes.extend(extra);
        self.bytes.extend(deflate(content));
        self.count += 1;
        self
    }

    /// A whole object.
    pub(crate) fn object(self, kind: u8, content: &[u8]) -> Self {
        self.entry(kind, content.len() as u64, b"", content)
    }

    /// A delta on a named base.
    pub(crate) fn ref_delta(self, base: &Oid, delta: &[u8]) -> Self {
        self.entry(7, delta.len() as u64, base.as_bytes(), delta)
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes[8..12].copy_from_slice(&self.count.to_be_bytes());
        let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
        hasher.update(&self.bytes);
        let sum = hasher.try_finalize().expect("no collision");
        self.bytes.extend(sum.as_slice());
        self.bytes
    }
}

pub(crate) fn deflate(content: &[u8]) -> Vec<u8> {
    let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    deflate.write_all(content).expect("memory");
    deflate.finish().expect("memory")
}

/// The name of an object.
pub(crate) fn oid_of(kind: &str, content: &[u8]) -> Oid {
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    hasher.update(format!("{kind} {}\0", content.len()).as_bytes());
    hasher.update(content);
    let oid = hasher.try_finalize().expect("no collision");
    crate::objects::from_gix(&oid)
}

/// One line each.
pub(crate) fn lines(items: impl IntoIterator<Item = impl Display>) -> String {
    let mut text = String::new();
    for item in items {
        writeln!(text, "{item}").expect("a String takes everything");
    }
    text
}

/// Puts `oids` of one repository into another as one pack, with `extra`, a blob, beside them.
#[cfg(feature = "failpoints")]
pub(crate) fn copy_packed(from: &Path, to: &Path, oids: &[Oid], extra: &[u8]) {
    let blob = git(from, &["hash-object", "-w", "--stdin"], extra);
    let blob = String::from_utf8(blob).expect("text");
    let list = format!("{}{blob}", lines(oids));
    let pack = git(
        from,
        &["pack-objects", "--stdout", "--quiet"],
        list.as_bytes(),
    );
    git(to, &["index-pack", "--stdin"], &pack);
}
