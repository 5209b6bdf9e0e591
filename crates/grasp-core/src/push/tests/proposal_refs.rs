//! `refs/nostr/<event-id>` (PUSH-4, PUSH-19).

use super::*;

fn orphan() -> EventId {
    EventId::from_byte_array([0xaa; 32])
}

fn name_of(event: &EventId) -> String {
    RefName::proposal(event).to_string()
}

fn with_known(
    repo: &RepoAddress,
    view: &ViewBuilder,
    known: &VerifiedEvent,
    commands: &[Command],
) -> PushPlan {
    let (policy, view) = (policy(), view.clone().build());
    let known = BTreeMap::from([(known.id(), KnownEvent::of(known))]);
    Push {
        repo,
        commands,
        atomic: false,
        current: &refs(&[]),
        view: &view,
        known_events: &known,
        cx: cx(&policy),
    }
    .authorize()
}

/// PUSH-4: what the store is asked for.
#[test]
fn the_events_that_commands_name_are_read_from_their_refs() {
    let other = EventId::from_byte_array([0xbb; 32]);
    let commands = [
        set(&name_of(&orphan()), 1),
        set(MAIN, 1),
        set("refs/nostr/short", 1),
        set(&name_of(&other), 0),
        set(&name_of(&other), 1),
    ];
    assert_eq!(named_events(&commands), [orphan(), other].into());
}

/// PUSH-4: cases, 27.
#[test]
fn an_unknown_event_takes_an_upload_without_any_state() {
    let commands = [set(&name_of(&orphan()), 1)];
    let plan = push(&project(), &[], &commands);
    let upload = Verdict::Accept {
        installs: Some(oid(1)),
        upload: Some(orphan()),
    };
    assert_eq!(plan.verdicts, [upload]);
    assert!(plan.brings_only_uploads());
    assert_eq!(
        accepted(&push(&view(), &[], &commands)),
        [false],
        "not announced"
    );
}

/// PUSH-4, PUSH-2
#[test]
fn the_first_upload_binds_the_id() {
    let name = name_of(&orphan());
    let bound = project().uploaded(upload(orphan(), oid(1), repo(key(1))));
    let push = |command| push(&bound, &[(&name, 1)], &[command]);
    assert_eq!(push(set(&name, 1)).verdicts, [Verdict::NOTHING_TO_DO]);
    for change in [set(&name, 2), delete(&name)] {
        assert_eq!(accepted(&push(change)), [false]);
    }
    let other = project().uploaded(upload(orphan(), oid(1), repo(key(2))));
    let push = |n| super::push(&other, &[], &[set(&name, n)]);
    assert_eq!(
        accepted(&push(1)),
        [true],
        "the same commit in another repository"
    );
    assert_eq!(accepted(&push(2)), [false], "bound there");
}

/// PUSH-3
#[test]
fn deleting_what_is_not_there_is_fine() {
    let plan = push(&project(), &[], &[delete(&name_of(&orphan()))]);
    assert_eq!(plan.verdicts, [Verdict::NOTHING_TO_DO]);
}

/// PUSH-4: cases, 31.
#[test]
fn a_known_event_takes_its_own_commit_only() {
    let request = proposal(key(9), 5, &hex(1), &[key(2)]);
    let name = name_of(&request.id());
    for stage in [Served, Waiting, Parked] {
        let view = project().proposed(&request, stage);
        let plan = push(&view, &[], &[set(&name, 1)]);
        let bound = Verdict::Accept {
            installs: Some(oid(1)),
            upload: None,
        };
        assert_eq!(plan.verdicts, [bound], "{stage:?}");
        let plan = push(&view, &[], &[set(&name, 2)]);
        let expected = format!(
            "PR event {} specifies commit {}, but push contains {}",
            request.id(),
            hex(1),
            hex(2)
        );
        assert_eq!(reason(&plan, 0), expected);
    }
}

