use std::collections::{BTreeMap, BTreeSet};

use nostr::event::EventId;

use super::*;
use crate::lifecycle::Stage::{Held, Parked, Served, Superseded, Waiting};
use crate::maintainers::{MaintainerRule, confirmed_set};
use crate::refplan;
use crate::testing::project::{
    RawTag, ViewBuilder, announcement, announcement_elsewhere, maintainers, project, proposal,
    refname, repo, role, state, upload, view,
};
use crate::testing::{key, oid, policy};

const ONE: &str = "1111111111111111111111111111111111111111";
const TWO: &str = "2222222222222222222222222222222222222222";

/// A view of which everything is asked from the side of key 1.
struct Asked {
    view: RepoView,
    facts: ObjectFacts,
    shown: Option<(BTreeMap<RefName, Oid>, RefName)>,
    policy: Policy,
}

impl Asked {
    fn of(view: ViewBuilder) -> Self {
        Self {
            view: view.build(),
            facts: ObjectFacts::none(),
            shown: Some((BTreeMap::new(), RefName::main())),
            policy: policy(),
        }
    }

    fn holding(mut self, owner: u8, oids: &[Oid]) -> Self {
        for oid in oids {
            self.facts.add(repo(key(owner)), *oid);
        }
        self
    }

    fn showing(mut self, refs: &[(&str, Oid)]) -> Self {
        let refs = refs.iter().map(|(name, oid)| (refname(name), *oid));
        self.shown = Some((refs.collect(), RefName::main()));
        self
    }

    fn explained(&self) -> Explanation {
        let repo = Coordinate::new(key(1), project());
        let explanation = explain(Question {
            repo: &repo,
            view: &self.view,
            facts: &self.facts,
            shown: self.shown.as_ref().map(|(refs, head)| (refs, head)),
            archive: None,
            policy: &self.policy,
        });
        self.agrees_with_the_decisions(&explanation);
        explanation
    }

    /// What is explained is what decides.
    fn agrees_with_the_decisions(&self, explanation: &Explanation) {
        let members: BTreeSet<PublicKey> = explanation
            .people
            .iter()
            .filter(|person| person.membership.counts())
            .map(|person| person.key)
            .collect();
        let rule = self.policy.maintainer_rule;
        assert_eq!(members, confirmed_set(&key(1), &self.view, rule));
        assert_eq!(explanation.root.is_ok(), !members.is_empty());
        let winner = refplan::winner(&repo(key(1)), &self.view, &self.policy);
        let wins = explanation
            .states
            .iter()
            .find(|it| it.why == StateWhy::Wins);
        assert_eq!(
            wins.map(|it| it.event.event),
            winner.map(|winner| winner.item.id())
        );
    }

    fn membership(&self, of: u8) -> Membership {
        let people = self.explained().people;
        let person = people.into_iter().find(|person| person.key == key(of));
        person.expect("named").membership
    }

    fn why(&self, state: &crate::state::StateEvent) -> StateWhy {
        let mut states = self.explained().states.into_iter();
        let told = states.find(|it| it.event.event == state.id());
        told.expect("told").why
    }
}

fn alone() -> ViewBuilder {
    view().announced(announcement(key(1), 1, vec![]), Served)
}

fn served(listings: &[(u8, Vec<RawTag>)]) -> Asked {
    Asked::of(listings.iter().fold(view(), |view, (owner, tags)| {
        view.announced(announcement(key(*owner), 1, tags.clone()), Served)
    }))
}

fn lists(keys: &[u8]) -> Vec<RawTag> {
    vec![maintainers(
        &keys.iter().map(|n| key(*n)).collect::<Vec<_>>(),
    )]
}

fn keys(numbers: &[u8]) -> BTreeSet<PublicKey> {
    numbers.iter().map(|n| key(*n)).collect()
}

/// MNT-6, MNT-7
#[test]
fn members_are_named_with_their_links_in_both_directions() {
    let both = served(&[(1, lists(&[2])), (2, lists(&[1]))]);
    assert_eq!(both.explained().root, Ok(key(1)));
    assert_eq!(both.membership(1), Membership::Root);
    let member = Membership::Member {
        listed_by: keys(&[1]),
        lists: keys(&[1]),
    };
    assert_eq!(both.membership(2), member);
}

/// MNT-8, MNT-4
#[test]
fn the_invited_are_told_what_they_lack() {
    let left = vec![role("m", key(4), &["1", "2"])];
    let invited = served(&[(1, lists(&[2, 3, 4])), (3, vec![]), (4, left)]);
    let lacks = |lacks| Membership::Invited {
        by: keys(&[1]),
        lacks,
    };
    assert_eq!(invited.membership(2), lacks(Outside::NoAnnouncement));
    assert_eq!(invited.membership(3), lacks(Outside::ListsNobodyBack));
    assert_eq!(invited.membership(4), lacks(Outside::Left));
}

