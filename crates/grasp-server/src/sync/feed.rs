//! From the store's commits to what the engine hears (the self-subscriber of SYNC-9).
//!
//! Whatever committed, a client's event, a push, the sweep or an operator: its commit is on the store's feed, with every
//! change of stage, and purgatory's too (SYNC-34). *Invariant:* no notice is lost: a feed that fell behind is read from
//! the store again.

use std::collections::BTreeSet;
use std::sync::Arc;

use grasp_core::EventId;
use grasp_core::lifecycle::{Change, Stage};
use grasp_core::name::Coordinate;
use grasp_store::{Committed, Store, StoreError};
use grasp_sync::driver::Handle;
use grasp_sync::engine::{Input, Notice};
use grasp_sync::intake::Lack;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tracing::{error, warn};

use super::asking::{self, Reply};
use super::home::Home;
use super::notices;

/// Commits that are read together, if they are there already.
const TOGETHER: usize = 256;

/// Listens to the store.
pub(super) struct Feed {
    store: Store,
    changes: Receiver<Arc<Committed<()>>>,
    home: Arc<Home>,
}

/// What a few commits touched.
#[derive(Debug, Default)]
struct Touched {
    repositories: BTreeSet<Coordinate>,
    roots: BTreeSet<EventId>,
    /// What arrived, for those that wait for it.
    met: BTreeSet<Lack>,
    /// Replies that are served now.
    replies: Vec<Reply>,
    /// What is served no longer.
    gone: Vec<EventId>,
}

impl Touched {
    fn add(&mut self, committed: &Committed<()>) {
        for passage in &committed.moved {
            if passage.stage != Some(Stage::Served) {
                self.gone.push(passage.event);
            }
            if let Some(coordinate) = &passage.announces {
                self.repositories.insert(coordinate.clone());
                if passage.stage.is_some() {
                    let identifier = coordinate.identifier.clone();
                    self.met.insert(Lack::Identifier(identifier));
                }
            } else if notices::is_followed(passage.kind) {
                self.roots.insert(passage.event);
            }
        }
        for served in &committed.served {
            self.met.extend(Lack::met_by(&served.event));
        }
        for change in &committed.batch {
            let Change::Insert {
                event,
                stage,
                standing,
                ..
            } = change
            else {
                continue;
            };
            match (stage, standing) {
                (Stage::Waiting, _) => drop(self.met.insert(Lack::Event(event.id()))),
                (Stage::Served, standing) => self.replies.extend(Reply::of(event, *standing)),
                _ => {}
            }
        }
    }
}

impl Feed {
    pub(super) fn new(
        store: Store,
        changes: Receiver<Arc<Committed<()>>>,
        home: Arc<Home>,
    ) -> Self {
        Self {
            store,
            changes,
            home,
        }
    }

    /// Tells the driver, until the store is closed.
    pub(super) async fn run(mut self, driver: Handle) {
        loop {
            let told = match self.listen().await {
                Err(RecvError::Closed) => return,
                Ok(touched) => self.tell(touched, &driver).await,
                Err(RecvError::Lagged(lost)) => {
                    warn!(
                        lost,
                        "following fell behind the store; all of it is read again"
                    );
                    self.reload(&driver).await
                }
            };
            if let Err(failure) = told {
                error!(
                    error = &failure as &dyn std::error::Error,
                    "what is followed may not be what is stored until the next change"
                );
            }
        }
    }

    async fn listen(&mut self) -> Result<Touched, RecvError> {
        let mut touched = Touched::default();
        touched.add(&*self.changes.recv().await?);
        self.add_more(&mut touched)?;
        Ok(touched)
    }

    /// What is there already.
    fn add_more(&mut self, touched: &mut Touched) -> Result<(), RecvError> {
        for _ in 1..TOGETHER {
            match self.changes.try_recv() {
                Ok(committed) => touched.add(&committed),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                Err(TryRecvError::Lagged(lost)) => return Err(RecvError::Lagged(lost)),
            }
        }
        Ok(())
    }

    /// What is there already, without waiting for more; for whoever drives the engine by hand.
    pub(super) fn heard(&mut self) -> Result<Vec<Input>, StoreError> {
        let mut touched = Touched::default();
        if self.add_more(&mut touched).is_err() {
            let all = all_anew(&self.store, &self.home)?;
            return Ok(vec![Input::Reloaded { notices: all }]);
        }
        let notices = self.notices_of(touched)?.into_iter();
        Ok(notices.map(Input::Noticed).collect())
    }

    async fn tell(&self, touched: Touched, driver: &Handle) -> Result<(), StoreError> {
        for notice in self.notices_of(touched)? {
            driver.notice(notice).await;
        }
        Ok(())
    }

    /// Has those tried again that waited for this, and says what follows for the engine.
    fn notices_of(&self, touched: Touched) -> Result<Vec<Notice>, StoreError> {
        let Touched {
            repositories,
            roots,
            met,
            replies,
            gone,
        } = touched;
        self.home.arrived(&met);
        self.follow_replies(replies, &gone);
        self.notices(repositories, roots)
    }

    /// SYNC-35: what hangs on a reply is asked for.
    fn follow_replies(&self, replies: Vec<Reply>, gone: &[EventId]) {
        self.home.ask_about(replies);
        let mut descendants = self.home.descendants();
        for id in gone {
            descendants.remove(id);
        }
    }

    fn notices(
        &self,
        repositories: BTreeSet<Coordinate>,
        roots: BTreeSet<EventId>,
    ) -> Result<Vec<Notice>, StoreError> {
        if repositories.is_empty() && roots.is_empty() {
            return Ok(Vec::new());
        }
        let snapshot = self.store.snapshot()?;
        let view = snapshot.view();
        let repositories = repositories.into_iter();
        let of_repositories = repositories.map(|it| notices::of_repository(&view, it));
        let of_roots = roots.into_iter().map(|id| notices::of_root(&view, id));
        of_repositories.chain(of_roots).collect()
    }

    async fn reload(&self, driver: &Handle) -> Result<(), StoreError> {
        let (store, home) = (self.store.clone(), Arc::clone(&self.home));
        let reading = move || all_anew(&store, &home);
        let notices = self.home.service().blocking(reading).await?;
        driver.reload(notices).await;
        Ok(())
    }
}

/// Commits were lost: all that is followed, while whatever waits is tried again and the newest replies are asked about.
fn all_anew(store: &Store, home: &Home) -> Result<Vec<Notice>, StoreError> {
    let now = home.service().clock.now();
    let replies = asking::recent_replies(store, now)?;
    let notices = notices::everything(store)?;
    home.anything_may_have_arrived();
    home.ask_about(replies);
    Ok(notices)
}
