use std::collections::BTreeSet;

use super::{GroupKey, GroupOwed, Owed, ProposalUrls, Sought, owed, relatives, sought};
use crate::clone_url::CloneUrl;
use crate::lifecycle::Stage::{self, Held, Parked, Served, Superseded, Waiting};
use crate::name::RepoAddress;
use crate::oid::Oid;
use crate::proposal::Proposal;
use crate::testing::project::{
    RawTag, ViewBuilder, announcement, announcement_elsewhere, maintainers, prs_repo, repo, role,
    state, tag, view,
};
use crate::testing::{HOST, key, oid, policy, pull_request};
use crate::view::ObjectFacts;

const ALICE: u8 = 1;
const BOB: u8 = 2;
const CAROL: u8 = 3;
const MALLORY: u8 = 9;

fn at_host(host: &str) -> RawTag {
    tag(["clone".to_owned(), format!("https://{host}/x.git")])
}

/// Somebody's announcement here, with another place where the data is.
fn with_place(owner: u8, host: &str, more: &[RawTag]) -> crate::announcement::Announcement {
    announcement(key(owner), 1, [&[at_host(host)], more].concat())
}

/// Alice's project, which is at `alice.example` too.
fn project(stage: Stage) -> ViewBuilder {
    view().announced(with_place(ALICE, "alice.example", &[]), stage)
}

fn hex(n: u8) -> String {
    oid(n).to_string()
}

/// A state of `main` at object `n`.
fn main_at(author: u8, at: u64, n: u8) -> crate::state::StateEvent {
    state(key(author), at, &[("refs/heads/main", &hex(n))])
}

fn holding(places: &[(RepoAddress, u8)]) -> ObjectFacts {
    let mut facts = ObjectFacts::none();
    for (place, n) in places {
        facts.add(place.clone(), oid(*n));
    }
    facts
}

fn look(view: ViewBuilder, facts: &ObjectFacts) -> Owed {
    owed(&view.build(), facts, &ProposalUrls::new(10), &policy())
}

fn look_with(view: ViewBuilder, urls: &ProposalUrls) -> Owed {
    owed(&view.build(), &ObjectFacts::none(), urls, &policy())
}

fn of_maintainers(owed: &Owed, owner: u8) -> Option<&GroupOwed> {
    let group = GroupKey::Maintainers(key(owner));
    owed.groups.iter().find(|it| it.group == group)
}

fn of_proposer(owed: &Owed, to: u8, author: u8) -> Option<&GroupOwed> {
    let (to, author) = (key(to), key(author));
    let group = GroupKey::Proposer { to, author };
    owed.groups.iter().find(|it| it.group == group)
}

fn hosts(owed: &GroupOwed) -> Vec<&str> {
    let urls = owed.sources.iter().map(CloneUrl::as_str);
    urls.map(|url| url.trim_start_matches("https://"))
        .map(|url| url.trim_end_matches("/x.git"))
        .collect()
}

fn oids(numbers: &[u8]) -> Vec<Oid> {
    numbers.iter().map(|n| oid(*n)).collect()
}

/// HUNT-5, G2-2
#[test]
fn what_waiting_states_lack_is_wanted_newest_first_and_branches_before_tags() {
    let newer = [
        ("HEAD", "ref: refs/heads/trunk"),
        ("refs/heads/a", &hex(2)),
        ("refs/heads/trunk", &hex(3)),
        ("refs/tags/0", &hex(4)),
        ("refs/tags/1", &hex(1)),
        ("refs/tags/v", &hex(9)),
    ]
    .map(|(name, value)| (name, value.to_owned()));
    let newer: Vec<_> = newer
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let view = project(Served)
        .stated(state(key(ALICE), 5, &newer), Waiting)
        .stated(main_at(ALICE, 4, 1), Waiting)
        .stated(main_at(ALICE, 3, 5), Waiting)
        .stated(main_at(ALICE, 2, 6), Superseded)
        .stated(main_at(ALICE, 1, 7), Held);
    let owed = look(view, &holding(&[(repo(key(ALICE)), 9)]));
    let alice = of_maintainers(&owed, ALICE).expect("something is owed");
    assert_eq!(alice.wants, oids(&[3, 2, 4, 1, 5]));
    assert_eq!(alice.parked, []);
    assert_eq!((alice.is_served, &alice.into), (true, &repo(key(ALICE))));
    assert_eq!(hosts(alice), ["alice.example"]);
    assert_eq!(owed.groups.len(), 1);
}

