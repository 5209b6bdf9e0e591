//! What orphans lack and a relay can be asked for, by exact id or address.
//!
//! Asked of the relay that sent the orphan: it most likely has what the orphan hangs on. The pause before it is asked
//! for again doubles, so that a reference to nothing costs a few questions and no stream of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use grasp_core::filter::Filter;
use grasp_core::{EventId, PublicKey};

use super::lack::Lack;
use crate::engine::Time;
use crate::relay_url::RelayUrl;

/// The pause before a dependency is asked for again (SYNC-33).
pub const ASK_PAUSE: Duration = Duration::from_secs(30);
/// The longest pause.
pub const ASK_PAUSE_MAX: Duration = Duration::from_hours(1);
/// Dependencies of one question (SYNC-33).
pub const VALUES_MAX: usize = 100;
/// Filters of one question (SYNC-20): addresses need one each.
pub const FILTERS_MAX: usize = 10;
/// Questions of one pass (SYNC-33).
pub const ERRANDS_MAX: usize = 32;
/// At most so many relays are asked for one dependency, one after the other.
const RELAYS_MAX: usize = 4;

/// A question for a relay.
#[derive(Debug, Clone, PartialEq)]
pub struct Errand {
    /// Whom to ask.
    pub relay: RelayUrl,
    /// What.
    pub filters: Vec<Filter>,
}

#[derive(Debug)]
struct Want {
    orphans: BTreeSet<EventId>,
    relays: Vec<RelayUrl>,
    asked: u32,
    due: Time,
}

/// What is wanted, by when it is asked for.
#[derive(Debug, Default)]
pub(super) struct Dependencies {
    wants: BTreeMap<Lack, Want>,
    due: BTreeSet<(Time, Lack)>,
}

impl Dependencies {
    /// An orphan that `from` sent waits for these.
    pub(super) fn want(&mut self, orphan: EventId, lacks: &[Lack], from: &RelayUrl, now: Time) {
        for lack in lacks.iter().filter(|lack| filter_of(lack).is_some()) {
            let want = self.wants.entry(lack.clone()).or_insert_with(|| {
                self.due.insert((now, lack.clone()));
                Want {
                    orphans: BTreeSet::new(),
                    relays: Vec::new(),
                    asked: 0,
                    due: now,
                }
            });
            want.orphans.insert(orphan);
            if want.relays.len() < RELAYS_MAX && !want.relays.contains(from) {
                want.relays.push(from.clone());
            }
        }
    }

    /// It is there.
    pub(super) fn remove(&mut self, lack: &Lack) {
        if let Some(want) = self.wants.remove(lack) {
            self.due.remove(&(want.due, lack.clone()));
        }
    }

    /// This orphan does not wait any more.
    pub(super) fn drop_orphan(&mut self, orphan: &EventId, lacks: &[Lack]) {
        for lack in lacks {
            let Some(want) = self.wants.get_mut(lack) else {
                continue;
            };
            want.orphans.remove(orphan);
            if want.orphans.is_empty() {
                self.remove(lack);
            }
        }
    }

    /// What is due, as few questions as it fits into. What does not fit stays due.
    pub(super) fn errands(&mut self, now: Time) -> Vec<Errand> {
        let mut basket = Basket::default();
        let due: Vec<_> = self
            .due
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, lack)| lack.clone())
            .collect();
        for lack in due {
            let Some(want) = self.wants.get_mut(&lack) else {
                continue;
            };
            let turn = usize::try_from(want.asked).unwrap_or_default() % want.relays.len();
            if !basket.put(&want.relays[turn], &lack) {
                continue;
            }
            let doubled = ASK_PAUSE.saturating_mul(1 << want.asked.min(16));
            let next = now + doubled.min(ASK_PAUSE_MAX);
            self.due.remove(&(want.due, lack.clone()));
            want.asked = want.asked.saturating_add(1);
            want.due = next;
            self.due.insert((next, lack));
        }
        basket.errands
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(super) fn len(&self) -> usize {
        self.wants.len()
    }
}

/// Questions while they are filled.
#[derive(Default)]
struct Basket {
    errands: Vec<Errand>,
    /// By relay: the question that is not full, and how much is in it.
    open: BTreeMap<RelayUrl, (usize, usize)>,
}

impl Basket {
    /// Whether there was room for it.
    fn put(&mut self, relay: &RelayUrl, lack: &Lack) -> bool {
        let Some(filter) = filter_of(lack) else {
            return false;
        };
        if let Some((at, values)) = self.open.get_mut(relay)
            && *values < VALUES_MAX
            && merge(&mut self.errands[*at].filters, &filter)
        {
            *values += 1;
            return true;
        }
        if self.errands.len() == ERRANDS_MAX {
            return false;
        }
        self.open.insert(relay.clone(), (self.errands.len(), 1));
        self.errands.push(Errand {
            relay: relay.clone(),
            filters: vec![filter],
        });
        true
    }
}

/// Adds a filter to a question, ids to the ids that are in it.
fn merge(filters: &mut Vec<Filter>, filter: &Filter) -> bool {
    if let Some(ids) = &filter.ids
        && let Some(there) = filters.iter_mut().find_map(|it| it.ids.as_mut())
    {
        there.extend(ids);
        return true;
    }
    if filters.len() == FILTERS_MAX {
        return false;
    }
    filters.push(filter.clone());
    true
}

/// The filter that asks for exactly this; `None` for what cannot be asked for.
fn filter_of(lack: &Lack) -> Option<Filter> {
    match lack {
        Lack::Event(id) => Some(Filter {
            ids: Some([id.to_bytes()].into()),
            ..Filter::default()
        }),
        Lack::Address(address) => {
            let mut parts = address.splitn(3, ':');
            let kind = parts.next()?.parse().ok()?;
            let author = PublicKey::from_hex(parts.next()?).ok()?;
            let d = parts.next().filter(|d| !d.is_empty());
            let tags = d.map(|d| ('d', [d.to_owned()].into()));
            Some(Filter {
                kinds: Some([kind].into()),
                authors: Some([*author.as_bytes()].into()),
                tags: tags.into_iter().collect(),
                ..Filter::default()
            })
        }
        Lack::Mention(_) | Lack::Identifier(_) | Lack::Author(_) => None,
    }
}
