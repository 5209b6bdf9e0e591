//! The rules of §13 one by one. Laws over any push are in `tests/rules/push.rs`.

mod completion;
mod proposal_refs;

use super::*;
use crate::lifecycle::Change;
use crate::lifecycle::Stage::{Parked, Served, Superseded, Waiting};
use crate::policy::Policy;
use crate::state::StateEvent;
use crate::testing::project::{
    ViewBuilder, announcement, announcement_elsewhere, event, maintainers, proposal, prs_repo,
    refname, repo, role, state, tag, upload, view,
};
use crate::testing::{NOW, cx, key, oid, policy};
use nostr::types::Timestamp;

const MAIN: &str = "refs/heads/main";
const V1: &str = "refs/tags/v1";

fn hex(n: u8) -> String {
    oid(n).to_string()
}

/// `set(MAIN, 1)` moves main to the object called 1.
fn set(name: &str, n: u8) -> Command {
    Command {
        old: oid(0xee), // PUSH-2: never looked at
        new: oid(n),
        name: name.to_owned(),
    }
}

fn delete(name: &str) -> Command {
    set(name, 0)
}

fn refs(refs: &[(&str, u8)]) -> BTreeMap<RefName, Oid> {
    let refs = refs.iter();
    refs.map(|(name, n)| (refname(name), oid(*n))).collect()
}

/// A repository of key 1 with maintainers 1 and 2, and a stranger's of the same name.
fn project() -> ViewBuilder {
    view()
        .announced(
            announcement(key(1), 1, vec![maintainers(&[key(2)])]),
            Served,
        )
        .announced(
            announcement(key(2), 1, vec![maintainers(&[key(1)])]),
            Served,
        )
        .announced(
            announcement(key(3), 1, vec![maintainers(&[key(1)])]),
            Served,
        )
}

/// A push to the repository of key 1 that shows `current`.
fn push(view: &ViewBuilder, current: &[(&str, u8)], commands: &[Command]) -> PushPlan {
    push_to(&repo(key(1)), view, current, commands, false)
}

fn push_to(
    repo: &RepoAddress,
    view: &ViewBuilder,
    current: &[(&str, u8)],
    commands: &[Command],
    atomic: bool,
) -> PushPlan {
    let (policy, view, current) = (policy(), view.clone().build(), refs(current));
    let known = BTreeMap::new();
    Push {
        repo,
        commands,
        atomic,
        current: &current,
        view: &view,
        known_events: &known,
        cx: cx(&policy),
    }
    .authorize()
}

fn accepted(plan: &PushPlan) -> Vec<bool> {
    plan.verdicts.iter().map(Verdict::accepts).collect()
}

fn reason(plan: &PushPlan, at: usize) -> &str {
    match &plan.verdicts[at] {
        Verdict::Refuse(reason) => reason,
        accept @ Verdict::Accept { .. } => panic!("{accept:?}"),
    }
}

fn said(plan: &PushPlan, commands: &[Command]) -> String {
    let refusal = refusal(plan, commands);
    [vec![refusal.summary], refusal.advice].concat().join("\n")
}

/// PUSH-8, PUSH-18
#[test]
fn a_push_that_completes_a_waiting_state_is_accepted() {
    for stage in [Waiting, Parked] {
        let signed = state(key(1), 10, &[(MAIN, &hex(1)), (V1, &hex(2))]);
        let view = project().stated(signed.clone(), stage);
        let plan = push(&view, &[(V1, 2)], &[set(MAIN, 1), set(V1, 2)]);
        let brings = |installs| Verdict::Accept {
            installs,
            upload: None,
        };
        assert_eq!(plan.verdicts, [brings(Some(oid(1))), brings(None)]);
        assert_eq!(plan.candidate, Some(signed.id()));
        assert_eq!(plan.tips(), [oid(1)]);
    }
}