/// G2-4, REF-8
#[test]
fn what_parked_and_served_states_lack_can_wait() {
    let view = project(Served)
        .stated(main_at(ALICE, 5, 1), Waiting)
        .stated(main_at(ALICE, 4, 2), Parked)
        .stated(main_at(ALICE, 3, 3), Served)
        .stated(main_at(ALICE, 2, 4), Served);
    let owed = look(view.clone(), &ObjectFacts::none());
    let alice = of_maintainers(&owed, ALICE).expect("something is owed");
    assert_eq!((&alice.wants, &alice.parked), (&oids(&[1]), &oids(&[2, 3])));
    let owed = look(view, &holding(&[1, 3].map(|n| (repo(key(ALICE)), n))));
    let alice = of_maintainers(&owed, ALICE).expect("something is owed");
    assert_eq!((&alice.wants, &alice.parked), (&oids(&[]), &oids(&[2])));
}

/// HUNT-4
#[test]
fn nothing_is_owed_where_nothing_lacks_or_nobody_can_be_asked() {
    let waiting = || main_at(ALICE, 5, 1);
    let owes = |view: ViewBuilder, facts: &ObjectFacts| !look(view, facts).is_empty();
    let nowhere = ObjectFacts::none();
    assert!(owes(project(Served).stated(waiting(), Waiting), &nowhere));
    assert!(owes(project(Waiting).stated(waiting(), Waiting), &nowhere));
    let here = holding(&[(repo(key(ALICE)), 1)]);
    assert!(!owes(project(Served).stated(waiting(), Waiting), &here));
    assert!(!owes(project(Served), &nowhere));
    let without_repository = project(Parked).stated(waiting(), Waiting);
    assert!(!owes(without_repository, &nowhere), "PUR-4");
    let here_only = view().announced(announcement(key(ALICE), 1, vec![]), Served);
    assert!(!owes(here_only.stated(waiting(), Waiting), &nowhere));
    let of_a_stranger = project(Served).stated(main_at(MALLORY, 5, 1), Waiting);
    assert!(!owes(of_a_stranger, &nowhere));
    let impossible = state(
        key(ALICE),
        5,
        &[("refs/heads/x", "junk"), ("refs/heads/y", &hex(1))],
    );
    assert!(
        !owes(project(Served).stated(impossible, Waiting), &nowhere),
        "KIND-3"
    );
}

/// HUNT-6
#[test]
fn maintainers_and_invited_are_asked_and_strangers_are_not() {
    let with_bob_and_carol = [role("m", key(BOB), &[]), role("m", key(CAROL), &[])];
    let view = view()
        .announced(
            with_place(ALICE, "alice.example", &with_bob_and_carol),
            Served,
        )
        .announced(
            with_place(BOB, "bob.example", &[maintainers(&[key(ALICE)])]),
            Served,
        )
        .announced(
            announcement_elsewhere(key(CAROL), 1, vec![at_host("carol.example")]),
            Served,
        )
        // Led by Alice, and no maintainer of it.
        .announced(
            with_place(4, "dora.example", &[role("M", key(ALICE), &[])]),
            Served,
        )
        .announced(
            with_place(MALLORY, "mallory.example", &[maintainers(&[key(ALICE)])]),
            Served,
        )
        .stated(main_at(BOB, 5, 1), Waiting)
        .stated(main_at(MALLORY, 5, 2), Waiting);
    let owed = look(view, &ObjectFacts::none());
    let alice = of_maintainers(&owed, ALICE).expect("something is owed");
    assert_eq!(
        hosts(alice),
        ["bob.example", "alice.example", "carol.example"]
    );
    assert_eq!(alice.wants, oids(&[1]));
    let mallory = of_maintainers(&owed, MALLORY).expect("something is owed");
    assert_eq!(
        (hosts(mallory), &mallory.wants),
        (vec!["mallory.example", "alice.example"], &oids(&[2]))
    );
    assert_eq!(owed.groups.len(), 2);
}

