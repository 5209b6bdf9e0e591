//! PUSH-*, AFTER-*: which pushes are taken, and what they complete.

use std::collections::BTreeMap;

use grasp_core::event::kind;
use grasp_core::lifecycle::Stage;
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::state::StateEvent;
use grasp_core::{EventId, PublicKey};

use super::{Kept, Naive, Ranked as _, Upload, WAITING};

/// One line of a push: where a ref shall be, `None` to delete it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    /// The ref.
    pub(crate) name: String,
    /// Where it shall be.
    pub(crate) new: Option<Oid>,
}

impl Naive {
    /// Somebody pushes; whether each command is `ok`. What it needs beyond the repository's own objects
    /// comes with it.
    pub(crate) fn push(
        &mut self,
        repository: &RepoAddress,
        commands: &[Command],
        atomic: bool,
    ) -> Vec<bool> {
        let candidate = self.candidate(repository, commands);
        let verdicts = self.verdicts(repository, commands, candidate.as_ref(), atomic);
        if verdicts.contains(&true) {
            self.carry_out(repository, commands, &verdicts, candidate.as_ref(), atomic)
        } else {
            verdicts
        }
    }

    fn carry_out(
        &mut self,
        repository: &RepoAddress,
        commands: &[Command],
        verdicts: &[bool],
        candidate: Option<&StateEvent>,
        atomic: bool,
    ) -> Vec<bool> {
        let now = self.now;
        if candidate.is_some() {
            self.extend(repository); // PUR-3
        }
        let accepted = || {
            let judged = commands.iter().zip(verdicts);
            judged.filter(|(_, ok)| **ok).map(|(command, _)| command)
        };
        for oid in accepted().filter_map(|command| command.new) {
            let closure = self.history[&oid].clone();
            let held = self.objects.entry(repository.clone()).or_default();
            held.extend(closure);
        }
        let without = self.clone();
        for command in accepted() {
            if let (Some(event), Some(commit)) = (proposal_event(&command.name), command.new) {
                match self.find(&event).filter(|kept| kept.counts()) {
                    Some(_) if matches!(repository, RepoAddress::Proposals(_)) => {
                        self.placed.insert(event);
                    }
                    Some(_) => {}
                    None => self.upload(event, commit, repository, now),
                }
            }
        }
        self.settle();
        // PUSH-13: or nothing of it is done.
        let face = self.wanted_face(repository);
        let done = accepted().all(|command| {
            face.refs.get(&command.name).cloned() == command.new.map(|oid| oid.to_string())
        });
        if !done {
            *self = without;
            if !atomic {
                self.settle(); // the objects came all the same
            }
        }
        self.bring_in_line();
        verdicts.iter().map(|ok| *ok && done).collect()
    }

    fn upload(&mut self, event: EventId, commit: Oid, repository: &RepoAddress, now: u64) {
        let known = |upload: &Upload| upload.event == event && upload.repository == *repository;
        if !self.uploads.iter().any(known) {
            self.uploads.push(Upload {
                event,
                commit,
                repository: repository.clone(),
                until: now + WAITING,
            });
        }
    }

    fn extend(&mut self, repository: &RepoAddress) {
        let until = self.now + WAITING;
        let RepoAddress::Announced(repo) = repository else {
            return;
        };
        for kept in &mut self.kept {
            let own = kept.announcement().is_some() && kept.author() == repo.owner;
            if own && kept.stage == Stage::Waiting {
                kept.until = Some(until);
            }
        }
    }

    /// Whether each command is allowed. With `atomic` one refusal refuses all.
    fn verdicts(
        &self,
        repository: &RepoAddress,
        commands: &[Command],
        candidate: Option<&StateEvent>,
        atomic: bool,
    ) -> Vec<bool> {
        let local = self.local(repository);
        let mut signed = commands.iter().filter(|it| is_signed(&it.name));
        let stays = |it: &Command| local.get(&it.name) == text(it.new).as_ref();
        let nothing_to_do = signed.all(stays); // PUSH-7
        let verdicts: Vec<bool> = commands
            .iter()
            .map(|command| match proposal_event(&command.name) {
                Some(event) => self.may_bind(repository, event, command.new),
                None if !is_signed(&command.name) => false, // PUSH-5
                None if !self.may_move(repository) => false,
                None => nothing_to_do || candidate.is_some_and(|state| agrees(state, command)),
            })
            .collect();
        let all = verdicts.iter().all(|ok| *ok);
        verdicts
            .into_iter()
            .map(|ok| ok && (all || !atomic))
            .collect()
    }

