//! What the driver of the sync engine needs of this server.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use grasp_core::admission::{Answer, Rejection};
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::filter::Filter;
use grasp_core::lifecycle::Change;
use grasp_core::policy::Origin;
use grasp_core::{Event, EventId, Timestamp};
use grasp_relay::Turn;
use grasp_store::{Store, StoreError};
use grasp_sync::descendants::Descendants;
use grasp_sync::engine::{Cursor, Time};
use grasp_sync::home::{LocalSet, Tally};
use grasp_sync::intake::{self, Intake, Lack};
use grasp_sync::relay_url::RelayUrl;
use nostr::key::Keys;
use tokio::sync::Notify;
use tracing::error;

use super::asking::Reply;
use super::cursor;
use crate::identity::sign;
use crate::service::Service;

/// A larger set is not reconciled but read page by page.
const ITEMS_MAX: usize = 1_000_000;

/// The server, as the driver sees it.
pub(super) struct Home {
    service: Service,
    keys: Keys,
    intake: Mutex<Intake>,
    descendants: Mutex<Descendants>,
    /// Rings when something is due in `intake`.
    pub(super) due: Notify,
}

impl Home {
    pub(super) fn new(
        service: Service,
        keys: Keys,
        settings: intake::Settings,
        descendants: usize,
    ) -> Self {
        Self {
            service,
            keys,
            intake: Mutex::new(Intake::new(settings)),
            descendants: Mutex::new(Descendants::new(descendants)),
            due: Notify::new(),
        }
    }

    pub(super) fn service(&self) -> &Service {
        &self.service
    }

    /// What was not taken in. A panic while it was held leaves nothing half done that matters.
    pub(super) fn intake(&self) -> MutexGuard<'_, Intake> {
        self.intake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The replies that are asked about.
    pub(super) fn descendants(&self) -> MutexGuard<'_, Descendants> {
        self.descendants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// SYNC-35: what hangs on these is asked for.
    pub(super) fn ask_about(&self, replies: Vec<Reply>) {
        if replies.is_empty() {
            return;
        }
        let now = self.now();
        let mut descendants = self.descendants();
        for Reply { id, root, parents } in replies {
            descendants.add(id, root, &parents, now);
        }
        drop(descendants);
        self.due.notify_one();
    }

    /// Now, for what is remembered.
    pub(super) fn now(&self) -> Time {
        Time::from_secs(self.service.clock.now().as_secs())
    }

    /// Something arrived: whoever lacked it is tried again.
    pub(super) fn arrived(&self, met: &BTreeSet<Lack>) {
        let mut intake = self.intake();
        for lack in met {
            intake.meet(lack);
        }
        if intake.has_retries() {
            self.due.notify_one();
        }
    }

    /// It is not known what arrived: whoever lacked something is tried again.
    pub(super) fn anything_may_have_arrived(&self) {
        let mut intake = self.intake();
        intake.meet_all();
        if intake.has_retries() {
            self.due.notify_one();
        }
    }

    /// SYNC-31: the admission of a client's event, marked as from sync. What is not taken is remembered (SYNC-32).
    pub(super) async fn admit(&self, from: &RelayUrl, event: VerifiedEvent) {
        if self.try_to_admit(from, &event).await {
            return;
        }
        // What it lacks may have come after the decision and before it was remembered: then nobody would try it again.
        self.try_to_admit(from, &event).await;
        self.due.notify_one();
    }

    /// Whether that is the end of it: it does not wait for anything.
    async fn try_to_admit(&self, from: &RelayUrl, event: &VerifiedEvent) -> bool {
        let (origin, turn) = (Origin::Sync, Turn::default());
        let admitted = self.service.admit_answer(event.clone(), origin, turn);
        match admitted.await {
            Ok(Answer::Rejected(rejection)) => {
                if rejection == Rejection::PreviouslyExpired && event.kind() == kind::STATE {
                    let now = self.service.clock.now();
                    self.service.disputes().add(event.clone(), now);
                }
                let now = self.now();
                let mut intake = self.intake();
                !intake.refused(event.clone(), from, &rejection, now)
            }
            Ok(answer) => {
                if matches!(answer, Answer::Stored | Answer::Purgatory) {
                    self.service.metrics.sync.took_in();
                }
                self.intake().taken(&event.id());
                true
            }
            Err(failure) => {
                error!(
                    error = &failure as &dyn std::error::Error,
                    "an event of another server could not be stored; it comes again with the next full sync"
                );
                true
            }
        }
    }
}