/// PUSH-8: in full or not at all.
#[test]
fn a_push_that_leaves_something_out_is_refused_with_the_line_that_does_it() {
    let signed = state(key(1), 10, &[(MAIN, &hex(1)), (V1, &hex(2))]);
    let view = project().stated(signed, Waiting);
    let commands = [set(MAIN, 1)];
    let plan = push(&view, &[("refs/heads/old", 9)], &commands);
    assert_eq!(accepted(&plan), [false]);
    assert!(reason(&plan, 0).contains("refs/tags/v1 missing; refs/heads/old not declared"));
    let said = said(&plan, &commands);
    let line = format!(
        "git push origin {}:refs/heads/main {}:refs/tags/v1 :refs/heads/old",
        hex(1),
        hex(2)
    );
    assert!(said.contains(&line), "{said}");
}

/// PUSH-8: cases, 22 and 28.
#[test]
fn what_agrees_is_accepted_and_the_rest_refused_by_name() {
    let view = project().stated(state(key(1), 10, &[(MAIN, &hex(1))]), Waiting);
    let commands = [set(MAIN, 1), set(V1, 2), delete("refs/heads/old")];
    let plan = push(&view, &[("refs/heads/old", 9)], &commands);
    assert_eq!(accepted(&plan), [true, false, true]);
    assert!(reason(&plan, 1).starts_with("not declared"));
    let refusal = refusal(&plan, &commands);
    assert!(refusal.summary.starts_with("refs/tags/v1: not declared"));

    let atomic = push_to(
        &repo(key(1)),
        &view,
        &[("refs/heads/old", 9)],
        &commands,
        true,
    );
    assert_eq!(accepted(&atomic), [false, false, false], "AFTER-1");
    assert_eq!(atomic.candidate, None);
    assert!(
        super::refusal(&atomic, &commands)
            .summary
            .starts_with("refs/tags/v1: not")
    );
}

/// PUSH-8, KIND-5
#[test]
fn of_several_states_the_newest_then_the_lowest_id_is_chosen() {
    let same = [(MAIN, hex(1))];
    let same = same.each_ref().map(|(name, oid)| (*name, oid.as_str()));
    let old = state(key(1), 10, &same);
    let twins = [state(key(1), 20, &same), state(key(2), 20, &same)];
    let lowest = twins.iter().map(StateEvent::id).min();
    let view = project()
        .stated(old, Waiting)
        .stated(twins[0].clone(), Waiting)
        .stated(twins[1].clone(), Parked);
    assert_eq!(push(&view, &[], &[set(MAIN, 1)]).candidate, lowest);
}

/// PUSH-7: cases, 30.
#[test]
fn what_is_there_already_is_accepted_without_any_state() {
    let plan = push(
        &project(),
        &[(MAIN, 1)],
        &[set(MAIN, 1), delete("refs/heads/gone")],
    );
    assert_eq!(
        plan.verdicts,
        [Verdict::NOTHING_TO_DO, Verdict::NOTHING_TO_DO]
    );
    assert_eq!((plan.candidate, plan.extend), (None, vec![]));
}

/// PUSH-9
#[test]
fn the_winner_itself_refills_a_repository_that_lost_refs() {
    let winner = state(key(2), 10, &[(MAIN, &hex(1)), (V1, &hex(2))]);
    let view = project().stated(winner.clone(), Served);
    let plan = push(&view, &[(MAIN, 1)], &[set(V1, 2)]);
    assert_eq!(accepted(&plan), [true]);
    assert_eq!(plan.candidate, Some(winner.id()));
}

