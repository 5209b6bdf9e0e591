//! The rows that a completed push commits, decided on the commit's own view (PUSH-13, AFTER-*).

use nostr::event::EventId;

use super::{Push, PushPlan, Verdict};
use crate::defect::Defect;
use crate::lifecycle::{Batch, Change, Stage, UploadRecord};
use crate::name::RepoAddress;
use crate::oid::Oid;
use crate::purgatory;
use crate::refname::{RefName, RefSpace};
use crate::refplan::{self, Desired, DesiredRefs};
use crate::settle::{applied, conclude};
use crate::view::ObjectFacts;

/// What an accepted command is told when it no longer holds.
const OVERTAKEN: &str = "a newer state leads elsewhere by now: fetch, then push again";
/// What it is told when it holds, and what it leads to is not all there.
const INCOMPLETE: &str = "objects that the signed state needs are not here: push all of its refs";

/// A command that is carried out.
struct Accepted {
    name: RefName,
    upload: Option<EventId>,
    new: Oid,
}

impl Push<'_> {
    /// The rows that the completed push commits (PUSH-13, AFTER-1 … AFTER-5): decides again on the commit's
    /// own view, records uploads, settles what became complete and marks what changed. `plan` is the plan
    /// the pack was taken under, its tips are in the repository now with all they need; `installed` tells
    /// of the rest. `Err` is the plan to report instead: nothing may be committed.
    pub fn complete(
        &self,
        plan: &PushPlan,
        installed: &ObjectFacts,
        pack_bytes: u64,
    ) -> Result<Batch, PushPlan> {
        if plan.brings_only_uploads() && pack_bytes > self.cx.policy.uploads.bytes {
            let most = self.cx.policy.uploads.bytes;
            let reason = format!("an upload without its event has at most {most} bytes");
            return Err(taken_back(plan, plan, &reason));
        }
        let now = self.authorize();
        let mut facts = installed.clone();
        for tip in plan.tips() {
            facts.add(self.repo.clone(), tip);
        }
        let rows = self.rows(plan, &now, &facts, pack_bytes);
        let mut batch = conclude(self.view, rows, &facts, self.cx);
        let after = applied(self.view, &batch, self.cx);
        let desired = refplan::desired(self.repo, &after, self.cx.policy);
        if !self.ends_as_accepted(plan, &desired) && !Defect::UncheckedEnd.is_on() {
            let waits = |id| matches!(after.stage(&id), Some(Stage::Waiting | Stage::Parked));
            let incomplete = now.candidate.is_some_and(|id: EventId| waits(id));
            let reason = if incomplete { INCOMPLETE } else { OVERTAKEN };
            return Err(taken_back(plan, &now, reason));
        }
        self.mark_dirty(plan, &mut batch);
        Ok(batch)
    }

    /// What the accepted commands themselves leave behind: upload records, places in `/prs/`, and more
    /// time for the announcement.
    fn rows(&self, plan: &PushPlan, now: &PushPlan, facts: &ObjectFacts, pack_bytes: u64) -> Batch {
        let accepted = self.accepted(plan, now);
        let uploads = accepted.iter().filter(|it| it.upload.is_some()).count();
        let share = pack_bytes.div_ceil(uploads.max(1) as u64);
        let rows = accepted.iter().filter_map(|it| match it.upload {
            Some(event) => {
                let proven = facts.holds(self.repo, &it.new);
                proven.then(|| Change::Upload(self.upload(event, it.new, share)))
            }
            None => self.place(it),
        });
        now.extend.iter().cloned().chain(rows).collect()
    }

    fn upload(&self, event: EventId, commit: Oid, bytes: u64) -> UploadRecord {
        UploadRecord {
            event,
            commit,
            repository: self.repo.clone(),
            bytes,
            deadline: self.cx.now + purgatory::WAITING,
        }
    }

    /// A known proposal that gets its ref in this `/prs/` repository by the push (REF-6).
    fn place(&self, accepted: &Accepted) -> Option<Change> {
        let event = accepted.name.proposal_event()?;
        let at = self.view.placements.get(&event);
        let placed = at.is_some_and(|repos| repos.contains(self.repo));
        let ours = matches!(self.repo, RepoAddress::Proposals(_));
        (ours && !placed && !accepted.new.is_zero()).then(|| Change::Place {
            event,
            repository: self.repo.clone(),
        })
    }

    /// Commands accepted then and now.
    fn accepted(&self, plan: &PushPlan, now: &PushPlan) -> Vec<Accepted> {
        let verdicts = plan.verdicts.iter().zip(&now.verdicts);
        let judged = self.commands.iter().zip(verdicts);
        judged
            .filter_map(|(command, verdicts)| match verdicts {
                (Verdict::Accept { .. }, Verdict::Accept { upload, .. }) => Some(Accepted {
                    name: command.name.parse().ok()?,
                    upload: *upload,
                    new: command.new,
                }),
                _ => None,
            })
            .collect()
    }

    /// PUSH-13: after this commit every accepted ref is where its command wants it, whatever else the
    /// commit does.
    fn ends_as_accepted(&self, plan: &PushPlan, desired: &Desired) -> bool {
        let accepted = self
            .commands
            .iter()
            .zip(&plan.verdicts)
            .filter(|(_, verdict)| verdict.accepts());
        let mut accepted = accepted.map(|(command, _)| (command.name.parse(), command.new));
        accepted.all(|(name, new)| {
            let Ok(name) = name else { return false };
            self.end_of(&name, desired).unwrap_or(Oid::ZERO) == new
        })
    }

    fn end_of(&self, name: &RefName, desired: &Desired) -> Option<Oid> {
        let end = match (name.space(), &desired.refs) {
            (RefSpace::Proposal, _) => desired.proposals.get(name),
            (_, DesiredRefs::Winner { refs, .. }) => refs.get(name),
            (_, DesiredRefs::Frozen) => self.current.get(name),
            (_, DesiredRefs::Empty) => None,
        };
        end.copied()
    }

    /// A refilled repository has the same view as before and other refs than it shows (PUSH-9).
    fn mark_dirty(&self, plan: &PushPlan, batch: &mut Batch) {
        let verdicts = self.commands.iter().zip(&plan.verdicts);
        let moves = verdicts
            .filter(|(_, verdict)| verdict.accepts())
            .any(|(command, _)| {
                let name = command.name.parse().ok();
                let present = name.and_then(|name: RefName| self.current.get(&name).copied());
                present.unwrap_or(Oid::ZERO) != command.new
            });
        let mark = Change::Dirty(self.repo.clone());
        if moves && !batch.contains(&mark) {
            batch.push(mark);
        }
    }
}

/// The plan without its acceptances: each command gets the reason it is refused for now, or `reason`.
fn taken_back(plan: &PushPlan, now: &PushPlan, reason: &str) -> PushPlan {
    let take_back = |(then, now): (&Verdict, &Verdict)| match (then, now) {
        (Verdict::Refuse(reason), _) | (Verdict::Accept { .. }, Verdict::Refuse(reason)) => {
            Verdict::Refuse(reason.clone())
        }
        (Verdict::Accept { .. }, Verdict::Accept { .. }) => Verdict::Refuse(reason.to_owned()),
    };
    let verdicts = plan.verdicts.iter().zip(&now.verdicts);
    PushPlan {
        verdicts: verdicts.map(take_back).collect(),
        candidate: None,
        obstacle: now.obstacle.clone(),
        extend: Batch::new(),
        crowded: now.crowded,
    }
}
