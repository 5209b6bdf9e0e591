//! Taking events back: by a deletion of their author, with their whole scope, or when their own time is over
//! (DEL-2, DEL-3, DEL-4, DEL-8, EV-4).

use std::collections::BTreeSet;

use nostr::event::EventId;
use nostr::key::PublicKey;

use crate::announcement::Announcement;
use crate::defect::Defect;
use crate::deletion::Fate;
use crate::event::Parsed;
use crate::lifecycle::Stage;
use crate::policy::Circumstances;
use crate::settle::{Groups, counts};
use crate::state::StateEvent;
use crate::view::{Entry, ObjectFacts, RepoView};

/// How events are taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retraction {
    /// What goes with them.
    pub(crate) reach: Reach,
    /// What becomes of them.
    pub(crate) fate: Fate,
}

/// What goes with the events that are taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Nothing: what depends on them stays (DEL-3).
    Event,
    /// The states that no other announcement of the view wants: deletion by `a`.
    Scope,
    /// The same if an announcement is among them, and no older version of anything comes back: it goes too,
    /// if not by this commit then by another (DEL-8). What others made is held.
    Author,
}

impl Retraction {
    /// NIP-40 (EV-4).
    pub(crate) const EXPIRY: Self = Self {
        reach: Reach::Event,
        fate: Fate::Gone,
    };
}

/// Takes the events out of the view. What they had replaced comes back, as far as its objects are there
/// (DEL-2a), and a scope that loses its last winner by it goes back to purgatory (DEL-2).
pub(crate) fn retract(
    view: &mut RepoView,
    events: &BTreeSet<EventId>,
    how: Retraction,
    objects: &ObjectFacts,
    cx: Circumstances<'_>,
) {
    let before = Groups::of(view, cx.policy);
    let lost = winners_among(view, &before, events);
    let scope = match how.reach {
        Reach::Event => None,
        Reach::Scope => Some(how.fate),
        Reach::Author if Defect::TakenAlong.is_on() => Some(how.fate),
        Reach::Author => announces(view, events).then_some(Fate::Held),
    };
    let mut states = std::mem::take(&mut view.states);
    for versions in states.values_mut() {
        let complete = |state: &StateEvent| is_complete(state, view, objects);
        take_back(versions, events, how, complete, |_, _| false, cx);
    }
    view.states = states;
    for versions in view.announcements.values_mut() {
        take_back(versions, events, how, |_| true, withholds_authority, cx);
    }
    view.announcements
        .retain(|_, versions| !versions.is_empty());
    view.states.retain(|_, versions| !versions.is_empty());
    take_back_proposals(view, events, how, cx);
    if let Some(fate) = scope {
        abandon_states(view, &before, fate, cx);
    }
    let groups = Groups::of(view, cx.policy);
    let mut winners = groups.winners(view);
    let without = lost.into_iter().filter(|owner| winners.of(owner).is_none());
    for owner in without.collect::<Vec<_>>() {
        return_to_purgatory(view, &owner, &groups, cx);
    }
}

/// Whether one of the events is an announcement by which something is here.
fn announces(view: &RepoView, events: &BTreeSet<EventId>) -> bool {
    let mut versions = view.announcements.values().flatten();
    versions.any(|entry| counts(entry.stage) && events.contains(&entry.id()))
}

/// Owners whose repository shows one of the events.
fn winners_among(view: &RepoView, groups: &Groups, events: &BTreeSet<EventId>) -> Vec<PublicKey> {
    let mut winners = groups.winners(view);
    let mut shows = |owner: &&PublicKey| {
        winners
            .of(owner)
            .is_some_and(|winner| events.contains(&winner.id()))
    };
    let owners = groups.owners();
    owners.filter(&mut shows).copied().collect()
}

/// DEL-2a: some repository of the view holds all that the state names.
fn is_complete(state: &StateEvent, view: &RepoView, objects: &ObjectFacts) -> bool {
    let holds =
        |owner: &PublicKey| objects.holds_all(&view.repository(*owner), state.refs().values());
    state.refs().is_empty() || view.announcements.keys().any(holds)
}

