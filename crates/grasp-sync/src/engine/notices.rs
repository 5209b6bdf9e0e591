//! What our own store says: at the start all of it, later what changes.

use std::collections::BTreeSet;

use grasp_core::announcement::ADDRESSES_MAX;

use super::cursor::{Cursor, FILTER_VERSION, SetDigest};
use super::io::{Counted, Notice, Output, distinct};
use super::number::RelayId;
use super::repo_index::{Change, Item, TargetChange};
use super::settings::CURSOR_EVERY;
use super::time::Time;
use super::{Engine, Timer};
use crate::defect::Defect;
use crate::relay_url::RelayUrl;

impl Engine {
    /// The start: what is stored is followed at once, and what was confirmed before the restart is taken up where it
    /// was left if nothing else is wanted by now (SYNC-11).
    pub(super) fn load(&mut self, notices: Vec<Notice>, cursors: Vec<(RelayUrl, Cursor)>) {
        if let Some(url) = self.settings.bootstrap.clone() {
            self.relays.register(url, true);
        }
        for notice in notices {
            self.apply(notice);
        }
        for (url, cursor) in cursors {
            self.take_up(url, &cursor);
        }
        let relays: Vec<_> = self.relays.iter().map(|(relay, ..)| relay).collect();
        for relay in relays {
            let jitter = self.chance.up_to(self.settings.startup_jitter);
            self.health.postpone(relay, self.now + jitter);
            self.await_connection(relay);
        }
        self.timers.set(
            Timer::DisconnectCheck,
            self.now + self.settings.disconnect_check,
        );
    }

    /// Notices were lost: this is all there is. What waits for the next batch is older, and goes.
    pub(super) fn reload(&mut self, notices: Vec<Notice>) {
        self.subscriber.fire();
        let (mut repos, mut roots) = (BTreeSet::new(), BTreeSet::new());
        for notice in &notices {
            match notice {
                Notice::Repository { coordinate, .. } => drop(repos.insert(coordinate)),
                Notice::Root { id, .. } => drop(roots.insert(id)),
                Notice::RepositoryGone { .. } | Notice::RootGone { .. } => {}
            }
        }
        let gone_repos = self.wants.iter().map(|(_, coordinate, _)| coordinate);
        let gone_repos = gone_repos.filter(|it| !repos.contains(it)).cloned();
        let gone_roots = self.wants.roots().filter(|id| !roots.contains(id)).copied();
        let gone: Vec<_> = gone_repos
            .map(|coordinate| Notice::RepositoryGone { coordinate })
            .chain(gone_roots.map(|id| Notice::RootGone { id }))
            .collect();
        let mut touched = BTreeSet::new();
        for notice in gone.into_iter().chain(notices) {
            touched.extend(self.apply(notice));
        }
        for relay in touched {
            self.handle_new_sync_filters(relay);
        }
    }

    fn take_up(&mut self, url: RelayUrl, cursor: &Cursor) {
        let relay = self.relays.number(&url);
        let Some(state) = relay.and_then(|relay| self.relays.get_mut(relay)) else {
            self.out.push(Output::ForgetCursor { relay: url });
            return;
        };
        let wanted = std::mem::take(&mut state.missing);
        let repos = wanted.repos.iter().map(|repo| Item::Repo(*repo));
        let roots = wanted.root_events.iter().map(|root| Item::Root(*root));
        let is_all_confirmed = cursor.filter_version == FILTER_VERSION
            && cursor.confirmed == SetDigest::over(&self.wants, repos.chain(roots));
        if is_all_confirmed {
            state.confirm_again(wanted, cursor.confirmed);
            state.last_connected = Some(cursor.last_connected);
            state.announcements_synced = cursor.announcements_synced;
            state.daily_at = cursor.daily_at;
        } else {
            state.missing = wanted;
        }
        state.disconnected_at = Some(cursor.disconnected_at);
    }

    /// Scenario 6: the self-subscriber's batch updates what we want, and what is new is asked for.
    pub(super) fn fire_batch(&mut self) {
        let mut touched = BTreeSet::new();
        for notice in self.subscriber.fire() {
            touched.extend(self.apply(notice));
        }
        for relay in touched {
            self.handle_new_sync_filters(relay);
        }
    }

