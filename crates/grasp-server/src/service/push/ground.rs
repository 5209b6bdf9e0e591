//! What a push is judged by and what its commit stands on.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::EventId;
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::push::{self, Command, KnownEvent, PushPlan, Verdict};
use grasp_core::refname::{RefName, RefSpace};
use grasp_core::view::RepoView;
use grasp_git::http::receive_pack::Request;
use grasp_store::{StoreError, View};

use crate::service::facts::Measured;
use crate::service::reconcile;

/// What the push is about, as one snapshot or transaction sees it.
pub(super) struct Seen {
    pub(super) view: RepoView,
    pub(super) known: BTreeMap<EventId, KnownEvent>,
}

/// What the commit of a push stands on.
pub(super) struct Ground {
    pub(super) measured: Measured,
    pub(super) current: BTreeMap<RefName, Oid>,
    /// Tips of proposals that are no commits (PR-6).
    pub(super) misfits: BTreeSet<Oid>,
}

pub(super) fn is_proposal(name: &str) -> bool {
    name.parse::<RefName>()
        .is_ok_and(|name| name.space() == RefSpace::Proposal)
}

/// PR-6: a ref below `refs/nostr/` leads to a commit.
pub(super) fn without_misfits(
    plan: &PushPlan,
    request: &Request,
    misfits: &BTreeSet<Oid>,
) -> PushPlan {
    let reason = "the tip of a proposal has to be a commit";
    refusing(plan, request, reason, |command, _| {
        misfits.contains(&command.new) && is_proposal(&command.name)
    })
}

/// The plan without its uploads: `reason` says which bound they would break (PUSH-4, §16).
pub(super) fn without_uploads(plan: &PushPlan, request: &Request, reason: &str) -> PushPlan {
    refusing(plan, request, reason, |_, verdict| is_upload(verdict))
}

/// Whether an accepted command brings a commit whose event is not known yet.
pub(super) fn is_upload(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Accept {
            installs: Some(_),
            upload: Some(_)
        }
    )
}

/// Refuses what `hits`, and with it everything else of an atomic push.
fn refusing(
    plan: &PushPlan,
    request: &Request,
    reason: &str,
    hits: impl Fn(&Command, &Verdict) -> bool,
) -> PushPlan {
    let mut plan = plan.clone();
    let hit: Vec<bool> = request
        .commands
        .iter()
        .zip(&plan.verdicts)
        .map(|(command, verdict)| hits(command, verdict))
        .collect();
    let all = request.capabilities.atomic && hit.contains(&true);
    for (verdict, hit) in plan.verdicts.iter_mut().zip(hit) {
        if (hit || all) && verdict.accepts() {
            *verdict = Verdict::Refuse(reason.to_owned());
        }
    }
    plan
}

/// Gathers what judging a push needs.
pub(super) fn look(
    view: &View<'_>,
    repository: &RepoAddress,
    commands: &[Command],
) -> Result<Seen, StoreError> {
    let named: Vec<EventId> = push::named_events(commands).into_iter().collect();
    let known = view.known_events(&named)?;
    let identifier = repository.identifier();
    let targets = known.values().flat_map(|event| &event.targets);
    let targets = targets.filter(|target| target.identifier == *identifier);
    let owners = targets.map(|target| target.owner);
    let repo = reconcile::view_to_settle(view, repository, owners)?;
    Ok(Seen { view: repo, known })
}
