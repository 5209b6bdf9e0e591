//! What goes with a scope (DEL-4): by example, and against a model that knows nothing of walks.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use grasp_core::EventId;
use grasp_core::deletion::{
    Cap, Cascade, Graph, Limits, Lost, Name, Node, Outcome, Step, cascade, step,
};
use grasp_core::event::{VerifiedEvent, kind};
use grasp_core::lifecycle::{Stage, Standing};
use grasp_core::related::References;
use proptest::prelude::*;

use crate::support::{Draft, announcement, draft, key, oid, policy, pull_request, state};

const COMMENT: u16 = 1111;

/// Events in memory, each stored after those before it.
#[derive(Default)]
struct Events {
    nodes: Vec<Node>,
    reads: Cell<usize>,
}

impl Graph for Events {
    type Error = Infallible;

    fn node(&self, name: &Name) -> Result<Option<Node>, Infallible> {
        self.reads.set(self.reads.get() + 1);
        Ok(self.nodes.iter().find(|node| is(node, name)).cloned())
    }

    fn referring(&self, name: &Name, since: u64, max: usize) -> Result<Vec<Node>, Infallible> {
        self.reads.set(self.reads.get() + 1);
        let nodes = self.nodes.iter().filter(|node| node.stored > since);
        let found = nodes.filter(|node| refers(node, name)).take(max);
        Ok(found.cloned().collect())
    }
}

fn is(node: &Node, name: &Name) -> bool {
    match name {
        Name::Event(id) => node.id() == *id,
        Name::Address(address) => node.event.address().as_ref() == Some(address),
    }
}

fn refers(node: &Node, name: &Name) -> bool {
    match name {
        Name::Event(id) => node.references.events.contains(id),
        Name::Address(address) => node.references.addresses.contains(address),
    }
}

impl Events {
    fn add(&mut self, event: &VerifiedEvent, standing: Standing) -> EventId {
        self.nodes.push(Node {
            event: event.clone(),
            stage: Stage::Served,
            standing,
            stored: self.nodes.len() as u64 + 1,
            placed: false,
            references: References::of(event),
        });
        event.id()
    }

    fn anchor(&mut self, draft: Draft) -> EventId {
        self.add(&draft.event(), Standing::Anchor)
    }

    fn reply(&mut self, draft: Draft, root: EventId) -> EventId {
        let counted = false;
        self.add(&draft.event(), Standing::Reply { root, counted })
    }

    fn bare(&mut self, draft: Draft) -> EventId {
        self.add(&draft.event(), Standing::Bare)
    }

    fn remove(&mut self, events: &[EventId]) {
        self.nodes.retain(|node| !events.contains(&node.id()));
    }

    fn place(&mut self, event: EventId) {
        let mut nodes = self.nodes.iter_mut();
        nodes
            .find(|node| node.id() == event)
            .expect("is there")
            .placed = true;
    }

    fn waits(&mut self, event: EventId) {
        let mut nodes = self.nodes.iter_mut();
        nodes
            .find(|node| node.id() == event)
            .expect("is there")
            .stage = Stage::Waiting;
    }
}

/// Alice's scope has left; what else there is, a test says.
fn lost() -> Lost {
    let mut lost = Lost::default();
    lost.note(&announcement(key(1)).event());
    lost
}

fn address(owner: u8) -> String {
    announcement(key(owner))
        .event()
        .address()
        .expect("an address")
}

fn to(kind: u16, author: u8, owners: &[u8]) -> Draft {
    owners
        .iter()
        .fold(draft(kind, key(author)), |draft, owner| {
            draft.tag(["a".to_owned(), address(*owner)])
        })
}

fn on(kind: u16, author: u8, events: &[EventId]) -> Draft {
    events
        .iter()
        .fold(draft(kind, key(author)), |draft, event| {
            draft.tag(["e".to_owned(), event.to_hex()])
        })
}

fn go(events: &Events) -> Cascade {
    goes_with(events, &lost(), Limits::default(), true)
}

fn goes_with(events: &Events, lost: &Lost, limits: Limits, backed: bool) -> Cascade {
    let Ok(found) = cascade(lost, events, &|_| backed, limits, &policy());
    found
}

