//! What following other servers needs to know of what is here: announcements that are not gone, roots that are
//! served, and what waits unseen.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

use grasp_core::announcement::Announcement;
use grasp_core::event::kind;
use grasp_core::filter::{Filter, Matchable as _};
use grasp_core::lifecycle::Stage;
use grasp_core::name::Coordinate;
use nostr::event::EventId;

use crate::deadlines::read_event_key;
use crate::error::StoreError;
use crate::keys::{Key, read_sequence};
use crate::query::NegentropyItem;
use crate::record::Record;
use crate::view::View;

/// Rows of one snapshot.
const CHUNK: usize = 1000;

/// A root, or an update of a pull request, that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedRoot {
    /// Its id.
    pub id: EventId,
    /// The repositories that its `a` tags name, each once.
    pub repositories: BTreeSet<Coordinate>,
}

/// Where a list of roots goes on, in this snapshot or a later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootsCursor(Vec<u8>);

impl View<'_> {
    /// The announcements of a repository that are served, waiting or parked, newest first.
    pub fn living_announcements(
        &self,
        coordinate: &Coordinate,
    ) -> Result<Vec<(Stage, Announcement)>, StoreError> {
        let mut living = Vec::new();
        let (owner, d) = (&coordinate.owner, coordinate.identifier.as_str());
        self.versions(kind::ANNOUNCEMENT, owner, d, |stage, _, record| {
            if matches!(stage, Stage::Served | Stage::Waiting | Stage::Parked) {
                let announcement = Announcement::parse(record.event()?).ok();
                living.extend(announcement.map(|it| (stage, it)));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(living)
    }

    /// The root with this id, while it is served.
    pub fn followed_root(&self, id: &EventId) -> Result<Option<FollowedRoot>, StoreError> {
        let record = self.record(id)?.map(|(_, record)| record);
        let served = record.filter(|record| record.stage() == Stage::Served);
        Ok(served.map(|record| read_root(&record)))
    }

    /// The next served roots of this kind, and where the list goes on; `None` at its end.
    pub fn followed_roots(
        &self,
        kind: u16,
        after: Option<&RootsCursor>,
    ) -> Result<(Vec<FollowedRoot>, Option<RootsCursor>), StoreError> {
        let prefix = Key::new(&[&kind.to_be_bytes()]);
        let begin = match after {
            Some(RootsCursor(key)) => Bound::Excluded(key.as_slice()),
            None => Bound::Included(&prefix[..]),
        };
        let mut found = Vec::new();
        let rows = self
            .tables
            .kinds
            .range(self.reading, &(begin, Bound::Unbounded))?;
        for (number, row) in rows.enumerate() {
            let (key, _) = row?;
            if !key.starts_with(&prefix) {
                return Ok((found, None));
            }
            let sequence = read_sequence(key).ok_or(StoreError::Corrupt("kinds"))?;
            let record = self.record_at(sequence)?;
            found.extend(record.map(|record| read_root(&record)));
            if number + 1 == CHUNK {
                return Ok((found, Some(RootsCursor(key.to_vec()))));
            }
        }
        Ok((found, None))
    }

    /// What of a filter's matches is here unseen: waiting, or parked until a time. As many as the bounds of purgatory
    /// let wait.
    pub fn unseen_items(&self, filter: &Filter) -> Result<Vec<NegentropyItem>, StoreError> {
        let mut items = Vec::new();
        for row in self.tables.deadlines.iter(self.reading)? {
            let (key, _) = row?;
            let Some((_, sequence)) = read_event_key(key) else {
                continue;
            };
            let Some(record) = self.record_at(sequence)? else {
                continue;
            };
            let is_unseen = matches!(record.stage(), Stage::Waiting | Stage::Parked);
            if is_unseen && filter.matches(&record) {
                items.push((record.created_at(), *record.id()));
            }
        }
        Ok(items)
    }

    /// Whether an event is here in any stage.
    pub fn is_here(&self, id: &EventId) -> Result<bool, StoreError> {
        Ok(self.record(id)?.is_some())
    }
}

fn read_root(record: &Record<'_>) -> FollowedRoot {
    let addresses = record.tags().filter(|(letter, _)| *letter == 'a');
    let named = addresses.filter_map(|(_, value)| value.as_text(Coordinate::from_address));
    FollowedRoot {
        id: record.event_id(),
        repositories: named.collect(),
    }
}
