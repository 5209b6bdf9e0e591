use std::time::Duration;

use super::*;
use crate::deletion::Name;
use crate::event::{VerifiedEvent, kind};
use crate::lifecycle::Stage::{Held, Parked, Served, Superseded, Waiting};
use crate::settle::applied;
use crate::testing::project::{
    ViewBuilder, announcement, maintainers, proposal, prs_repo, repo, state, upload, view,
};
use crate::testing::{NOW, announcement_of, at, cx, draft, key, oid, policy};

const MAIN: &str = "refs/heads/main";
const KEPT: Duration = Duration::from_hours(90 * 24);

fn target(event: &VerifiedEvent, stage: Stage) -> DeletionTarget {
    DeletionTarget {
        event: event.id(),
        author: event.author(),
        kind: event.kind(),
        version: event.version(),
        stage,
    }
}

fn facts(targets: &[DeletionTarget], views: &[&RepoView]) -> DeletionFacts {
    DeletionFacts {
        events: targets.iter().map(|it| (it.event, it.clone())).collect(),
        views: views.iter().map(|view| (*view).clone()).collect(),
        ..DeletionFacts::default()
    }
}

fn held(event: EventId) -> Change {
    Change::Move {
        event,
        stage: Held,
        deadline: Some(at(NOW + KEPT.as_secs())),
    }
}

fn plan(batch: &Batch) -> Option<&Plan> {
    batch.iter().find_map(|change| match change {
        Change::Plan(plan) => Some(plan),
        _ => None,
    })
}

fn archives(batch: &Batch) -> bool {
    let archive = |change: &Change| matches!(change, Change::Archive { .. });
    batch.iter().any(archive)
}

/// Alice's repository in every stage of its life.
struct Scope {
    view: ViewBuilder,
    /// Announcements and states that were seen, the served ones first.
    seen: [EventId; 4],
    deleted: EventId,
    unseen: [EventId; 2],
}

fn scope() -> Scope {
    let [served, replaced, deleted, waits] =
        [30, 20, 10, 40].map(|at| announcement(key(1), at, vec![]));
    let [shown, before, early] =
        [20, 10, 30].map(|at| state(key(1), at, &[(MAIN, &oid(1).to_string())]));
    let view = view()
        .announced(served.clone(), Served)
        .announced(replaced.clone(), Superseded)
        .announced(deleted.clone(), Held)
        .announced(waits.clone(), Waiting)
        .stated(shown.clone(), Served)
        .stated(before.clone(), Superseded)
        .stated(early.clone(), Waiting);
    Scope {
        view,
        seen: [served.id(), shown.id(), replaced.id(), before.id()],
        deleted: deleted.id(),
        unseen: [waits.id(), early.id()],
    }
}

/// ANN-5, DEL-4, DEL-5, DEL-7: what was seen is kept for a while, what was not goes.
#[test]
fn a_scope_leaves_with_all_that_belongs_to_it() {
    let scope = scope();
    let view = scope.view.build();
    for cause in [Cause::Deleted, Cause::Delisted, Cause::Curated] {
        let batch = remove_scope(key(1), &view, cause, cx(&policy()));
        let after = applied(&view, &batch, cx(&policy()));
        let [announced, shown, replaced, before] = scope.seen;
        for event in [announced, shown, replaced] {
            assert!(batch.contains(&held(event)), "{cause:?}");
        }
        assert_eq!(after.stage(&before), Some(Superseded), "it was no version");
        assert_eq!(after.stage(&scope.deleted), Some(Held));
        assert!(scope.unseen.iter().all(|it| after.stage(it).is_none()));
        assert!(archives(&batch) && batch.contains(&Change::Dirty(repo(key(1)))));
        let plan = plan(&batch).expect("what hangs on it goes by a plan");
        let scope = Coordinate::new(key(1), view.identifier.clone());
        assert_eq!(plan.work, Work::Cascade { scope, cause });
    }
}

