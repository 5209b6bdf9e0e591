//! What a push commits, and when it may not (PUSH-13, AFTER-*).

use super::*;
use crate::lifecycle::Stage;
use crate::refplan::{DesiredRefs, desired};
use crate::settle::{applied, settle};
use crate::view::ObjectFacts;

/// A push in the making: planned on one view, committed on another.
struct Attempt<'a> {
    repo: RepoAddress,
    current: &'a [(&'a str, u8)],
    commands: &'a [Command],
    atomic: bool,
    planned: ViewBuilder,
    /// What the repository holds besides what the pack brings.
    holds: &'a [u8],
    pack_bytes: u64,
}

impl<'a> Attempt<'a> {
    fn new(planned: &ViewBuilder, current: &'a [(&'a str, u8)], commands: &'a [Command]) -> Self {
        Self {
            repo: repo(key(1)),
            current,
            commands,
            atomic: false,
            planned: planned.clone(),
            holds: &[],
            pack_bytes: 1000,
        }
    }

    /// What the push is judged by on a view.
    fn judged<T>(&self, view: &RepoView, judge: impl FnOnce(Push<'_>) -> T) -> T {
        judge(Push {
            repo: &self.repo,
            commands: self.commands,
            atomic: self.atomic,
            current: &refs(self.current),
            view,
            known_events: &BTreeMap::new(),
            cx: cx(&policy()),
        })
    }

    fn plan(&self) -> PushPlan {
        self.judged(&self.planned.clone().build(), |push| push.authorize())
    }

    /// Commits on `view`; the batch and the view after it.
    fn commit_on(&self, view: &ViewBuilder) -> Result<(Batch, RepoView), PushPlan> {
        let (plan, view) = (self.plan(), view.clone().build());
        let mut facts = ObjectFacts::none();
        for n in self.holds {
            facts.add(self.repo.clone(), oid(*n));
        }
        let batch = self.judged(&view, |push| push.complete(&plan, &facts, self.pack_bytes))?;
        let after = applied(&view, &batch, cx(&policy()));
        Ok((batch, after))
    }

    fn commit(&self) -> Result<(Batch, RepoView), PushPlan> {
        self.commit_on(&self.planned)
    }
}

fn moved(batch: &Batch, event: EventId) -> Option<Stage> {
    batch.iter().find_map(|change| match change {
        Change::Move {
            event: of, stage, ..
        } if *of == event => Some(*stage),
        _ => None,
    })
}

fn dirty(batch: &Batch) -> BTreeSet<RepoAddress> {
    let marks = batch.iter().filter_map(|change| match change {
        Change::Dirty(repo) => Some(repo.clone()),
        _ => None,
    });
    marks.collect()
}

/// G1-13, AFTER-2, AFTER-3
#[test]
fn a_push_serves_its_state_and_announcement_in_one_commit() {
    let waiting = announcement(key(1), 1, vec![]);
    let signed = state(key(1), 10, &[(MAIN, &hex(1)), (V1, &hex(2))]);
    let view = view()
        .announced(waiting.clone(), Waiting)
        .stated(signed.clone(), Waiting);
    let commands = [set(MAIN, 1), set(V1, 2)];
    let (batch, after) = Attempt::new(&view, &[], &commands)
        .commit()
        .expect("agrees");
    assert_eq!(moved(&batch, waiting.id()), Some(Served));
    assert_eq!(moved(&batch, signed.id()), Some(Served));
    assert_eq!(dirty(&batch), BTreeSet::from([repo(key(1))]));
    let policy = policy();
    assert!(settle(&after, &ObjectFacts::none(), cx(&policy)).is_empty());
}

/// G1-13: co-maintainers' repositories are brought in line by the same commit.
#[test]
fn every_repository_whose_winner_changes_is_marked() {
    let signed = state(key(2), 10, &[(MAIN, &hex(1))]);
    let view = project().stated(signed, Waiting);
    let commands = [set(MAIN, 1)];
    let (batch, _) = Attempt::new(&view, &[], &commands)
        .commit()
        .expect("agrees");
    assert_eq!(dirty(&batch), BTreeSet::from([repo(key(1)), repo(key(2))]));
}

/// PUSH-9: the view is the same, the refs are not.
#[test]
fn a_refilled_repository_is_marked() {
    let view = project().stated(state(key(1), 10, &[(MAIN, &hex(1))]), Served);
    let commands = [set(MAIN, 1)];
    let (batch, _) = Attempt::new(&view, &[], &commands)
        .commit()
        .expect("the winner");
    assert_eq!(batch, [Change::Dirty(repo(key(1)))]);
}

/// PUSH-7, AFTER-7: what arrives twice is harmless.
#[test]
fn a_no_op_changes_nothing() {
    let view = project().stated(state(key(1), 10, &[(MAIN, &hex(1))]), Served);
    let (current, commands) = ([(MAIN, 1)], [set(MAIN, 1)]);
    let (batch, _) = Attempt::new(&view, &current, &commands)
        .commit()
        .expect("no-op");
    assert_eq!(batch, []);
}

