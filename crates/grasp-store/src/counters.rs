//! Counts what is stored, in the transactions that change it: nothing is ever counted by scanning.

use grasp_core::admission::PurgatoryLoad;
use grasp_core::event::kind;
use grasp_core::filter::Matchable;
use grasp_core::lifecycle::{Stage, Standing};
use nostr::event::EventId;
use nostr::key::PublicKey;

use crate::error::StoreError;
use crate::lifecycle::Writing;
use crate::record::{Record, stage_byte};
use crate::view::View;

/// What is stored, counted as it comes and goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    stages: [StageStats; 5],
}

/// What is stored in one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageStats {
    /// Events.
    pub events: u64,
    /// Bytes of their JSON.
    pub bytes: u64,
    /// Repository announcements among them.
    pub announcements: u64,
    /// States among them.
    pub states: u64,
    /// Pull requests and updates among them.
    pub proposals: u64,
}

impl Stats {
    /// What is stored in `stage`.
    pub fn of(&self, stage: Stage) -> StageStats {
        self.stages[usize::from(stage_byte(stage))]
    }

    /// Events in all stages.
    pub fn events(&self) -> u64 {
        self.stages.iter().map(|stage| stage.events).sum()
    }

    /// Bytes of JSON in all stages.
    pub fn bytes(&self) -> u64 {
        self.stages.iter().map(|stage| stage.bytes).sum()
    }

    pub(crate) fn of_mut(&mut self, stage: Stage) -> &mut StageStats {
        &mut self.stages[usize::from(stage_byte(stage))]
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let numbers = self.stages.iter().flat_map(StageStats::numbers);
        numbers.flat_map(u64::to_be_bytes).collect()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let mut numbers = chunks.iter().map(|chunk| u64::from_be_bytes(*chunk));
        let mut stats = Self::default();
        for stage in &mut stats.stages {
            stage.events = numbers.next()?;
            stage.bytes = numbers.next()?;
            stage.announcements = numbers.next()?;
            stage.states = numbers.next()?;
            stage.proposals = numbers.next()?;
        }
        (numbers.next().is_none() && rest.is_empty()).then_some(stats)
    }
}

impl StageStats {
    fn numbers(&self) -> [u64; 5] {
        [
            self.events,
            self.bytes,
            self.announcements,
            self.states,
            self.proposals,
        ]
    }
}

impl Writing<'_, '_> {
    /// Adds or takes one event of `stage` with `add`.
    pub(crate) fn count(
        &mut self,
        record: &Record<'_>,
        stage: Stage,
        add: fn(u64, u64) -> u64,
    ) -> Result<(), StoreError> {
        let bytes = record.json().len() as u64;
        let kind = record.kind();
        let stats: &mut StageStats = self.stats.of_mut(stage);
        stats.events = add(stats.events, 1);
        stats.bytes = add(stats.bytes, bytes);
        let class = match kind {
            kind::ANNOUNCEMENT => Some(&mut stats.announcements),
            kind::STATE => Some(&mut stats.states),
            kind if kind::is_proposal(kind) => Some(&mut stats.proposals),
            _ => None,
        };
        if let Some(class) = class {
            *class = add(*class, 1);
        }
        match (stage, record.standing()) {
            (Stage::Waiting, _) => {
                let (announcements, others) = if kind == kind::ANNOUNCEMENT {
                    (1, 0)
                } else {
                    (0, 1)
                };
                self.count_load(&record.public_key(), announcements, others, add)
            }
            (
                Stage::Served,
                Standing::Reply {
                    root,
                    counted: true,
                },
            ) => self.count_budget(&root, bytes, add),
            _ => Ok(()),
        }
    }

    fn count_load(
        &mut self,
        author: &PublicKey,
        announcements: u64,
        others: u64,
        add: fn(u64, u64) -> u64,
    ) -> Result<(), StoreError> {
        let key = author.as_bytes();
        let (a, b) = read_pair(self.tables.load.get(self.transaction, key)?, "load")?;
        let pair = (add(a, announcements), add(b, others));
        if pair == (0, 0) {
            self.tables.load.delete(self.transaction, key)?;
        } else {
            self.tables
                .load
                .put(self.transaction, key, &pair_bytes(pair))?;
        }
        Ok(())
    }

    fn count_budget(
        &mut self,
        root: &EventId,
        bytes: u64,
        add: fn(u64, u64) -> u64,
    ) -> Result<(), StoreError> {
        let key = root.as_bytes();
        let (a, b) = read_pair(self.tables.budgets.get(self.transaction, key)?, "budgets")?;
        let pair = (add(a, 1), add(b, bytes));
        if pair == (0, 0) {
            self.tables.budgets.delete(self.transaction, key)?;
        } else {
            self.tables
                .budgets
                .put(self.transaction, key, &pair_bytes(pair))?;
        }
        Ok(())
    }
}

impl View<'_> {
    /// How much is stored.
    pub fn stats(&self) -> Result<Stats, StoreError> {
        self.tables.stats(self.reading)
    }

    /// Waiting events in all, and of one author (PUR-13).
    pub fn purgatory_load(&self, author: &PublicKey) -> Result<PurgatoryLoad, StoreError> {
        let waiting = self.stats()?.of(Stage::Waiting);
        let row = self.tables.load.get(self.reading, author.as_bytes())?;
        let (announcements, others) = read_pair(row, "load")?;
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(PurgatoryLoad {
            events: size(waiting.events),
            bytes: waiting.bytes,
            author_announcements: size(announcements),
            author_events: size(others),
        })
    }

    /// Events and bytes that count against the budget of `root` (REL-6).
    pub fn budget_of(&self, root: &EventId) -> Result<(u64, u64), StoreError> {
        read_pair(
            self.tables.budgets.get(self.reading, root.as_bytes())?,
            "budgets",
        )
    }
}

/// Two counters of one row; no row is two zeros.
fn read_pair(bytes: Option<&[u8]>, table: &'static str) -> Result<(u64, u64), StoreError> {
    let Some(bytes) = bytes else {
        return Ok((0, 0));
    };
    let ([first, second], []) = bytes.as_chunks::<8>() else {
        return Err(StoreError::Corrupt(table));
    };
    Ok((u64::from_be_bytes(*first), u64::from_be_bytes(*second)))
}

fn pair_bytes((first, second): (u64, u64)) -> [u8; 16] {
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}