/// PUSH-9, PUSH-14
#[test]
fn an_old_state_is_no_licence_to_roll_back() {
    let old = state(key(1), 10, &[(MAIN, &hex(1))]);
    let winner = state(key(2), 20, &[(MAIN, &hex(2))]);
    for stage in [Served, Waiting, Parked, Superseded] {
        let view = project()
            .stated(old.clone(), stage)
            .stated(winner.clone(), Served);
        let commands = [set(MAIN, 1)];
        let plan = push(&view, &[(MAIN, 2)], &commands);
        assert_eq!(accepted(&plan), [false], "{stage:?}");
        let expected = format!(
            "a newer state {} by {} is served; fetch, then sign a new state",
            &winner.id().to_hex()[..8],
            crate::name::npub(&key(2))
        );
        assert_eq!(reason(&plan, 0), expected);
        assert_eq!(refusal(&plan, &commands).summary, expected);
    }
}

/// PUSH-14: only whoever pushed all that an older state says, and that, is told to fetch.
#[test]
fn a_push_that_equals_no_losing_state_is_told_what_differs() {
    let winner = state(key(2), 20, &[(MAIN, &hex(2))]);
    let told = |old: &[(&str, &str)], current: &[(&str, u8)], commands: &[Command]| {
        let view = project()
            .stated(winner.clone(), Served)
            .stated(state(key(1), 10, old), Waiting);
        let plan = push(&view, current, commands);
        assert!(!plan.accepts_any());
        match plan.obstacle.as_deref() {
            Some(Obstacle::Losing { .. }) => true,
            Some(Obstacle::NoneNewer { authorized: 1, .. }) => false,
            other => panic!("{other:?}"),
        }
    };
    let (one, two) = (hex(1), hex(2));
    let (here, back) = ([(MAIN, 2)], [set(MAIN, 1)]);
    assert!(told(&[(MAIN, &one)], &here, &back));
    assert!(!told(&[(MAIN, &one), (V1, &one)], &here, &back), "not all");
    let hollow = [(MAIN, one.as_str()), (V1, "abc123")];
    assert!(!told(&hollow, &here, &back), "nothing can complete it");
    let more = [set(MAIN, 1), set(V1, 7)];
    assert!(!told(&[(MAIN, &one)], &here, &more), "more than it says");
    assert!(!told(&[(MAIN, &two)], &here, &back), "it says otherwise");
}

/// KIND-5, PUSH-9
#[test]
fn in_the_second_of_the_winner_the_lower_id_decides() {
    let (a, b) = (
        state(key(1), 10, &[(MAIN, &hex(1))]),
        state(key(2), 10, &[(MAIN, &hex(2))]),
    );
    let (beats, loses) = if a.id() < b.id() { (a, b) } else { (b, a) };
    let target = |state: &StateEvent| state.refs()[&refname(MAIN)].as_bytes()[0];
    let view = project()
        .stated(beats.clone(), Waiting)
        .stated(loses.clone(), Served);
    let plan = push(&view, &[], &[set(MAIN, target(&beats))]);
    assert_eq!(plan.candidate, Some(beats.id()));
    let view = project()
        .stated(beats, Served)
        .stated(loses.clone(), Waiting);
    let plan = push(&view, &[], &[set(MAIN, target(&loses))]);
    assert_eq!(accepted(&plan), [false]);
}

/// KIND-3
#[test]
fn an_unsatisfiable_state_authorises_nothing() {
    let hollow = state(key(1), 10, &[(MAIN, &hex(1)), (V1, "abc123")]);
    let view = project().stated(hollow, Waiting);
    let commands = [set(MAIN, 1)];
    let plan = push(&view, &[], &commands);
    assert_eq!(accepted(&plan), [false]);
    assert!(said(&plan, &commands).contains("no object can have"));
}

/// PUSH-6
#[test]
fn without_announcement_or_maintainers_the_reason_says_so() {
    let commands = [set(MAIN, 1)];
    let summary = |view: &ViewBuilder| refusal(&push(view, &[], &commands), &commands).summary;
    assert_eq!(summary(&view()), "No repository announcement found");
    let other = view().announced(announcement(key(2), 1, vec![]), Served);
    let unselected = "No repository announcement found for selected coordinate";
    assert_eq!(summary(&other), unselected);
    let elsewhere = view().announced(announcement_elsewhere(key(1), 1, vec![]), Served);
    assert_eq!(summary(&elsewhere), unselected);
    let left = vec![role("m", key(1), &["1", "2"])];
    let nobody = view().announced(announcement(key(1), 1, left), Served);
    assert_eq!(summary(&nobody), "No authorized maintainers found");
}

