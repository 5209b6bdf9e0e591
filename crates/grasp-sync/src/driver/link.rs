//! One connection, from the dial to its end.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::client::{COMMANDS_MAX, Command, Context, converse};
use crate::dial::{DialError, Dialler, Outcome};
use crate::engine::{ConnectionId, DialFailure, Input};
use crate::home::{Home, Tally};
use crate::relay_url::RelayUrl;

/// Holds a connection: it ends when this goes.
#[derive(Debug)]
pub(super) struct Link(mpsc::Sender<Command>);

impl Link {
    pub(super) fn new() -> (Self, mpsc::Receiver<Command>) {
        let (commands, to_obey) = mpsc::channel(COMMANDS_MAX);
        (Self(commands), to_obey)
    }

    /// Whether it found room, or nobody is there to obey: then the end is on its way.
    pub(super) fn command(&self, command: Command) -> bool {
        !matches!(
            self.0.try_send(command),
            Err(mpsc::error::TrySendError::Full(_))
        )
    }
}

/// What it takes to dial and to talk.
pub(super) struct Dial<H> {
    pub(super) context: Arc<Context<H>>,
    pub(super) dialler: Arc<Dialler>,
    pub(super) connection: ConnectionId,
    pub(super) relay: RelayUrl,
    pub(super) is_exempt: bool,
}

impl<H: Home> Dial<H> {
    /// Dials, talks, and ends with the connection, or with the [`Link`].
    pub(super) async fn run(self, mut commands: mpsc::Receiver<Command>) {
        let connection = self.connection;
        let dialled = tokio::select! {
            dialled = self.dialler.dial(&self.relay, self.is_exempt) => dialled,
            // Nothing is commanded before the connection stands: the engine gave it up, and says why if it matters.
            _ = commands.recv() => return,
        };
        match dialled {
            Ok((socket, peer)) => {
                self.count(Outcome::Connected);
                let connected = Input::Connected { connection, peer };
                self.context.tell(connected).await;
                converse(self.context, connection, self.relay, socket, commands).await;
            }
            Err(error) => {
                let failure = self.failed(&error);
                let failed = Input::ConnectFailed {
                    connection,
                    failure,
                };
                self.context.tell(failed).await;
            }
        }
    }

    fn failed(&self, error: &DialError) -> DialFailure {
        let cause = error as &dyn std::error::Error;
        tracing::debug!(relay = %self.relay, error = cause, "a relay could not be dialled");
        self.count(error.outcome());
        error.failure()
    }

    fn count(&self, outcome: Outcome) {
        let what = Tally::Dialled(outcome);
        self.context.home.count(&self.relay, what);
    }
}
