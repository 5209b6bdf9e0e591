//! The rows that a completed push commits, decided on the commit's own view (PUSH-13, AFTER-*).

use super::{Push, PushPlan, Verdict};
use crate::lifecycle::{Batch, Change, UploadRecord};
use crate::name::RepoAddress;
use crate::oid::Oid;
use crate::purgatory;
use crate::refname::{RefName, RefSpace};
use crate::refplan::{self, Desired, DesiredRefs};
use crate::settle::{applied, dirtied, settle};
use crate::view::ObjectFacts;

/// What an accepted command is told when it no longer holds.
const OVERTAKEN: &str = "the repository changed while the pack was read: fetch, then push again";

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
            return Err(refused(plan, &reason));
        }
        let now = self.authorize();
        let mut facts = installed.clone();
        for tip in plan.tips() {
            facts.add(self.repo.clone(), tip);
        }
        let rows = if still_holds(plan, &now) {
            self.rows(plan, &now, &facts, pack_bytes)
        } else {
            Batch::new()
        };
        let mut batch = self.conclude(rows, &facts);
        let after = applied(self.view, &batch, self.cx);
        let desired = refplan::desired(self.repo, &after, self.cx.policy);
        if !self.ends_as_accepted(plan, &desired) {
            let overtaken = refused(plan, OVERTAKEN);
            // The fresh refusal says more, if there is one.
            return Err(if now.accepts_any() { overtaken } else { now });
        }
        self.mark_dirty(plan, &mut batch);
        Ok(batch)
    }

    /// The rows, what becomes servable by them, and the marks of every repository that both change.
    fn conclude(&self, rows: Batch, facts: &ObjectFacts) -> Batch {
        let mut batch = rows;
        let before = applied(self.view, &batch, self.cx);
        batch.extend(settle(&before, facts, self.cx));
        let after = applied(self.view, &batch, self.cx);
        for mark in dirtied(self.view, &after, self.cx) {
            if !batch.contains(&mark) {
                batch.push(mark);
            }
        }
        batch
    }

    /// What the accepted commands themselves leave behind: upload records, places in `/prs/`, and more
    /// time for the announcement.
    fn rows(&self, plan: &PushPlan, now: &PushPlan, facts: &ObjectFacts, pack_bytes: u64) -> Batch {
        let accepted = self.accepted(plan, now);
        let uploads = accepted.clone().filter(|(_, upload, _)| upload.is_some());
        let share = pack_bytes.div_ceil(uploads.count().max(1) as u64);
        let mut rows = now.extend.clone();
        for (name, upload, new) in accepted {
            if let Some(event) = upload.filter(|_| facts.holds(self.repo, &new)) {
                rows.push(Change::Upload(UploadRecord {
                    event,
                    commit: new,
                    repository: self.repo.clone(),
                    bytes: share,
                    deadline: self.cx.now + purgatory::WAITING,
                }));
            } else if let (Some(event), RepoAddress::Proposals(_)) =
                (self.newly_placed(&name, new), self.repo)
            {
                rows.push(Change::Place {
                    event,
                    repository: self.repo.clone(),
                });
            }
        }
        rows
    }

    /// Commands accepted then and now: the ref, what it binds now, and where it goes.
    fn accepted<'p>(
        &'p self,
        plan: &'p PushPlan,
        now: &'p PushPlan,
    ) -> impl Iterator<Item = (RefName, Option<nostr::event::EventId>, Oid)> + Clone + 'p {
        let verdicts = plan.verdicts.iter().zip(&now.verdicts);
        let judged = self.commands.iter().zip(verdicts);
        judged.filter_map(|(command, verdicts)| match verdicts {
            (Verdict::Accept { .. }, Verdict::Accept { upload, .. }) => {
                Some((command.name.parse().ok()?, *upload, command.new))
            }
            _ => None,
        })
    }

    /// A known proposal that gets its ref in this repository by the push (REF-6).
    fn newly_placed(&self, name: &RefName, new: Oid) -> Option<nostr::event::EventId> {
        let event = name.proposal_event().filter(|_| !new.is_zero())?;
        let placements = self.view.placements.get(&event);
        let placed = placements.is_some_and(|places| places.contains(self.repo));
        let bound = self.view.uploads.iter().any(|upload| upload.event == event);
        (!placed && !bound).then_some(event)
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

/// Every command that was accepted is accepted again.
fn still_holds(plan: &PushPlan, now: &PushPlan) -> bool {
    let mut pairs = plan.verdicts.iter().zip(&now.verdicts);
    pairs.all(|(then, now)| !then.accepts() || now.accepts())
}

/// The plan with every acceptance taken back.
fn refused(plan: &PushPlan, reason: &str) -> PushPlan {
    let refuse = |verdict: &Verdict| match verdict {
        Verdict::Accept { .. } => Verdict::Refuse(reason.to_owned()),
        Verdict::Refuse(_) => verdict.clone(),
    };
    PushPlan {
        verdicts: plan.verdicts.iter().map(refuse).collect(),
        ..PushPlan::default()
    }
}