/// PUSH-10: cases, 26.
#[test]
fn without_a_state_the_next_step_is_to_sign_one() {
    let commands = [set(MAIN, 1)];
    let plan = push(&project(), &[], &commands);
    assert_eq!(
        refusal(&plan, &commands).summary,
        "No state events in purgatory"
    );
    assert!(reason(&plan, 0).contains("publish a state (kind 30618)"));
    assert!(said(&plan, &commands).contains("publish a state (kind 30618)"));

    let view = project().stated(state(key(3), 10, &[(MAIN, &hex(1))]), Waiting);
    let plan = push(&view, &[], &commands);
    assert_eq!(
        refusal(&plan, &commands).summary,
        "1 state event(s) in purgatory but none by an authorised maintainer"
    );
}

/// PUSH-10: who moves a ref declares it, who deletes one declares the rest.
#[test]
fn the_state_to_sign_first_is_with_or_without_the_ref() {
    let waiting = state(key(3), 10, &[(MAIN, &hex(1))]);
    for view in [project(), project().stated(waiting, Waiting)] {
        let commands = [set(MAIN, 2), delete(V1)];
        let plan = push(&view, &[(V1, 1)], &commands);
        let (moves, deletes) = (reason(&plan, 0), reason(&plan, 1));
        let first = ": publish a state (kind 30618) first";
        let without = ": publish a state (kind 30618) without it first";
        assert!(moves.ends_with(first), "{moves}");
        assert!(deletes.ends_with(without), "{deletes}");
    }
}

/// PUSH-10
#[test]
fn a_mismatch_names_the_ref_and_both_objects() {
    let commands = [set(MAIN, 0xab)];
    let differs = "refs/heads/main would be at abababab but state declares 01010101";
    let waiting = project().stated(state(key(1), 10, &[(MAIN, &hex(1))]), Waiting);
    let said_now = said(&push(&waiting, &[], &commands), &commands);
    assert!(said_now.contains("1 authorised state event(s) in purgatory"));
    assert!(
        said_now.contains(&format!("doesn't match push ({differs})")),
        "{said_now}"
    );

    let winner = state(key(1), 10, &[(MAIN, &hex(1))]);
    let id = &winner.id().to_hex()[..8];
    let differs = format!("served state {id} doesn't match push ({differs})");
    let served = project().stated(winner.clone(), Served);
    let said_now = said(&push(&served, &[(MAIN, 1)], &commands), &commands);
    let none = format!("No state events in purgatory; {differs}");
    assert!(said_now.starts_with(&none), "{said_now}");

    let losing = served.stated(state(key(2), 5, &[(MAIN, &hex(7))]), Waiting);
    let said_now = said(&push(&losing, &[(MAIN, 1)], &commands), &commands);
    let newer = format!(
        "1 authorised state event(s) in purgatory but none newer than the served one; {differs}"
    );
    assert!(said_now.starts_with(&newer), "{said_now}");
}

