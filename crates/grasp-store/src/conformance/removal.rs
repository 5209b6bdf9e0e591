//! What is taken away in steps (DEL-4, DEL-8).

use std::collections::BTreeSet;

use grasp_core::deletion::{Cause, Graph as _, Lost, Name, Node, Plan, Work};
use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::{Change, Stage, Standing};
use grasp_core::name::{Coordinate, RepoAddress};
use nostr::event::EventId;

use super::commit;
use super::events::{at, event, insert, insert_until, key, moved, with_content};
use crate::plans::StoredPlan;
use crate::store::{Snapshot, Store};

fn look(store: &Store) -> Snapshot {
    store.snapshot().expect("a snapshot")
}

fn scope(owner: u8) -> Coordinate {
    Coordinate::new(key(owner), "x".parse().expect("valid"))
}

fn work(owner: u8) -> Work {
    Work::Cascade {
        scope: scope(owner),
        cause: Cause::Deleted,
    }
}

fn plan(owner: u8, lost: &VerifiedEvent) -> Plan {
    let work = work(owner);
    let mut plan = Plan {
        work,
        lost: Lost::default(),
    };
    plan.lost.note(lost);
    plan
}

fn steps(owner: u8, horizon: u64, steps: &[&[EventId]]) -> Change {
    Change::Steps {
        work: work(owner),
        horizon,
        steps: steps.iter().map(|step| step.to_vec()).collect(),
    }
}

fn plans(store: &Store) -> Vec<StoredPlan> {
    look(store).view().plans(10).expect("reads")
}

fn id(n: u8) -> EventId {
    EventId::from_byte_array([n; 32])
}

/// DEL-4: a plan is there until its last step is done.
pub async fn a_plan_lasts_until_its_last_step_is_done(store: &Store) {
    let announced = event(key(1), 30617, 5, &[&["d", "x"], &["e", &id(9).to_hex()]]);
    let due = plan(1, &announced);
    let other = plan(2, &announced);
    let both = vec![Change::Plan(due.clone()), Change::Plan(other.clone())];
    commit(store, both).await.expect("commits");
    let stored = plans(store);
    assert_eq!(stored.len(), 2);
    assert!(stored.iter().all(|it| it.horizon.is_none()));
    assert!(stored.iter().any(|it| it.plan == due));
    commit(store, vec![steps(2, 7, &[])])
        .await
        .expect("commits");
    assert_eq!(plans(store).len(), 1, "one without steps is done");
    commit(store, vec![steps(1, 7, &[&[id(1), id(2)], &[id(3)]])])
        .await
        .expect("commits");
    let next = || look(store).view().next_step(&work(1)).expect("reads");
    assert_eq!(plans(store)[0].horizon, Some(7));
    assert_eq!(next(), Some((0, vec![id(1), id(2)])));
    let left = look(store).view().planned(&work(1)).expect("reads");
    assert_eq!(left, BTreeSet::from([id(1), id(2), id(3)]));
    let done = |step| {
        let work = work(1);
        Change::StepDone { work, step }
    };
    commit(store, vec![steps(1, 7, &[&[id(4)]]), done(0)])
        .await
        .expect("commits");
    assert_eq!(next(), Some((1, vec![id(3)])));
    commit(store, vec![done(1)]).await.expect("commits");
    assert_eq!(next(), Some((2, vec![id(4)])));
    commit(store, vec![done(2)]).await.expect("commits");
    assert_eq!((next(), plans(store)), (None, vec![]));
    commit(store, vec![done(2), steps(1, 8, &[&[id(5)]])])
        .await
        .expect("commits");
    assert_eq!(next(), None, "steps of no plan are of no use");
}

/// DEL-4: what is lost again before the first plan is done is added to it, and looked at anew.
pub async fn a_plan_that_comes_twice_is_one_with_its_steps(store: &Store) {
    let first = event(key(1), 30617, 5, &[&["d", "x"]]);
    let second = event(key(1), 30617, 6, &[&["d", "x"]]);
    commit(store, vec![Change::Plan(plan(1, &first))])
        .await
        .expect("commits");
    commit(store, vec![steps(1, 7, &[&[id(1)]])])
        .await
        .expect("commits");
    commit(store, vec![Change::Plan(plan(1, &second))])
        .await
        .expect("commits");
    let [stored] = plans(store).try_into().expect("one");
    assert_eq!(stored.horizon, None);
    for lost in [&first, &second] {
        assert!(stored.plan.lost.names.contains(&Name::Event(lost.id())));
    }
    commit(store, vec![steps(1, 9, &[&[id(2)]])])
        .await
        .expect("commits");
    let left = look(store).view().planned(&work(1)).expect("reads");
    assert_eq!(left, BTreeSet::from([id(1), id(2)]));
}

