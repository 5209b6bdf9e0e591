//! Random histories, pushed in random pieces into two repositories of one family: each has at all times
//! exactly what the tips it was given reach, by the word of plain git.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::propagate;

/// A small generator, so that a failing run is a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

struct Run {
    place: Place,
    work: Work,
    dice: Dice,
    repos: [RepoAddress; 2],
    /// Tips that each repository was given.
    tips: [BTreeSet<Oid>; 2],
    all_tips: Vec<Oid>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let place = Place::new();
        let work = place.work("work");
        let repos = [address(1, "project"), address(2, "project")];
        for repo in &repos {
            place.repositories.lock(repo).create().expect("created");
        }
        Self {
            place,
            work,
            dice: Dice(seed * 2_654_435_761 + 1),
            repos,
            tips: Default::default(),
            all_tips: Vec::new(),
        }
    }

    /// Makes history: a commit, a merge or a tag.
    fn grow(&mut self) {
        if !self.all_tips.is_empty() && self.dice.chance(30) {
            let nth = usize::try_from(self.dice.below(self.all_tips.len() as u64)).expect("small");
            let start = self.all_tips[nth].to_string();
            self.work.git(&["checkout", "--quiet", "--detach", &start]);
        }
        let file = format!("d{}/f{}", self.dice.below(3), self.dice.below(4));
        let line = self.dice.below(200);
        let mark = self.dice.below(1_000_000);
        let text = lines((0..200).map(|n| {
            if n == line {
                format!("{n} {mark}")
            } else {
                n.to_string()
            }
        }));
        let mut tip = self.work.commit(&file, text);
        if self.dice.chance(25) {
            let tag = format!("t{mark}");
            self.work.git(&["tag", "--annotate", "-m", "x", &tag]);
            tip = self.work.oid(&format!("refs/tags/{tag}"));
        }
        self.all_tips.push(tip);
    }

    /// Pushes one or two tips, as git would or with more in the pack than it should.
    fn push(&mut self) {
        let at = usize::from(self.dice.chance(50));
        let latest = self.all_tips[self.all_tips.len() - 1];
        let nth = usize::try_from(self.dice.below(self.all_tips.len() as u64)).expect("small");
        let accepted = BTreeSet::from([latest, self.all_tips[nth]]);
        let lends = self.dice.chance(50);
        let mut list = lines(&accepted);
        if self.dice.chance(30) {
            let junk = self
                .work
                .object("blob", &self.dice.below(u64::MAX).to_le_bytes());
            list.push_str(&lines([junk]));
        }
        list.push_str(&lines(self.tips[at].iter().map(|tip| format!("^{tip}"))));
        if lends {
            list.push_str(&lines(
                self.tips[1 - at].iter().map(|tip| format!("^{tip}")),
            ));
        }
        let options: &[&str] = match self.dice.below(3) {
            0 => &["--thin"],
            1 => &["--thin", "--delta-base-offset"],
            _ => &[],
        };
        let pack = self.work.pack(&list, options);
        let lease = self.place.repositories.lease(&self.repos[at]);
        let other = self.place.repositories.lease(&self.repos[1 - at]);
        let extra = if lends { vec![other] } else { Vec::new() };
        let accepted: Vec<Oid> = accepted.into_iter().collect();
        let never = Arc::default();
        ingest(
            &self.place.repositories,
            &lease,
            &extra,
            &mut &*pack,
            &PackLimits::default(),
            &never,
        )
        .and_then(|quarantined| quarantined.finish(&accepted))
        .expect("everything is there");
        self.tips[at].extend(accepted);
    }

    fn propagate(&mut self) {
        let to = usize::from(self.dice.chance(50));
        let wanted: Vec<Oid> = self.tips[1 - to]
            .iter()
            .copied()
            .filter(|_| self.dice.chance(60))
            .collect();
        let lease = |nth: usize| self.place.repositories.lease(&self.repos[nth]);
        let brought = propagate(
            &self.place.repositories,
            &lease(to),
            &[lease(1 - to)],
            &wanted,
        );
        let brought = brought.expect("readable");
        assert_eq!(brought.len(), wanted.iter().collect::<BTreeSet<_>>().len());
        self.tips[to].extend(brought);
    }

    /// Shows the tips as refs, and perhaps lets an operator repack.
    fn settle(&mut self, nth: usize) {
        let refs: BTreeMap<_, _> = self.tips[nth]
            .iter()
            .map(|tip| (crate::testing::name(&format!("refs/tags/{tip}")), *tip))
            .collect();
        let lock = self.place.repositories.lock(&self.repos[nth]);
        lock.write_refs(&refs, default_head()).expect("present");
        if self.dice.chance(20) {
            git(
                &self.place.repositories.path(&self.repos[nth]),
                &["repack", "-adq"],
                b"",
            );
        }
    }

    fn check(&self, nth: usize, step: &str) {
        let home = self.place.repositories.path(&self.repos[nth]);
        let format = "--batch-check=%(objectname)";
        let held = git_text(&home, &["cat-file", "--batch-all-objects", format]);
        let held: BTreeSet<&str> = held.lines().collect();
        let tips: Vec<String> = self.tips[nth].iter().map(ToString::to_string).collect();
        let mut arguments = vec!["rev-list", "--objects", "--no-object-names"];
        arguments.extend(tips.iter().map(String::as_str));
        let reached = if tips.is_empty() {
            String::new()
        } else {
            self.work.git(&arguments)
        };
        let mut reached: BTreeSet<&str> = reached.lines().collect();
        // rev-list names no tag objects that it is given.
        reached.extend(tips.iter().map(String::as_str));
        assert_eq!(held, reached, "{step}");
        assert_sound(&home);
        let tips: Vec<Oid> = self.tips[nth].iter().copied().collect();
        let objects = self
            .place
            .repositories
            .objects(&self.place.repositories.lease(&self.repos[nth]));
        assert_eq!(
            objects.expect("there").complete(&tips, &[]).len(),
            tips.len(),
            "{step}"
        );
    }
}

#[test]
fn random_histories_arrive_exactly() {
    for seed in 1..=4 {
        let mut run = Run::new(seed);
        for step in 0..10 {
            for _ in 0..=run.dice.below(2) {
                run.grow();
            }
            if run.dice.chance(75) {
                run.push();
            } else {
                run.propagate();
            }
            for nth in [0, 1] {
                run.settle(nth);
                run.check(nth, &format!("seed {seed}, step {step}"));
            }
        }
    }
}
