use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const START: Time = Time::from_secs(1_000_000);

fn host(n: usize) -> Host {
    let address = format!("https://h{n}.example/x.git");
    Host::of(&address.parse().expect("a clone URL"))
}

fn named(n: usize) -> Identifier {
    format!("r{n}").parse().expect("an identifier")
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A host, and those who want it.
struct Ring {
    hosts: Hosts,
    settings: HuntSettings,
    now: Time,
    number: u64,
    running: usize,
    began: Vec<Time>,
}

impl Ring {
    fn new() -> Self {
        Self {
            hosts: Hosts::default(),
            settings: HuntSettings::default(),
            now: START,
            number: 0,
            running: 0,
            began: Vec::new(),
        }
    }

    fn settle(&mut self) -> Settled {
        self.hosts.settle(&host(0), self.now, &self.settings)
    }

    fn wait(&mut self, who: usize, rank: Rank) -> Place {
        self.number += 1;
        let place = (rank, self.number);
        self.hosts
            .wait(&host(0), &named(who), place, self.now, &self.settings);
        self.settle();
        place
    }

    /// Begins what may begin, and returns for whom.
    fn begin(&mut self) -> Option<Identifier> {
        let (host, identifier) = self.hosts.next()?;
        self.hosts.take_turn(&host);
        self.hosts.begin(&host, self.now);
        self.running += 1;
        self.began.push(self.now);
        self.settle();
        Some(identifier)
    }

    fn end(&mut self) {
        if self.running > 0 {
            self.running -= 1;
            self.hosts.end(&host(0));
            self.settle();
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    End,
    Begin,
    Wait(usize),
    Leave(usize),
    Pause(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..20_u64).prop_map(Step::Pass),
        3 => Just(Step::End),
        6 => Just(Step::Begin),
        6 => (0..12_usize).prop_map(Step::Wait),
        1 => (0..12_usize).prop_map(Step::Leave),
        1 => (1..90_u64).prop_map(Step::Pause),
    ];
    proptest::collection::vec(step, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// HUNT-7: never more than five run, never more than thirty begin in any minute, nothing begins in a pause, and whoever
    /// may begin and does not is told when.
    #[test]
    fn limits_hold_whatever_happens(steps in steps()) {
        let mut ring = Ring::new();
        let mut waiting: BTreeMap<usize, Place> = BTreeMap::new();
        let mut paused_until = START;
        for step in steps {
            match step {
                Step::Pass(n) => ring.now = ring.now + secs(n),
                Step::End => ring.end(),
                Step::Begin => {
                    if let Some(who) = ring.begin() {
                        prop_assert!(ring.now >= paused_until);
                        let first = waiting.iter().min_by_key(|(_, place)| **place);
                        let first = *first.expect("somebody waits").0;
                        prop_assert_eq!(&who, &named(first), "who waits longest");
                        waiting.remove(&first);
                    }
                }
                Step::Wait(who) if !waiting.contains_key(&who) => {
                    let place = ring.wait(who, Rank::Waiting);
                    waiting.insert(who, place);
                }
                Step::Wait(_) => {}
                Step::Leave(who) => {
                    if let Some(place) = waiting.remove(&who) {
                        ring.hosts.leave(&host(0), &named(who), place);
                    }
                }
                Step::Pause(n) => {
                    ring.hosts.pause(&host(0), Some(secs(n)), ring.now);
                    paused_until = paused_until.max(ring.now + secs(n));
                }
            }
            let settled = ring.settle();
            prop_assert!(ring.running <= 5);
            let last = ring.began.iter().filter(|at| ring.now.since(**at) < secs(60));
            let in_this_minute = last.count();
            prop_assert!(in_this_minute <= 30);
            let is_free = ring.running < 5 && in_this_minute < 30 && ring.now >= paused_until;
            prop_assert_eq!(ring.hosts.is_open(&host(0)), is_free && !waiting.is_empty());
            if !waiting.is_empty() && !is_free && ring.running < 5 {
                prop_assert!(settled.wake_at.expect("a time") > ring.now);
            }
        }
    }

    /// HUNT-7: those who always wait get the same share, to one.
    #[test]
    fn who_always_waits_gets_the_same_share(crowd in 2..40_usize, rounds in 1..5_usize) {
        let mut ring = Ring::new();
        for who in 0..crowd {
            ring.wait(who, Rank::Waiting);
        }
        let mut shares: BTreeMap<Identifier, usize> = BTreeMap::new();
        let mut left = crowd * rounds + crowd / 2;
        while left > 0 {
            ring.now = ring.now + secs(1);
            ring.settle();
            while left > 0 && let Some(who) = ring.begin() {
                left -= 1;
                *shares.entry(who.clone()).or_default() += 1;
                let who = (0..crowd).find(|n| named(*n) == who).expect("of the crowd");
                ring.wait(who, Rank::Waiting);
                ring.end();
            }
        }
        let most = shares.values().max().copied().unwrap_or_default();
        let least = (0..crowd).map(|who| shares.get(&named(who)).copied().unwrap_or_default()).min();
        prop_assert!(most - least.unwrap_or_default() <= 1);
    }
}

/// HUNT-13
#[test]
fn what_is_urgent_goes_before_what_is_parked_wherever_it_is() {
    let mut ring = Ring::new();
    ring.wait(1, Rank::Parked);
    ring.wait(2, Rank::Waiting);
    let other = host(1);
    let place = (Rank::Waiting, 100);
    ring.hosts
        .wait(&other, &named(3), place, START, &ring.settings);
    ring.hosts.settle(&other, START, &ring.settings);
    let order: Vec<Identifier> = std::iter::from_fn(|| {
        let (host, identifier) = ring.hosts.next()?;
        ring.hosts.take_turn(&host);
        ring.hosts.begin(&host, START);
        ring.hosts.settle(&host, START, &ring.settings);
        Some(identifier)
    })
    .collect();
    assert_eq!(order, [2, 3, 1].map(named));
}

/// HUNT-14
#[test]
fn half_of_the_figures_of_a_grasp_server_is_at_least_one() {
    let mut settings = HuntSettings::default();
    let mut state = HostState::default();
    assert_eq!(state.limits(START, &settings), (5, 30));
    state.is_grasp = true;
    assert_eq!(state.limits(START, &settings), (8, 300));
    state.halved_until = Some(START + secs(1));
    assert_eq!(state.limits(START, &settings), (4, 150));
    assert_eq!(state.limits(START + secs(1), &settings), (8, 300));
    settings.per_grasp_host = std::num::NonZeroUsize::MIN;
    assert_eq!(state.limits(START, &settings).0, 1);
    state.is_grasp = false;
    assert_eq!(
        state.limits(START, &settings),
        (5, 30),
        "an ordinary host is not halved"
    );
}

/// HUNT-14
#[test]
fn a_host_is_asked_what_it_is_when_its_limits_are_in_the_way() {
    let mut ring = Ring::new();
    for who in 0..5 {
        ring.wait(who, Rank::Waiting);
        ring.begin();
    }
    assert!(!ring.settle().probe, "nobody waits");
    ring.number += 1;
    let place = (Rank::Waiting, ring.number);
    ring.hosts
        .wait(&host(0), &named(9), place, START, &ring.settings);
    assert!(ring.settle().probe);
    assert!(!ring.settle().probe, "once");
    ring.now = START + PROBED_FOR;
    assert!(ring.settle().probe, "and once a day");
    ring.hosts.pause(&host(0), None, ring.now);
    ring.now = ring.now + secs(1);
    assert_eq!(ring.settle().wake_at, Some(START + PROBED_FOR + secs(60)));
}

/// HUNT-7: who is forgotten is only who counts for nothing.
#[test]
fn at_the_brim_only_idle_hosts_are_forgotten() {
    let mut hosts = Hosts::default();
    let settings = HuntSettings::default();
    let place = |n: usize| (Rank::Waiting, u64::try_from(n).unwrap_or_default());
    let visit = |hosts: &mut Hosts, n: usize, now: Time| {
        hosts.wait(&host(n), &named(0), place(n), now, &settings);
        hosts.leave(&host(n), &named(0), place(n));
    };
    hosts.begin(&host(0), START);
    hosts.end(&host(0));
    hosts.pause(&host(1), None, START);
    hosts.shun(&host(2), START + secs(100_000));
    for n in 3..HOSTS_MAX {
        visit(&mut hosts, n, START);
    }
    assert_eq!(hosts.of.len(), HOSTS_MAX);
    let later = START + secs(59);
    for n in HOSTS_MAX..HOSTS_MAX + 100 {
        visit(&mut hosts, n, later);
    }
    assert_eq!(hosts.of.len(), HOSTS_MAX);
    for n in 0..3 {
        assert!(hosts.of.contains_key(&host(n)), "{n}");
    }
    assert!(hosts.is_shunned(&host(2), later) && !hosts.is_shunned(&host(3), later));
    assert!(!hosts.is_shunned(&host(2), START + secs(100_000)));
}