/// PUSH-13
#[test]
fn a_push_that_a_newer_state_overtook_is_refused() {
    let view = project().stated(state(key(1), 10, &[(MAIN, &hex(1))]), Waiting);
    let commands = [set(MAIN, 1)];
    let attempt = Attempt::new(&view, &[], &commands);
    let newer = state(key(2), 20, &[(MAIN, &hex(2))]);
    let plan = attempt
        .commit_on(&view.clone().stated(newer, Served))
        .expect_err("the winner says otherwise");
    assert!(!plan.accepts_any());
    assert!(reason(&plan, 0).starts_with("a newer state"));
    let dropped = announcement(key(1), 5, vec![role("m", key(1), &["1", "2"])]);
    let plan = attempt
        .commit_on(&view.announced(dropped, Served))
        .expect_err("nobody may move it any more");
    assert_eq!(reason(&plan, 0), "No authorized maintainers found");
}

/// PUSH-2, PUSH-13: a race against sync is lost without harm.
#[test]
fn a_push_that_ends_where_it_wanted_succeeds_whoever_was_first() {
    let signed = state(key(1), 10, &[(MAIN, &hex(1)), (V1, &hex(2))]);
    let view = project().stated(signed.clone(), Waiting);
    let commands = [set(MAIN, 1), set(V1, 2)];
    let attempt = Attempt::new(&view, &[], &commands);
    let settled = project().stated(signed, Served);
    assert!(attempt.commit_on(&settled).is_ok());
    // A newer state with the same refs and one more, and the plan's state replaced by it.
    let three = [hex(1), hex(2), hex(3)];
    let more = [
        (MAIN, &*three[0]),
        (V1, &*three[1]),
        ("refs/heads/dev", &*three[2]),
    ];
    let newer = project().stated(state(key(1), 20, &more), Served);
    assert!(attempt.commit_on(&newer).is_ok());
}

/// PUSH-13: an upload is kept beside a branch that got where it should without this push.
#[test]
fn an_upload_beside_an_overtaken_branch_is_kept() {
    let id = EventId::from_byte_array([0xaa; 32]);
    let name = RefName::proposal(&id);
    let view = project().stated(state(key(1), 10, &[(MAIN, &hex(1))]), Waiting);
    let commands = [set(MAIN, 1), set(name.as_str(), 2)];
    let attempt = Attempt::new(&view, &[], &commands);
    let refs = [hex(1), hex(3)];
    let more = [(MAIN, &*refs[0]), (V1, &*refs[1])];
    let newer = project().stated(state(key(1), 20, &more), Served);
    let (_, after) = attempt.commit_on(&newer).expect("both end as told");
    assert_eq!(after.uploads.len(), 1);
}

/// ST-7, PUSH-13: nothing is reported that is not so.
#[test]
fn a_state_whose_other_objects_are_gone_is_not_applied() {
    let signed = state(key(1), 10, &[(MAIN, &hex(1)), (V1, &hex(2))]);
    let view = project().stated(signed, Waiting);
    let (current, commands) = ([(V1, 2)], [set(MAIN, 1)]);
    let mut attempt = Attempt::new(&view, &current, &commands);
    let plan = attempt.commit().expect_err("2 is nowhere");
    assert!(reason(&plan, 0).contains("not here"));
    attempt.holds = &[2];
    assert!(attempt.commit().is_ok());
}

/// AFTER-1
#[test]
fn refused_refs_release_nothing() {
    let signed = state(key(1), 10, &[(MAIN, &hex(1))]);
    let view = project().stated(signed.clone(), Waiting);
    let commands = [set(MAIN, 1), set(V1, 2)];
    let mut attempt = Attempt::new(&view, &[], &commands);
    let (batch, after) = attempt.commit().expect("main agrees");
    assert_eq!(moved(&batch, signed.id()), Some(Served));
    let DesiredRefs::Winner { refs: shown, .. } = desired(&attempt.repo, &after, &policy()).refs
    else {
        panic!("there is a winner");
    };
    assert_eq!(shown, refs(&[(MAIN, 1)]));
    attempt.atomic = true;
    assert!(!attempt.plan().accepts_any());
}

/// PR-4, PUSH-4
#[test]
fn an_upload_leaves_its_record() {
    let id = EventId::from_byte_array([0xaa; 32]);
    let name = RefName::proposal(&id);
    let (view, commands) = (project(), [set(name.as_str(), 1)]);
    let mut attempt = Attempt::new(&view, &[], &commands);
    let (batch, after) = attempt.commit().expect("open to everybody");
    let record = crate::lifecycle::UploadRecord {
        event: id,
        commit: oid(1),
        repository: repo(key(1)),
        bytes: 1000,
        deadline: Timestamp::from_secs(NOW + 1800),
    };
    assert_eq!(batch, [Change::Upload(record), Change::Dirty(repo(key(1)))]);
    let shown = desired(&attempt.repo, &after, &policy()).proposals;
    assert_eq!(shown, BTreeMap::from([(name, oid(1))]));

    attempt.pack_bytes = policy().uploads.bytes + 1;
    let plan = attempt.commit().expect_err("too large for an upload");
    assert!(reason(&plan, 0).contains("at most"));
}

