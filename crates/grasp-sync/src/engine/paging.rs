//! Reading a history to its end, page by page.
//!
//! A relay gives at most so many events for a filter and does not say whether there are more. Its own word on that
//! (NIP-11) is often wrong, so what it has *shown* counts: a page that is clearly shorter than the longest one it
//! ever gave is the last; after any other we ask again from the oldest event on (SYNC-27; case 59).

use crate::defect::Defect;

/// After so many pages a history is not believed to be honest.
pub(super) const PAGES_MAX: u32 = 5_000;

/// What came for one question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// All deliveries: repeats, events that we have, and junk.
    pub(super) raw: usize,
    /// Genuine events, each once: repeats say nothing about how much the peer gives.
    pub(super) distinct: usize,
    /// Oldest and newest `created_at` of what was genuine.
    pub(super) span: Option<(u64, u64)>,
}

impl Page {
    pub(super) fn count(&mut self, genuine_at: Option<u64>, is_new: bool) {
        self.raw += 1;
        self.distinct += usize::from(is_new);
        if let Some(at) = genuine_at {
            let (oldest, newest) = self.span.unwrap_or((at, at));
            self.span = Some((oldest.min(at), newest.max(at)));
        }
    }
}

/// Where in a history we are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pager {
    until: Option<u64>,
    /// This page asks for one second alone, because a whole page was of that second.
    one_second: bool,
    pages: u32,
    /// How long the page before was.
    previous: usize,
}

/// What follows from a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// That was the last.
    Done,
    /// Ask for the next.
    More,
    /// This has no end.
    GiveUp,
}

impl Pager {
    pub(super) fn since(&self, since: Option<u64>) -> Option<u64> {
        if self.one_second { self.until } else { since }
    }

    pub(super) fn until(&self) -> Option<u64> {
        self.until
    }

    /// How long the page before was, if this one shows that it was not the last.
    pub(super) fn was_not_the_last(&self, page: Page) -> Option<usize> {
        let (oldest, _) = page.span?;
        (oldest < self.until?).then_some(self.previous)
    }

    /// Moves on after a page of one filter; `largest` is the longest page the peer ever gave, this one included and each
    /// of its events counted once.
    pub(super) fn turn(&mut self, page: Page, largest: usize, since: Option<u64>) -> Turn {
        self.pages += 1;
        self.previous = page.distinct;
        if self.pages >= PAGES_MAX {
            return Turn::GiveUp;
        }
        if self.one_second {
            self.one_second = false;
            return self.step_below(since);
        }
        let is_last = page.raw == 0 || is_clearly_shorter(page.raw, largest);
        if is_last || Defect::LostPage.is_on() {
            return Turn::Done;
        }
        match page.span {
            // A page of nothing but junk says nothing about where it ends.
            None => Turn::GiveUp,
            // Whoever sends what is newer than we asked for does not read our filters.
            Some((_, newest)) if self.until.is_some_and(|until| newest > until) => Turn::GiveUp,
            Some((oldest, newest)) => {
                self.until = Some(oldest);
                self.one_second = oldest == newest;
                Turn::More
            }
        }
    }

    /// SYNC-28: the second is as complete as it gets, so go on one below.
    fn step_below(&mut self, since: Option<u64>) -> Turn {
        let below = self.until.and_then(|second| second.checked_sub(1));
        match below {
            Some(below) if since.is_none_or(|since| below >= since) => {
                self.until = Some(below);
                Turn::More
            }
            _ => Turn::Done,
        }
    }
}

fn is_clearly_shorter(raw: usize, largest: usize) -> bool {
    raw.saturating_mul(10) < largest.saturating_mul(9)
}

/// Whether a page of several filters shows all that each of them has. Otherwise they are read one by one: the peer's
/// limit holds for each, so the oldest event of the page is an end of none.
pub(super) fn is_whole(page: Page, largest: usize, hint: Option<usize>) -> bool {
    let possible = hint.map_or(largest, |hint| hint.max(largest));
    page.raw == 0 || is_clearly_shorter(page.raw, possible)
}