#[track_caller]
fn expect(events: &Events, goes: &[EventId]) {
    let Cascade::Found { goes: found, .. } = go(events) else {
        panic!("no limit is near");
    };
    let found: BTreeSet<EventId> = found.into_iter().collect();
    assert_eq!(found, goes.iter().copied().collect());
}

/// DEL-4
#[test]
fn a_whole_conversation_goes_with_its_scope_nearest_first() {
    let mut events = Events::default();
    let issue = events.anchor(to(kind::ISSUE, 5, &[1]));
    let comment = events.reply(on(COMMENT, 6, &[issue]), issue);
    let answer = events.reply(on(COMMENT, 5, &[comment]), issue);
    let proposal = events.anchor(pull_request(key(7), key(1), oid(1)));
    let status = events.reply(on(1631, 1, &[proposal]), proposal);
    let named = events.bare(draft(1, key(8)));
    let naming = events.reply(on(COMMENT, 6, &[issue, named]), issue);
    let Cascade::Found { goes, unburdened } = go(&events) else {
        panic!("no limit is near");
    };
    assert_eq!(unburdened, []);
    let all = [issue, comment, answer, proposal, status, named, naming];
    assert_eq!(goes.len(), all.len());
    let place = |event: &EventId| goes.iter().position(|it| it == event).expect("goes");
    assert!(all.iter().all(|event| goes.contains(event)));
    assert!(place(&issue) < place(&comment) && place(&comment) < place(&answer));
}

/// DEL-4: another announcement carries what names it, and with it what hangs on that.
#[test]
fn what_another_scope_supports_stays() {
    let mut events = Events::default();
    events.anchor(announcement(key(2)));
    let shared = events.anchor(to(kind::ISSUE, 5, &[1, 2]));
    let below = events.reply(on(COMMENT, 6, &[shared]), shared);
    events.reply(on(COMMENT, 5, &[below]), shared);
    let own = events.anchor(to(kind::ISSUE, 5, &[1]));
    let note = events.bare(draft(1, key(8)));
    let both = events.reply(on(COMMENT, 6, &[own, shared, note]), shared);
    events.reply(on(COMMENT, 5, &[both]), shared);
    let waits = pull_request(key(7), key(1), oid(1)).tag(["a".to_owned(), address(2)]);
    let waits = events.anchor(waits);
    events.waits(waits);
    // The comment of the other conversation mentions it: that keeps the issue, and nothing below it.
    let below_own = events.reply(on(COMMENT, 7, &[own]), own);
    expect(&events, &[below_own]);
    let Cascade::Found { unburdened, .. } = go(&events) else {
        panic!("no limit is near");
    };
    assert_eq!(
        unburdened,
        [own],
        "REL-6: the others carried nothing before"
    );
}

/// DEL-4, REL-5: lists stop the walk, stay, and carry nothing.
#[test]
fn a_list_that_names_the_scope_stays_and_holds_nothing_up() {
    let mut events = Events::default();
    let issue = events.anchor(to(kind::ISSUE, 5, &[1]));
    let list = draft(kind::GRASP_LIST, key(5))
        .tag(["a".to_owned(), address(1)])
        .tag(["e".to_owned(), issue.to_hex()]);
    events.bare(list);
    expect(&events, &[issue]);
}

/// DEL-4, GRASP-06
#[test]
fn a_proposal_in_its_submitters_own_repository_stays_and_carries() {
    let mut events = Events::default();
    let proposal = events.anchor(pull_request(key(7), key(1), oid(1)));
    let comment = events.reply(on(COMMENT, 6, &[proposal]), proposal);
    expect(&events, &[proposal, comment]);
    events.place(proposal);
    expect(&events, &[]);
}

