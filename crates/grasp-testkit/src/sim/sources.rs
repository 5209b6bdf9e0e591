//! Where servers look for git data: at each other, in this process, and at liars. Hosts count what they are asked.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::time::Duration;

use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::oid::Oid;
use grasp_server::Taken;
use grasp_sync::hunt::{
    FetchEnd, FetchId, FetchOrder, FetchOutcome, Host, HuntSettings, Input, Output,
};

use super::hunter;
use super::liar::Lie;
use super::network::{Happening, Network, Peer};
use crate::history;

/// How a fetch goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The source does what it can.
    Answered,
    /// It breaks off, or is not there.
    Broken,
    /// It has had enough of us.
    Limited,
    /// What it sends is damaged.
    Damaged,
    /// It has nothing of it.
    Lacking,
    /// It sends nothing, ever.
    Silent,
}

/// What is known of a host by whoever asks it.
#[derive(Debug, Default)]
pub(crate) struct HostBudget {
    /// When fetches began there.
    begun: Vec<grasp_sync::engine::Time>,
    /// It has said that it is a GRASP server.
    is_grasp: bool,
}

impl<A: std::fmt::Debug> Network<A> {
    pub(crate) async fn hunts(&mut self, number: usize, input: Input) {
        let outputs = self.nodes[number].hunts(input, self.now);
        for output in outputs {
            self.trace(|| format!("  {number} => {output:?}"));
            self.do_for_hunt(number, output).await;
        }
    }

    async fn do_for_hunt(&mut self, from: usize, output: Output) {
        match output {
            Output::Gather { identifier } => {
                let at = self.now + Duration::from_millis(5);
                self.schedule(at, Happening::Look(from, identifier));
            }
            Output::Fetch(order) => self.begin_fetch(from, order),
            Output::Stop { fetch } => {
                let at = self.now + Duration::from_secs(1);
                self.schedule(at, Happening::Fetched(from, fetch, None));
            }
            Output::Silent { .. } => {}
            Output::Save { .. } | Output::Forget { .. } => {
                hunter::remember(self.nodes[from].store(), output).await;
                self.told(from);
            }
            Output::Probe { host, at } => {
                let is_grasp = self.source_of(at.as_str()).is_some();
                self.host_budget(from, &host).is_grasp = is_grasp;
                let probed = Input::HostProbed { host, is_grasp };
                let at = self.now + self.latency();
                self.schedule(at, Happening::Hunt(from, probed));
            }
        }
    }

    fn host_budget(&mut self, from: usize, host: &Host) -> &mut HostBudget {
        self.hosts.entry((from, host.clone())).or_default()
    }

    fn begin_fetch(&mut self, from: usize, order: FetchOrder) {
        self.count_fetch(from, &order);
        let fate = self.fate_of(&order);
        let fetch = order.fetch;
        let hunter = self.nodes[from].hunter();
        if let Some(hunter) = hunter {
            hunter.running.insert(fetch, order);
        }
        if fate != Fate::Silent {
            let takes = Duration::from_millis(20 + self.dice.below(3_000));
            let fetched = Happening::Fetched(from, fetch, Some(fate));
            self.schedule(self.now + takes, fetched);
        }
    }

    /// HUNT-7, HUNT-14
    fn count_fetch(&mut self, from: usize, order: &FetchOrder) {
        let host = Host::of(&order.source);
        let now = self.now;
        let hunter = self.nodes[from].hunter();
        let running = hunter.map_or(0, |hunter| {
            let others = hunter.running.values();
            others.filter(|it| Host::of(&it.source) == host).count()
        });
        let settings = HuntSettings::default();
        let budget = self.host_budget(from, &host);
        let (at_once, a_minute) = if budget.is_grasp {
            (settings.per_grasp_host, settings.grasp_per_minute)
        } else {
            (settings.per_domain, settings.per_minute)
        };
        budget.begun.push(now);
        let lately = |at: &&grasp_sync::engine::Time| now.since(**at) < Duration::from_mins(1);
        let lately = budget.begun.iter().rev().take_while(lately).count();
        assert!(running < at_once.get(), "HUNT-7: {running} run at {host:?}");
        assert!(
            lately <= a_minute.get(),
            "HUNT-7: {lately} in a minute at {host:?}"
        );
    }