    /// PUSH-6, PUSH-19
    fn may_move(&self, repository: &RepoAddress) -> bool {
        match repository {
            RepoAddress::Announced(repo) => {
                self.shown.contains_key(repository) && !self.confirmed(&repo.owner).is_empty()
            }
            RepoAddress::Proposals(_) => false,
        }
    }

    /// PUSH-8, PUSH-9: of the states that the push completes the newest.
    fn candidate(&self, repository: &RepoAddress, commands: &[Command]) -> Option<StateEvent> {
        let RepoAddress::Announced(repo) = repository else {
            return None;
        };
        let local = self.local(repository);
        let moves: Vec<&Command> = commands.iter().filter(|it| is_signed(&it.name)).collect();
        let stays = |it: &&Command| local.get(&it.name) == text(it.new).as_ref();
        if !self.may_move(repository) || moves.iter().all(stays) {
            return None;
        }
        let chosen = self.candidates(&repo.owner).into_iter().filter(|state| {
            let mut refs = local.clone();
            let agreeing: Vec<&&Command> = moves.iter().filter(|it| agrees(state, it)).collect();
            for command in &agreeing {
                match text(command.new) {
                    Some(new) => refs.insert(command.name.clone(), new),
                    None => refs.remove(&command.name),
                };
            }
            !agreeing.is_empty() && refs == declared(state)
        });
        chosen.max_by_key(StateEvent::rank)
    }

    /// PUSH-9: the winner, and the waiting and parked states by members that beat it.
    fn candidates(&self, owner: &PublicKey) -> Vec<StateEvent> {
        let confirmed = self.confirmed(owner);
        let winner = self.winner(owner).cloned();
        let beats = |state: &&StateEvent| {
            let winner = winner.as_ref().map(StateEvent::rank);
            Some(state.rank()) > winner
        };
        let waiting = self
            .kept
            .iter()
            .filter(|kept| kept.is_pending() && confirmed.contains(&kept.author()))
            .filter_map(Kept::state)
            .filter(|state| state.unsatisfiable().is_empty())
            .filter(beats);
        waiting.cloned().chain(winner.clone()).collect()
    }

    /// PUSH-2, PUSH-3, PUSH-4
    fn may_bind(&self, repository: &RepoAddress, event: EventId, new: Option<Oid>) -> bool {
        let name = format!("refs/nostr/{}", event.to_hex());
        let present = self
            .shown
            .get(repository)
            .and_then(|face| face.refs.get(&name));
        let Some(new) = new else {
            return present.is_none();
        };
        if let RepoAddress::Announced(_) = repository
            && !self.shown.contains_key(repository)
        {
            return false;
        }
        if let Some(kept) = self.find(&event).filter(|kept| kept.counts()) {
            return self.belongs_here(repository, kept, new);
        }
        let mut others = self.uploads.iter().filter(|upload| upload.event == event);
        let bound = others.any(|upload| upload.commit != new);
        !bound && present.is_none_or(|oid| *oid == new.to_string())
    }

    fn belongs_here(&self, repository: &RepoAddress, kept: &Kept, new: Oid) -> bool {
        let Some(proposal) = kept.proposal() else {
            return false;
        };
        debug_assert!(kind::is_proposal(kept.event.kind()));
        let here = match repository {
            RepoAddress::Announced(repo) => self.targets(proposal, &repo.owner),
            RepoAddress::Proposals(repo) => {
                kept.author() == repo.owner && !proposal.targets().is_empty()
            }
        };
        here && proposal.tip().commit() == Some(new)
    }

    /// The branches and tags that a directory shows.
    fn local(&self, repository: &RepoAddress) -> BTreeMap<String, String> {
        self.shown
            .get(repository)
            .map(super::Face::signed)
            .unwrap_or_default()
    }
}

fn is_signed(name: &str) -> bool {
    name.starts_with("refs/heads/") || name.starts_with("refs/tags/")
}

fn proposal_event(name: &str) -> Option<EventId> {
    EventId::from_hex(name.strip_prefix("refs/nostr/")?).ok()
}

fn text(oid: Option<Oid>) -> Option<String> {
    oid.map(|oid| oid.to_string())
}

fn declared(state: &StateEvent) -> BTreeMap<String, String> {
    let refs = state.refs().iter();
    refs.map(|(name, oid)| (name.as_str().to_owned(), oid.to_string()))
        .collect()
}

/// PUSH-8: sets a ref to what the state says, or deletes one that it does not declare.
fn agrees(state: &StateEvent, command: &Command) -> bool {
    declared(state).get(&command.name).cloned() == text(command.new)
}
