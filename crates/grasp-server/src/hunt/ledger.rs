//! What an operator may want to know of the hunt: what is missing, from where, when it is looked for next, and how that went.
//!
//! Written along with what goes into the hunt and what comes out of it; nothing is decided by it.

use std::collections::{BTreeMap, VecDeque};

use grasp_core::clone_url::CloneUrl;
use grasp_core::hunt::Owed;
use grasp_core::name::{Identifier, RepoAddress};
use grasp_core::oid::Oid;
use grasp_sync::engine::Time;
use grasp_sync::hunt::{FetchOrder, FetchOutcome, StoredEntry};

/// Of a group so many missing objects are named.
const NAMED_MAX: usize = 20;
/// Of an identifier so many groups are told of.
const GROUPS_MAX: usize = 20;
/// Of an identifier so many ends of fetches are remembered.
const ENDS_MAX: usize = 10;

/// What is known of one identifier.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page {
    /// When it is looked for next.
    pub(crate) next_attempt: Time,
    /// How often it was since the last news.
    pub(crate) attempts: u32,
    /// Nothing waits any more: what is owed is looked for hourly.
    pub(crate) is_parked: bool,
    /// What was missing at the last look.
    pub(crate) groups: Vec<Missing>,
    /// How the last fetches ended, the newest first, one for each address.
    pub(crate) ends: VecDeque<End>,
    /// Fetches that run.
    pub(crate) running: Vec<Fetch>,
}

/// What one group lacks.
#[derive(Debug, Clone)]
pub(crate) struct Missing {
    /// Where it belongs.
    pub(crate) into: RepoAddress,
    /// How many objects.
    pub(crate) count: usize,
    /// The first of them.
    pub(crate) first: Vec<Oid>,
    /// Whom to ask.
    pub(crate) sources: Vec<CloneUrl>,
}

/// How a fetch ended.
#[derive(Debug, Clone)]
pub(crate) struct End {
    /// Who was asked.
    pub(crate) source: CloneUrl,
    /// When it was over.
    pub(crate) at: Time,
    /// How.
    pub(crate) outcome: FetchOutcome,
}

/// A fetch that runs.
#[derive(Debug, Clone)]
pub(crate) struct Fetch {
    /// Who is asked.
    pub(crate) source: CloneUrl,
    /// Since how many seconds.
    pub(crate) seconds: u64,
    /// What it has sent.
    pub(crate) bytes: u64,
}

/// Everything that is looked for. Never more pages than the hunt has entries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger(BTreeMap<Identifier, Page>);

impl Ledger {
    /// An entry is there, and may be new.
    pub(super) fn enqueued(&mut self, identifier: &Identifier, not_before: Time) {
        let known = self.0.get_mut(identifier);
        let page = match known {
            Some(page) => page,
            None => self.0.entry(identifier.clone()).or_insert_with(|| Page {
                next_attempt: not_before,
                ..Page::default()
            }),
        };
        page.next_attempt = page.next_attempt.min(not_before);
        page.attempts = 0;
    }

    pub(super) fn saved(&mut self, identifier: &Identifier, entry: StoredEntry) {
        let page = self.0.entry(identifier.clone()).or_default();
        page.next_attempt = entry.next_attempt;
        page.attempts = entry.attempt_count;
        page.is_parked = entry.is_parked;
    }

    pub(super) fn forgotten(&mut self, identifier: &Identifier) {
        self.0.remove(identifier);
    }

    pub(super) fn gathered(&mut self, identifier: &Identifier, owed: &Owed) {
        let Some(page) = self.0.get_mut(identifier) else {
            return;
        };
        let groups = owed.groups.iter().take(GROUPS_MAX);
        page.groups = groups
            .map(|group| {
                let missing = group.wants.iter().chain(&group.parked);
                Missing {
                    into: group.into.clone(),
                    count: group.wants.len() + group.parked.len(),
                    first: missing.take(NAMED_MAX).copied().collect(),
                    sources: group.sources.clone(),
                }
            })
            .collect();
    }

    pub(super) fn ended(&mut self, order: &FetchOrder, outcome: FetchOutcome, at: Time) {
        let Some(page) = self.0.get_mut(&order.identifier) else {
            return;
        };
        page.ends.retain(|end| end.source != order.source);
        page.ends.truncate(ENDS_MAX - 1);
        let source = order.source.clone();
        page.ends.push_front(End {
            source,
            at,
            outcome,
        });
    }

    /// A copy that tells of these fetches too.
    pub(super) fn with<'r>(
        &self,
        running: impl IntoIterator<Item = (&'r Identifier, Fetch)>,
    ) -> Self {
        let mut copy = self.clone();
        for (identifier, fetch) in running {
            copy.0
                .entry(identifier.clone())
                .or_default()
                .running
                .push(fetch);
        }
        copy
    }

    /// By identifier.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (&Identifier, &Page)> {
        self.0.iter()
    }

    /// What is looked for of one identifier.
    pub(crate) fn page(&self, identifier: &Identifier) -> Option<&Page> {
        self.0.get(identifier)
    }
}

/// How a fetch ended, in words.
pub(crate) fn words(outcome: &FetchOutcome) -> String {
    match outcome {
        FetchOutcome::Complete => "everything came".to_owned(),
        FetchOutcome::Lacks { missing, .. } => {
            format!("answered, and lacks {} of the objects", missing.len())
        }
        FetchOutcome::Overtaken => "no longer needed".to_owned(),
        FetchOutcome::RateLimited { .. } => "asks for a pause (429)".to_owned(),
        FetchOutcome::Unavailable => "cannot be reached, or broke off".to_owned(),
        FetchOutcome::Refused { status: 200 } => "has no git repository there".to_owned(),
        FetchOutcome::Refused { status } => format!("refuses (status {status})"),
        FetchOutcome::Broken(broken) => format!("is left alone: broken {broken:?}").to_lowercase(),
        FetchOutcome::Forbidden => "may not be asked: its address is not public".to_owned(),
        FetchOutcome::Harmful { reason } => format!("sent what is not taken: {reason}"),
        FetchOutcome::Stopped => "stopped: it was silent or too slow".to_owned(),
        FetchOutcome::Ours { reason } => format!("could not be stored here: {reason}"),
    }
}