/// PR-4: the event came while the pack was read. Cases, 31.
#[test]
fn an_upload_whose_event_came_meanwhile_is_judged_by_it() {
    let request = proposal(key(9), 5, &hex(1), &[key(1)]);
    let name = request.ref_name();
    let came = project().proposed(&request, Waiting);
    for (n, fits) in [(1, true), (2, false)] {
        let (view, commands) = (project(), [set(name.as_str(), n)]);
        let attempt = Attempt::new(&view, &[], &commands);
        match attempt.commit_on(&came) {
            Ok((batch, after)) => {
                assert!(fits);
                assert_eq!(moved(&batch, request.id()), Some(Served));
                assert!(after.uploads.is_empty());
            }
            Err(plan) => {
                assert!(!fits);
                assert!(reason(&plan, 0).starts_with("PR event"));
            }
        }
    }
}

/// AFTER-5
#[test]
fn a_push_serves_the_waiting_proposal_it_completes_in_every_target() {
    let request = proposal(key(9), 5, &hex(1), &[key(2)]);
    let view = project().proposed(&request, Waiting);
    let commands = [set(request.ref_name().as_str(), 1)];
    let (batch, _) = Attempt::new(&view, &[], &commands)
        .commit()
        .expect("its commit");
    assert_eq!(moved(&batch, request.id()), Some(Served));
    assert_eq!(dirty(&batch), BTreeSet::from([repo(key(1)), repo(key(2))]));
}

/// PUSH-19, REF-6, G6-7
#[test]
fn a_prs_push_places_its_proposal_and_mirrors_it() {
    let request = proposal(key(9), 5, &hex(1), &[key(1)]);
    let commands = [set(request.ref_name().as_str(), 1)];
    for stage in [Waiting, Served] {
        let view = project().proposed(&request, stage);
        let attempt = Attempt {
            repo: prs_repo(key(9)),
            ..Attempt::new(&view, &[], &commands)
        };
        let (batch, after) = attempt.commit().expect("the submitter's own");
        let here = desired(&attempt.repo, &after, &policy());
        assert!(here.exists, "{stage:?}");
        assert_eq!(
            here.proposals,
            BTreeMap::from([(request.ref_name(), oid(1))])
        );
        assert!(dirty(&batch).contains(&attempt.repo));
        let target = desired(&repo(key(1)), &after, &policy()).proposals;
        assert!(target.contains_key(&request.ref_name()));
    }
}

/// REF-6: once, and in rooms of submitters only.
#[test]
fn a_proposal_has_its_place_once_and_in_prs_alone() {
    let request = proposal(key(9), 5, &hex(1), &[key(1)]);
    let commands = [set(request.ref_name().as_str(), 1)];
    let served = project().proposed(&request, Served);
    let places = |repo, view: &ViewBuilder| {
        let attempt = Attempt {
            repo,
            ..Attempt::new(view, &[], &commands)
        };
        let (batch, _) = attempt.commit().expect("its commit");
        let place = |change: &&Change| matches!(change, Change::Place { .. });
        batch.iter().filter(place).count()
    };
    assert_eq!(places(prs_repo(key(9)), &served), 1);
    assert_eq!(places(repo(key(1)), &served), 0);
    let again = served.placed(request.id(), prs_repo(key(9)));
    assert_eq!(places(prs_repo(key(9)), &again), 0);
}

/// §16, PUSH-13: the smaller bound is that of uploads alone.
#[test]
fn a_pack_for_more_than_uploads_has_no_bound_of_uploads() {
    let id = EventId::from_byte_array([0xaa; 32]);
    let upload = set(RefName::proposal(&id).as_str(), 1);
    let view = project().stated(state(key(1), 10, &[(MAIN, &hex(2))]), Waiting);
    let commits = |commands: &[Command], pack_bytes| {
        let attempt = Attempt {
            pack_bytes,
            ..Attempt::new(&view, &[], commands)
        };
        attempt.commit().is_ok()
    };
    let most = policy().uploads.bytes;
    let alone = [upload.clone()];
    assert!(commits(&alone, most) && !commits(&alone, most + 1));
    assert!(commits(&[upload, set(MAIN, 2)], most + 1));
}

/// PUR-3
#[test]
fn the_announcement_of_an_authorised_push_waits_on() {
    // The state of an empty repository is no data: the announcement waits on, with more time.
    let waiting = announcement(key(1), 1, vec![]);
    let view = view()
        .announced(waiting.clone(), Waiting)
        .announced(
            announcement(key(2), 1, vec![maintainers(&[key(1)])]),
            Served,
        )
        .stated(state(key(1), 10, &[]), Served);
    let (current, commands) = ([(MAIN, 1)], [delete(MAIN)]);
    let (batch, _) = Attempt::new(&view, &current, &commands)
        .commit()
        .expect("agrees");
    let extended = Change::Extend {
        event: waiting.id(),
        deadline: Some(Timestamp::from_secs(NOW + 1800)),
    };
    assert!(batch.contains(&extended), "{batch:?}");
}
