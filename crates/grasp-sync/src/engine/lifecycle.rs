//! How connections come and go (SYNC-5 … SYNC-8).
//!
//! A relay is made known by `register_relay`, dialled by `try_connect_relay` from `retry_disconnected_relays`, set up by
//! `handle_connect_or_reconnect`, and taken down by `handle_disconnect`, after which it waits to be dialled again. Only
//! the disconnect checker makes it unknown.

use super::health::DialFailure;
use super::io::{Counted, Output, PeerInfo};
use super::number::{ConnectionId, RelayId};
use super::relay_index::ConnectionStatus;
use super::session::Session;
use super::settings::{BREAKS_OFF_FOR, CONNECT_GAP, CONNECTS_MAX, RETRY_TICK};
use super::{Engine, Timer};
use crate::defect::Defect;

impl Engine {
    /// The relay is dialled as soon as its health allows, if there is anything to do there.
    pub(super) fn await_connection(&mut self, relay: RelayId) {
        let Some(state) = self.relays.get(relay) else {
            return;
        };
        let is_idle = state.connection_status == ConnectionStatus::Disconnected;
        if is_idle && state.has_work() && !state.is_ourselves {
            let at = self.health.next_attempt(relay).max(self.now);
            self.dialling.set(relay, at);
            self.schedule_retry();
        }
    }

    /// The next tick: what becomes due between two ticks waits for the later one, and no two dials start together.
    fn schedule_retry(&mut self) {
        match self.dialling.next() {
            Some(at) if self.dials.len() < CONNECTS_MAX => {
                let spaced = self.last_dial.map(|last| last + CONNECT_GAP);
                let at = at.up_to(RETRY_TICK).max(spaced.unwrap_or_default());
                self.timers.set(Timer::Retry, at.max(self.now));
            }
            _ => self.timers.cancel(&Timer::Retry),
        }
    }

    /// Dials relays that are due, as many as may be dialled at once (SYNC-22).
    pub(super) fn retry_disconnected_relays(&mut self) {
        let is_early = self
            .last_dial
            .is_some_and(|last| self.now < last + CONNECT_GAP);
        if self.dials.len() < CONNECTS_MAX
            && !is_early
            && let Some(relay) = self.dialling.pop(self.now)
        {
            if self.health.should_attempt_connection(relay, self.now) {
                self.try_connect_relay(relay);
            } else {
                self.await_connection(relay);
            }
        }
        self.schedule_retry();
    }

    /// Dials one relay.
    fn try_connect_relay(&mut self, relay: RelayId) {
        let (Some(url), Some(state)) =
            (self.relays.url(relay).cloned(), self.relays.get_mut(relay))
        else {
            return;
        };
        state.connection_status = ConnectionStatus::Connecting;
        let is_bootstrap = state.is_bootstrap;
        let connection = self.last_connection.next();
        self.connections.insert(connection, relay);
        self.dials.insert(relay, connection);
        self.last_dial = Some(self.now);
        self.timers.set(
            Timer::Dialling(relay),
            self.now + self.settings.connect_timeout,
        );
        self.out.push(Output::Connect {
            connection,
            relay: url,
            is_bootstrap,
        });
    }

    pub(super) fn dial_timed_out(&mut self, relay: RelayId) {
        if let Some(connection) = self.dials.get(&relay).copied() {
            self.out.push(Output::Disconnect { connection });
            self.count(relay, Counted::DialTimedOut);
            self.dial_failed(relay, DialFailure::Unreachable);
        }
    }

    pub(super) fn dial_failed(&mut self, relay: RelayId, failure: DialFailure) {
        self.dial_came_to_nothing(relay);
        if let Some(state) = self.relays.get_mut(relay) {
            state.connection_status = ConnectionStatus::Disconnected;
            state.is_ourselves |= failure == DialFailure::Ourselves;
        }
        self.health.record_failure(relay, failure, self.now);
        self.await_connection(relay);
        self.schedule_retry();
    }

    fn dial_ended(&mut self, relay: RelayId) -> Option<ConnectionId> {
        self.timers.cancel(&Timer::Dialling(relay));
        self.dials.remove(&relay)
    }

    /// No connection has this name any more.
    fn dial_came_to_nothing(&mut self, relay: RelayId) -> Option<ConnectionId> {
        let connection = self.dial_ended(relay)?;
        self.connections.remove(&connection);
        Some(connection)
    }

