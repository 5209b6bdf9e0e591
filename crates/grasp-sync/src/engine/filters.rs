//! The filters of the three layers (protocol.md §15.2), and how they are cut to what a peer takes (SYNC-20).
//!
//! A filter is kept as its shape and the numbers of its items and written out only when it is sent: spelled out, the
//! live filters of 100,000 repositories would fill the memory. Filters that belong together share their items.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grasp_core::event::kind;
use grasp_core::filter::Filter;

use super::number::{RepoId, RootId};
use super::relay_index::Items;
use super::repo_index::{Item, RepoSyncIndex, SyncLevel};
use super::settings::{FILTER_BYTES_MAX, REQ_BYTES_MAX};

/// What a filter asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// Layer 1: announcements and users' lists of servers.
    Announcements,
    /// Layer 2: states by identifier.
    State,
    /// Layer 2: what names a repository by `a`.
    RepoLower,
    /// Layer 2: what names a repository by `A`.
    RepoUpper,
    /// Layer 2: what quotes a repository.
    RepoQuote,
    /// Layer 3: what names a root by `e`.
    RootLower,
    /// Layer 3: what names a root by `E`.
    RootUpper,
    /// Layer 3: what quotes a root.
    RootQuote,
    /// A question of the server's own (SYNC-33, SYNC-35).
    Own,
}

/// What goes last when live subscriptions do not suffice for all (SYNC-21).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Layer 1.
    Announcements,
    /// States, what names our repositories, what names our roots.
    Core,
    /// What hangs on our roots in the manner of NIP-22.
    Threads,
    /// What quotes, and what hangs on our repositories in that manner.
    Quotes,
}

impl Shape {
    /// How long it is kept live.
    pub fn tier(self) -> Tier {
        match self {
            Self::Announcements => Tier::Announcements,
            Self::State | Self::RepoLower | Self::RootLower => Tier::Core,
            Self::RootUpper => Tier::Threads,
            Self::RepoUpper | Self::RepoQuote | Self::RootQuote | Self::Own => Tier::Quotes,
        }
    }

    fn letter(self) -> Option<char> {
        match self {
            Self::Announcements | Self::Own => None,
            Self::State => Some('d'),
            Self::RepoLower => Some('a'),
            Self::RepoUpper => Some('A'),
            Self::RepoQuote | Self::RootQuote => Some('q'),
            Self::RootLower => Some('e'),
            Self::RootUpper => Some('E'),
        }
    }
}

/// The items of a filter, shared by the filters of other shapes over the same.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Over {
    Nothing,
    Repos(Arc<[RepoId]>),
    Roots(Arc<[RootId]>),
    /// Items that the engine does not know, written out by whoever asks.
    Own(Arc<Filter>),
}

/// A filter that is not written out yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFilter {
    shape: Shape,
    over: Over,
    bytes: usize,
}

/// From when to when a filter asks, and whether for stored events at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) since: Option<u64>,
    pub(super) until: Option<u64>,
    pub(super) limit: Option<usize>,
}

impl Span {
    /// Live events only: no clock is involved, neither ours nor the peer's (SYNC-1).
    pub(super) const LIVE: Self = Self {
        since: None,
        until: None,
        limit: Some(0),
    };
}

impl PlannedFilter {
    /// A question of the server's own.
    pub(super) fn own(filter: Filter) -> Self {
        Self {
            shape: Shape::Own,
            bytes: filter.to_json().to_string().len(),
            over: Over::Own(Arc::new(filter)),
        }
    }

    /// What it asks for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// What its values weigh in JSON, at most.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many values it has, at most.
    pub fn values(&self) -> usize {
        match &self.over {
            Over::Nothing => 0,
            Over::Repos(repos) => repos.len(),
            Over::Roots(roots) => roots.len(),
            Over::Own(filter) => values_of(filter),
        }
    }

    /// The first of what it asks about.
    pub(super) fn first_item(&self) -> Option<Item> {
        match &self.over {
            Over::Nothing | Over::Own(_) => None,
            Over::Repos(repos) => repos.first().copied().map(Item::Repo),
            Over::Roots(roots) => roots.first().copied().map(Item::Root),
        }
    }

