//! Who runs this relay: the owner's profile and relay list, here and on the relays where people look for them (IDN-2).
//!
//! Both events are served here from the start, whatever the network does. Afterwards index relays are asked, rarely
//! and only until all have answered once: what the owner published elsewhere is taken in, and who lacks the newest gets
//! it. `card` decides, this module acts.

mod card;

use std::ops::ControlFlow;
use std::time::Duration;

use grasp_core::event::VerifiedEvent;
use grasp_core::filter::Filter;
use grasp_core::policy::Origin;
use grasp_core::{Event, Timestamp};
use grasp_relay::Turn;
use grasp_store::{QueryLimits, StoreError};
use grasp_sync::dial::{self, Dialler};
use grasp_sync::relay_url::RelayUrl;
use grasp_sync::visit::{Visit, VisitError};
use nostr::event::{Kind, Tag, UnsignedEvent};
use nostr::key::Keys;
use secp256k1::Secp256k1;
use tracing::{debug, error, info};

use crate::service::Service;
use card::{Card, Found, PROVISIONAL, Step, newest, step};

/// The wait after the first round that reached not all, doubling to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_mins(1);
/// See [`RETRY_FIRST`].
const RETRY_MAX: Duration = Duration::from_mins(15);
/// How long an index relay may take to let us in and answer, or to take an event.
const VISIT_MAX: Duration = Duration::from_secs(30);

/// Whose relay this is, and who is to know.
pub struct IdentitySettings {
    /// The key of the relay's owner.
    pub owner: Keys,
    /// The name of the service.
    pub name: String,
    /// Where people look for profiles and relay lists. None: nobody is asked.
    pub index_relays: Vec<RelayUrl>,
    /// Whom we may dial.
    pub dial: dial::Settings,
}

impl std::fmt::Debug for IdentitySettings {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("IdentitySettings")
            .field("name", &self.name)
            .field("index_relays", &self.index_relays)
            .finish_non_exhaustive()
    }
}

/// Keeps the owner's two events.
pub(crate) struct Identity {
    service: Service,
    owner: Keys,
    name: String,
    index_relays: Vec<RelayUrl>,
    dialler: Dialler,
}

/// A relay that answered, still there.
type Answered = (Visit, Vec<VerifiedEvent>);

impl Identity {
    pub(crate) fn new(service: Service, settings: IdentitySettings) -> Self {
        Self {
            service,
            owner: settings.owner,
            name: settings.name,
            index_relays: settings.index_relays,
            dialler: Dialler::new(settings.dial, dial::web_roots()),
        }
    }

    /// Publishes here what is absent. Needs nobody else.
    pub(crate) async fn introduce(&self) {
        let date = match self.index_relays.as_slice() {
            [] => self.service.clock.now(),
            _ => PROVISIONAL,
        };
        for card in Card::ALL {
            match self.stored(card).await {
                Ok(Some(_)) => {}
                Ok(None) => self.admit(self.write(card, date), Origin::Client).await,
                Err(failure) => error!(
                    error = &failure as &dyn std::error::Error,
                    "whether the owner of this relay is known here cannot be read"
                ),
            }
        }
    }

    /// Asks the index relays, until all have answered in one round.
    pub(crate) async fn make_known(self) {
        let mut wait = RETRY_FIRST;
        while !self.round().await {
            tokio::time::sleep(wait).await;
            wait = wait.saturating_mul(2).min(RETRY_MAX);
        }
    }

    /// Whether all answered, and took what they lacked or refused it.
    async fn round(&self) -> bool {
        let mut visits = Vec::new();
        for relay in &self.index_relays {
            let visit = tokio::time::timeout(VISIT_MAX, self.look(relay)).await;
            visits.push(told(relay, visit));
        }
        let mut is_done = visits.iter().all(Option::is_some);
        for card in Card::ALL {
            match self.settle(card, &mut visits).await {
                Ok(is_settled) => is_done &= is_settled,
                Err(failure) => {
                    is_done = false;
                    error!(
                        error = &failure as &dyn std::error::Error,
                        "what is known here of this relay's owner cannot be read"
                    );
                }
            }
        }
        is_done
    }

    async fn look(&self, relay: &RelayUrl) -> Result<Answered, VisitError> {
        let mut visit = Visit::begin(&self.dialler, relay).await?;
        let found = visit.ask(self.filter(&Card::ALL)).await?;
        Ok((visit, found))
    }

