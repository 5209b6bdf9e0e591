//! From what a peer said to what the engine hears of it.
//!
//! Everything passes here in the order in which it was said. The engine hears of an event when it is in the store, and of
//! what came after it later: whatever the engine decides to remember is true by then (SYNC-11).

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use grasp_core::filter::Filter;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::Context;
use super::check::{Finding, Raw, check};
use crate::engine::{ConnectionId, Delivery, Input, PeerMessage, SubscriptionId};
use crate::home::{Home, Phase, Tally, Verdict};
use crate::relay_url::RelayUrl;

/// So many events of one relay are checked and taken in together.
pub const INTAKE_AT_ONCE: usize = 32;

/// Something that a peer said and that waits for its turn.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) what: What,
    /// Its share of what may wait, given back when it is done with.
    pub(super) weight: OwnedSemaphorePermit,
}

#[derive(Debug)]
pub(super) enum What {
    Event(SubscriptionId, Raw),
    Input(Input),
}

/// Works through what a peer said until nothing more can come.
pub(super) async fn take_in<H: Home>(
    context: Arc<Context<H>>,
    connection: ConnectionId,
    relay: RelayUrl,
    mut items: mpsc::Receiver<Item>,
) {
    let mut lot = Vec::with_capacity(INTAKE_AT_ONCE);
    while items.recv_many(&mut lot, INTAKE_AT_ONCE).await > 0 {
        let said = lot.drain(..).map(|item| (item.what, item.weight));
        let (said, _weights): (Vec<_>, Vec<_>) = said.unzip();
        let Some(checked) = check_all(&context, said).await else {
            tracing::error!(%relay, "a check of events failed");
            return;
        };
        // Begun in this order, done side by side, heard of in this order.
        let mut settled: FuturesOrdered<_> = checked
            .into_iter()
            .map(|checked| settle(&context, connection, &relay, checked))
            .collect();
        while let Some(input) = settled.next().await {
            context.tell(input).await;
        }
    }
}

/// Something that was said, after it was looked at.
#[derive(Debug)]
enum Checked {
    Event(SubscriptionId, Phase, Finding),
    Input(Input),
}

impl What {
    fn check(self, home: &impl Home) -> Checked {
        match self {
            Self::Input(input) => Checked::Input(input),
            Self::Event(subscription, raw) => {
                Checked::Event(subscription, raw.phase(), check(&raw, home))
            }
        }
    }
}

/// `None` if there is nobody left to check.
async fn check_all<H: Home>(context: &Context<H>, said: Vec<What>) -> Option<Vec<Checked>> {
    let home = Arc::clone(&context.home);
    let has_events = said.iter().any(|what| matches!(what, What::Event(..)));
    let check_lot = move || said.into_iter().map(|what| what.check(&*home)).collect();
    if has_events {
        context.cores.run(check_lot).await
    } else {
        Some(check_lot())
    }
}

/// Lets an event have its effect, and says what the engine hears.
async fn settle<H: Home>(
    context: &Context<H>,
    connection: ConnectionId,
    relay: &RelayUrl,
    checked: Checked,
) -> Input {
    let (subscription, phase, finding) = match checked {
        Checked::Input(input) => return input,
        Checked::Event(subscription, phase, finding) => (subscription, phase, finding),
    };
    let delivery = admit(&*context.home, relay, phase, finding).await;
    let message = PeerMessage::Event {
        subscription,
        delivery,
    };
    Input::Received {
        connection,
        message,
    }
}

/// Hears an event as a relay sent it, for what it was asked: looks at it, lets it have its effect, and says what the
/// engine is to hear. For whoever speaks with relays otherwise than over a connection.
pub async fn hear(
    home: &impl Home,
    relay: &RelayUrl,
    text: String,
    asked: Arc<[Filter]>,
) -> Delivery {
    let asked = asked.iter().cloned().map(Arc::new).collect();
    let raw = Raw { text, asked };
    let finding = check(&raw, home);
    admit(home, relay, raw.phase(), finding).await
}

async fn admit(home: &impl Home, relay: &RelayUrl, phase: Phase, finding: Finding) -> Delivery {
    let (verdict, delivery) = match finding {
        Finding::Junk => (Verdict::Junk, Delivery::Junk),
        Finding::Known { id, created_at } => (Verdict::Known, Delivery::Genuine { id, created_at }),
        Finding::Fresh(event) => {
            let (id, created_at) = (event.id(), event.created_at().as_secs());
            home.intake(relay, event).await;
            (Verdict::Fresh, Delivery::Genuine { id, created_at })
        }
    };
    home.count(relay, Tally::Delivered(phase, verdict));
    delivery
}