/// PUSH-4
#[test]
fn a_known_event_must_be_a_proposal_to_this_repository() {
    let request = proposal(key(9), 5, &hex(1), &[key(3)]);
    let commands = [set(&name_of(&request.id()), 1)];
    let plan = |owner| with_known(&repo(key(owner)), &project(), request.event(), &commands);
    assert_eq!(accepted(&plan(3)), [true]);
    assert!(reason(&plan(1), 0).contains("does not target this repository"));

    let issue = event(key(9), kind::ISSUE, 5, vec![tag(["c".to_owned(), hex(1)])]);
    let commands = [set(&name_of(&issue.id()), 1)];
    let plan = with_known(&repo(key(1)), &project(), &issue, &commands);
    assert!(reason(&plan, 0).contains("of kind 1621"));

    let hollow = proposal(key(9), 5, "nonsense", &[key(1)]);
    let commands = [set(&name_of(&hollow.id()), 1)];
    let plan = with_known(&repo(key(1)), &project(), hollow.event(), &commands);
    assert_eq!(accepted(&plan), [false]);
}

/// PUSH-19, G6-2, G6-3
#[test]
fn a_prs_repository_takes_its_submitter_s_proposals_and_nothing_else() {
    let here = prs_repo(key(9));
    let request = proposal(key(9), 5, &hex(1), &[key(1)]);
    let foreign = proposal(key(8), 5, &hex(1), &[key(1)]);
    let to = |known: &VerifiedEvent, name: &str| with_known(&here, &view(), known, &[set(name, 1)]);
    let own = name_of(&request.id());
    assert_eq!(accepted(&to(request.event(), &own)), [true]);
    let other = to(foreign.event(), &name_of(&foreign.id()));
    assert_eq!(accepted(&other), [false], "signed by somebody else");
    let unknown = to(request.event(), &name_of(&orphan()));
    assert_eq!(
        accepted(&unknown),
        [true],
        "the repository is made on first push"
    );
    for name in [MAIN, V1] {
        let plan = to(request.event(), name);
        let only = "only refs/nostr/<event-id> can be pushed to a /prs/ repository";
        assert_eq!(reason(&plan, 0), only, "{name}");
    }
    assert_eq!(accepted(&to(request.event(), "refs/notes/x")), [false]);
}

/// PUSH-4, G1-16, §16
#[test]
fn uploads_are_bounded_per_repository() {
    let ids = (0..60).map(|n| EventId::from_byte_array([n; 32]));
    let full = ids.clone().take(49).fold(project(), |view, id| {
        view.uploaded(upload(id, oid(1), repo(key(1))))
    });
    let commands: Vec<_> = ids.skip(49).map(|id| set(&name_of(&id), 1)).collect();
    let plan = push(&full, &[], &commands);
    let accepted = accepted(&plan);
    assert!(accepted[0], "the fiftieth");
    assert!(!accepted[1..].contains(&true));
    assert!(reason(&plan, 1).starts_with("50 uploads wait here") && plan.crowded);
    assert!(!push(&full, &[], &commands[..1]).crowded);
}

/// PUSH-4, PUR-9: a record whose time is over is made anew, even where there is no room for another.
#[test]
fn an_upload_may_be_repeated_after_its_deadline() {
    let ids = (0..50).map(|n| EventId::from_byte_array([n; 32]));
    let over = ids.fold(project(), |view, id| {
        let mut record = upload(id, oid(1), repo(key(1)));
        record.deadline = Timestamp::from_secs(NOW);
        view.uploaded(record)
    });
    let id = EventId::from_byte_array([7; 32]);
    let again = push(&over, &[(&name_of(&id), 1)], &[set(&name_of(&id), 1)]);
    let renewed = Verdict::Accept {
        installs: Some(oid(1)),
        upload: Some(id),
    };
    assert_eq!(again.verdicts, [renewed]);
}

/// PUSH-4: a refusal hits that ref only.
#[test]
fn a_refused_proposal_ref_does_not_stop_a_branch() {
    let view = project().stated(state(key(1), 10, &[(MAIN, &hex(1))]), Waiting);
    let commands = [set("refs/nostr/x", 1), set(MAIN, 1)];
    assert_eq!(accepted(&push(&view, &[], &commands)), [false, true]);
}
