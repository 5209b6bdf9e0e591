//! States that expired here without their data, and that other servers still speak of (PUR-14).
//!
//! A mark keeps sync from bringing back what waited in vain (PUR-8). It yields if the data is there by now: such a state is
//! remembered, whoever looks for evidence asks one address after the other, and what was seen is admitted anew.

use std::collections::BTreeMap;
use std::time::Duration;

use grasp_core::admission::Answer;
use grasp_core::clone_url::CloneUrl;
use grasp_core::event::VerifiedEvent;
use grasp_core::hunt;
use grasp_core::lifecycle::{Change, MarkReason};
use grasp_core::name::Coordinate;
use grasp_core::policy::Origin;
use grasp_core::state::StateEvent;
use grasp_core::{EventId, Timestamp};
use grasp_relay::Turn;
use grasp_store::{CommitError, History, StoreError};

use super::Service;

/// So many states are remembered; at the brim no more. They come again when what sync remembers of them is over (SYNC-32).
const DISPUTED_MAX: usize = 256;
/// Between two rounds over the addresses of one state.
const ROUND: Duration = Duration::from_hours(1);

/// The states that are disputed. Of each author and identifier the newest.
#[derive(Debug, Default)]
pub(crate) struct Disputes(BTreeMap<Coordinate, Dispute>);

#[derive(Debug)]
struct Dispute {
    event: VerifiedEvent,
    due: Timestamp,
    /// How many addresses were asked in this round.
    asked: usize,
}

impl Disputes {
    /// Another server speaks of a state that expired here.
    pub(crate) fn add(&mut self, event: VerifiedEvent, now: Timestamp) {
        let Some(identifier) = event.identifier() else {
            return;
        };
        let state = Coordinate::new(event.author(), identifier);
        let is_full = self.0.len() >= DISPUTED_MAX;
        match self.0.get(&state) {
            Some(known) if known.event.version() >= event.version() => return,
            None if is_full => return,
            _ => {}
        }
        let (due, asked) = (now, 0);
        self.0.insert(state, Dispute { event, due, asked });
    }

    /// The state to look for now, and the number of the address to ask.
    pub(crate) fn due(&self, now: Timestamp) -> Option<(VerifiedEvent, usize)> {
        let due = self.0.values().filter(|it| it.due <= now);
        let first = due.min_by_key(|it| it.due)?;
        Some((first.event.clone(), first.asked))
    }

    /// One address more was asked in vain, of so many.
    pub(crate) fn asked(&mut self, event: &EventId, of: usize, now: Timestamp) {
        for dispute in self.0.values_mut().filter(|it| it.event.id() == *event) {
            dispute.asked += 1;
            dispute.due = now;
            if dispute.asked >= of {
                dispute.asked = 0;
                dispute.due = now + ROUND;
            }
        }
    }

    /// There is nothing to look for any more.
    pub(crate) fn settle(&mut self, event: &EventId) {
        self.0.retain(|_, dispute| dispute.event.id() != *event);
    }
}

impl Service {
    /// Whom to ask whether the data of a state that expired here is there by now. Blocking.
    pub fn witnesses(&self, state: &StateEvent) -> Result<Vec<CloneUrl>, StoreError> {
        let snapshot = self.store.snapshot()?;
        let view = snapshot.view();
        let is_marked = view.is_marked(&state.id(), MarkReason::Expired, self.clock.now())?;
        if !is_marked {
            return Ok(Vec::new());
        }
        let (identifier, author) = (state.identifier(), state.author());
        let around = view.repo_view(identifier, &[author], History::Current)?;
        Ok(hunt::evidence(state, &around, &self.policy))
    }

    /// The data of a state was seen elsewhere: that it expired here counts no more, and it is admitted as any other from
    /// another server.
    pub async fn believe(&self, state: VerifiedEvent) -> Result<Answer, CommitError> {
        let (event, reason) = (state.id(), MarkReason::Expired);
        let unmark = Change::Unmark { event, reason };
        self.store
            .commit(move |_| Ok((vec![unmark.clone()], ())))
            .await?;
        self.admit_answer(state, Origin::Sync, Turn::default())
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::event::kind;
    use nostr::event::{Kind, Tag, UnsignedEvent};
    use nostr::key::Keys;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    fn state(identifier: &str, at: u64) -> VerifiedEvent {
        let keys = Keys::parse(&"01".repeat(32)).expect("a key");
        let tag = Tag::parse(["d", identifier]).expect("a tag");
        let (kind, at) = (Kind::from_u16(kind::STATE), Timestamp::from_secs(at));
        let event = UnsignedEvent::new(keys.public_key(), at, kind, [tag], "");
        let context = secp256k1::Secp256k1::signing_only();
        let id = event.compute_id();
        let signature = keys.sign_schnorr_with_aux_rand(&context, id.as_bytes(), &[0; 32]);
        let event = event.add_signature(signature).expect("it is right");
        VerifiedEvent::verify(event).expect("its signature is right")
    }

    fn due(disputes: &Disputes, at: Timestamp) -> Option<(EventId, usize)> {
        disputes.due(at).map(|(event, nth)| (event.id(), nth))
    }

    /// PUR-14: one address after the other, then not for an hour.
    #[test]
    fn a_state_is_looked_for_at_each_address_once_an_hour() {
        let mut disputes = Disputes::default();
        let one = state("one", 1);
        disputes.add(one.clone(), NOW);
        assert_eq!(due(&disputes, NOW), Some((one.id(), 0)));
        disputes.asked(&one.id(), 2, NOW);
        assert_eq!(due(&disputes, NOW), Some((one.id(), 1)));
        disputes.asked(&one.id(), 2, NOW);
        assert_eq!(due(&disputes, NOW), None);
        assert_eq!(due(&disputes, NOW + ROUND), Some((one.id(), 0)));
        disputes.settle(&one.id());
        assert_eq!(due(&disputes, NOW + ROUND), None);
    }

    /// PUR-14: bounded, and of each author only the newest counts.
    #[test]
    fn the_newest_of_each_is_remembered_and_no_more_than_so_many() {
        let mut disputes = Disputes::default();
        disputes.add(state("one", 2), NOW);
        disputes.add(state("one", 1), NOW);
        assert_eq!(due(&disputes, NOW), Some((state("one", 2).id(), 0)));
        disputes.add(state("one", 3), NOW);
        assert_eq!(due(&disputes, NOW), Some((state("one", 3).id(), 0)));
        for number in 0..DISPUTED_MAX {
            disputes.add(state(&number.to_string(), 1), NOW);
        }
        assert_eq!(disputes.0.len(), DISPUTED_MAX);
        disputes.add(state("one", 4), NOW);
        assert_eq!(disputes.0.len(), DISPUTED_MAX);
    }
}