/// PUSH-10: and not the refs that are as they should be.
#[test]
fn a_mismatch_names_what_differs_and_nothing_else() {
    let declared = [(MAIN, hex(1)), (V1, hex(2)), ("refs/heads/dev", hex(3))];
    let declared = declared.each_ref().map(|(name, oid)| (*name, oid.as_str()));
    let signed = state(key(1), 10, &declared);
    let view = project().stated(signed.clone(), Waiting);
    let plan = push(&view, &[(MAIN, 1), ("refs/heads/old", 5)], &[set(V1, 9)]);
    let expected = Mismatch {
        state: signed.id(),
        differences: vec![
            Difference::Missing(refname("refs/heads/dev")),
            Difference::Other {
                name: refname(V1),
                pushed: oid(9),
                declared: oid(2),
            },
            Difference::Undeclared(refname("refs/heads/old")),
        ],
        more: 0,
        completing: vec![
            (refname("refs/heads/dev"), oid(3)),
            (refname(V1), oid(2)),
            (refname("refs/heads/old"), Oid::ZERO),
        ],
    };
    let Some(Obstacle::NoneMatches { newest, .. }) = plan.obstacle.as_deref() else {
        panic!("{:?}", plan.obstacle)
    };
    assert_eq!(*newest, expected);
}

/// PUSH-5, PUSH-10: a name is repeated up to a bound.
#[test]
fn a_name_that_is_none_is_cut_and_made_plain() {
    let said_of = |name: &str| {
        let commands = [set(name, 1)];
        refusal(&push(&project(), &[], &commands), &commands).summary
    };
    let (short, long) = ("x".repeat(120), "x".repeat(121));
    assert!(said_of(&short).starts_with(&format!("{short}: ")));
    assert!(said_of(&long).starts_with(&format!("{short}…: ")));
    assert!(said_of("a\u{1b}[2Jb").starts_with("a?[2Jb: "));
}

/// PUSH-3, §16: what a plan says of its pack.
#[test]
fn a_plan_tells_what_its_pack_is_for() {
    let plan = |verdicts: &[Verdict]| PushPlan {
        verdicts: verdicts.to_vec(),
        ..PushPlan::default()
    };
    let id = EventId::from_byte_array([7; 32]);
    let branch = Verdict::Accept {
        installs: Some(oid(1)),
        upload: None,
    };
    let upload = Verdict::Accept {
        installs: Some(oid(2)),
        upload: Some(id),
    };
    let (nothing, refused) = (Verdict::NOTHING_TO_DO, Verdict::Refuse(String::new()));
    for (verdicts, accepts, only_uploads, tips) in [
        (vec![], false, false, vec![]),
        (vec![refused.clone()], false, false, vec![]),
        (vec![nothing.clone()], true, false, vec![]),
        (vec![upload.clone()], true, true, vec![oid(2)]),
        (
            vec![nothing, refused, upload.clone()],
            true,
            true,
            vec![oid(2)],
        ),
        (vec![branch.clone()], true, false, vec![oid(1)]),
        (vec![upload, branch], true, false, vec![oid(2), oid(1)]),
    ] {
        let plan = plan(&verdicts);
        assert_eq!(plan.accepts_any(), accepts, "{verdicts:?}");
        assert_eq!(plan.brings_only_uploads(), only_uploads, "{verdicts:?}");
        assert_eq!(plan.tips(), tips, "{verdicts:?}");
    }
}

/// PUSH-10: long lists stay short.
#[test]
fn a_state_of_many_refs_makes_no_endless_message() {
    let said_of = |refs: usize| {
        let names: Vec<String> = (0..refs).map(|n| format!("refs/heads/b{n}")).collect();
        let one = hex(1);
        let declared: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), one.as_str()))
            .collect();
        let view = project().stated(state(key(1), 10, &declared), Waiting);
        let commands = [set(MAIN, 1)];
        said(&push(&view, &[], &commands), &commands)
    };
    let said = said_of(500);
    assert!(said.len() < 4096, "{} bytes", said.len());
    assert!(said.contains("and 493 more"), "{said}");
    assert!(!said.contains("git push origin"));
    assert!(said_of(30).contains("git push origin"));
    assert!(!said_of(31).contains("git push origin"));
}