/// Whether the peer's `default_limit` is too high: a page of this length was not the last.
pub(super) fn disproves(raw: usize, hint: usize) -> bool {
    is_clearly_shorter(raw, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that has events at these times and gives the newest `cap` of what is asked for.
    fn read(times: &[u64], cap: usize) -> (Vec<u64>, u32) {
        let (mut pager, mut largest, mut seen) = (Pager::default(), 0, Vec::new());
        loop {
            let (since, until) = (pager.since(None), pager.until());
            let mut found: Vec<_> = times
                .iter()
                .copied()
                .filter(|at| since.is_none_or(|since| *at >= since))
                .filter(|at| until.is_none_or(|until| *at <= until))
                .collect();
            found.sort_unstable_by(|a, b| b.cmp(a));
            found.truncate(cap);
            let mut page = Page::default();
            for at in &found {
                page.count(Some(*at), true);
            }
            seen.extend(found);
            largest = largest.max(page.distinct);
            match pager.turn(page, largest, None) {
                Turn::More => {}
                Turn::Done => break,
                Turn::GiveUp => panic!("an honest history ends"),
            }
        }
        seen.sort_unstable();
        seen.dedup();
        (seen, pager.pages)
    }

    /// SYNC-27: case 59.
    #[test]
    fn a_peer_that_gives_twenty_at_a_time_is_read_to_the_end() {
        let times: Vec<u64> = (1..=100).collect();
        for cap in [1, 2, 20, 90, 99, 100, 500] {
            let (seen, pages) = read(&times, cap);
            // One at a time, every page is of one second: that second once more, then the one below.
            let most = if cap == 1 {
                203
            } else {
                100 / (cap - 1).max(1) + 3
            };
            assert_eq!(seen, times, "{cap} at a time");
            assert!(pages as usize <= most, "{pages} pages of {cap}");
        }
    }

    /// SYNC-28
    #[test]
    fn a_second_with_more_events_than_a_page_does_not_stop_the_reading() {
        let mut times = vec![50; 30];
        times.extend([10, 20, 60, 70]);
        let (seen, pages) = read(&times, 10);
        assert_eq!(seen, [10, 20, 50, 60, 70]);
        assert!(pages < 8);
    }

    /// SYNC-27: repeats count as deliveries, or a peer that repeats would seem to have no more.
    #[test]
    fn deliveries_are_counted_raw() {
        let mut page = Page::default();
        for (at, is_new) in [
            (Some(9), true),
            (Some(9), false),
            (None, false),
            (Some(4), true),
        ] {
            page.count(at, is_new);
        }
        assert_eq!((page.raw, page.span), (4, Some((4, 9))));
        let mut pager = Pager::default();
        assert_eq!(pager.turn(page, 4, None), Turn::More);
        assert_eq!(pager.until(), Some(4));
    }

    #[test]
    fn a_peer_that_does_not_read_filters_or_sends_junk_is_given_up() {
        let page = |span| Page {
            raw: 50,
            distinct: 50,
            span,
        };
        let mut pager = Pager::default();
        assert_eq!(pager.turn(page(Some((4, 9))), 50, None), Turn::More);
        assert_eq!(pager.turn(page(Some((4, 9))), 50, None), Turn::GiveUp);
        assert_eq!(Pager::default().turn(page(None), 50, None), Turn::GiveUp);
        let mut endless = Pager::default();
        let mut at = 1_000_000;
        let turns = std::iter::from_fn(|| {
            at -= 10;
            Some(endless.turn(page(Some((at, at + 9))), 50, None))
        });
        let more = turns.take_while(|turn| *turn == Turn::More).count();
        assert_eq!(more + 1, PAGES_MAX as usize);
    }

    /// SYNC-27: what the peer says of itself counts until a page proves it wrong.
    #[test]
    fn several_filters_are_read_one_by_one_unless_they_clearly_fit() {
        let page = |raw| Page {
            raw,
            distinct: raw,
            span: None,
        };
        assert!(is_whole(page(0), 0, None));
        assert!(
            !is_whole(page(3), 0, None),
            "nothing is known about this peer"
        );
        assert!(is_whole(page(3), 20, None));
        assert!(!is_whole(page(19), 20, None));
        assert!(is_whole(page(89), 20, Some(100)), "by its own word");
        assert!(!is_whole(page(95), 20, Some(100)));
        assert!(!is_whole(page(20), 20, Some(20)));
        assert!(disproves(20, 500) && !disproves(480, 500));
    }

    #[test]
    fn nothing_is_asked_for_before_since() {
        let mut pager = Pager::default();
        let page = Page {
            raw: 5,
            distinct: 5,
            span: Some((100, 100)),
        };
        assert_eq!(pager.turn(page, 5, Some(100)), Turn::More);
        assert_eq!(
            (pager.since(Some(100)), pager.until()),
            (Some(100), Some(100))
        );
        assert_eq!(pager.turn(page, 5, Some(100)), Turn::Done);
    }
}