/// DEL-4: served events and waiting proposals, by what they refer to and by what they are called.
pub async fn the_graph_shows_served_events_and_waiting_proposals(store: &Store) {
    let address = scope(1).address();
    let commit_id = "1".repeat(40);
    let issue = event(key(2), 1621, 5, &[&["a", &address], &["A", &address]]);
    let name = issue.id().to_hex();
    let comment = event(key(3), 1111, 6, &[&["E", &name], &["q", &name]]);
    let held = event(key(3), 1111, 7, &[&["e", &name]]);
    let waiting = event(key(4), 1618, 8, &[&["a", &address], &["c", &commit_id]]);
    let beyond: Vec<String> = (0..50).map(|n| format!("{n:064x}")).collect();
    let mut tags: Vec<Vec<&str>> = beyond.iter().map(|id| vec!["e", id]).collect();
    tags.push(vec!["e", &name]);
    let tags: Vec<&[&str]> = tags.iter().map(Vec::as_slice).collect();
    let late = event(key(5), 1111, 9, &tags);
    let batch = vec![
        insert(&issue, Stage::Served),
        insert(&comment, Stage::Served),
        insert(&held, Stage::Held),
        insert_until(&waiting, Stage::Waiting, 90),
        insert(&late, Stage::Served),
    ];
    commit(store, batch).await.expect("commits");
    let snapshot = look(store);
    let view = snapshot.view();
    let referring = |name: &Name, since, max| {
        let nodes = view.referring(name, since, max).expect("reads");
        nodes.iter().map(Node::id).collect::<BTreeSet<_>>()
    };
    let (scope, root) = (Name::Address(address), Name::Event(issue.id()));
    let all = BTreeSet::from([issue.id(), waiting.id()]);
    assert_eq!(referring(&scope, 0, 10), all);
    assert_eq!(referring(&scope, 0, 1).len(), 1);
    // REL-6: the fifty-first reference does not count.
    assert_eq!(referring(&root, 0, 10), BTreeSet::from([comment.id()]));
    let node = view.node(&root).expect("reads").expect("is there");
    assert_eq!(node.stage, Stage::Served);
    assert!(referring(&scope, node.stored, 10).contains(&waiting.id()));
    assert!(!referring(&scope, node.stored, 10).contains(&issue.id()));
    let horizon = view.horizon().expect("reads");
    assert_eq!(referring(&scope, horizon, 10), BTreeSet::new());
    for (event, there) in [(&held, false), (&waiting, true), (&late, true)] {
        let node = view.node(&Name::Event(event.id())).expect("reads");
        assert_eq!(node.is_some(), there);
    }
    assert!(view.node(&scope).expect("reads").is_none());
}

/// GRASP-06: a proposal in its submitter's own repository is told apart.
pub async fn the_graph_knows_placed_proposals(store: &Store) {
    let commit_id = "1".repeat(40);
    let address = scope(1).address();
    let proposal = event(key(4), 1618, 8, &[&["a", &address], &["c", &commit_id]]);
    let placed = || {
        let snapshot = look(store);
        let node = snapshot.view().node(&Name::Event(proposal.id()));
        node.expect("reads").expect("is there").placed
    };
    commit(store, vec![insert(&proposal, Stage::Served)])
        .await
        .expect("commits");
    assert!(!placed());
    let place = Change::Place {
        event: proposal.id(),
        repository: RepoAddress::Proposals(scope(4)),
    };
    commit(store, vec![place]).await.expect("commits");
    assert!(placed());
}