/// MNT-1
#[test]
fn who_has_no_say_any_more_is_named() {
    let ended = vec![role("M", key(1), &[]), role("m", key(2), &["1", "2"])];
    let view = served(&[(1, ended), (2, lists(&[1])), (3, lists(&[1, 9]))]);
    let by = keys(&[1]);
    assert_eq!(view.membership(2), Membership::Ended { by });
    let lists = keys(&[1]);
    assert_eq!(view.membership(3), Membership::Uninvited { lists });
}

/// §4: whose states count comes first, and who only claims a tie last.
#[test]
fn people_are_told_by_what_they_are_to_the_repository() {
    let lead = vec![role("M", key(5), &[])];
    let root = [
        ("M", 5, &[][..]),
        ("m", 4, &[]),
        ("m", 2, &[]),
        ("m", 3, &["1", "2"]),
    ];
    let root = root.map(|(letter, n, times)| role(letter, key(n), times));
    let view = served(&[
        (1, lead),
        (4, lists(&[5])),
        (5, root.to_vec()),
        (6, lists(&[5])),
    ]);
    let people = view.explained().people;
    let told: Vec<u8> = people.iter().map(|it| it.key.to_bytes()[0]).collect();
    assert_eq!(told, [5, 4, 1, 2, 3, 6]);
}

/// MNT-11
#[test]
fn under_the_recursive_rule_a_listing_is_the_reason() {
    let mut view = served(&[(1, lists(&[2]))]);
    view.policy.maintainer_rule = MaintainerRule::Recursive;
    let by = keys(&[1]);
    assert_eq!(view.membership(2), Membership::Listed { by });
}

/// MNT-6
#[test]
fn without_a_root_the_reason_is_told() {
    let lead = |n: u8| vec![role("M", key(n), &[])];
    let reason = |listings: &[(u8, Vec<RawTag>)]| served(listings).explained().root;
    assert_eq!(reason(&[]), Err(NoRoot::NotAnnounced));
    let left = vec![role("m", key(1), &["1", "2"])];
    assert_eq!(reason(&[(1, left)]), Err(NoRoot::OwnerLeft));
    let elsewhere = NoRoot::LeadNotAnnounced { lead: key(2) };
    assert_eq!(reason(&[(1, lead(2))]), Err(elsewhere));
    let silent = NoRoot::LeadDoesNotLead { lead: key(2) };
    assert_eq!(reason(&[(1, lead(2)), (2, vec![])]), Err(silent));
    let several = NoRoot::SeveralLeads { of: key(1) };
    let two = [lead(2), lead(3)].concat();
    assert_eq!(reason(&[(1, two), (2, lead(2))]), Err(several));
    assert_eq!(reason(&[(1, lead(2)), (2, lead(1))]), Err(NoRoot::Circle));
    let follows = served(&[(1, lead(2)), (2, lead(2))]);
    assert_eq!(follows.explained().root, Ok(key(2)));
    assert_eq!(follows.membership(1), Membership::OwnerWithoutSay);
}

/// §4: whoever is named has an announcement that says why.
#[test]
fn announcements_are_told_of_the_owner_all_and_of_others_the_newest() {
    let [own, before] = [20, 10].map(|at| announcement(key(1), at, lists(&[2])));
    let [theirs, replaced] = [20, 10].map(|at| announcement(key(2), at, lists(&[1])));
    let stranger = announcement(key(3), 10, vec![]);
    let view = view()
        .announced(own.clone(), Served)
        .announced(before.clone(), Superseded)
        .announced(theirs.clone(), Served)
        .announced(replaced, Superseded)
        .announced(stranger, Served);
    let told = Asked::of(view).explained().announcements;
    let told: Vec<EventId> = told.iter().map(|it| it.event.event).collect();
    assert_eq!(told, [own.id(), before.id(), theirs.id()]);
}

/// ANN-1, ANN-2, ANN-6, PUR-4, ANN-3b, DEL-5, DEL-12
#[test]
fn every_stage_of_an_announcement_has_its_reason() {
    let of = |view: ViewBuilder| {
        let announcements = Asked::of(view).explained().announcements;
        announcements.first().expect("told").why
    };
    let own = || announcement(key(1), 1, vec![]);
    assert_eq!(of(view().announced(own(), Served)), AnnouncementWhy::Hosted);
    let there = announcement_elsewhere(key(1), 1, vec![]);
    let there = view().announced(there, Served);
    assert_eq!(of(there), AnnouncementWhy::Elsewhere);
    for (stage, why) in [
        (Waiting, AnnouncementWhy::AwaitsPush),
        (Parked, AnnouncementWhy::WithdrawsAuthority),
        (Superseded, AnnouncementWhy::Replaced),
        (Held, AnnouncementWhy::Deleted),
    ] {
        assert_eq!(of(view().announced(own(), stage)), why);
    }
    let mut soft = Asked::of(view().announced(own(), Parked));
    for entry in soft.view.announcements.values_mut().flatten() {
        entry.deadline = Some(Timestamp::from_secs(9));
    }
    let why = soft.explained().announcements[0].why;
    assert_eq!(why, AnnouncementWhy::SoftExpired);
}