/// DEL-4: a PR needs git data to count.
#[test]
fn a_proposal_whose_data_left_goes_although_another_scope_is_named() {
    let mut events = Events::default();
    events.anchor(announcement(key(2)));
    let proposal = pull_request(key(7), key(1), oid(1)).tag(["a".to_owned(), address(2)]);
    let proposal = events.anchor(proposal);
    let comment = events.reply(on(COMMENT, 6, &[proposal]), proposal);
    expect(&events, &[]);
    let found = goes_with(&events, &lost(), Limits::default(), false);
    let goes = vec![proposal, comment];
    let unburdened = Vec::new();
    assert_eq!(found, Cascade::Found { goes, unburdened });
}

/// DEL-4, PUR-10: a proposal that waits for this scope alone waits for nothing.
#[test]
fn a_waiting_proposal_goes_unless_another_scope_is_named() {
    let mut events = Events::default();
    events.anchor(announcement(key(2)));
    let alone = events.anchor(pull_request(key(7), key(1), oid(1)));
    let shared = pull_request(key(8), key(1), oid(1)).tag(["a".to_owned(), address(2)]);
    let shared = events.anchor(shared);
    events.waits(alone);
    events.waits(shared);
    expect(&events, &[alone]);
}

/// DEL-4: states of others are governed by their announcements; what hangs on them stays with them.
#[test]
fn a_state_that_is_served_carries() {
    let mut events = Events::default();
    let theirs = events.anchor(state(key(2), &[]));
    events.reply(
        on(COMMENT, 6, &[theirs]).tag(["a".to_owned(), address(1)]),
        theirs,
    );
    expect(&events, &[]);
}

/// EV-2
#[test]
fn what_the_relays_owner_wrote_stays() {
    let mut events = Events::default();
    let owner = 0xee;
    let issue = events.anchor(to(kind::ISSUE, owner, &[1]));
    let comment = events.reply(on(COMMENT, 6, &[issue]), issue);
    expect(&events, &[comment]);
}

/// DEL-4: what the announcement itself named came in through it.
#[test]
fn what_only_the_lost_one_mentioned_goes() {
    let mut events = Events::default();
    let named = events.bare(draft(1, key(8)));
    let mut lost = Lost::default();
    let announced = announcement(key(1)).tag(["e".to_owned(), named.to_hex()]);
    lost.note(&announced.event());
    let found = goes_with(&events, &lost, Limits::default(), true);
    let goes = vec![named];
    let unburdened = Vec::new();
    assert_eq!(found, Cascade::Found { goes, unburdened });
}

/// DEL-4: at a limit nothing goes, and the look ends there.
#[test]
fn a_walk_ends_at_its_limits() {
    let mut events = Events::default();
    for n in 0..30 {
        let issue = events.anchor(to(kind::ISSUE, 5, &[1]).content(n.to_string()));
        events.reply(on(COMMENT, 6, &[issue]), issue);
    }
    let with = |nodes, edges, deletions| {
        let limits = Limits {
            nodes,
            edges,
            deletions,
        };
        goes_with(&events, &lost(), limits, true)
    };
    assert!(matches!(with(60, 30, 60), Cascade::Found { .. }));
    assert_eq!(with(59, 30, 60), Cascade::Capped(Cap::Nodes));
    assert_eq!(with(60, 29, 60), Cascade::Capped(Cap::Edges));
    assert_eq!(with(60, 30, 59), Cascade::Capped(Cap::Deletions));
    events.reads.set(0);
    assert_eq!(with(10, 30, 60), Cascade::Capped(Cap::Nodes));
    assert!(events.reads.get() <= 2, "{}", events.reads.get());
    let figures = Limits::default();
    let figures = (figures.nodes, figures.edges, figures.deletions);
    assert_eq!(figures, (50_000, 250_000, 20_000));
}

/// The members of one step that is all of the plan, with what was stored by then.
fn take(events: &Events, members: &[EventId], horizon: u64) -> Outcome {
    let remaining = members.iter().copied().collect();
    let plan = Step {
        members,
        remaining: &remaining,
        horizon,
        backed: &BTreeSet::new(),
    };
    let Ok(outcome) = step(&plan, events, &policy());
    outcome
}

