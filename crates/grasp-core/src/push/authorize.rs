//! Sorts the commands, has each kind judged, and puts the plan together.

use std::collections::BTreeMap;

use super::branches;
use super::ground::Ground;
use super::proposals::{self, Refusal};
use super::{Push, PushPlan, Verdict};
use crate::defect::Defect;
use crate::lifecycle::{Batch, Change, Stage};
use crate::name::RepoAddress;
use crate::purgatory;
use crate::refname::{RefName, RefSpace};

/// What every other command of an atomic push is told once one of them is refused.
pub(super) const ATOMIC: &str = "atomic push: another ref of it is refused";

impl Push<'_> {
    /// The verdicts on the commands, before the pack is read. With `atomic` one refusal refuses all.
    pub fn authorize(&self) -> PushPlan {
        let (names, ground) = (self.screen(), Ground::of(self));
        let mut verdicts: BTreeMap<usize, Verdict> = BTreeMap::new();
        let mut wanted = Vec::new();
        let (mut uploads, mut crowded) = (0, false);
        for (at, (name, command)) in names.iter().zip(self.commands).enumerate() {
            match name {
                Err(reason) => {
                    verdicts.insert(at, Verdict::Refuse(reason.clone()));
                }
                Ok(name) if name.space() == RefSpace::Proposal => {
                    let judged = proposals::judge(self, &ground, name, command.new, uploads);
                    crowded |= matches!(judged, Err(Refusal::NoPlace(_)));
                    let verdict =
                        judged.unwrap_or_else(|refusal| Verdict::Refuse(refusal.to_string()));
                    uploads += usize::from(matches!(
                        verdict,
                        Verdict::Accept {
                            upload: Some(_),
                            ..
                        }
                    ));
                    verdicts.insert(at, verdict);
                }
                Ok(name) => wanted.push((at, name, command.new)),
            }
        }
        let moves = wanted.iter().map(|it| (it.1, it.2)).collect();
        let ruling = branches::judge(self, &ground, &moves);
        verdicts.extend(wanted.into_iter().map(|(at, ..)| at).zip(ruling.verdicts));
        let plan = PushPlan {
            verdicts: verdicts.into_values().collect(),
            candidate: ruling.candidate,
            obstacle: ruling.obstacle.map(Box::new),
            extend: Batch::new(),
            crowded,
        };
        self.finish(plan)
    }

    /// What can be said of each command by its name alone: PUSH-1, PUSH-5, G6-3, and that two commands
    /// for one ref contradict each other.
    fn screen(&self) -> Vec<Result<RefName, String>> {
        let most = self.cx.policy.push_commands_max;
        let too_many = self.commands.len() > most;
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        for command in self.commands {
            *times.entry(&command.name).or_default() += 1;
        }
        let screen_one = |name: &str| {
            if too_many {
                return Err(format!("a push has at most {most} commands"));
            }
            let parsed: RefName = name.parse().map_err(|wrong| format!("{wrong}"))?;
            match (parsed.space(), self.repo) {
                (RefSpace::Other, _) => Err(
                    "only refs/heads/, refs/tags/ and refs/nostr/<event-id> can be pushed"
                        .to_owned(),
                ),
                (RefSpace::Branch | RefSpace::Tag, RepoAddress::Proposals(_)) => {
                    Err("only refs/nostr/<event-id> can be pushed to a /prs/ repository".to_owned())
                }
                _ if times[name] > 1 => Err("named by more than one command".to_owned()),
                _ => Ok(parsed),
            }
        };
        let names = self.commands.iter().map(|command| command.name.as_str());
        names.map(screen_one).collect()
    }

    /// PUSH-8 (atomic), PUSH-12.
    fn finish(&self, mut plan: PushPlan) -> PushPlan {
        let whole = self.atomic && !Defect::PartialAtomic.is_on();
        if whole && !plan.verdicts.iter().all(Verdict::accepts) {
            for verdict in plan.verdicts.iter_mut().filter(|it| it.accepts()) {
                *verdict = Verdict::Refuse(ATOMIC.to_owned());
            }
            plan.candidate = None;
        }
        if plan.candidate.is_some() {
            plan.extend = self.extended_announcement();
        }
        plan
    }

    /// PUR-3
    fn extended_announcement(&self) -> Batch {
        let owner = &self.repo.coordinate().owner;
        let waiting = self.view.announcement_in(owner, Stage::Waiting);
        waiting
            .map(|entry| Change::Extend {
                event: entry.item.id(),
                deadline: Some(self.cx.now + purgatory::WAITING),
            })
            .into_iter()
            .collect()
    }
}