/// DEL-12: what was replaced comes after what may still win, however new it is.
#[test]
fn states_are_told_newest_first_and_what_is_only_kept_last() {
    let states = [10, 20, 30, 40].map(|at| state(key(1), at, &[]));
    let view = states
        .iter()
        .zip([Served, Superseded, Waiting, Held])
        .fold(alone(), |view, (item, stage)| {
            view.stated(item.clone(), stage)
        });
    let told = Asked::of(view).explained().states;
    let told: Vec<EventId> = told.iter().map(|it| it.event.event).collect();
    assert_eq!(told, [2, 0, 3, 1].map(|n: usize| states[n].id()));
}

/// REF-1
#[test]
fn the_winner_is_named_and_the_others_lose() {
    let old = state(key(1), 10, &[("refs/heads/main", ONE)]);
    let new = state(key(1), 20, &[("refs/heads/main", TWO)]);
    let stranger = state(key(9), 30, &[("refs/heads/main", TWO)]);
    let view = alone()
        .stated(old.clone(), Served)
        .stated(new.clone(), Served)
        .stated(stranger.clone(), Served);
    let asked = Asked::of(view);
    assert_eq!(asked.why(&new), StateWhy::Wins);
    assert_eq!(asked.why(&old), StateWhy::Loses);
    assert_eq!(asked.why(&stranger), StateWhy::NoSay);
}

/// ST-3, PUSH-9
#[test]
fn what_waits_is_told_with_the_objects_it_lacks() {
    let refs = [("refs/heads/dev", TWO), ("refs/heads/main", ONE)];
    let winner = state(key(1), 20, &[("refs/heads/main", ONE)]);
    let late = state(key(1), 10, &refs);
    let next = state(key(1), 30, &refs);
    let view = alone()
        .stated(winner, Served)
        .stated(late.clone(), Waiting)
        .stated(next.clone(), Parked);
    let asked = Asked::of(view.clone()).holding(1, &[oid(0x11)]);
    let lacks = |would_win| StateWhy::Lacks {
        at: repo(key(1)),
        missing: BTreeSet::from([oid(0x22)]),
        of: 2,
        would_win,
    };
    assert_eq!(asked.why(&next), lacks(true));
    assert_eq!(asked.why(&late), lacks(false));
    let complete = Asked::of(view).holding(1, &[oid(0x11), oid(0x22)]);
    assert_eq!(complete.why(&next), StateWhy::Complete);
}

/// ST-3: any repository of the group will do.
#[test]
fn the_repository_that_lacks_least_is_named() {
    let refs = [("refs/heads/dev", TWO), ("refs/heads/main", ONE)];
    let next = state(key(1), 30, &refs);
    let group = served(&[(1, lists(&[2])), (2, lists(&[1]))]);
    let mut asked = group.holding(2, &[oid(0x11)]);
    let entry = crate::view::Entry {
        item: next.clone(),
        stage: Waiting,
        deadline: None,
    };
    asked.view.states.insert(key(1), vec![entry]);
    let least = |asked: &Asked| match asked.why(&next) {
        StateWhy::Lacks { at, missing, .. } => (at, missing.len()),
        other => panic!("{other:?}"),
    };
    assert_eq!(least(&asked), (repo(key(2)), 1));
    asked.facts.add(repo(key(1)), oid(0x22));
    assert_eq!(least(&asked), (repo(key(1)), 1), "of two alike this one");
}

/// KIND-3, KIND-6, DEL-5, DEL-12
#[test]
fn other_reasons_of_states() {
    let hollow = state(key(1), 10, &[("refs/heads/main", "abc")]);
    let asked = Asked::of(alone().stated(hollow.clone(), Waiting));
    let refs = BTreeSet::from([refname("refs/heads/main")]);
    assert_eq!(asked.why(&hollow), StateWhy::Unsatisfiable { refs });
    let empty = state(key(1), 10, &[]);
    let early = view().announced(announcement(key(1), 1, vec![]), Waiting);
    let early = Asked::of(early.stated(empty.clone(), Waiting));
    assert_eq!(early.why(&empty), StateWhy::EmptyBeforeFirstPush);
    let ready = Asked::of(alone().stated(empty.clone(), Waiting));
    assert_eq!(ready.why(&empty), StateWhy::Complete);
    let kept = state(key(1), 10, &[("refs/heads/main", ONE)]);
    for (stage, why) in [(Superseded, StateWhy::Replaced), (Held, StateWhy::Deleted)] {
        let asked = Asked::of(alone().stated(kept.clone(), stage));
        assert_eq!(asked.why(&kept), why);
    }
}