/// DEL-4: each chunk checks its members again.
#[test]
fn a_member_that_found_other_support_stays_and_holds_up_what_hangs_on_it() {
    let mut events = Events::default();
    let issue = events.anchor(to(kind::ISSUE, 5, &[1]));
    let comment = events.reply(on(COMMENT, 6, &[issue]), issue);
    let other = events.anchor(to(kind::ISSUE, 5, &[1]).content("other"));
    let planned = [issue, other, comment];
    assert_eq!(take(&events, &planned, 3).goes, planned);
    // Announced again, it carries them all.
    events.anchor(announcement(key(1)));
    assert_eq!(take(&events, &planned, 3), Outcome::default());
    events.nodes.pop();
    // A conversation elsewhere mentions one.
    events.anchor(announcement(key(2)));
    let theirs = events.anchor(to(kind::ISSUE, 7, &[2]));
    assert_eq!(take(&events, &planned, 5).goes, planned);
    events.reply(on(COMMENT, 7, &[theirs, issue]), theirs);
    assert_eq!(take(&events, &planned, 5).goes, [other]);
}

/// DEL-4: what came to hang on members while they were still served goes after them.
#[test]
fn newcomers_that_hang_on_members_follow_them() {
    let mut events = Events::default();
    events.anchor(announcement(key(2)));
    let issue = events.anchor(to(kind::ISSUE, 5, &[1]));
    let late = events.reply(on(COMMENT, 6, &[issue]), issue);
    let later = events.reply(on(COMMENT, 7, &[late]), issue);
    let elsewhere = on(COMMENT, 8, &[issue]).tag(["a".to_owned(), address(2)]);
    let theirs = events.reply(elsewhere, issue);
    let outcome = take(&events, &[issue], 2);
    // Somebody else's conversation mentions it by now.
    assert_eq!(outcome.goes, []);
    events.remove(&[theirs]);
    let outcome = take(&events, &[issue], 2);
    assert_eq!((outcome.goes, outcome.follows), (vec![issue], vec![late]));
    events.remove(&[issue]);
    let outcome = take(&events, &[late], 2);
    assert_eq!((outcome.goes, outcome.follows), (vec![late], vec![later]));
}

/// DEL-4, REL-6: what came only because a member mentions it has nothing else either.
#[test]
fn what_only_a_member_mentions_follows_it_if_it_came_later() {
    let note = draft(1, key(9)).event();
    let mut events = Events::default();
    let mentions = to(kind::ISSUE, 5, &[1]).tag(["q".to_owned(), note.id().to_hex()]);
    let issue = events.anchor(mentions);
    let (before, later) = (2, 1);
    events.add(&note, Standing::Bare);
    assert_eq!(take(&events, &[issue], later).follows, [note.id()]);
    assert_eq!(
        take(&events, &[issue], before).follows,
        [],
        "it was planned"
    );
    let other = events.anchor(to(kind::ISSUE, 5, &[2]));
    assert_eq!(take(&events, &[issue], later).follows, [note.id()]);
    events.anchor(announcement(key(2)));
    events.reply(on(COMMENT, 6, &[other, note.id()]), other);
    assert_eq!(take(&events, &[issue], 5).follows, []);
}

/// DEL-4: git data is what proposals hang on besides, and nothing else has any.
#[test]
fn only_a_served_proposal_needs_data_that_stays() {
    let mut events = Events::default();
    events.anchor(announcement(key(2)));
    let issue = events.anchor(to(kind::ISSUE, 5, &[1, 2]));
    let shared = pull_request(key(7), key(1), oid(1)).tag(["a".to_owned(), address(2)]);
    let shown = events.anchor(shared.clone());
    let waits = events.anchor(shared.content("again"));
    events.waits(waits);
    let goes = |backed| match goes_with(&events, &lost(), Limits::default(), backed) {
        Cascade::Found { goes, .. } => goes,
        capped @ Cascade::Capped(_) => panic!("{capped:?}"),
    };
    assert_eq!((goes(true), goes(false)), (vec![], vec![shown]), "{issue}");
}

