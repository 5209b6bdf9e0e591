//! What is held against addresses, for a while (HUNT-11).

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::clone_url::CloneUrl;
use grasp_core::oid::Oid;

use super::io::Fingerprint;
use super::settings::{GRUDGE_FOR, GRUDGES_MAX};
use crate::engine::Time;

#[derive(Debug)]
struct Grudge {
    until: Time,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    /// It lacked these while it advertised this.
    Lacks {
        advertisement: Fingerprint,
        missing: BTreeSet<Oid>,
    },
    /// What it sent was no good.
    Harmful,
    /// It was silent or slow, and held a slot all the time.
    Slow,
}

/// At most [`GRUDGES_MAX`] addresses; at the brim the oldest is forgotten, which costs one more question.
#[derive(Debug, Default)]
pub(super) struct Grudges {
    of: BTreeMap<CloneUrl, Grudge>,
    ends: BTreeSet<(Time, CloneUrl)>,
}

impl Grudges {
    /// It answered, and lacks these. A miss that only repeats one is not remembered for longer: in the end it is asked again.
    pub(super) fn lacks(
        &mut self,
        source: &CloneUrl,
        advertisement: Fingerprint,
        missing: &BTreeSet<Oid>,
        now: Time,
    ) {
        let repeats = self.unless(source, missing.iter(), now) == Some(advertisement);
        if !repeats {
            let missing = missing.clone();
            self.hold(
                source,
                Cause::Lacks {
                    advertisement,
                    missing,
                },
                now,
            );
        }
    }

    /// What it sent may not be taken in: it is not asked at all.
    pub(super) fn harmed(&mut self, source: &CloneUrl, now: Time) {
        self.hold(source, Cause::Harmful, now);
    }

    /// It was stopped for being slow: others are asked first.
    pub(super) fn dragged(&mut self, source: &CloneUrl, now: Time) {
        self.hold(source, Cause::Slow, now);
    }

    /// The advertisement with which all of `wants` were missing there.
    pub(super) fn unless<'o>(
        &self,
        source: &CloneUrl,
        mut wants: impl Iterator<Item = &'o Oid>,
        now: Time,
    ) -> Option<Fingerprint> {
        match self.cause(source, now)? {
            Cause::Lacks {
                advertisement,
                missing,
            } => wants
                .all(|oid| missing.contains(oid))
                .then_some(*advertisement),
            Cause::Harmful | Cause::Slow => None,
        }
    }

    /// Whether it is not asked at all.
    pub(super) fn is_shunned(&self, source: &CloneUrl, now: Time) -> bool {
        matches!(self.cause(source, now), Some(Cause::Harmful))
    }

    /// Whether it is asked after all others.
    pub(super) fn is_slow(&self, source: &CloneUrl, now: Time) -> bool {
        matches!(self.cause(source, now), Some(Cause::Slow))
    }

    fn cause(&self, source: &CloneUrl, now: Time) -> Option<&Cause> {
        let grudge = self.of.get(source).filter(|grudge| grudge.until > now);
        grudge.map(|grudge| &grudge.cause)
    }

    fn hold(&mut self, source: &CloneUrl, cause: Cause, now: Time) {
        let until = now + GRUDGE_FOR;
        let grudge = Grudge { until, cause };
        if let Some(before) = self.of.insert(source.clone(), grudge) {
            self.ends.remove(&(before.until, source.clone()));
        }
        self.ends.insert((until, source.clone()));
        if self.of.len() > GRUDGES_MAX
            && let Some((_, oldest)) = self.ends.pop_first()
        {
            self.of.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW: Time = Time::from_secs(1_000_000);

    fn url(n: usize) -> CloneUrl {
        let text = format!("https://git{n}.example/x.git");
        text.parse().expect("a clone URL")
    }

    fn oids(numbers: &[u8]) -> BTreeSet<Oid> {
        numbers.iter().map(|n| Oid::from_bytes([*n; 20])).collect()
    }

    /// HUNT-11
    #[test]
    fn a_miss_is_remembered_for_half_an_hour_and_not_longer_because_it_repeats() {
        let (advertised, source) = (Fingerprint([1; 32]), url(1));
        let mut grudges = Grudges::default();
        grudges.lacks(&source, advertised, &oids(&[1, 2]), NOW);
        let unless =
            |grudges: &Grudges, wants: &[u8], now| grudges.unless(&source, oids(wants).iter(), now);
        assert_eq!(unless(&grudges, &[1], NOW), Some(advertised));
        assert_eq!(
            unless(&grudges, &[1, 3], NOW),
            None,
            "something else is wanted too"
        );
        let almost = NOW + Duration::from_secs(1_799);
        grudges.lacks(&source, advertised, &oids(&[1]), almost);
        assert_eq!(unless(&grudges, &[1, 2], almost), Some(advertised));
        assert_eq!(unless(&grudges, &[1], NOW + Duration::from_mins(30)), None);
        let moved = Fingerprint([2; 32]);
        grudges.lacks(&source, moved, &oids(&[1]), almost);
        assert_eq!(
            unless(&grudges, &[1], NOW + Duration::from_mins(30)),
            Some(moved)
        );
        assert!(!grudges.is_shunned(&source, almost));
    }

    /// HUNT-11
    #[test]
    fn who_sent_what_harms_is_not_asked_for_a_while() {
        let mut grudges = Grudges::default();
        grudges.harmed(&url(1), NOW);
        assert!(grudges.is_shunned(&url(1), NOW));
        assert_eq!(grudges.unless(&url(1), oids(&[1]).iter(), NOW), None);
        assert!(!grudges.is_shunned(&url(2), NOW));
        assert!(!grudges.is_shunned(&url(1), NOW + GRUDGE_FOR));
    }

    /// HUNT-9
    #[test]
    fn who_was_slow_is_asked_last_for_a_while() {
        let mut grudges = Grudges::default();
        grudges.dragged(&url(1), NOW);
        assert!(grudges.is_slow(&url(1), NOW) && !grudges.is_shunned(&url(1), NOW));
        assert!(!grudges.is_slow(&url(2), NOW) && !grudges.is_slow(&url(1), NOW + GRUDGE_FOR));
        assert_eq!(grudges.unless(&url(1), oids(&[1]).iter(), NOW), None);
    }

    /// HUNT-11
    #[test]
    fn at_the_brim_the_oldest_is_forgotten() {
        let mut grudges = Grudges::default();
        let at = |n: u64| NOW + Duration::from_secs(n);
        for (n, second) in (0..GRUDGES_MAX).zip(0..) {
            grudges.harmed(&url(n), at(second));
        }
        grudges.harmed(&url(0), at(1_100));
        grudges.harmed(&url(GRUDGES_MAX), at(1_101));
        let now = at(1_102);
        assert!(grudges.is_shunned(&url(0), now) && grudges.is_shunned(&url(2), now));
        assert!(!grudges.is_shunned(&url(1), now));
        assert_eq!(
            (grudges.of.len(), grudges.ends.len()),
            (GRUDGES_MAX, GRUDGES_MAX)
        );
    }
}
