//! Watches what runs: progress counts, never the time it takes in all (HUNT-9).

use super::settings::{MINUTE, SILENCE_MAX, SILENCE_WARNED, SLOW_AFTER, SLOW_RATE};
use super::{FetchId, Hunt, Timer};

impl Hunt {
    /// A fetch began.
    pub(super) fn watch(&mut self, id: FetchId) {
        if let Some(fetch) = self.fetches.get_mut(&id) {
            fetch.samples.push_back((self.now, 0));
        }
        self.timers.set(Timer::Sample(id), self.now + MINUTE);
        self.heard(id);
    }

    /// Nobody waits for the peer any more.
    pub(super) fn unwatch(&mut self, id: FetchId) {
        for timer in [Timer::Silent(id), Timer::Dead(id), Timer::Sample(id)] {
            self.timers.cancel(&timer);
        }
    }

    pub(super) fn progressed(&mut self, id: FetchId, bytes: u64) {
        let Some(fetch) = self.fetches.get_mut(&id).filter(|fetch| !fetch.is_stopped) else {
            return;
        };
        if bytes > fetch.bytes {
            fetch.bytes = bytes;
            self.heard(id);
        }
    }

    fn heard(&mut self, id: FetchId) {
        self.timers
            .set(Timer::Silent(id), self.now + SILENCE_WARNED);
        self.timers.set(Timer::Dead(id), self.now + SILENCE_MAX);
    }

    /// A minute has passed. Who brought too little in the last ten makes room for others.
    pub(super) fn sample(&mut self, id: FetchId) {
        let now = self.now;
        let Some(fetch) = self.fetches.get_mut(&id) else {
            return;
        };
        fetch.samples.push_back((now, fetch.bytes));
        let mut brought = None;
        while let Some((at, bytes)) = fetch.samples.front()
            && now.since(*at) >= SLOW_AFTER
        {
            brought = Some(fetch.bytes.saturating_sub(*bytes));
            fetch.samples.pop_front();
        }
        self.timers.set(Timer::Sample(id), now + MINUTE);
        let is_slow = brought.is_some_and(|bytes| bytes < SLOW_RATE * SLOW_AFTER.as_secs());
        if is_slow && self.is_in_the_way(id) {
            self.stop_slow(id);
        }
    }

    /// Whether somebody waits for what this fetch holds: a slot at its host, of its group, or of all.
    fn is_in_the_way(&self, id: FetchId) -> bool {
        let Some(fetch) = self.fetches.get(&id) else {
            return false;
        };
        let is_full = self.fetches.len() >= self.settings.fetches_max.get();
        let of_group = self
            .fetches
            .values()
            .filter(|other| other.identifier == fetch.identifier && other.group == fetch.group);
        let of_group = of_group.count();
        let keeps_others_away =
            of_group >= self.settings.per_group.get() && of_group < fetch.choices;
        self.hosts.is_wanted(&fetch.host)
            || (is_full && self.hosts.is_anybody_ready())
            || keeps_others_away
    }
}