/// DEL-8, DEL-11: nobody may have it back.
#[test]
fn what_its_author_took_along_or_a_test_made_goes_for_good() {
    let scope = scope();
    let view = scope.view.build();
    for cause in [Cause::Vanished, Cause::Audit] {
        let batch = remove_scope(key(1), &view, cause, cx(&policy()));
        let after = applied(&view, &batch, cx(&policy()));
        let gone = [scope.seen[0], scope.seen[1], scope.seen[2], scope.deleted];
        assert!(gone.iter().all(|it| after.stage(it).is_none()), "{cause:?}");
        assert!(scope.unseen.iter().all(|it| after.stage(it).is_none()));
        assert!(plan(&batch).is_some());
        assert!(
            cause != Cause::Audit || !archives(&batch),
            "nobody wants it back"
        );
    }
}

/// DEL-4: the walk begins at the names of what left, and of nothing else.
#[test]
fn a_plan_names_what_left_with_the_scope() {
    let alice = announcement(key(1), 30, vec![maintainers(&[key(2)])]);
    let older = announcement(key(1), 20, vec![]);
    let signed = state(key(1), 20, &[(MAIN, &oid(1).to_string())]);
    let alone = view()
        .announced(alice.clone(), Served)
        .announced(older.clone(), Superseded)
        .stated(signed.clone(), Served);
    let names = |view: ViewBuilder| -> Vec<Name> {
        let batch = remove_scope(key(1), &view.build(), Cause::Deleted, cx(&policy()));
        let plan = plan(&batch).expect("a served scope left");
        plan.lost.names.iter().cloned().collect()
    };
    let of = |events: &[&VerifiedEvent]| -> Vec<Name> {
        let names = events.iter().flat_map(|event| {
            let address = event.address().expect("an address");
            [Name::Event(event.id()), Name::Address(address)]
        });
        let names: BTreeSet<Name> = names.collect();
        names.into_iter().collect()
    };
    let announced = [alice.event(), older.event()];
    let with_state = [announced[0], announced[1], signed.event()];
    assert_eq!(names(alone.clone()), of(&with_state));
    // Bob's repository goes on, and what Alice signed is part of it.
    let bob = announcement(key(2), 10, vec![maintainers(&[key(1)])]);
    assert_eq!(names(alone.announced(bob, Served)), of(&announced));
}

/// DEL-4: there is nothing that could hang on what nobody saw, or on what is still served.
#[test]
fn a_scope_that_was_not_served_leaves_no_plan() {
    let waits = view().announced(announcement(key(1), 1, vec![]), Waiting);
    let waits = waits.build();
    let batch = remove_scope(key(1), &waits, Cause::Deleted, cx(&policy()));
    assert!(!batch.is_empty() && plan(&batch).is_none() && !archives(&batch));
    let nobody = remove_scope(key(9), &waits, Cause::Deleted, cx(&policy()));
    assert_eq!(nobody, []);
    let view = scope().view.build();
    assert_eq!(leaves_behind(key(1), &view, &view, Cause::Deleted), None);
}

/// DEL-8: all versions go, in this part or another; none comes back in between. What is replaced by the
/// deletion of a single event does (DEL-3).
#[test]
fn nothing_older_takes_the_place_of_what_an_author_took_along() {
    let [new, old] = [20, 10].map(|at| announcement(key(1), at, vec![]));
    let view = view()
        .announced(new.clone(), Served)
        .announced(old.clone(), Superseded)
        .build();
    let facts = facts(&[target(new.event(), Served)], &[&view]);
    let policy = policy();
    let vanished = remove_author_step(&facts, cx(&policy));
    let tested = remove_tests(&facts, cx(&policy));
    for (batch, cause) in [(vanished, Cause::Vanished), (tested, Cause::Audit)] {
        let after = applied(&view, &batch, cx(&policy));
        assert_eq!(after.stage(&new.id()), None);
        assert_eq!(after.stage(&old.id()), Some(Superseded));
        let scope = Coordinate::new(key(1), view.identifier.clone());
        let plan = plan(&batch).expect("the scope left");
        assert_eq!(plan.work, Work::Cascade { scope, cause });
    }
    let one = remove_dependents(&facts, Cause::Deleted, cx(&policy));
    let after = applied(&view, &one, cx(&policy));
    assert_eq!(after.stage(&new.id()), Some(Held));
    assert_eq!(after.stage(&old.id()), Some(Served));
    assert_eq!(plan(&one), None);
}