/// PUSH-10
#[test]
fn of_many_refused_refs_the_rest_is_counted() {
    let said_of = |refs: usize| {
        let commands: Vec<_> = (0..refs)
            .map(|n| set(&format!("refs/notes/n{n}"), 1))
            .collect();
        let plan = push(&project(), &[], &commands);
        refusal(&plan, &commands).advice
    };
    assert_eq!(said_of(20).len(), 20);
    assert!(said_of(20)[19].starts_with("refs/notes/n19: "));
    assert_eq!(said_of(21).len(), 21);
    assert_eq!(said_of(21)[20], "and 1 more");
    assert_eq!(said_of(23)[20], "and 3 more");
}

/// PUSH-10: what is offered for copying is inert.
#[test]
fn a_hostile_ref_name_is_quoted_for_the_shell() {
    let hostile = "refs/heads/$(reboot);'x";
    let view = project().stated(
        state(key(1), 10, &[(hostile, &hex(1)), (MAIN, &hex(2))]),
        Waiting,
    );
    let commands = [set(MAIN, 2)];
    let said = said(&push(&view, &[], &commands), &commands);
    assert!(
        said.contains(&format!(r"'{}:refs/heads/$(reboot);'\''x'", hex(1))),
        "{said}"
    );
}

/// PUSH-10: a command is offered in full or not at all.
#[test]
fn a_command_that_nobody_could_copy_is_not_offered() {
    let offered = |name: &str| {
        let signed = state(key(1), 10, &[(name, &hex(1)), (MAIN, &hex(2))]);
        let commands = [set(MAIN, 2)];
        let view = project().stated(signed, Waiting);
        said(&push(&view, &[], &commands), &commands).contains("git push origin")
    };
    let deep = vec!["$".repeat(200); 4].join("/");
    assert!(offered(&format!("refs/heads/{deep}")));
    assert!(!offered("refs/heads/\u{9b}2J"));
}

/// PUSH-11: cases, 19 and 24.
#[test]
fn an_annotated_tag_is_compared_by_its_tag_object() {
    let (tag, commit) = (hex(7), hex(8));
    let peeled = [(V1, tag.as_str()), ("refs/tags/v1^{}", commit.as_str())];
    let view = project().stated(state(key(1), 10, &peeled), Waiting);
    assert_eq!(accepted(&push(&view, &[], &[set(V1, 7)])), [true]);

    let view = project().stated(state(key(1), 10, &[(V1, &commit)]), Waiting);
    let plan = push(&view, &[], &[set(V1, 7)]);
    assert!(reason(&plan, 0).contains("would be at 07070707 but state declares 08080808"));
}

/// PUSH-15: cases, 29.
#[test]
fn the_maintainers_of_the_url_decide() {
    let by_two = state(key(2), 10, &[(MAIN, &hex(1))]);
    let view = project().stated(by_two.clone(), Waiting);
    let commands = [set(MAIN, 1)];
    let plan = |owner| push_to(&repo(key(owner)), &view, &[], &commands, false);
    assert_eq!(plan(1).candidate, Some(by_two.id()));
    assert_eq!(plan(2).candidate, Some(by_two.id()));
    assert_eq!(accepted(&plan(3)), [false], "2 is no maintainer of 3's");
}

/// MNT-9, PUSH-9: cases, 32.
#[test]
fn a_dropped_maintainer_s_state_moves_nothing_more() {
    let view = project()
        .announced(announcement(key(1), 50, vec![]), Served)
        .stated(state(key(1), 10, &[(MAIN, &hex(1))]), Served)
        .stated(state(key(2), 60, &[(MAIN, &hex(2))]), Waiting);
    assert_eq!(
        accepted(&push(&view, &[(MAIN, 1)], &[set(MAIN, 2)])),
        [false]
    );
}

/// REF-5: frozen refs move only to a state that authorises it.
#[test]
fn a_frozen_repository_is_completed_by_a_waiting_state() {
    let signed = state(key(1), 10, &[(MAIN, &hex(2))]);
    let view = project().stated(signed.clone(), Parked);
    let frozen = [(MAIN, 1), ("refs/heads/old", 3)];
    let plan = push(&view, &frozen, &[set(MAIN, 2)]);
    assert_eq!(accepted(&plan), [false], "old is still there");
    let plan = push(&view, &frozen, &[set(MAIN, 2), delete("refs/heads/old")]);
    assert_eq!(plan.candidate, Some(signed.id()));
}