/// DEL-4, REL-4, REL-6: only what is served and may carry keeps a member here.
#[test]
fn what_carries_nothing_keeps_no_member_here() {
    let stays = |make: &dyn Fn(&mut Events) -> EventId| {
        let mut events = Events::default();
        events.anchor(announcement(key(2)));
        let target = make(&mut events);
        let member = events.reply(on(COMMENT, 6, &[target]), target);
        let horizon = events.nodes.len() as u64;
        take(&events, &[member], horizon).goes.is_empty()
    };
    let issue = |events: &mut Events| events.anchor(to(kind::ISSUE, 5, &[2]));
    let reply = |events: &mut Events| {
        let root = events.anchor(to(kind::ISSUE, 5, &[2]));
        events.reply(on(COMMENT, 5, &[root]), root)
    };
    assert!(stays(&issue) && stays(&reply));
    // Where it is from does not matter, if it was here before.
    assert!(stays(&|events| events.anchor(to(kind::ISSUE, 5, &[9]))));
    assert!(!stays(&|events| events.bare(draft(1, key(5)))));
    assert!(!stays(
        &|events| events.anchor(draft(kind::GRASP_LIST, key(5)))
    ));
    assert!(!stays(&|events| {
        let waits = events.anchor(pull_request(key(5), key(2), oid(1)));
        events.waits(waits);
        waits
    }));
}

/// DEL-4: one that goes too, in this step or a later one, is no support.
#[test]
fn members_do_not_keep_each_other() {
    let mut events = Events::default();
    let issue = events.anchor(to(kind::ISSUE, 5, &[1]));
    let comment = events.reply(on(COMMENT, 6, &[issue]), issue);
    let remaining = BTreeSet::from([issue, comment]);
    let one = Step {
        members: &[comment],
        remaining: &remaining,
        horizon: 2,
        backed: &BTreeSet::new(),
    };
    let Ok(outcome) = step(&one, &events, &policy());
    assert_eq!((outcome.goes, outcome.follows), (vec![comment], vec![]));
}

/// DEL-4: whoever came meanwhile and mentions a member keeps it by what it hangs on itself.
#[test]
fn a_newcomer_keeps_a_member_if_something_that_stays_carries_it() {
    let keeps = |make: &dyn Fn(&mut Events) -> EventId, before: bool| {
        let mut events = Events::default();
        events.anchor(announcement(key(2)));
        let member = events.anchor(to(kind::ISSUE, 5, &[1]));
        let horizon = 2 + u64::from(before);
        let target = make(&mut events);
        events.reply(on(COMMENT, 6, &[target, member]), target);
        take(&events, &[member], horizon).goes.is_empty()
    };
    let issue = |events: &mut Events| events.anchor(to(kind::ISSUE, 5, &[2]));
    assert!(keeps(&issue, true));
    assert!(!keeps(&issue, false), "a newcomer itself");
    let announced = |events: &mut Events| events.anchor(announcement(key(3)));
    assert!(keeps(&announced, true) && keeps(&announced, false));
    let note = |events: &mut Events| events.bare(draft(1, key(5)));
    assert!(!keeps(&note, true) && !keeps(&note, false));
}

/// DEL-4, EV-2: who is here of their own right follows nobody.
#[test]
fn newcomers_of_their_own_right_stay() {
    let mut events = Events::default();
    let issue = events.anchor(to(kind::ISSUE, 5, &[1]));
    let ours = draft(COMMENT, policy().relay_owner).tag(["e".to_owned(), issue.to_hex()]);
    events.reply(ours, issue);
    events.bare(on(kind::GRASP_LIST, 6, &[issue]));
    assert_eq!(take(&events, &[issue], 1).follows, []);
    let theirs = events.reply(on(COMMENT, 6, &[issue]), issue);
    assert_eq!(take(&events, &[issue], 1).follows, [theirs]);
    let planned = take(&events, &[issue, theirs], 1);
    assert_eq!(
        (planned.goes, planned.follows),
        (vec![issue, theirs], vec![])
    );
}