    /// Takes in what is newer, and gives it to those that lack it.
    async fn settle(
        &self,
        card: Card,
        visits: &mut [Option<Answered>],
    ) -> Result<bool, StoreError> {
        let here = self.stored(card).await?;
        let found: Vec<_> = visits
            .iter()
            .map(|visit| has(visit.as_ref(), card))
            .collect();
        let Step {
            adopt,
            sign_anew,
            lacking,
        } = step(here.as_ref(), &found);
        if let Some(theirs) = adopt {
            info!(
                kind = card.kind(),
                "took in what the owner of this relay published elsewhere"
            );
            self.admit(theirs, Origin::Sync).await;
        } else if sign_anew {
            let today = self.write(card, self.service.clock.now());
            self.admit(today, Origin::Client).await;
        }
        let Some(newest) = self.stored(card).await? else {
            return Ok(false);
        };
        let mut is_settled = true;
        for place in lacking {
            let relay = &self.index_relays[place];
            if let Some((visit, _)) = &mut visits[place] {
                let left = tokio::time::timeout(VISIT_MAX, visit.leave(newest.event())).await;
                is_settled &= told(relay, left).is_some();
            }
        }
        Ok(is_settled)
    }

    fn filter(&self, cards: &[Card]) -> Filter {
        Filter {
            authors: Some([self.owner.public_key().to_bytes()].into()),
            kinds: Some(cards.iter().map(|card| card.kind()).collect()),
            ..Filter::default()
        }
    }

    async fn stored(&self, card: Card) -> Result<Option<VerifiedEvent>, StoreError> {
        let (store, now) = (self.service.store.clone(), self.service.clock.now());
        let filter = self.filter(&[card]);
        let reading = move || {
            let mut ids = Vec::new();
            store.query(&[filter], QueryLimits::unlimited(now), &mut |row| {
                ids.push(row.id);
                ControlFlow::Continue(())
            })?;
            let snapshot = store.snapshot()?;
            let view = snapshot.view();
            let mut events = Vec::new();
            for id in ids {
                events.extend(view.event(&id)?.map(|stored| stored.event));
            }
            Ok(newest(&events).cloned())
        };
        self.service.blocking(reading).await
    }

    fn write(&self, card: Card, at: Timestamp) -> VerifiedEvent {
        let (content, tags) = card.words(&self.name, &self.service.policy.service);
        let event = sign(&self.owner, at, card.kind(), tags, content);
        VerifiedEvent::verify(event).expect("it was signed a line ago")
    }

    /// The admission of any event, also for ours.
    async fn admit(&self, event: VerifiedEvent, origin: Origin) {
        let admitted = self.service.admit_answer(event, origin, Turn::default());
        match admitted.await {
            Ok(answer) => debug!(%answer, "an event of this relay's owner"),
            Err(failure) => error!(
                error = &failure as &dyn std::error::Error,
                "an event of this relay's owner could not be stored"
            ),
        }
    }
}

/// What came of a visit; the operator reads why nothing did.
fn told<T>(
    relay: &RelayUrl,
    outcome: Result<Result<T, VisitError>, tokio::time::error::Elapsed>,
) -> Option<T> {
    match outcome {
        Ok(Ok(value)) => Some(value),
        Ok(Err(failure)) => {
            let error = &failure as &dyn std::error::Error;
            info!(%relay, error, "an index relay was not told who runs this relay; it is tried again");
            None
        }
        Err(_) => {
            info!(%relay, "an index relay takes too long; it is tried again");
            None
        }
    }
}

fn has(visit: Option<&Answered>, card: Card) -> Found {
    let Some((_, found)) = visit else {
        return Found::NoAnswer;
    };
    let of_card = found.iter().filter(|event| event.kind() == card.kind());
    newest(of_card).map_or(Found::Nothing, |event| Found::Event(event.clone()))
}

/// An event by `keys`.
pub(crate) fn sign<const N: usize>(
    keys: &Keys,
    at: Timestamp,
    kind: u16,
    tags: impl IntoIterator<Item = [String; N]>,
    content: String,
) -> Event {
    let tags = tags.into_iter().filter_map(|tag| Tag::parse(tag).ok());
    let event = UnsignedEvent::new(keys.public_key(), at, Kind::from_u16(kind), tags, content);
    let id = event.compute_id();
    let secp = Secp256k1::signing_only();
    let signature = keys.sign_schnorr_with_aux_rand(&secp, id.as_bytes(), &[0; 32]);
    let signed = event.add_signature(signature);
    signed.expect("the signature was made for this very id")
}
