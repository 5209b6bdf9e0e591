//! A number of places for more relays than that, in the order they asked.

use std::collections::{BTreeMap, BTreeSet};

use super::number::RelayId;

/// Whose turn it is. Nobody is passed over, so one slow relay holds one place and no more (SYNC-24).
#[derive(Debug)]
pub(super) struct Slots {
    places: usize,
    held: BTreeSet<RelayId>,
    line: BTreeMap<u64, RelayId>,
    tickets: BTreeMap<RelayId, u64>,
    last_ticket: u64,
}

impl Slots {
    pub(super) fn new(places: usize) -> Self {
        Self {
            places,
            held: BTreeSet::new(),
            line: BTreeMap::new(),
            tickets: BTreeMap::new(),
            last_ticket: 0,
        }
    }

    /// Takes a place, or stands in line for one.
    pub(super) fn take(&mut self, relay: RelayId) -> bool {
        if self.held.contains(&relay) {
            return true;
        }
        let is_first = self
            .line
            .first_key_value()
            .is_none_or(|(_, first)| *first == relay);
        if self.held.len() < self.places && is_first {
            self.leave_line(relay);
            self.held.insert(relay);
            return true;
        }
        if !self.tickets.contains_key(&relay) {
            self.last_ticket += 1;
            self.tickets.insert(relay, self.last_ticket);
            self.line.insert(self.last_ticket, relay);
        }
        false
    }

    /// Gives the place back and leaves the line. Returns who should try now.
    pub(super) fn leave(&mut self, relay: RelayId) -> Option<RelayId> {
        self.leave_line(relay);
        self.held.remove(&relay);
        let has_place = self.held.len() < self.places;
        self.line
            .first_key_value()
            .map(|(_, first)| *first)
            .filter(|_| has_place)
    }

    fn leave_line(&mut self, relay: RelayId) {
        if let Some(ticket) = self.tickets.remove(&relay) {
            self.line.remove(&ticket);
        }
    }

    /// Whether somebody waits for a place.
    pub(super) fn is_wanted(&self) -> bool {
        !self.line.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::number::Number;

    /// SYNC-22
    #[test]
    fn places_are_given_in_the_order_of_asking() {
        let [a, b, c] = [0, 1, 2].map(RelayId::from_index);
        let mut slots = Slots::new(1);
        assert!(slots.take(a) && slots.take(a));
        assert!(!slots.take(b) && !slots.take(c));
        assert_eq!(slots.leave(a), Some(b));
        assert!(!slots.take(c), "not before b");
        assert!(slots.take(b) && slots.is_wanted());
        assert_eq!(slots.leave(c), None, "the place is held");
        assert_eq!(slots.leave(b), None);
    }
}
