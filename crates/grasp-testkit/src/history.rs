//! Commits to push, made once by real git and shared by all tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::{GitHome, WorkTree};
use tokio::sync::{Mutex, OnceCell};

/// A commit with everything it needs.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Its id.
    pub oid: String,
    /// A pack of its whole history.
    pub pack: Vec<u8>,
}

struct History {
    work: WorkTree,
    commits: Vec<Commit>,
    /// Packs of several histories in one.
    packs: Mutex<BTreeMap<BTreeSet<String>, Vec<u8>>>,
}

static HISTORY: OnceCell<History> = OnceCell::const_new();

/// How many there are.
pub const COMMITS_MAX: usize = 8;

/// What each builds on: a line, and a branch that leaves it after the third.
const PARENTS: [Option<usize>; COMMITS_MAX] = [
    None,
    Some(0),
    Some(1),
    Some(2),
    Some(3),
    Some(4),
    Some(2),
    Some(6),
];

/// One of the commits; those before the sixth build on each other.
pub async fn commit(number: usize) -> &'static Commit {
    &history().await.commits[number]
}

/// A pack of everything that these commits need; `None` for no commits.
pub async fn pack(commits: &[&Commit]) -> Option<Vec<u8>> {
    let oids: BTreeSet<String> = commits.iter().map(|commit| commit.oid.clone()).collect();
    match commits {
        [] => None,
        [commit] => Some(commit.pack.clone()),
        _ => {
            let history = history().await;
            let mut packs = history.packs.lock().await;
            if !packs.contains_key(&oids) {
                let tips: Vec<&str> = oids.iter().map(String::as_str).collect();
                packs.insert(oids.clone(), history.work.pack(&tips).await);
            }
            packs.get(&oids).cloned()
        }
    }
}

/// Of every commit what it needs, itself included.
pub async fn closures() -> BTreeMap<String, BTreeSet<String>> {
    let history = history().await;
    let oid = |number: usize| history.commits[number].oid.clone();
    let closure = |number: usize| {
        let line = std::iter::successors(Some(number), |number| PARENTS[*number]);
        (oid(number), line.map(oid).collect())
    };
    (0..COMMITS_MAX).map(closure).collect()
}

/// What a commit names as its content, as if it were one: nothing that a proposal may name (PR-6).
pub async fn tree(number: usize) -> Commit {
    let tip = format!("refs/heads/c{number}^{{tree}}");
    Commit {
        oid: history().await.work.rev(&tip).await,
        pack: commit(number).await.pack.clone(),
    }
}

/// A pack of what `tip` needs beyond `base`.
pub async fn pack_between(base: &Commit, tip: &Commit) -> Vec<u8> {
    let work = &history().await.work;
    work.pack(&[&tip.oid, &format!("^{}", base.oid)]).await
}

async fn history() -> &'static History {
    HISTORY.get_or_init(make).await
}

/// The same commits in every run: dates and names are fixed.
async fn make() -> History {
    let work = GitHome::new().init("work").await;
    let mut stream = String::new();
    for (number, parent) in PARENTS.iter().enumerate() {
        let text = format!("commit {number}");
        let size = text.len();
        let _ = write!(
            stream,
            "commit refs/heads/c{number}\nmark :{}\n\
             committer tester <tester@example.invalid> {} +0000\ndata {size}\n{text}\n",
            number + 1,
            1_700_000_000 + number,
        );
        if let Some(parent) = parent {
            let _ = writeln!(stream, "from :{}", parent + 1);
        }
        let _ = write!(
            stream,
            "M 100644 inline {number}.txt\ndata {size}\n{text}\n"
        );
    }
    let import = ["fast-import", "--quiet"];
    work.home()
        .run_with_input(work.path(), import, stream.as_bytes())
        .await;
    let mut commits = Vec::new();
    for number in 0..COMMITS_MAX {
        let oid = work.rev(&format!("refs/heads/c{number}")).await;
        let pack = work.pack(&[&oid]).await;
        commits.push(Commit { oid, pack });
    }
    History {
        work,
        commits,
        packs: Mutex::default(),
    }
}