/// SYNC-25: what is served, what is here unseen, and what was refused lately.
fn gather(
    store: &Store,
    filter: &Filter,
    refused: Vec<(u64, EventId)>,
    now: Timestamp,
) -> Result<Option<LocalSet>, StoreError> {
    let Some(served) = store.negentropy_items(filter, now, ITEMS_MAX)? else {
        return Ok(None);
    };
    let unseen = store.snapshot()?.view().unseen_items(filter)?;
    let here = served.into_iter().chain(unseen);
    let here = here.map(|(at, id)| (at, EventId::from_byte_array(id)));
    Ok(Some(LocalSet::seal(here.chain(refused))))
}

impl grasp_sync::home::Home for Home {
    async fn intake(&self, from: &RelayUrl, event: VerifiedEvent) {
        self.admit(from, event).await;
    }

    fn knows(&self, id: &EventId) -> bool {
        if self.intake().knows(id, self.now()) {
            return true;
        }
        // What only a mark keeps out is to come: it may have its data by now (PUR-14). Refused, it is remembered above.
        let snapshot = self.service.store.snapshot();
        let here = snapshot.and_then(|snapshot| snapshot.view().is_here(id));
        // If it cannot be read, the admission finds out.
        here.unwrap_or(false)
    }

    async fn gather(&self, filter: Filter) -> Option<LocalSet> {
        let refused = self.intake().marked(&filter, self.now());
        let (store, now) = (self.service.store.clone(), self.service.clock.now());
        let gathering = move || gather(&store, &filter, refused, now);
        let gathered = self.service.blocking(gathering).await;
        gathered.unwrap_or_else(|failure| {
            error!(
                error = &failure as &dyn std::error::Error,
                "what is here cannot be compared with what another server has"
            );
            None
        })
    }

    async fn remember(&self, cursors: Vec<(RelayUrl, Option<Cursor>)>) {
        let batch: Vec<_> = cursors
            .into_iter()
            .map(|(relay, cursor)| Change::KeepCursor {
                relay: relay.to_string(),
                cursor: cursor.as_ref().map(cursor::write),
            })
            .collect();
        let written = self.service.store.commit(move |_| Ok((batch.clone(), ())));
        if let Err(failure) = written.await {
            error!(
                error = &failure as &dyn std::error::Error,
                "how far other servers were followed is not written down; the next start asks for more than it need"
            );
        }
    }

    fn authenticate(&self, relay: &RelayUrl, challenge: &str) -> Option<Event> {
        Some(proof(
            &self.keys,
            relay,
            challenge,
            self.service.clock.now(),
        ))
    }

    fn count(&self, relay: &RelayUrl, what: Tally) {
        self.service.metrics.sync.count(relay, what);
    }
}

/// SYNC-36: that we are who we say, for this challenge of this relay, now.
fn proof(keys: &Keys, relay: &RelayUrl, challenge: &str, now: Timestamp) -> Event {
    let tags = [["relay", relay.as_str()], ["challenge", challenge]];
    sign(
        keys,
        now,
        kind::AUTH,
        tags.map(|tag| tag.map(str::to_owned)),
        String::new(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SYNC-36
    #[test]
    fn a_proof_names_the_relay_and_its_challenge_and_is_signed_now() {
        let keys = Keys::parse(&"01".repeat(32)).expect("a key");
        let relay = "wss://a.example.com".parse().expect("valid");
        let now = Timestamp::from_secs(1_800_000_000);
        let proof = proof(&keys, &relay, "said", now);
        let proof = VerifiedEvent::verify(proof).expect("its signature is right");
        assert_eq!((proof.kind(), proof.author()), (22_242, keys.public_key()));
        assert_eq!(proof.created_at(), now);
        assert_eq!(proof.first_value("relay"), Some("wss://a.example.com"));
        assert_eq!(proof.first_value("challenge"), Some("said"));
    }
}