/// HUNT-6, ANN-8
#[test]
fn of_an_address_list_a_bounded_part_is_asked_and_never_ourselves() {
    let ours = format!("https://{HOST}");
    let urls = [
        "https://one.example/x.git",
        "https://one.example/x.git/",
        "ssh://git@two.example/x.git",
        "https://three.example/x.git?y",
        "git://four.example/x.git",
    ];
    let many = (0..200).map(|n| format!("https://n{n}.example/x.git"));
    let urls = urls
        .map(str::to_owned)
        .into_iter()
        .chain([ours])
        .chain(many);
    let list = tag(["clone".to_owned()].into_iter().chain(urls));
    let view = view()
        .announced(announcement(key(ALICE), 1, vec![list]), Served)
        .stated(main_at(ALICE, 5, 1), Waiting);
    let owed = look(view, &ObjectFacts::none());
    let asked = hosts(of_maintainers(&owed, ALICE).expect("something is owed"));
    // The announcement names our own first, and a hundred count.
    assert_eq!(asked[..3], ["one.example", "n0.example", "n1.example"]);
    assert_eq!(asked.len(), 100 - 6);
}

/// HUNT-6: a long list of one maintainer does not push another's aside.
#[test]
fn maintainers_are_asked_in_turn() {
    let list = |owner: u8| {
        let urls = (0..90).map(move |n| format!("https://{owner}-{n}.example/x.git"));
        tag(["clone".to_owned()].into_iter().chain(urls))
    };
    let others = [BOB, CAROL].map(key);
    let each_other = maintainers(&[key(ALICE), others[0], others[1]]);
    let view = [ALICE, BOB, CAROL].into_iter().fold(view(), |view, owner| {
        let tags = vec![list(owner), each_other.clone()];
        view.announced(announcement(key(owner), 1, tags), Served)
    });
    let owed = look(
        view.stated(main_at(CAROL, 5, 1), Waiting),
        &ObjectFacts::none(),
    );
    let asked = hosts(of_maintainers(&owed, ALICE).expect("something is owed"));
    assert_eq!(
        asked[..4],
        ["3-0.example", "1-0.example", "2-0.example", "3-1.example"]
    );
    assert_eq!(asked.len(), super::SOURCES_MAX);
}

/// HUNT-5a: what lacks least is filled; the first to be asked are the authors of what waits.
#[test]
fn what_is_found_goes_where_the_least_is_lacking() {
    let project = |bobs: Stage| {
        let (alice, bob) = (role("m", key(ALICE), &[]), role("m", key(BOB), &[]));
        view()
            .announced(
                with_place(ALICE, "alice.example", &[alice.clone(), bob.clone()]),
                Served,
            )
            .announced(with_place(BOB, "bob.example", &[alice, bob]), bobs)
            .stated(
                state(
                    key(ALICE),
                    5,
                    &[("refs/heads/a", &hex(1)), ("refs/heads/b", &hex(2))],
                ),
                Waiting,
            )
    };
    let bob_has_one = holding(&[(repo(key(BOB)), 1)]);
    let into = |bobs, facts: &ObjectFacts| {
        let owed = look(project(bobs), facts);
        let group = of_maintainers(&owed, ALICE).expect("something is owed");
        (group.into.clone(), group.wants.clone())
    };
    assert_eq!(into(Served, &bob_has_one), (repo(key(BOB)), oids(&[2])));
    assert_eq!(into(Served, &ObjectFacts::none()).0, repo(key(ALICE)));
    assert_eq!(
        into(Waiting, &bob_has_one),
        (repo(key(ALICE)), oids(&[1, 2]))
    );
    let one_each = holding(&[(repo(key(ALICE)), 2), (repo(key(BOB)), 1)]);
    assert_eq!(into(Served, &one_each), (repo(key(ALICE)), oids(&[1])));
}