/// DEL-8: in every stage, versions of one thing together, and nobody else's.
pub async fn everything_of_an_author_is_found_in_every_stage(store: &Store) {
    let mut own = Vec::new();
    let stages = [
        Stage::Served,
        Stage::Waiting,
        Stage::Parked,
        Stage::Superseded,
        Stage::Held,
    ];
    let mut batch = Vec::new();
    for (n, stage) in (1..).zip(stages) {
        for d in ["x", "y"] {
            let it = event(key(1), 30618, n, &[&["d", d]]);
            batch.push(insert(&it, stage));
            own.push((d, it));
        }
    }
    let late = event(key(1), 1621, 6, &[]);
    batch.push(insert(&late, Stage::Served));
    batch.push(insert(&event(key(2), 1621, 1, &[]), Stage::Waiting));
    commit(store, batch).await.expect("commits");
    // An older request goes with what it asked for, the one that asks stays.
    let requests = [4, 5].map(|time| event(key(1), 62, time, &[]));
    let asking = requests
        .iter()
        .map(|it| insert(it, Stage::Served))
        .collect();
    commit(store, asking).await.expect("commits");
    let found = look(store).view().authored(&key(1), at(5)).expect("reads");
    let [older, asking] = requests.each_ref().map(|it| found.contains(&it.id()));
    assert!(older && !asking);
    let gone = requests.iter().map(|it| Change::Remove { event: it.id() });
    commit(store, gone.collect()).await.expect("commits");
    let authored = || {
        let snapshot = look(store);
        snapshot.view().authored(&key(1), at(5)).expect("reads")
    };
    let found = authored();
    let d_of = |id: &EventId| own.iter().find(|(_, it)| it.id() == *id).expect("own").0;
    let ds: Vec<&str> = found.iter().map(d_of).collect();
    assert_eq!(ds, [["x"; 5], ["y"; 5]].concat());
    // Moves keep it findable.
    let batch = own.iter().map(|(_, it)| moved(it, Stage::Held)).collect();
    commit(store, batch).await.expect("commits");
    assert_eq!(authored().len(), 10);
    let has = |until, except: &VerifiedEvent| {
        let snapshot = look(store);
        let view = snapshot.view();
        view.has_authored(&key(1), at(until), &except.id())
            .expect("reads")
    };
    assert!(has(1, &late) && !has(0, &late));
    let batch = own
        .iter()
        .map(|(_, it)| Change::Remove { event: it.id() })
        .collect();
    commit(store, batch).await.expect("commits");
    assert!(authored().is_empty() && !has(9, &late));
}

/// DEL-8
pub async fn others_who_name_a_repository_are_noticed(store: &Store) {
    let address = scope(1).address();
    let named = || {
        let snapshot = look(store);
        let view = snapshot.view();
        view.is_named_by_others(&address).expect("reads")
    };
    let own = event(key(1), 1621, 5, &[&["a", &address]]);
    commit(store, vec![insert(&own, Stage::Served)])
        .await
        .expect("commits");
    assert!(!named());
    let commit_id = "1".repeat(40);
    let theirs = event(key(2), 1618, 5, &[&["a", &address], &["c", &commit_id]]);
    commit(store, vec![insert_until(&theirs, Stage::Waiting, 90)])
        .await
        .expect("commits");
    assert!(named());
    commit(store, vec![moved(&theirs, Stage::Held)])
        .await
        .expect("commits");
    assert!(!named());
}

/// REL-6
pub async fn what_carries_nothing_any_more_counts_against_no_root(store: &Store) {
    let root = event(key(1), 1621, 5, &[]);
    let reply = with_content(key(2), 1111, 5, &[&["e", &root.id().to_hex()]], "said");
    let inserted = Change::Insert {
        event: reply.clone(),
        stage: Stage::Served,
        deadline: None,
        standing: Standing::Reply {
            root: root.id(),
            counted: true,
        },
    };
    commit(store, vec![insert(&root, Stage::Served), inserted])
        .await
        .expect("commits");
    let unburden = Change::Unburden { event: reply.id() };
    commit(store, vec![unburden]).await.expect("commits");
    let snapshot = look(store);
    let view = snapshot.view();
    assert_eq!(view.budget_of(&root.id()).expect("reads"), (0, 0));
    let stored = view.event(&reply.id()).expect("reads").expect("is there");
    assert_eq!(stored.standing, Standing::Bare);
    assert_eq!((stored.event, stored.stage), (reply.clone(), Stage::Served));
    assert_eq!(stored.json, reply.event().as_json());
    let node = view.node(&Name::Event(reply.id())).expect("reads");
    let names = node.expect("is there").references.names();
    assert_eq!(names, [Name::Event(root.id())]);
}
