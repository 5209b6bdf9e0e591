//! `refs/nostr/<event-id>` (PUSH-4, PUSH-19): open to everybody, and bound to what the event says.
//!
//! Clients push the commit before they publish the event. Until it comes, the first upload binds the
//! id, so nobody can put another commit under an id that is about to be used.

use nostr::event::EventId;

use super::ground::Ground;
use super::{KnownEvent, Push, Verdict};
use crate::event::kind;
use crate::lifecycle::Stage;
use crate::name::{Coordinate, RepoAddress};
use crate::oid::Oid;
use crate::refname::RefName;

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// As many uploads wait in the repository as may (§16).
    #[error("{0} uploads wait here for their events: publish them, or try again later")]
    NoPlace(usize),
    #[error("{0}")]
    Because(String),
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::Because(reason)
    }
}

/// Judges one command. `uploads` is how many others of the same push bind an id.
pub(super) fn judge(
    push: &Push<'_>,
    ground: &Ground<'_>,
    name: &RefName,
    new: Oid,
    uploads: usize,
) -> Result<Verdict, Refusal> {
    let Some(event) = name.proposal_event() else {
        let reason = "refs/nostr/ takes an event id: 64 lowercase hex digits, nothing more";
        return Err(reason.to_owned().into());
    };
    if new.is_zero() {
        Ok(delete(push, name)?)
    } else if let Some(known) = known(push, &event) {
        Ok(bind_to_event(push, ground, (name, &event), &known, new)?)
    } else {
        upload(push, ground, (name, &event), new, uploads)
    }
}

/// PUSH-3, PUSH-4
fn delete(push: &Push<'_>, name: &RefName) -> Result<Verdict, String> {
    if push.current.contains_key(name) {
        return Err("goes with its event or its deadline, not by a push".to_owned());
    }
    Ok(Verdict::NOTHING_TO_DO)
}

fn known(push: &Push<'_>, event: &EventId) -> Option<KnownEvent> {
    if let Some(known) = push.known_events.get(event) {
        return Some(known.clone());
    }
    let entry = push.view.proposals.get(event)?;
    let counts = matches!(entry.stage, Stage::Served | Stage::Waiting | Stage::Parked);
    let here = |owner: &_| Coordinate::new(*owner, push.view.identifier.clone());
    counts.then(|| KnownEvent {
        kind: kind::PULL_REQUEST,
        author: entry.author,
        commit: entry.commit,
        targets: entry.named.iter().map(here).collect(),
    })
}

fn bind_to_event(
    push: &Push<'_>,
    ground: &Ground<'_>,
    (name, event): (&RefName, &EventId),
    known: &KnownEvent,
    new: Oid,
) -> Result<Verdict, String> {
    if !kind::is_proposal(known.kind) {
        let kind = known.kind;
        return Err(format!(
            "event {event} is of kind {kind}, not a pull request (1618) or an update of one (1619)"
        ));
    }
    if !is_target(push, ground, known) {
        return Err(format!("PR event {event} does not target this repository"));
    }
    let commit = known
        .commit
        .ok_or_else(|| format!("PR event {event} specifies a commit that cannot exist here"))?;
    if commit != new {
        return Err(format!(
            "PR event {event} specifies commit {commit}, but push contains {new}"
        ));
    }
    Ok(Verdict::Accept {
        installs: (push.current.get(name) != Some(&new)).then_some(new),
        upload: None,
    })
}

/// PR-2; in `/prs/` the path names the signer and the identifier (PUSH-19).
fn is_target(push: &Push<'_>, ground: &Ground<'_>, known: &KnownEvent) -> bool {
    let here = push.repo.coordinate();
    let targets = known.targets.iter();
    let mut named = targets
        .filter(|target| target.identifier == here.identifier)
        .map(|target| target.owner);
    match push.repo {
        RepoAddress::Announced(_) => named.any(|owner| ground.maintainers.contains(&owner)),
        RepoAddress::Proposals(_) => known.author == here.owner && named.next().is_some(),
    }
}

fn upload(
    push: &Push<'_>,
    ground: &Ground<'_>,
    (name, event): (&RefName, &EventId),
    new: Oid,
    uploads: usize,
) -> Result<Verdict, Refusal> {
    let announced = matches!(push.repo, RepoAddress::Announced(_));
    if announced && !ground.exists {
        return Err("No repository announcement found".to_owned().into());
    }
    let records = ground.uploads_of(event);
    if let Some(other) = records.iter().find(|it| it.commit != new) {
        let bound = other.commit;
        return Err(format!("bound to commit {bound} until its event comes").into());
    }
    let here = records.iter().find(|it| it.repository == *push.repo);
    if here.is_some_and(|it| it.deadline > push.cx.now) {
        return Ok(Verdict::NOTHING_TO_DO);
    }
    if push
        .current
        .get(name)
        .is_some_and(|present| *present != new)
    {
        let reason = "exists with another commit, and is never moved by a push";
        return Err(reason.to_owned().into());
    }
    let most = push.cx.policy.uploads.per_repository;
    if here.is_none() && ground.uploads_here + uploads >= most {
        return Err(Refusal::NoPlace(most));
    }
    Ok(Verdict::Accept {
        installs: Some(new),
        upload: Some(*event),
    })
}