/// DEL-4, REL-6: it carries nothing, so it keeps no member; but it has something else to hang on.
#[test]
fn a_newcomer_that_others_hold_up_does_not_follow() {
    let follows = |refers: bool, mentioned: bool| {
        let mut events = Events::default();
        let member = events.anchor(to(kind::ISSUE, 5, &[1]));
        let stays = events.anchor(to(kind::ISSUE, 5, &[2]));
        let refers = refers.then_some(stays);
        let note = on(1, 8, refers.as_slice()).tag(["e".to_owned(), member.to_hex()]);
        let id = note.clone().event().id();
        if mentioned {
            events.reply(on(COMMENT, 6, &[stays, id]), stays);
        }
        let horizon = events.nodes.len() as u64;
        events.bare(note);
        let outcome = take(&events, &[member], horizon);
        assert_eq!(outcome.goes, [member]);
        outcome.follows == [id]
    };
    assert!(follows(false, false));
    assert!(!follows(true, false) && !follows(false, true));
}

/// DEL-4: what the store asks about its data.
#[test]
fn a_node_is_read_as_the_proposal_that_it_is() {
    let mut events = Events::default();
    let asked = pull_request(key(7), key(1), oid(1));
    let id = events.anchor(asked.clone());
    events.anchor(to(kind::ISSUE, 5, &[1]));
    let read = events
        .nodes
        .iter()
        .map(|node| node.proposal().map(|it| (it.id(), it.tip())));
    let expected = Some((id, asked.proposal().tip()));
    assert_eq!(read.collect::<Vec<_>>(), [expected, None]);
}

/// DEL-4
#[test]
fn a_proposal_stays_only_with_its_data() {
    let mut events = Events::default();
    let shared = pull_request(key(7), key(1), oid(1)).tag(["a".to_owned(), address(2)]);
    let proposal = events.anchor(shared);
    events.anchor(announcement(key(2)));
    assert_eq!(take(&events, &[proposal], 1).goes, [proposal]);
    let members = [proposal];
    let remaining = BTreeSet::from(members);
    let backed = Step {
        members: &members,
        remaining: &remaining,
        horizon: 1,
        backed: &remaining,
    };
    let Ok(outcome) = step(&backed, &events, &policy());
    assert_eq!(outcome, Outcome::default());
}

/// One event of a random world: its kind, whom it names by address, and which earlier events by id.
#[derive(Debug, Clone)]
struct Made {
    kind: u16,
    owners: Vec<u8>,
    events: Vec<usize>,
}

fn made() -> impl Strategy<Value = Made> {
    let kinds = prop_oneof![
        3 => Just(kind::ISSUE),
        6 => Just(COMMENT),
        1 => Just(kind::GRASP_LIST),
        2 => Just(kind::PULL_REQUEST_UPDATE),
        1 => Just(1_u16),
    ];
    let owners = prop::collection::vec(1_u8..4, 0..2);
    let events = prop::collection::vec(0_usize..40, 0..3);
    (kinds, owners, events).prop_map(|(kind, owners, events)| Made {
        kind,
        owners,
        events,
    })
}

fn build(world: &[Made]) -> (Events, BTreeMap<EventId, bool>) {
    let mut events = Events::default();
    for owner in [2, 3] {
        events.anchor(announcement(key(owner)));
    }
    let mut backed = BTreeMap::new();
    let mut ids: Vec<EventId> = Vec::new();
    for (n, made) in world.iter().enumerate() {
        let targets = made.events.iter().filter_map(|target| ids.get(*target));
        let mut draft = on(made.kind, 10, &targets.copied().collect::<Vec<_>>());
        for owner in &made.owners {
            draft = draft.tag(["a".to_owned(), address(*owner)]);
        }
        let draft = draft.tag(["c".to_owned(), oid(1).to_string()]);
        let root = EventId::from_byte_array([0; 32]);
        let id = events.reply(draft.content(n.to_string()), root);
        backed.insert(id, n % 3 != 0);
        ids.push(id);
    }
    (events, backed)
}

