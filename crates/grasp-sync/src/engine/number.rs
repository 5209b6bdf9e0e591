//! Small numbers for large names: a relay's URL, a coordinate and an event id are kept once and called by four
//! bytes everywhere else. At 100,000 repositories and a million roots the pairs are what costs.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;

/// What stands for a name.
pub(super) trait Number: Copy + Ord {
    fn from_index(index: usize) -> Self;
    fn index(self) -> usize;
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl Number for $name {
            fn from_index(index: usize) -> Self {
                let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
                Self(number.expect("fewer than four billion names fit into memory"))
            }

            fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }
    )*};
}

numbers! {
    /// Stands for a relay's URL while the relay is known.
    RelayId;
    /// Stands for a coordinate while something about the repository is known.
    RepoId;
    /// Stands for the id of a root event while it is known.
    RootId;
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u64);

        impl $name {
            /// The one after it.
            pub(super) fn next(&mut self) -> Self {
                self.0 += 1;
                *self
            }

            /// As a number, never used twice in the life of an engine.
            pub fn get(self) -> u64 {
                self.0
            }
        }
    )*};
}

counters! {
    /// Names one connection to a relay; each attempt has its own, so an answer that comes late is known as such.
    ConnectionId;
    /// Names a subscription on a connection.
    SubscriptionId;
    /// Names a batch, for logs.
    BatchId;
}

impl SubscriptionId {
    /// The one whose number this is, as a peer repeats it. It need not be one that we gave.
    pub(crate) const fn of(number: u64) -> Self {
        Self(number)
    }
}

/// Names and what is known about them, found by name or by number. A number is given again after its name went.
#[derive(Debug)]
pub(super) struct Register<K, N, V> {
    seed: u64,
    by_digest: BTreeSet<(u64, N)>,
    entries: Vec<Option<(K, V)>>,
    free: Vec<N>,
}

impl<K: Eq + Hash, N: Number, V> Register<K, N, V> {
    /// `seed` keeps strangers from choosing names whose digests collide.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            by_digest: BTreeSet::new(),
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    fn digest(&self, name: &K) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.seed.hash(&mut hasher);
        name.hash(&mut hasher);
        hasher.finish()
    }

    pub(super) fn number(&self, name: &K) -> Option<N> {
        let digest = self.digest(name);
        let lowest = (digest, N::from_index(0));
        self.by_digest
            .range(lowest..)
            .take_while(|(other, _)| *other == digest)
            .map(|(_, number)| *number)
            .find(|number| self.name(*number) == Some(name))
    }

    pub(super) fn name(&self, number: N) -> Option<&K> {
        self.entry(number).map(|(name, _)| name)
    }

    pub(super) fn get(&self, number: N) -> Option<&V> {
        self.entry(number).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, number: N) -> Option<&mut V> {
        let entry = self.entries.get_mut(number.index())?.as_mut();
        entry.map(|(_, value)| value)
    }

    fn entry(&self, number: N) -> Option<&(K, V)> {
        self.entries.get(number.index())?.as_ref()
    }

    /// The number of `name`, which gets one and `value` if it has none.
    pub(super) fn number_or_insert(&mut self, name: K, value: impl FnOnce() -> V) -> N {
        if let Some(number) = self.number(&name) {
            return number;
        }
        let digest = self.digest(&name);
        let entry = Some((name, value()));
        let number = if let Some(number) = self.free.pop() {
            self.entries[number.index()] = entry;
            number
        } else {
            self.entries.push(entry);
            N::from_index(self.entries.len() - 1)
        };
        self.by_digest.insert((digest, number));
        number
    }

    pub(super) fn remove(&mut self, number: N) -> Option<(K, V)> {
        let removed = self.entries.get_mut(number.index())?.take()?;
        let digest = self.digest(&removed.0);
        self.by_digest.remove(&(digest, number));
        self.free.push(number);
        Some(removed)
    }

    pub(super) fn len(&self) -> usize {
        self.by_digest.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (N, &K, &V)> {
        let numbered = self.entries.iter().enumerate();
        numbered.filter_map(|(index, entry)| {
            let (name, value) = entry.as_ref()?;
            Some((N::from_index(index), name, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_while_it_is_known() {
        let mut register: Register<&str, RepoId, u8> = Register::new(7);
        let a = register.number_or_insert("a", || 1);
        let b = register.number_or_insert("b", || 2);
        assert_eq!(register.number_or_insert("a", || 9), a);
        assert_eq!((register.get(a), register.name(b)), (Some(&1), Some(&"b")));
        assert_eq!(register.remove(a), Some(("a", 1)));
        assert_eq!((register.number(&"a"), register.get(a)), (None, None));
        let c = register.number_or_insert("c", || 3);
        assert_eq!(c, a, "given again");
        let all: Vec<_> = register.iter().map(|(_, name, _)| *name).collect();
        assert_eq!((all, register.len()), (vec!["c", "b"], 2));
    }
}
