//! Commits to push, made once by real git and shared by all tests.

use grasp_testkit::GitHome;
use tokio::sync::OnceCell;

/// A commit with everything it needs.
#[derive(Debug, Clone)]
pub(crate) struct Commit {
    /// Its id.
    pub(crate) oid: String,
    /// A pack of its whole history.
    pub(crate) pack: Vec<u8>,
}

static COMMITS: OnceCell<Vec<Commit>> = OnceCell::const_new();

/// How many there are; each builds on the one before it.
pub(crate) const COMMITS_MAX: usize = 8;

/// The first, the second, … commit of one history.
pub(crate) async fn commit(number: usize) -> &'static Commit {
    &COMMITS.get_or_init(make).await[number]
}

async fn make() -> Vec<Commit> {
    let work = GitHome::new().init("work").await;
    let mut commits = Vec::new();
    for number in 0..COMMITS_MAX {
        let oid = work.commit(&format!("commit {number}")).await;
        let pack = work.pack(&[&oid]).await;
        commits.push(Commit { oid, pack });
    }
    commits
}