/// Erin asks `owner` to take commit `n`.
fn asked(owner: u8, n: u8) -> Proposal {
    pull_request(key(5), key(owner), oid(n)).proposal()
}

fn urls_of(proposal: &Proposal, urls: impl IntoIterator<Item = String>) -> ProposalUrls {
    let mut all = ProposalUrls::new(10);
    all.add(proposal.id(), urls);
    all
}

/// G2-3, HUNT-6, ANN-8: of its author's addresses ten count, and they are asked for nothing else.
#[test]
fn a_proposal_is_looked_for_at_its_own_addresses_and_at_the_repository_s() {
    let proposal = asked(ALICE, 7);
    let view = project(Served)
        .stated(main_at(ALICE, 5, 1), Waiting)
        .proposed(&proposal, Waiting);
    let urls = (0..20).map(|n| format!("https://erin{n}.example/x.git"));
    let urls = urls_of(&proposal, urls);
    let owed = look_with(view.clone(), &urls);
    let alice = of_maintainers(&owed, ALICE).expect("something is owed");
    assert_eq!(
        (&alice.wants, hosts(alice)),
        (&oids(&[1, 7]), vec!["alice.example"])
    );
    let erin = of_proposer(&owed, ALICE, 5).expect("something is owed");
    assert_eq!((&erin.wants, erin.sources.len()), (&oids(&[7]), 10));
    assert_eq!((&erin.into, erin.is_served), (&repo(key(ALICE)), true));
    assert!(of_proposer(&look_with(view, &ProposalUrls::new(10)), ALICE, 5).is_none());
}

/// G2-3, G2-4
#[test]
fn a_proposal_is_wanted_while_its_commit_is_nowhere_that_counts() {
    let proposal = asked(ALICE, 7);
    let urls = urls_of(&proposal, ["https://erin.example/x.git".to_owned()]);
    let wanted = |project: Stage, stage: Stage, place: Option<RepoAddress>| {
        let view = self::project(project).proposed(&proposal, stage);
        let facts = holding(
            &place
                .into_iter()
                .map(|place| (place, 7))
                .collect::<Vec<_>>(),
        );
        let owed = owed(&view.build(), &facts, &urls, &policy());
        let alice = of_maintainers(&owed, ALICE);
        let erin = of_proposer(&owed, ALICE, 5).is_some();
        alice.map(|it| (it.wants.len(), it.parked.len(), erin))
    };
    assert_eq!(wanted(Served, Waiting, None), Some((1, 0, true)));
    assert_eq!(wanted(Served, Parked, None), Some((0, 1, true)));
    assert_eq!(wanted(Served, Served, None), Some((0, 1, false)), "REF-8");
    assert_eq!(wanted(Served, Held, None), None);
    assert_eq!(wanted(Waiting, Waiting, None), None, "PR-1");
    for place in [repo(key(ALICE)), prs_repo(key(5))] {
        assert_eq!(wanted(Served, Waiting, Some(place)), None);
    }
    for place in [repo(key(MALLORY)), prs_repo(key(ALICE))] {
        assert_eq!(wanted(Served, Waiting, Some(place)), Some((1, 0, true)));
    }
    let nameless = pull_request(key(5), key(ALICE), Oid::ZERO).proposal();
    let view = self::project(Served).proposed(&nameless, Waiting);
    assert!(look(view, &ObjectFacts::none()).is_empty(), "KIND-3");
}