/// KIND-6: the state that declares nothing lets everything go.
#[test]
fn an_empty_state_authorises_the_deletion_of_all() {
    let view = project().stated(state(key(1), 10, &[]), Waiting);
    let plan = push(&view, &[(MAIN, 1), (V1, 2)], &[delete(MAIN), delete(V1)]);
    assert_eq!(accepted(&plan), [true, true]);
    assert!(plan.tips().is_empty());
    assert_eq!(
        accepted(&push(&view, &[(MAIN, 1), (V1, 2)], &[delete(V1)])),
        [false]
    );
}

/// PUSH-16
#[test]
fn branches_below_pr_are_ordinary() {
    let name = "refs/heads/pr/one";
    let view = project().stated(state(key(1), 10, &[(name, &hex(1))]), Waiting);
    assert_eq!(accepted(&push(&view, &[], &[set(name, 1)])), [true]);
}

/// PUSH-1, PUSH-5
#[test]
fn other_spaces_illegal_names_and_repeats_are_refused_by_name() {
    let view = project().stated(state(key(1), 10, &[(MAIN, &hex(1))]), Waiting);
    for name in [
        "refs/notes/commits",
        "refs/replace/x",
        "refs/pull/1/head",
        "refs/nostr/short",
        &format!("refs/nostr/{}", "A".repeat(64)),
        "HEAD",
        "main",
        "refs/heads/a..b",
        "refs/heads/main^{}",
        "refs/heads/../../config",
        "",
    ] {
        let plan = push(&view, &[], &[set(MAIN, 1), set(name, 1)]);
        assert_eq!(accepted(&plan), [true, false], "{name}");
        assert!(!reason(&plan, 1).contains('\n'));
    }
    let twice = [set(MAIN, 1), set(MAIN, 1)];
    let plan = push(&view, &[], &twice);
    assert_eq!(accepted(&plan), [false, false]);
    assert!(said(&plan, &twice).contains("publish a state"));
    let elsewhere = [set("refs/notes/commits", 1)];
    let plan = push(&view, &[], &elsewhere);
    assert!(!said(&plan, &elsewhere).contains("publish a state"));
}

/// §16
#[test]
fn too_many_commands_are_refused() {
    let policy = Policy {
        push_commands_max: 2,
        ..policy()
    };
    let signed = state(key(1), 10, &[(MAIN, &hex(1)), (V1, &hex(1))]);
    let view = project().stated(signed, Waiting).build();
    let judged = |commands: &[Command]| {
        let plan = Push {
            repo: &repo(key(1)),
            commands,
            atomic: false,
            current: &refs(&[]),
            view: &view,
            known_events: &BTreeMap::new(),
            cx: cx(&policy),
        };
        accepted(&plan.authorize())
    };
    let commands = [set(MAIN, 1), set(V1, 1), delete("refs/tags/v2")];
    assert_eq!(judged(&commands), [false; 3]);
    assert_eq!(judged(&commands[..2]), [true; 2]);
}

/// PUR-3, PUSH-12
#[test]
fn an_authorised_push_gives_the_waiting_announcement_more_time() {
    let waiting = announcement(key(1), 1, vec![]);
    let id = waiting.id();
    let view = view()
        .announced(waiting, Waiting)
        .stated(state(key(1), 10, &[(MAIN, &hex(1))]), Waiting);
    let extend = Change::Extend {
        event: id,
        deadline: Some(Timestamp::from_secs(NOW + 1800)),
    };
    assert_eq!(push(&view, &[], &[set(MAIN, 1)]).extend, [extend]);
    assert_eq!(push(&view, &[], &[set(MAIN, 2)]).extend, []);
}
