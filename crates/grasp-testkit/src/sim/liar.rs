//! Relays that lie. Repositories list them like any other, and they never get better: servers have to be all right in
//! spite of them.

use grasp_core::EventId;
use grasp_core::event::VerifiedEvent;
use grasp_core::filter::Filter;
use grasp_sync::engine::PeerInfo;
use grasp_sync::relay_url::RelayUrl;

use super::dice::Dice;
use crate::{Value, json};

/// How it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// It takes everything and never answers.
    Silence,
    /// It has nothing, whatever it was given.
    Emptiness,
    /// It sends what nobody asked for.
    Anything,
    /// It sends events whose text is another's.
    Forgery,
    /// It sends real events with wrong signatures, before anybody else does.
    Unsigned,
    /// It gives the same page whatever was asked, so that a history never ends.
    SamePage,
    /// It repeats itself.
    Repeats,
    /// It names ids that there are not.
    FalseNames,
    /// It refuses everything, each time for another reason.
    Refusal,
    /// It hangs up in the middle of its answer.
    HangUp,
}

const LIES: [Lie; 10] = [
    Lie::Silence,
    Lie::Emptiness,
    Lie::Anything,
    Lie::Forgery,
    Lie::Unsigned,
    Lie::SamePage,
    Lie::Repeats,
    Lie::FalseNames,
    Lie::Refusal,
    Lie::HangUp,
];

/// Words for [`Lie::Refusal`]: of every class.
pub(crate) const REFUSALS: &[&str] = &[
    "auth-required: who are you",
    "rate-limited: slow down",
    "restricted: members only",
    "blocked: no",
    "error: too many queries",
    "error: too many subscriptions",
    "error: too many filters in subscription",
    "error: subscription bytes exceed the limit",
    "invalid: too many tag values",
    "unsupported: unknown kind",
    "error: the database is on fire",
    "",
];

#[derive(Debug)]
pub(crate) struct Liar {
    pub(crate) url: RelayUrl,
    pub(crate) lie: Lie,
    pub(crate) info: PeerInfo,
}

/// The address of a liar.
pub(crate) fn address(number: usize) -> String {
    format!("wss://liar-{number}.example.com")
}

impl Liar {
    pub(crate) fn draw(number: usize, dice: &mut Dice) -> Self {
        Self {
            url: address(number).parse().expect("valid"),
            lie: *dice.pick(&LIES),
            info: PeerInfo {
                max_subscriptions: *dice.pick(&[None, Some(3), Some(20)]),
                default_limit: None,
                negentropy: *dice.pick(&[None, Some(true)]),
            },
        }
    }

    /// The events that it sends for these filters, as text.
    pub(crate) fn texts(
        &self,
        filters: &[Filter],
        there: &[&VerifiedEvent],
        dice: &mut Dice,
    ) -> Vec<String> {
        let is_asked = |event: &&&VerifiedEvent| {
            let event = event.event();
            let mut filters = filters.iter().filter(|filter| filter.limit != Some(0));
            filters.any(|filter| {
                let at_any_time = Filter {
                    since: None,
                    until: None,
                    ..filter.clone()
                };
                at_any_time.matches(event)
            })
        };
        let asked: Vec<&VerifiedEvent> = there.iter().filter(is_asked).copied().collect();
        let mut some = |of: &[&VerifiedEvent]| -> Vec<Value> {
            let most = if of.is_empty() { 0 } else { 4 };
            (0..most)
                .map(|_| json_of(of[dice.index(of.len())]))
                .collect()
        };
        match self.lie {
            Lie::Silence | Lie::Emptiness | Lie::FalseNames | Lie::Refusal => Vec::new(),
            Lie::Anything => texts(some(there)),
            Lie::Forgery => texts(some(&asked).into_iter().map(|mut event| {
                event["content"] = json!("not what was signed");
                event
            })),
            Lie::Unsigned => texts(some(&asked).into_iter().map(|mut event| {
                event["sig"] = json!("11".repeat(64));
                event
            })),
            Lie::SamePage => texts(asked.iter().take(5).map(|event| json_of(event))),
            Lie::Repeats => {
                let first = asked.first().map(|event| json_of(event));
                texts(first.into_iter().cycle().take(50))
            }
            Lie::HangUp => texts(asked.iter().take(1).map(|event| json_of(event))),
        }
    }

    /// The ids that it claims to have.
    pub(crate) fn names(&self, dice: &mut Dice) -> Vec<EventId> {
        let count = if self.lie == Lie::FalseNames { 30 } else { 0 };
        (0..count)
            .map(|_| {
                let mut bytes = [0; 32];
                bytes[..8].copy_from_slice(&dice.below(u64::MAX).to_be_bytes());
                EventId::from_byte_array(bytes)
            })
            .collect()
    }
}

fn json_of(event: &VerifiedEvent) -> Value {
    serde_json::from_str(&event.event().as_json()).expect("an event is JSON")
}

fn texts(events: impl IntoIterator<Item = Value>) -> Vec<String> {
    events.into_iter().map(|event| event.to_string()).collect()
}
