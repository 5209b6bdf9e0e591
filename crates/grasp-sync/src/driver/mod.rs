//! Does what the engine wants, and tells it what came of it.
//!
//! One task owns the [`Engine`]; every connection has a task of its own ([`client`](crate::client)), made and ended here.
//! The driver never waits for a peer: what it wants said goes into a bounded queue of that connection, and a
//! connection whose queue is full ends. Connections wait for the driver, in turn, each with one thing at a time, so
//! a relay that floods us has no more of its attention than any other (SYNC-24). An output for a connection that is gone
//! is nothing. *Invariant:* the engine hears of an event after it is in the store, so a cursor never claims more than
//! what is there (SYNC-11).

mod clock;
mod cursors;
mod handle;
mod link;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::timeout;

use crate::client::{Command, Context, Cores, Patience};
use crate::dial::Dialler;
use crate::engine::{ConnectionId, Cursor, Engine, Input, Notice, Output, Settings};
use crate::home::{Home, Tally};
use crate::relay_url::RelayUrl;

use clock::Clock;
use cursors::Cursors;
pub use handle::Handle;
use handle::Request;
use link::{Dial, Link};

/// What connections have to tell and the engine has not heard.
const INPUTS_MAX: usize = 1_024;
/// How long connections have to end when the server does.
const FAREWELL_MAX: Duration = Duration::from_secs(3);

/// Follows other servers. See the [module](self).
pub struct Driver<H> {
    engine: Engine,
    clock: Clock,
    dialler: Arc<Dialler>,
    context: Arc<Context<H>>,
    requests: mpsc::Receiver<Request>,
    inputs: mpsc::Receiver<Input>,
    /// The connections that the engine has, dialled or standing.
    links: BTreeMap<ConnectionId, Link>,
    /// One for each connection, and for those that are just ending.
    tasks: JoinSet<()>,
    /// Whose connection a task serves.
    served: BTreeMap<Id, ConnectionId>,
    cursors: Cursors<H>,
}

impl<H: Home> Driver<H> {
    /// A driver that has not begun. All chance of its engine comes from `seed`.
    pub fn new(
        settings: Settings,
        seed: u64,
        dialler: Arc<Dialler>,
        home: Arc<H>,
    ) -> (Self, Handle) {
        let (handle, requests) = Handle::new();
        let (to_engine, inputs) = mpsc::channel(INPUTS_MAX);
        let context = Context {
            home: Arc::clone(&home),
            cores: Cores::new(),
            patience: Patience::default(),
            inputs: to_engine,
        };
        let driver = Self {
            engine: Engine::new(settings, seed),
            clock: Clock::start(),
            dialler,
            context: Arc::new(context),
            requests,
            inputs,
            links: BTreeMap::new(),
            tasks: JoinSet::new(),
            served: BTreeMap::new(),
            cursors: Cursors::new(home),
        };
        (driver, handle)
    }

    /// With another patience for silent peers.
    #[must_use]
    pub fn with_patience(mut self, patience: Patience) -> Self {
        let shared = &self.context;
        self.context = Arc::new(Context {
            home: Arc::clone(&shared.home),
            cores: shared.cores.clone(),
            patience,
            inputs: shared.inputs.clone(),
        });
        self
    }

    /// Follows what the store holds at the start, and what is noticed from then on, until it is stopped or its last
    /// handle goes.
    pub async fn run(mut self, notices: Vec<Notice>, cursors: Vec<(RelayUrl, Cursor)>) {
        let loaded = Input::Loaded { notices, cursors };
        // A large store takes seconds to be read in.
        let now = self.clock.now();
        let loading = tokio::task::spawn_blocking(move || {
            let outputs = self.engine.handle(loaded, now);
            (self, outputs)
        });
        let Ok((mut driver, outputs)) = loading.await else {
            tracing::error!("the sync engine could not be started");
            return;
        };
        driver.perform_all(outputs);
        driver.drive().await;
        driver.end().await;
    }