/// DEL-5: what hung on a scope and was seen is kept, whoever took the scope away.
#[test]
fn what_hung_on_a_scope_meets_the_fate_of_its_stage() {
    let comment = draft(1111, key(5)).event();
    for (stage, is_held) in [
        (Served, true),
        (Superseded, true),
        (Held, true),
        (Waiting, false),
        (Parked, false),
    ] {
        let facts = facts(&[target(&comment, stage)], &[]);
        let gone = Change::Remove {
            event: comment.id(),
        };
        let fate = if is_held {
            held(comment.id())
        } else {
            gone.clone()
        };
        for cause in Cause::ALL {
            let batch = remove_dependents(&facts, cause, cx(&policy()));
            let expected = if cause == Cause::Audit { &gone } else { &fate };
            assert_eq!(batch, std::slice::from_ref(expected), "{stage:?} {cause:?}");
        }
        let own = remove_author_step(&facts, cx(&policy()));
        assert_eq!(own, [gone], "{stage:?}");
    }
}

/// DEL-4, PR-2: one proposal to repositories of several names is one event.
#[test]
fn an_event_of_several_views_leaves_once() {
    let other = announcement_of(key(1), "other").announcement();
    let asked = draft(kind::PULL_REQUEST, key(5))
        .tag(["c".to_owned(), oid(1).to_string()])
        .tag(["a".to_owned(), repo(key(1)).coordinate().address()])
        .tag(["a".to_owned(), other.coordinate().address()])
        .proposal();
    let one = view()
        .announced(announcement(key(1), 1, vec![]), Served)
        .proposed(&asked, Served)
        .placed(asked.id(), prs_repo(key(5)))
        .build();
    let mut two = RepoView::empty("other".parse().expect("valid"));
    let entry = Entry {
        item: other.clone(),
        stage: Served,
        deadline: None,
    };
    two.announcements.insert(key(1), vec![entry]);
    two.proposals = one.proposals.clone();
    two.placements = one.placements.clone();
    let facts = facts(&[target(asked.event(), Served)], &[&one, &two]);
    let batch = remove_dependents(&facts, Cause::Deleted, cx(&policy()));
    let dirty = |repository| Change::Dirty(repository);
    let other = RepoAddress::Announced(other.coordinate());
    let mut left = batch.clone();
    for expected in [
        held(asked.id()),
        dirty(repo(key(1))),
        dirty(other),
        dirty(prs_repo(key(5))),
    ] {
        assert!(batch.contains(&expected), "{expected:?}");
        left.retain(|change| *change != expected);
    }
    assert_eq!(left, []);
    assert_eq!(batch.len(), 4);
}

/// PR-4: what was only uploaded is no event, and outlives its proposal by its own time.
#[test]
fn uploads_for_other_events_stay() {
    let asked = proposal(key(5), 1, &oid(1).to_string(), &[key(1)]);
    let unknown = proposal(key(6), 1, &oid(2).to_string(), &[key(1)]);
    let view = view()
        .announced(announcement(key(1), 1, vec![]), Served)
        .proposed(&asked, Served)
        .uploaded(upload(unknown.id(), oid(2), repo(key(1))))
        .build();
    let facts = facts(&[target(asked.event(), Served)], &[&view]);
    let batch = remove_dependents(&facts, Cause::Deleted, cx(&policy()));
    assert_eq!(applied(&view, &batch, cx(&policy())).uploads, view.uploads);
}
