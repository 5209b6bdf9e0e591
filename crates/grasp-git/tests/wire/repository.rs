//! Repositories made with plain git, and the snapshot of their refs.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use grasp_git::refs::{RefSnapshot, RefValue};
use tempfile::TempDir;

/// A bare repository in a folder of its own.
pub(crate) struct Repository {
    pub(crate) dir: TempDir,
}

/// Runs git in `directory` without anybody's configuration and returns its output.
pub(crate) fn try_git(directory: &Path, args: &[&str]) -> Output {
    Command::new("git")
        .current_dir(directory)
        .args(args)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_AUTHOR_NAME", "Alice")
        .env("GIT_AUTHOR_EMAIL", "alice@example.com")
        .env("GIT_COMMITTER_NAME", "Alice")
        .env("GIT_COMMITTER_EMAIL", "alice@example.com")
        .env("GIT_AUTHOR_DATE", "1700000000 +0000")
        .env("GIT_COMMITTER_DATE", "1700000000 +0000")
        .output()
        .expect("git runs")
}

/// As [`try_git`], and it must succeed.
pub(crate) fn git(directory: &Path, args: &[&str]) -> String {
    let output = try_git(directory, args);
    assert!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// As [`git`], with something on its standard input.
fn git_reading(directory: &Path, args: &[&str], input: &[u8]) {
    let mut child = Command::new("git")
        .current_dir(directory)
        .args(args)
        .stdin(Stdio::piped())
        .spawn()
        .expect("git starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input).expect("git reads");
    drop(stdin);
    assert!(child.wait().expect("git ends").success(), "git {args:?}");
}

impl Repository {
    /// A repository whose `HEAD` waits for `main`.
    pub(crate) fn empty() -> Self {
        let dir = TempDir::new().expect("a folder");
        git(
            dir.path(),
            &["init", "-q", "--bare", "-b", "main", "bare.git"],
        );
        Self { dir }
    }

    /// A branch `main` of `commits` commits with one file each, a tag object on the last, and a
    /// proposal one commit ahead.
    pub(crate) fn with_history(commits: usize) -> Self {
        let repository = Self::empty();
        let work = repository.dir.path().join("work");
        git(repository.dir.path(), &["clone", "-q", "bare.git", "work"]);
        git(&work, &["checkout", "-q", "-b", "main"]);
        for number in 0..=commits {
            if number == commits {
                git(&work, &["tag", "-a", "-m", "one", "v1"]);
                git(&work, &["push", "-q", "origin", "main", "v1"]);
            }
            std::fs::write(
                work.join(format!("file-{number}")),
                format!("content {number}\n").repeat(100),
            )
            .expect("a file");
            git(&work, &["add", "."]);
            git(&work, &["commit", "-q", "-m", &format!("commit {number}")]);
        }
        let proposal = format!("HEAD:refs/nostr/{}", "a".repeat(64));
        git(&work, &["push", "-q", "origin", &proposal]);
        repository
    }

    /// `count` commits, each with a tag of its own.
    pub(crate) fn with_tags(count: usize) -> Self {
        use std::fmt::Write as _;

        let repository = Self::empty();
        let mut script = String::new();
        for number in 0..count {
            writeln!(
                script,
                "commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata 1\nx\n\
                 M 100644 inline f\ndata <<E\n{number}\nE\n\n\
                 reset refs/tags/t{number}\nfrom refs/heads/main\n"
            )
            .expect("text");
        }
        git_reading(
            &repository.path(),
            &["fast-import", "--quiet"],
            script.as_bytes(),
        );
        repository
    }

    /// A branch `main` with one file of so many bytes that do not compress.
    pub(crate) fn with_noise(bytes: usize) -> Self {
        let repository = Self::empty();
        let mut word = 1_u64;
        let mut script = format!(
            "commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata 1\nx\n\
             M 100644 inline f\ndata {bytes}\n"
        )
        .into_bytes();
        script.extend((0..bytes).map(|_| {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word.to_le_bytes()[3]
        }));
        script.push(b'\n');
        git_reading(&repository.path(), &["fast-import", "--quiet"], &script);
        repository
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("bare.git")
    }

    pub(crate) fn rev(&self, name: &str) -> String {
        git(&self.path(), &["rev-parse", name])
    }

    /// What git itself says the refs are.
    pub(crate) fn snapshot(&self) -> RefSnapshot {
        let listing = git(
            &self.path(),
            &[
                "for-each-ref",
                "--format=%(refname) %(objectname) %(*objectname)",
            ],
        );
        let refs = listing
            .lines()
            .map(|line| {
                let mut words = line.split(' ');
                let mut word = || words.next().filter(|word| !word.is_empty());
                let name = word().expect("a name").parse().expect("valid");
                let oid = word().expect("an oid").parse().expect("valid");
                let peeled = word().map(|oid| oid.parse().expect("valid"));
                (name, RefValue { oid, peeled })
            })
            .collect();
        RefSnapshot {
            refs,
            head: git(&self.path(), &["symbolic-ref", "HEAD"])
                .parse()
                .expect("valid"),
            generation: 1,
        }
    }
}