    fn fate_of(&mut self, order: &FetchOrder) -> Fate {
        let is_bad = self.is_bad(2);
        match self.source_of(order.source.as_str()) {
            Some(Peer::Server(_)) if !is_bad => Fate::Answered,
            Some(Peer::Server(_)) => *self.dice.pick(&[
                Fate::Broken,
                Fate::Limited,
                Fate::Damaged,
                Fate::Lacking,
                Fate::Silent,
            ]),
            Some(Peer::Liar(number)) => match self.liars[number].lie {
                Lie::Silence => Fate::Silent,
                Lie::Forgery | Lie::Unsigned | Lie::Anything => Fate::Damaged,
                Lie::Refusal => Fate::Limited,
                Lie::HangUp | Lie::Repeats => Fate::Broken,
                Lie::Emptiness | Lie::SamePage | Lie::FalseNames => Fate::Lacking,
            },
            None => Fate::Broken,
        }
    }

    /// Who is at a clone URL.
    fn source_of(&self, url: &str) -> Option<Peer> {
        let host = url.strip_prefix("https://")?.split('/').next()?;
        self.at(&format!("wss://{host}").parse().ok()?)
    }

    /// What is owed is looked at.
    pub(crate) async fn looks(&mut self, number: usize, identifier: grasp_core::name::Identifier) {
        if self.nodes[number].running.is_some() {
            let service = self.nodes[number].world.service();
            let gathered = hunter::gathered(service, identifier);
            self.hunts(number, gathered).await;
        }
    }

    /// A fetch comes to its end; with no fate it was stopped.
    pub(crate) async fn fetched(&mut self, number: usize, fetch: FetchId, fate: Option<Fate>) {
        let hunter = self.nodes[number].hunter();
        let Some(order) = hunter.and_then(|hunter| hunter.running.remove(&fetch)) else {
            return;
        };
        let end = match fate {
            None => failed(FetchOutcome::Stopped),
            Some(Fate::Broken | Fate::Silent) => failed(FetchOutcome::Unavailable),
            Some(Fate::Limited) => failed(FetchOutcome::RateLimited { retry_after: None }),
            Some(Fate::Lacking) => failed(FetchOutcome::Lacks {
                missing: order.wants.iter().copied().collect(),
                advertisement: None,
            }),
            Some(fate) => self.answered(number, &order, fate == Fate::Damaged).await,
        };
        self.nodes[number].settle().await;
        self.told(number);
        self.hunts(number, Input::Ended { fetch, end }).await;
    }

    /// What the source has is sent, and taken in.
    async fn answered(&mut self, number: usize, order: &FetchOrder, is_damaged: bool) -> FetchEnd {
        let wants: BTreeSet<Oid> = order.wants.iter().copied().collect();
        let there = match self.source_of(order.source.as_str()) {
            Some(Peer::Server(source)) if self.nodes[source].running.is_none() => {
                return failed(FetchOutcome::Unavailable);
            }
            Some(Peer::Server(source)) => self.nodes[source].objects(&repository(order), &wants),
            _ => wants.clone(),
        };
        let mut commits = Vec::new();
        for nth in 0..history::COMMITS_MAX {
            let commit = history::commit(nth).await;
            let oid = commit.oid.parse::<Oid>().expect("an id");
            commits.extend(there.contains(&oid).then_some(commit));
        }
        let Some(mut pack) = history::pack(&commits).await else {
            let missing = wants;
            return failed(FetchOutcome::Lacks {
                missing,
                advertisement: None,
            });
        };
        if is_damaged {
            let middle = pack.len() / 2;
            pack[middle] ^= 0xff;
        }
        let service = self.nodes[number].world.service();
        let taken = service.take_fetched(&order.into, &wants, Cursor::new(pack));
        match taken.await {
            Ok(Taken::Overtaken) => failed(FetchOutcome::Overtaken),
            Ok(Taken::Kept { whole, .. }) => {
                assert!(!is_damaged, "a damaged pack is not taken");
                let missing: BTreeSet<Oid> = &wants - &whole;
                let outcome = if missing.is_empty() {
                    FetchOutcome::Complete
                } else {
                    FetchOutcome::Lacks {
                        missing,
                        advertisement: None,
                    }
                };
                FetchEnd {
                    installed: whole,
                    outcome,
                }
            }
            Err(failure) => {
                assert!(is_damaged, "a whole pack is taken: {failure}");
                let reason = failure.to_string();
                failed(FetchOutcome::Harmful { reason })
            }
        }
    }
}

fn failed(outcome: FetchOutcome) -> FetchEnd {
    FetchEnd {
        installed: BTreeSet::new(),
        outcome,
    }
}

/// The repository at the source's address.
fn repository(order: &FetchOrder) -> RepoAddress {
    let path = order.source.as_str().rsplit('/');
    let owner = path.clone().nth(1).and_then(grasp_core::name::parse_npub);
    let owner = owner.unwrap_or_else(|| order.group.owner());
    RepoAddress::Announced(Coordinate::new(owner, order.identifier.clone()))
}
