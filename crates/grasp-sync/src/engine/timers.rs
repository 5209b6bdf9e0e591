//! What is to happen when: each key at most once.

use std::collections::{BTreeMap, BTreeSet};

use super::time::Time;

/// One alarm for each key. Asking for the next one costs nothing, so the driver may ask after every input.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    set: BTreeMap<K, Time>,
    due: BTreeSet<(Time, K)>,
}

impl<K: Clone + Ord> Timers<K> {
    pub(crate) fn new() -> Self {
        Self {
            set: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// Rings for `key` at `at` and at no other time.
    pub(crate) fn set(&mut self, key: K, at: Time) {
        self.cancel(&key);
        self.set.insert(key.clone(), at);
        self.due.insert((at, key));
    }

    /// Rings for `key` at `at` unless it rings before.
    pub(crate) fn set_at_latest(&mut self, key: K, at: Time) {
        if self.set.get(&key).is_none_or(|before| *before > at) {
            self.set(key, at);
        }
    }

    pub(crate) fn cancel(&mut self, key: &K) {
        if let Some((key, at)) = self.set.remove_entry(key) {
            self.due.remove(&(at, key));
        }
    }

    pub(crate) fn at(&self, key: &K) -> Option<Time> {
        self.set.get(key).copied()
    }

    /// The earliest alarm.
    pub(crate) fn next(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes out the earliest alarm if its time has come.
    pub(crate) fn pop(&mut self, now: Time) -> Option<K> {
        self.due.first().filter(|(at, _)| *at <= now)?;
        let (_, key) = self.due.pop_first()?;
        self.set.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_rings_once_and_in_order() {
        let at = Time::from_secs;
        let mut timers = Timers::new();
        timers.set('a', at(9));
        timers.set('b', at(5));
        timers.set('a', at(3));
        timers.set_at_latest('b', at(8));
        timers.set('c', at(4));
        timers.cancel(&'c');
        assert_eq!(timers.next(), Some(at(3)));
        assert_eq!(timers.pop(at(2)), None);
        assert_eq!(timers.pop(at(9)), Some('a'));
        assert_eq!(timers.pop(at(9)), Some('b'));
        assert_eq!((timers.pop(at(9)), timers.next()), (None, None));
    }
}