/// Asks of every event, again and again, whether it would be accepted by what is accepted so far.
fn naive(events: &Events, backed: &BTreeMap<EventId, bool>) -> BTreeSet<EventId> {
    let names = |one: &Node, other: &Node| {
        one.references.events.contains(&other.id())
            || other
                .event
                .address()
                .is_some_and(|address| one.references.addresses.contains(&address))
    };
    // 3 carries roots, 2 carries, 1 is there.
    let mut ranks: Vec<u8> = vec![0; events.nodes.len()];
    for _ in 0..=events.nodes.len() {
        for (n, node) in events.nodes.iter().enumerate() {
            let around = |direction: &dyn Fn(&Node) -> bool, least: u8| {
                let all = events.nodes.iter().zip(&ranks).enumerate();
                all.filter(|(m, (other, rank))| *m != n && **rank >= least && direction(other))
                    .map(|(_, (other, rank))| (other.event.kind(), *rank))
                    .collect::<Vec<_>>()
            };
            let targets = around(&|other| names(node, other), 2);
            let mentions = around(&|other| names(other, node), 2);
            let rank = match node.event.kind() {
                kind::ANNOUNCEMENT => 3,
                kind::GRASP_LIST => 1,
                kind::PULL_REQUEST_UPDATE if !backed[&node.id()] => 0,
                kind if kind::is_root(kind) && targets.contains(&(kind::ANNOUNCEMENT, 3)) => 3,
                _ if !targets.is_empty() => 2,
                _ if !mentions.is_empty() => 1,
                _ => 0,
            };
            ranks[n] = ranks[n].max(rank);
        }
    }
    let kept = events.nodes.iter().zip(ranks);
    kept.filter(|(_, rank)| *rank > 0)
        .map(|(node, _)| node.id())
        .collect()
}

/// Everything that some way of references leads to from the lost address without passing what stands alone.
fn concerned(events: &Events) -> BTreeSet<EventId> {
    let alone = |node: &Node| matches!(node.event.kind(), kind::ANNOUNCEMENT | kind::GRASP_LIST);
    let lost = Name::Address(address(1));
    let mut found: BTreeSet<EventId> = BTreeSet::new();
    loop {
        let before = found.len();
        for node in events.nodes.iter().filter(|node| !alone(node)) {
            let linked = |other: &Node| {
                node.references.events.contains(&other.id())
                    || other.references.events.contains(&node.id())
            };
            let mut reached = events.nodes.iter().filter(|it| found.contains(&it.id()));
            if refers(node, &lost) || reached.any(linked) {
                found.insert(node.id());
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

proptest! {
    /// DEL-4, REL-2, REL-6: what goes is exactly what is concerned and would not be accepted any more.
    #[test]
    fn the_walk_agrees_with_a_naive_reading(world in prop::collection::vec(made(), 0..40)) {
        let (events, backed) = build(&world);
        let found = cascade(&lost(), &events, &|node| backed[&node.id()], Limits::default(), &policy());
        let Ok(Cascade::Found { goes, .. }) = found else {
            panic!("no limit is near");
        };
        let goes: BTreeSet<EventId> = goes.into_iter().collect();
        let kept = naive(&events, &backed);
        let expected: BTreeSet<EventId> = concerned(&events).difference(&kept).copied().collect();
        prop_assert_eq!(goes, expected);
    }

    /// DEL-4: with the world as it was planned, the steps take what was planned, however they are cut.
    #[test]
    fn steps_take_what_was_planned(world in prop::collection::vec(made(), 0..40), size in 1_usize..9) {
        let (mut events, backed) = build(&world);
        let found = cascade(&lost(), &events, &|node| backed[&node.id()], Limits::default(), &policy());
        let Ok(Cascade::Found { goes, unburdened }) = found else {
            panic!("no limit is near");
        };
        for node in &mut events.nodes {
            if unburdened.contains(&node.id()) {
                node.standing = Standing::Bare;
            }
        }
        let horizon = events.nodes.len() as u64;
        let backed: BTreeSet<EventId> =
            backed.iter().filter(|(_, backed)| **backed).map(|(id, _)| *id).collect();
        let mut left: BTreeSet<EventId> = goes.iter().copied().collect();
        for members in goes.chunks(size) {
            let plan = Step { members, remaining: &left, horizon, backed: &backed };
            let Ok(outcome) = step(&plan, &events, &policy());
            prop_assert_eq!(&outcome.goes, members);
            prop_assert!(outcome.follows.is_empty());
            events.remove(members);
            left.retain(|event| !members.contains(event));
        }
    }
}