/// HUNT-5a: nobody's group is pushed behind strangers that wait themselves.
#[test]
fn groups_with_something_served_come_first_and_proposers_last() {
    let proposal = asked(ALICE, 7);
    let urls = urls_of(&proposal, ["https://erin.example/x.git".to_owned()]);
    let served = with_place(ALICE, "alice.example", &[]);
    let view = view()
        .announced(with_place(0, "zero.example", &[]), Waiting)
        .announced(served, Served)
        .stated(main_at(0, 5, 1), Waiting)
        .stated(main_at(ALICE, 5, 1), Waiting)
        .proposed(&proposal, Waiting);
    let owed = look_with(view, &urls);
    let groups: Vec<_> = owed
        .groups
        .iter()
        .map(|it| (it.group, it.is_served))
        .collect();
    let proposer = GroupKey::Proposer {
        to: key(ALICE),
        author: key(5),
    };
    let expected = [
        (GroupKey::Maintainers(key(ALICE)), true),
        (GroupKey::Maintainers(key(0)), false),
        (proposer, true),
    ];
    assert_eq!(groups, expected);
    assert_eq!(expected.map(|it| it.0.owner()), [ALICE, 0, ALICE].map(key));
}

/// HUNT-5
#[test]
fn what_has_to_be_measured_is_all_that_may_be_owed() {
    let [waiting, parked, served] = [11, 12, 13].map(|n| asked(ALICE, n));
    let to_nobody_here = asked(MALLORY, 15);
    let view = project(Served)
        .stated(main_at(ALICE, 5, 1), Waiting)
        .stated(main_at(ALICE, 4, 2), Parked)
        .stated(main_at(ALICE, 3, 3), Served)
        .stated(main_at(ALICE, 2, 4), Superseded)
        .stated(main_at(MALLORY, 2, 5), Waiting)
        .proposed(&waiting, Waiting)
        .proposed(&parked, Parked)
        .proposed(&served, Served)
        .proposed(&asked(ALICE, 14), Held)
        .proposed(&to_nobody_here, Waiting);
    let expected = Sought {
        objects: oids(&[1, 2, 3]).into_iter().collect(),
        commits: oids(&[11, 12, 13, 15]).into_iter().collect(),
        proposals: BTreeSet::from([waiting.id(), parked.id(), to_nobody_here.id()]),
        submitters: BTreeSet::from([prs_repo(key(5))]),
    };
    assert_eq!(sought(&view.build(), &policy()), expected);
}

/// HUNT-5: more is asked for when these are here.
#[test]
fn so_much_is_wanted_at_a_time() {
    let name = |n: usize| format!("refs/heads/{n}");
    let value = |n: usize| format!("{n:040x}");
    let refs: Vec<_> = (1..=5_000).map(|n| (name(n), value(n))).collect();
    let refs: Vec<_> = refs
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let view = project(Served).stated(state(key(ALICE), 5, &refs), Waiting);
    let owed = look(view, &ObjectFacts::none());
    let alice = of_maintainers(&owed, ALICE).expect("something is owed");
    assert_eq!(alice.wants.len(), super::WANTS_MAX);
}

/// HUNT-5a
#[test]
fn a_group_builds_on_the_repositories_of_its_own() {
    let view = view()
        .announced(
            with_place(ALICE, "a.example", &[role("m", key(BOB), &[])]),
            Served,
        )
        .announced(
            with_place(BOB, "b.example", &[maintainers(&[key(ALICE)])]),
            Served,
        )
        .announced(with_place(MALLORY, "m.example", &[]), Served)
        .build();
    let of = |group: &GroupKey| relatives(group, &view, &policy());
    let shared = [ALICE, BOB].map(|owner| repo(key(owner)));
    assert_eq!(of(&GroupKey::Maintainers(key(ALICE))), shared);
    let proposer = GroupKey::Proposer {
        to: key(ALICE),
        author: key(MALLORY),
    };
    assert_eq!(of(&proposer), shared);
    assert_eq!(of(&GroupKey::Submitter(key(ALICE))), [prs_repo(key(ALICE))]);
    assert_eq!(
        of(&GroupKey::Maintainers(key(MALLORY))),
        [repo(key(MALLORY))]
    );
    assert_eq!(of(&GroupKey::Maintainers(key(BOB))), []);
}