/// REF-3, PR-2, PR-6
#[test]
fn proposals_are_told_with_what_they_lack() {
    let to = |owner: u8, commit: &str| proposal(key(7), 5, commit, &[key(owner)]);
    let why = |asked: &Asked| asked.explained().proposals[0].why.clone();
    let lacking = Asked::of(alone().proposed(&to(1, ONE), Waiting));
    let commit = oid(0x11);
    assert_eq!(why(&lacking), ProposalWhy::Lacks { commit });
    let there = Asked::of(alone().proposed(&to(1, ONE), Waiting)).holding(1, &[commit]);
    assert_eq!(why(&there), ProposalWhy::Complete);
    let hollow = Asked::of(alone().proposed(&to(1, "abc"), Waiting));
    assert_eq!(why(&hollow), ProposalWhy::NoCommit);
    let shown = Asked::of(alone().proposed(&to(1, ONE), Served));
    assert_eq!(why(&shown), ProposalWhy::Shown);
    let deleted = Asked::of(alone().proposed(&to(1, ONE), Held));
    assert_eq!(why(&deleted), ProposalWhy::Deleted);
    let lead = vec![role("M", key(2), &[])];
    let follows = view()
        .announced(announcement(key(1), 1, lead.clone()), Served)
        .announced(announcement(key(2), 1, lead), Served);
    let elsewhere = Asked::of(follows.proposed(&to(1, ONE), Served));
    assert_eq!(why(&elsewhere), ProposalWhy::ShownElsewhere);
    let stranger = Asked::of(alone().proposed(&to(9, ONE), Served));
    assert_eq!(stranger.explained().proposals, []);
}

/// PR-4
#[test]
fn uploads_into_the_repository_are_told() {
    let event = EventId::from_byte_array([5; 32]);
    let here = upload(event, oid(1), repo(key(1)));
    let there = upload(event, oid(1), repo(key(2)));
    let asked = Asked::of(alone().uploaded(here.clone()).uploaded(there));
    assert_eq!(asked.explained().uploads, [here]);
}

/// REF-2, REF-5, REF-6, REF-8
#[test]
fn refs_are_compared_with_what_they_should_be() {
    let winner = state(
        key(1),
        10,
        &[("refs/heads/dev", TWO), ("refs/heads/main", ONE)],
    );
    let decided = alone().stated(winner.clone(), Served);
    let main = ("refs/heads/main", oid(0x11));
    let dev = ("refs/heads/dev", oid(0x22));
    let both = [main.1, dev.1];
    let seen = |asked: Asked| asked.explained().refs;

    let whole = seen(
        Asked::of(decided.clone())
            .holding(1, &both)
            .showing(&[main, dev]),
    );
    assert_eq!(whole.condition, Condition::Decided { by: winner.id() });
    assert_eq!((whole.differences, whole.missing.len()), (vec![], 0));

    let degraded = seen(
        Asked::of(decided.clone())
            .holding(1, &[main.1])
            .showing(&[main]),
    );
    assert_eq!(degraded.missing, BTreeSet::from([dev.1]));
    assert_eq!(degraded.differences, []);

    let behind = seen(Asked::of(decided).holding(1, &both).showing(&[main]));
    let late = Difference {
        name: "refs/heads/dev".to_owned(),
        is: None,
        should: Some(TWO.to_owned()),
    };
    assert_eq!(behind.differences, [late]);

    let frozen = seen(Asked::of(alone()).holding(1, &[main.1]).showing(&[main]));
    assert_eq!(frozen.condition, Condition::Frozen);
    assert_eq!(frozen.differences, []);

    let waiting = view().announced(announcement(key(1), 1, vec![]), Waiting);
    assert_eq!(seen(Asked::of(waiting)).condition, Condition::Empty);

    let mut absent = Asked::of(view());
    absent.shown = None;
    let absent = seen(absent);
    assert_eq!((absent.wanted, absent.exists), (false, false));
    assert_eq!(absent.condition, Condition::Absent);
    assert_eq!(absent.differences, []);
}

/// Whoever floods an identifier does not flood the terminal.
#[test]
fn long_lists_are_cut_and_say_so() {
    let told = |number: u64| {
        let many = (0..number).fold(alone(), |view, at| {
            view.stated(state(key(1), at, &[("refs/heads/main", ONE)]), Waiting)
        });
        let explanation = Asked::of(many).explained();
        (explanation.states.len(), explanation.is_cut)
    };
    assert_eq!(told(150), (VERSIONS_MAX, true));
    assert_eq!(told(100), (VERSIONS_MAX, false));
    assert_eq!(told(0), (0, false));
}