    async fn drive(&mut self) {
        loop {
            let wake = self.engine.next_deadline();
            let wake_at = self.clock.instant(wake.unwrap_or_default());
            // In this order: what a connection told before it ended is heard before its end.
            tokio::select! {
                biased;
                request = self.requests.recv() => match request {
                    Some(Request::Input(input)) => self.handle(input),
                    // Whoever asked may have left.
                    Some(Request::Status(answer)) => drop(answer.send(self.engine.reports().collect())),
                    Some(Request::Stop) | None => return,
                },
                () = self.cursors.written() => {}
                Some(input) = self.inputs.recv() => self.handle(input),
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                () = tokio::time::sleep_until(wake_at), if wake.is_some() => self.handle(Input::Wake),
            }
        }
    }

    fn handle(&mut self, input: Input) {
        let outputs = self.engine.handle(input, self.clock.now());
        self.perform_all(outputs);
    }

    fn perform_all(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            self.perform(output);
        }
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Connect {
                connection,
                relay,
                is_bootstrap,
            } => self.connect(connection, relay, is_bootstrap),
            // The connection's task sees that nobody commands it any more, and ends.
            Output::Disconnect { connection } => drop(self.links.remove(&connection)),
            Output::Subscribe {
                connection,
                subscription,
                filters,
            } => self.command(connection, Command::Subscribe(subscription, filters)),
            Output::Unsubscribe {
                connection,
                subscription,
            } => self.command(connection, Command::Unsubscribe(subscription)),
            Output::GatherLocal {
                connection,
                subscription,
                filter,
            } => self.command(connection, Command::Gather(subscription, filter)),
            Output::Reconcile {
                connection,
                subscription,
                filter,
            } => self.command(connection, Command::Reconcile(subscription, filter)),
            Output::Authenticate {
                connection,
                challenge,
            } => self.command(connection, Command::Authenticate(challenge)),
            Output::SaveCursor { relay, cursor } => self.cursors.remember(relay, Some(cursor)),
            Output::ForgetCursor { relay } => self.cursors.remember(relay, None),
            Output::Count { relay, what } => self.context.home.count(&relay, Tally::Noted(what)),
        }
    }

    fn connect(&mut self, connection: ConnectionId, relay: RelayUrl, is_exempt: bool) {
        let (link, commands) = Link::new();
        let dial = Dial {
            context: Arc::clone(&self.context),
            dialler: Arc::clone(&self.dialler),
            connection,
            relay,
            is_exempt,
        };
        let task = self.tasks.spawn(dial.run(commands));
        self.served.insert(task.id(), connection);
        self.links.insert(connection, link);
    }

    /// One that takes no more commands takes nothing at all: it is ended, and the engine hears of it when it has.
    fn command(&mut self, connection: ConnectionId, command: Command) {
        let link = self.links.get(&connection);
        if link.is_some_and(|link| !link.command(command)) {
            self.links.remove(&connection);
        }
    }

    /// A connection's task ended. If the engine ended the connection, it has forgotten it, and hears nothing new.
    fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let task = ended.map_or_else(
            |error| {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a connection failed"
                );
                error.id()
            },
            |(task, ())| task,
        );
        if let Some(connection) = self.served.remove(&task) {
            self.links.remove(&connection);
            self.handle(Input::Disconnected { connection });
        }
    }

    /// Writes down how far we are, and takes leave.
    async fn end(mut self) {
        self.handle(Input::Stopping);
        self.inputs.close();
        self.links.clear();
        self.cursors.write_all().await;
        let farewell = async { while self.tasks.join_next().await.is_some() {} };
        // Those that are still there are not waited for any longer.
        let _ = timeout(FAREWELL_MAX, farewell).await;
        self.tasks.shutdown().await;
    }
}

impl<H> fmt::Debug for Driver<H> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Driver")
            .field("links", &self.links.len())
            .finish_non_exhaustive()
    }
}
