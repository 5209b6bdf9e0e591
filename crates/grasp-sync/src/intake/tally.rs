//! How the memories are doing, by the sort of event.

use grasp_core::event::kind;

/// What an event is, as far as its refusal is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// An announcement of a repository.
    Announcement,
    /// A state.
    State,
    /// Anything else.
    Other,
}

impl Sort {
    /// All of them, for metrics.
    pub const ALL: [Self; 3] = [Self::Announcement, Self::State, Self::Other];

    /// What an event of this kind is.
    pub fn of(kind: u16) -> Self {
        match kind {
            kind::ANNOUNCEMENT => Self::Announcement,
            kind::STATE => Self::State,
            _ => Self::Other,
        }
    }

    /// Its name as a label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Announcement => "announcement",
            Self::State => "state",
            Self::Other => "other",
        }
    }
}

/// A number for each sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BySort([u64; 3]);

impl BySort {
    pub(super) fn count(&mut self, kind: u16) {
        self.0[Sort::of(kind) as usize] += 1;
    }

    /// Of this sort.
    pub fn get(&self, sort: Sort) -> u64 {
        self.0[sort as usize]
    }

    fn plus(&self, other: &Self) -> Self {
        let mut numbers = self.0.iter().zip(other.0);
        Self(std::array::from_fn(|_| {
            numbers.next().map_or(0, |(a, b)| a + b)
        }))
    }

    pub(super) fn over(kinds: impl Iterator<Item = u16>) -> Self {
        let mut numbers = Self::default();
        kinds.for_each(|kind| numbers.count(kind));
        numbers
    }
}

/// What has happened to what was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tallies {
    /// What a whole event lacked arrived: it was tried again from memory.
    pub hits: BySort,
    /// What it lacked arrived, and only its id was known by then: it has to come again.
    pub misses: BySort,
    /// Whole events that waited long enough.
    pub orphans_expired: BySort,
    /// Ids that were remembered long enough.
    pub marks_expired: BySort,
}

impl Tallies {
    /// Refusals that were forgotten because what the event lacked arrived.
    pub fn invalidated(&self) -> BySort {
        self.hits.plus(&self.misses)
    }
}