    /// Whether both ask about the very same items.
    pub(super) fn is_over_the_same(&self, other: &Self) -> bool {
        match (&self.over, &other.over) {
            (Over::Repos(a), Over::Repos(b)) => Arc::ptr_eq(a, b),
            (Over::Roots(a), Over::Roots(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Adds what it asks about.
    pub(super) fn add_items_to(&self, items: &mut Items) {
        match &self.over {
            Over::Nothing | Over::Own(_) => {}
            Over::Repos(repos) => items.repos.extend(repos.iter()),
            Over::Roots(roots) => items.root_events.extend(roots.iter()),
        }
    }

    /// Two filters that together ask for the same. `None` if it cannot be cut any smaller.
    pub(super) fn halves(&self) -> Option<[Self; 2]> {
        let half = self.values() / 2;
        let parts = match &self.over {
            _ if half == 0 => return None,
            Over::Nothing => return None,
            Over::Repos(repos) => {
                let (left, right) = repos.split_at(half);
                [Over::Repos(left.into()), Over::Repos(right.into())]
            }
            Over::Roots(roots) => {
                let (left, right) = roots.split_at(half);
                [Over::Roots(left.into()), Over::Roots(right.into())]
            }
            Over::Own(filter) => halves_of(filter).map(|half| Over::Own(Arc::new(half))),
        };
        let bytes = self.bytes.div_ceil(2);
        Some(parts.map(|over| Self {
            shape: self.shape,
            over,
            bytes,
        }))
    }

    /// The filter as it is sent. Items that went away since are left out; a filter without any matches nothing.
    pub(super) fn write_out(&self, wants: &RepoSyncIndex, span: Span) -> Filter {
        if let Over::Own(filter) = &self.over {
            return Filter {
                since: filter.since.max(span.since),
                until: span.until.or(filter.until),
                limit: span.limit,
                ..Filter::clone(filter)
            };
        }
        let kinds = match self.shape {
            Shape::Announcements => Some(BTreeSet::from([kind::ANNOUNCEMENT, kind::GRASP_LIST])),
            Shape::State => Some(BTreeSet::from([kind::STATE])),
            _ => None,
        };
        let mut tags = BTreeMap::new();
        if let Some(letter) = self.shape.letter() {
            tags.insert(letter, self.written_values(wants));
        }
        Filter {
            kinds,
            tags,
            since: span.since,
            until: span.until,
            limit: span.limit,
            ..Filter::default()
        }
    }

    fn written_values(&self, wants: &RepoSyncIndex) -> BTreeSet<String> {
        match &self.over {
            Over::Nothing | Over::Own(_) => BTreeSet::new(),
            Over::Roots(roots) => {
                let ids = roots.iter().filter_map(|root| wants.root(*root));
                ids.map(grasp_core::EventId::to_hex).collect()
            }
            Over::Repos(repos) => {
                let names = repos.iter().filter_map(|repo| wants.coordinate(*repo));
                match self.shape {
                    Shape::State => names.map(|name| name.identifier.to_string()).collect(),
                    _ => names.map(grasp_core::name::Coordinate::address).collect(),
                }
            }
        }
    }
}

/// How many ids, or values of its longest tag, a filter of the server's own has.
fn values_of(filter: &Filter) -> usize {
    let ids = filter.ids.as_ref().map_or(0, BTreeSet::len);
    let tags = filter.tags.values().map(BTreeSet::len);
    tags.chain([ids]).max().unwrap_or(0)
}

/// Two filters of the server's own that together ask for the same.
fn halves_of(filter: &Filter) -> [Filter; 2] {
    let [mut left, mut right] = [filter.clone(), filter.clone()];
    let longest = filter.tags.iter().max_by_key(|(_, values)| values.len());
    match longest {
        Some((letter, values)) if values.len() > 1 => {
            let (first, second) = split(values);
            left.tags.insert(*letter, first);
            right.tags.insert(*letter, second);
        }
        _ => {
            let parts = filter.ids.as_ref().map(split).unzip();
            (left.ids, right.ids) = parts;
        }
    }
    [left, right]
}

fn split<T: Ord + Clone>(values: &BTreeSet<T>) -> (BTreeSet<T>, BTreeSet<T>) {
    let half = values.len() / 2;
    let mut values = values.iter().cloned();
    let first = values.by_ref().take(half).collect();
    (first, values.collect())
}

/// How long the filters for one peer may be (SYNC-20).
#[derive(Debug, Clone, Copy)]
pub struct Packing {
    /// Values of one filter.
    pub values_max: usize,
    /// Bytes of the values of one filter, as JSON.
    pub bytes_max: usize,
}

impl Packing {
    pub(super) fn of_values(values_max: usize) -> Self {
        Self {
            values_max,
            bytes_max: FILTER_BYTES_MAX,
        }
    }

    /// Cuts `items` into runs that fit one filter each.
    fn cut<T: Copy>(self, items: impl Iterator<Item = (T, usize)>) -> Vec<(Arc<[T]>, usize)> {
        let mut runs = Vec::new();
        let (mut run, mut bytes) = (Vec::new(), 0);
        for (item, weight) in items {
            let is_full = run.len() >= self.values_max || bytes + weight > self.bytes_max;
            if is_full && !run.is_empty() {
                runs.push((Arc::from(std::mem::take(&mut run)), bytes));
                bytes = 0;
            }
            run.push(item);
            bytes += weight;
        }
        if !run.is_empty() {
            runs.push((Arc::from(run), bytes));
        }
        runs
    }
}

/// Two quotes and a comma.
const JSON_STRING: usize = 3;
/// An event id as a JSON string.
const ID_BYTES: usize = 64 + JSON_STRING;
/// `30617:`, the owner, a colon.
const ADDRESS_PREFIX: usize = 6 + 64 + 1;

/// Layer 1. The kinds of protocol.md §15.2: states are asked for by identifier, in layer 2.
pub fn build_announcement_filter() -> PlannedFilter {
    PlannedFilter {
        shape: Shape::Announcements,
        over: Over::Nothing,
        bytes: 0,
    }
}

/// Layer 2: what names our repositories, and states by identifier. Of a repository in purgatory only the latter.
pub fn build_repo_tag_filters(
    wants: &RepoSyncIndex,
    repos: impl Iterator<Item = RepoId>,
    packing: Packing,
) -> Vec<PlannedFilter> {
    let is_full = |repo: &RepoId| {
        wants
            .needs(*repo)
            .is_some_and(|needs| needs.level == SyncLevel::Full)
    };
    let (full, state_only): (Vec<_>, Vec<_>) = repos.partition(is_full);
    let weighed = |repos: Vec<RepoId>| {
        let weight = |repo: RepoId| {
            // What must be escaped in JSON takes two bytes, control characters do not occur (NAME-3).
            let name = wants
                .coordinate(repo)
                .map_or("", |name| name.identifier.as_str());
            let escaped = name
                .bytes()
                .filter(|byte| matches!(byte, b'"' | b'\\'))
                .count();
            (repo, ADDRESS_PREFIX + name.len() + escaped + JSON_STRING)
        };
        packing.cut(repos.into_iter().map(weight))
    };
    let full_shapes = [
        Shape::State,
        Shape::RepoLower,
        Shape::RepoUpper,
        Shape::RepoQuote,
    ];
    let planned = |(run, bytes): (Arc<[RepoId]>, usize), shapes: &[Shape]| {
        let of_shape = |shape: &Shape| PlannedFilter {
            shape: *shape,
            over: Over::Repos(run.clone()),
            bytes,
        };
        shapes.iter().map(of_shape).collect::<Vec<_>>()
    };
    let of_full = weighed(full)
        .into_iter()
        .flat_map(|run| planned(run, &full_shapes));
    let of_waiting = weighed(state_only)
        .into_iter()
        .flat_map(|run| planned(run, &[Shape::State]));
    of_full.chain(of_waiting).collect()
}

/// Layer 3: what hangs on our roots.
pub fn build_root_event_tag_filters(
    roots: impl Iterator<Item = RootId>,
    packing: Packing,
) -> Vec<PlannedFilter> {
    let runs = packing.cut(roots.map(|root| (root, ID_BYTES)));
    let shapes = [Shape::RootLower, Shape::RootUpper, Shape::RootQuote];
    let planned = |(run, bytes): (Arc<[RootId]>, usize)| {
        shapes.map(|shape| PlannedFilter {
            shape,
            over: Over::Roots(run.clone()),
            bytes,
        })
    };
    runs.into_iter().flat_map(planned).collect()
}

/// Layers 2 and 3 of these items.
pub fn build_layer2_and_layer3_filters(
    wants: &RepoSyncIndex,
    items: &Items,
    packing: Packing,
) -> Vec<PlannedFilter> {
    let mut filters = build_repo_tag_filters(wants, items.repos.iter().copied(), packing);
    filters.extend(build_root_event_tag_filters(
        items.root_events.iter().copied(),
        packing,
    ));
    filters
}

/// Cuts a list of filters into REQs.
pub(super) fn into_requests(
    filters: Vec<PlannedFilter>,
    per_req: usize,
) -> Vec<Vec<PlannedFilter>> {
    let mut requests: Vec<Vec<PlannedFilter>> = Vec::new();
    let mut bytes = 0;
    for filter in filters {
        let fits = bytes + filter.bytes() <= REQ_BYTES_MAX;
        if let Some(last) = requests
            .last_mut()
            .filter(|last| fits && last.len() < per_req)
        {
            bytes += filter.bytes();
            last.push(filter);
        } else {
            bytes = filter.bytes();
            requests.push(vec![filter]);
        }
    }
    requests
}