    /// A connection stands: decides what it begins with. The 15-minute rule is here.
    pub(super) fn handle_connect_or_reconnect(
        &mut self,
        relay: RelayId,
        connection: ConnectionId,
        peer: PeerInfo,
    ) {
        self.dial_ended(relay);
        self.schedule_retry();
        self.health.record_connected(relay, self.now);
        let Some(state) = self.relays.get_mut(relay) else {
            return;
        };
        state.connection_status = ConnectionStatus::Connected;
        let is_day_over = state.daily_at.is_some_and(|at| at <= self.now);
        let is_stale = state.should_clear_state(self.now);
        let since = state.last_connected;
        let mut session = Session::new(connection, peer, self.now);
        session.negentropy &= state
            .learned
            .breaks_off_until
            .is_none_or(|until| until <= self.now);
        self.sessions.insert(relay, session);
        match since {
            _ if is_stale => self.long_reconnect(relay),
            None => self.fresh_start(relay),
            Some(_) if is_day_over => self.daily_sync(relay),
            Some(since) => self.quick_reconnect(relay, since),
        }
        self.save_cursor_again(relay);
        self.recover_later(relay);
        self.stir(relay);
    }

    /// A connection ended, and not by our will. A peer that breaks off when it is asked for a difference would do so after
    /// every reconnect, so it is read page by page for a week.
    pub(super) fn connection_lost(&mut self, relay: RelayId) {
        self.health.record_lost(relay, self.now);
        let session = self.sessions.get(&relay);
        let was_reconciling = session.is_some_and(Session::is_reconciling);
        if was_reconciling && let Some(state) = self.relays.get_mut(relay) {
            state.learned.breaks_off_until = Some(self.now + BREAKS_OFF_FOR);
            self.tell_no_negentropy(relay);
        }
        self.handle_disconnect(relay);
    }

    /// A connection is gone: what was in flight is missing again, the relay is kept.
    pub(super) fn handle_disconnect(&mut self, relay: RelayId) {
        if !Defect::PendingKept.is_on() {
            self.clear_pending(relay);
        }
        if let Some(session) = self.sessions.remove(&relay) {
            self.connections.remove(&session.connection);
        }
        if let Some(state) = self.relays.get_mut(relay) {
            state.connection_status = ConnectionStatus::Disconnected;
            state.disconnected_at = Some(self.now);
        }
        for timer in [
            Timer::Pump(relay),
            Timer::Slow(relay),
            Timer::Cursor(relay),
            Timer::Poll(relay),
            Timer::Recover(relay),
            Timer::Recheck(relay),
            Timer::Reopen(relay),
            Timer::Authenticate(relay),
        ] {
            self.timers.cancel(&timer);
        }
        self.save_cursor(relay);
        self.await_connection(relay);
    }

    /// Ends a connection from our side.
    pub(super) fn drop_connection(&mut self, relay: RelayId) {
        if let Some(session) = self.sessions.get(&relay) {
            let connection = session.connection;
            self.out.push(Output::Disconnect { connection });
            self.handle_disconnect(relay);
        }
    }

    /// SYNC-8: drops relays of which nothing is wanted, and sees to it that no other is forgotten. A bootstrap relay stays.
    pub(super) fn check_disconnects(&mut self) {
        let all = self.relays.iter();
        let (working, idle): (Vec<_>, Vec<_>) = all
            .map(|(relay, _, state)| {
                (
                    relay,
                    state.has_work() || !self.pending.is_drained_of_items(relay),
                )
            })
            .partition(|(_, works)| *works);
        for (relay, _) in idle {
            self.drop_relay(relay);
        }
        for (relay, _) in working {
            if self.dialling.at(&relay).is_none() {
                self.await_connection(relay);
            }
        }
        self.timers.set(
            Timer::DisconnectCheck,
            self.now + self.settings.disconnect_check,
        );
    }

    fn drop_relay(&mut self, relay: RelayId) {
        if let Some(connection) = self.dial_came_to_nothing(relay) {
            self.out.push(Output::Disconnect { connection });
            self.schedule_retry();
        }
        self.drop_connection(relay);
        self.timers.cancel(&Timer::Daily(relay));
        self.dialling.cancel(&relay);
        self.health.forget(relay);
        if let Some((relay, _)) = self.relays.remove(relay) {
            self.out.push(Output::ForgetCursor { relay });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Input, Settings, Time};

    /// Relays that are away for months must not fill the memory with the names of failed dials.
    #[test]
    fn nothing_is_remembered_of_a_dial_that_failed() {
        let settings = Settings {
            bootstrap: "wss://relay.example.com".parse().ok(),
            ..Settings::default()
        };
        let mut engine = Engine::new(settings, 1);
        let loaded = Input::Loaded {
            notices: Vec::new(),
            cursors: Vec::new(),
        };
        let mut outputs = engine.handle(loaded, Time::from_secs(1_000));
        let mut dials = 0;
        while dials < 20 {
            let next = engine.next_deadline().expect("it is dialled again");
            outputs.extend(engine.handle(Input::Wake, next));
            for output in std::mem::take(&mut outputs) {
                let Output::Connect { connection, .. } = output else {
                    continue;
                };
                dials += 1;
                let failed = Input::ConnectFailed {
                    connection,
                    failure: DialFailure::Unreachable,
                };
                outputs.extend(engine.handle(failed, next));
                assert_eq!(engine.connections.len(), 0);
            }
        }
    }
}