/// Takes the events out of the versions of one thing, and serves again the newest that they had replaced and
/// for which `may_return` holds. What is still `needed` is held where it would be gone.
fn take_back<T: Parsed>(
    versions: &mut Vec<Entry<T>>,
    events: &BTreeSet<EventId>,
    how: Retraction,
    may_return: impl Fn(&T) -> bool,
    needed: impl Fn(&[Entry<T>], &Entry<T>) -> bool,
    cx: Circumstances<'_>,
) {
    let is_served = |entry: &Entry<T>| entry.stage == Stage::Served;
    let was_served = versions.iter().any(is_served);
    let mut gone = BTreeSet::new();
    let taken = versions
        .iter_mut()
        .filter(|entry| events.contains(&entry.id()));
    for entry in taken {
        if entry.is_pending() || how.fate == Fate::Gone {
            gone.insert(entry.id());
        }
        entry.hold(cx);
    }
    if was_served && !versions.iter().any(is_served) && how.reach != Reach::Author {
        let replaced = versions.iter_mut().filter(|entry| {
            let deleted = Defect::DeletedRollback.is_on() && entry.stage == Stage::Held;
            (entry.stage == Stage::Superseded || deleted) && may_return(&entry.item)
        });
        if let Some(entry) = replaced.max_by_key(|entry| entry.version()) {
            entry.serve();
        }
    }
    let needed: BTreeSet<EventId> = versions
        .iter()
        .filter(|entry| needed(versions, entry))
        .map(Entry::id)
        .collect();
    versions.retain(|entry| !gone.contains(&entry.id()) || needed.contains(&entry.id()));
}

/// DEL-3: an older version of the owner counts, and this one, gone as it is, is why some key is no
/// longer active in it. As long as that is so it is kept, or time would give the authority back.
pub(crate) fn withholds_authority(
    versions: &[Entry<Announcement>],
    entry: &Entry<Announcement>,
) -> bool {
    entry.stage == Stage::Held
        && versions.iter().any(|older| {
            counts(older.stage)
                && older.version() < entry.version()
                && older.item.widens(&entry.item)
        })
}

fn take_back_proposals(
    view: &mut RepoView,
    events: &BTreeSet<EventId>,
    how: Retraction,
    cx: Circumstances<'_>,
) {
    for event in events {
        let Some(entry) = view.proposals.get_mut(event) else {
            continue;
        };
        let pending = matches!(entry.stage, Stage::Waiting | Stage::Parked);
        if pending || how.fate == Fate::Gone {
            view.proposals.remove(event);
            view.placements.remove(event);
        } else {
            entry.stage = Stage::Held;
            entry.deadline = Some(cx.after(cx.policy.holding_retention));
        }
    }
}

/// DEL-2: without its last state nothing shows what the repository contains.
fn return_to_purgatory(
    view: &mut RepoView,
    owner: &PublicKey,
    groups: &Groups,
    cx: Circumstances<'_>,
) {
    let versions = view.announcements.get_mut(owner).into_iter().flatten();
    versions
        .filter(|entry| entry.stage == Stage::Served && groups.hosts(&entry.id()))
        .for_each(|entry| entry.wait(cx));
}

/// After a scope went: its waiting states go unless another scope wants them, and with the last
/// announcement of the view the served ones meet their `fate`. `before` are the groups with it.
pub(crate) fn abandon_states(
    after: &mut RepoView,
    before: &Groups,
    fate: Fate,
    cx: Circumstances<'_>,
) {
    let groups = Groups::of(after, cx.policy);
    let announced = after
        .announcements
        .values()
        .flatten()
        .any(|entry| counts(entry.stage));
    for (author, states) in &mut after.states {
        let loses_authority = before.authorises(author) && !groups.authorises(author);
        states.retain_mut(|entry| {
            let abandoned = entry.stage == Stage::Served && !announced;
            if abandoned {
                entry.hold(cx);
            }
            let goes = entry.is_pending() && loses_authority;
            !(goes || (abandoned && fate == Fate::Gone))
        });
    }
    after.states.retain(|_, states| !states.is_empty());
}
