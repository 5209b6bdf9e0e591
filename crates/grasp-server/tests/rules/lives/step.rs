//! What can happen in a life.

/// Who maintains.
pub(super) const PEOPLE: [&str; 3] = ["alice", "bob", "carol"];
/// The place beside the repositories of [`PEOPLE`]: the `/prs/` repository of the contributor.
pub(super) const PRS: usize = PEOPLE.len();

/// What a state declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) main: Option<usize>,
    pub(super) dev: Option<usize>,
    pub(super) tag: Option<usize>,
    pub(super) head: &'static str,
}

impl Declared {
    /// `main` alone.
    pub(super) fn main(at: usize) -> Self {
        Self {
            main: Some(at),
            dev: None,
            tag: None,
            head: "refs/heads/main",
        }
    }
}

/// How a push differs from what the state says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Not at all.
    Exact,
    /// Its first ref is left out.
    Partial,
    /// And a branch that nobody signed.
    Surplus,
    /// The same, and all or nothing is wanted.
    AtomicSurplus,
}

/// Something that happens to the project.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Announce {
        who: usize,
        lists: u8,
        lead: Option<usize>,
        here: bool,
        lasts: Option<u64>,
    },
    State {
        who: usize,
        declared: Declared,
        age: u64,
        lasts: Option<u64>,
    },
    /// Signs a state and pushes what it says.
    Advance {
        who: usize,
        to: usize,
        declared: Declared,
        age: u64,
    },
    /// Pushes what the newest state of `of` says.
    PushState {
        to: usize,
        of: usize,
        form: Form,
    },
    PushMain {
        to: usize,
        at: usize,
    },
    Propose {
        to: usize,
        at: usize,
        own: bool,
    },
    /// The commit of a pull request comes before the request itself.
    UploadFirst {
        to: usize,
        place: usize,
        at: usize,
        right: bool,
    },
    /// The pull request whose commit came first.
    SendDraft,
    Update {
        at: usize,
    },
    PushProposal {
        to: usize,
        right: bool,
    },
    Upload {
        to: usize,
        at: usize,
    },
    /// Perhaps for two repositories at once.
    Issue {
        to: usize,
        also: usize,
        patch: bool,
    },
    Comment {
        back: usize,
    },
    Delete {
        back: usize,
        by_address: bool,
    },
    /// The newest announcement of somebody, or their newest state, by its id.
    DeleteNewest {
        who: usize,
        state: bool,
    },
    /// Somebody else than its author.
    DeleteForeign {
        back: usize,
        who: usize,
    },
    DeleteScope {
        who: usize,
    },
    /// A state whose deletion comes first.
    DeleteFirst {
        who: usize,
        at: usize,
    },
    /// By one of the people or the contributor, from `here` or from another relay.
    Vanish {
        who: usize,
        here: bool,
    },
    SendAgain {
        back: usize,
        synced: bool,
    },
    /// An issue whose signature is wrong, and then by sync the real one.
    Forge {
        to: usize,
    },
    /// What a test of the service publishes.
    Test(Box<Step>),
    /// And what it left behind is cleaned up.
    CleanUp,
    /// The operator brings the scope of somebody back.
    Restore {
        who: usize,
    },
    /// A start with other lists of owners.
    Relist {
        black: u8,
        white: Option<u8>,
        restores: bool,
    },
    Pass {
        secs: u64,
    },
    Restart,
    Kill,
}