    /// Takes one notice into the indexes. Returns the relays that it touches.
    fn apply(&mut self, notice: Notice) -> BTreeSet<RelayId> {
        // A number may get another meaning here.
        self.written.forget();
        let changes = match notice {
            Notice::Repository {
                coordinate,
                relays,
                level,
            } => {
                let listed = distinct(relays).into_iter().take(ADDRESSES_MAX);
                let relays = listed.filter_map(|url| self.register_relay(url)).collect();
                self.wants.announce(coordinate, relays, level)
            }
            Notice::RepositoryGone { coordinate } => self.wants.withdraw(&coordinate),
            Notice::Root { id, repositories } => self.wants.add_root(id, repositories),
            Notice::RootGone { id } => self.wants.remove_root(&id),
        };
        for change in &changes {
            self.retarget(*change);
        }
        changes.into_iter().map(|change| change.relay).collect()
    }

    /// Keeps the books of one relay: what is wanted is missing, in flight or confirmed.
    fn retarget(
        &mut self,
        TargetChange {
            relay,
            item,
            change,
        }: TargetChange,
    ) {
        let Some(state) = self.relays.get_mut(relay) else {
            return;
        };
        match change {
            Change::Added => {
                if !state.has_confirmed(item) && !self.pending.has(relay, item) {
                    state.missing.insert(item);
                }
            }
            Change::Raised => {
                if Defect::RaisedConfirmed.is_on() {
                    return;
                }
                state.unconfirm(item);
                self.pending.drop_item(relay, item);
                state.missing.insert(item);
            }
            Change::Lowered => state.forget_sum(),
            Change::Removed => {
                state.unconfirm(item);
                state.missing.remove(item);
                self.pending.drop_item(relay, item);
            }
        }
    }

    /// Makes a relay known. Nobody is dialled here. `None` for ourselves (SYNC-9), and while there is no room.
    pub(super) fn register_relay(&mut self, url: RelayUrl) -> Option<RelayId> {
        let service = self.settings.service.as_ref();
        if service.is_some_and(|service| service.is_relay_url(url.as_str())) {
            return None;
        }
        if self.relays.len() >= self.settings.relays_max && self.relays.number(&url).is_none() {
            let what = Counted::RelaysFull;
            self.out.push(Output::Count { relay: url, what });
            return None;
        }
        Some(self.relays.register(url, false))
    }

    /// What is remembered of a relay over a restart. `None` before its first connection.
    fn cursor(&mut self, relay: RelayId) -> Option<(RelayUrl, Cursor)> {
        let url = self.relays.url(relay)?.clone();
        let state = self.relays.get_mut(relay)?;
        let is_connected = self.sessions.contains_key(&relay);
        let stood_until = state.disconnected_at.filter(|_| !is_connected);
        let cursor = Cursor {
            filter_version: FILTER_VERSION,
            confirmed: state.confirmed_sum(&self.wants),
            last_connected: state.last_connected?,
            disconnected_at: stood_until.unwrap_or(self.now),
            announcements_synced: state.announcements_synced,
            daily_at: state.daily_at,
        };
        Some((url, cursor))
    }

    pub(super) fn save_cursor(&mut self, relay: RelayId) {
        if let Some((relay, cursor)) = self.cursor(relay) {
            self.out.push(Output::SaveCursor { relay, cursor });
        }
    }

    /// While a connection stands its cursor grows old.
    pub(super) fn save_cursor_again(&mut self, relay: RelayId) {
        if self.sessions.contains_key(&relay) {
            self.save_cursor(relay);
            self.timers
                .set(Timer::Cursor(relay), self.now + CURSOR_EVERY);
        }
    }

    pub(super) fn save_all_cursors(&mut self) {
        let relays: Vec<_> = self.sessions.keys().copied().collect();
        for relay in relays {
            self.save_cursor(relay);
        }
    }

    /// The engine's own time: that of the last input.
    pub fn now(&self) -> Time {
        self.now
    }
}
