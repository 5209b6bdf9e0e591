//! Laws of push authorisation over any push, against a literal reading of PUSH-7 … PUSH-9.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::event::Version;
use grasp_core::lifecycle::Stage;
use grasp_core::oid::Oid;
use grasp_core::push::{Command, Push, PushPlan, Verdict, refusal};
use grasp_core::refname::RefName;
use grasp_core::refplan::{DesiredRefs, desired};
use grasp_core::settle::{applied, settle};
use grasp_core::state::StateEvent;
use grasp_core::view::{ObjectFacts, RepoView};
use proptest::prelude::*;

use crate::support::project::{announcement, maintainers, refname, repo, state_of, view};
use crate::support::{cx, key, oid, policy};

type Refs = BTreeMap<RefName, Oid>;

const NAMES: [&str; 3] = ["refs/heads/main", "refs/heads/dev", "refs/tags/v1"];

/// A repository of keys 1 and 2, and states by them and by a stranger.
#[derive(Debug, Clone)]
struct Situation {
    local: Refs,
    states: Vec<(StateEvent, Stage)>,
    commands: Vec<Command>,
}

fn any_refs() -> impl Strategy<Value = Refs> {
    // Few objects, so that states, local refs and commands agree often.
    prop::collection::vec(prop::option::of(1..3_u8), NAMES.len()).prop_map(|values| {
        let named = NAMES.iter().zip(values);
        named
            .filter_map(|(name, value)| Some((refname(name), oid(value?))))
            .collect()
    })
}

fn any_state() -> impl Strategy<Value = (StateEvent, Stage)> {
    let stage = prop_oneof![
        Just(Stage::Served),
        Just(Stage::Waiting),
        Just(Stage::Parked),
        Just(Stage::Superseded),
        Just(Stage::Held),
    ];
    (1..4_u8, 1..4_u64, any_refs(), stage)
        .prop_map(|(author, at, refs, stage)| (state_of(key(author), at, &refs), stage))
}

fn any_commands() -> impl Strategy<Value = Vec<Command>> {
    prop::collection::vec(0..3_u8, NAMES.len()).prop_map(|values| {
        let named = NAMES.iter().zip(values);
        named
            .map(|(name, value)| Command {
                old: oid(0xee),
                new: oid(value), // 0 deletes
                name: (*name).to_owned(),
            })
            .collect()
    })
}

fn any_situation() -> impl Strategy<Value = Situation> {
    let states = prop::collection::vec(any_state(), 0..6).prop_map(|mut states| {
        let mut seen = BTreeSet::new();
        states.retain(|(state, _)| seen.insert(state.id())); // an event has one home
        states
    });
    (any_refs(), states, any_commands()).prop_map(|(local, states, commands)| Situation {
        local,
        states,
        commands,
    })
}

/// Keys 1 and 2 list each other; 3 is a stranger who lists both.
fn view_of(situation: &Situation) -> RepoView {
    let announced = [(1, vec![2]), (2, vec![1]), (3, vec![1, 2])]
        .into_iter()
        .fold(view(), |view, (owner, listed)| {
            let listed: Vec<_> = listed.into_iter().map(key).collect();
            let item = announcement(key(owner), 1, vec![maintainers(&listed)]);
            view.announced(item, Stage::Served)
        });
    situation
        .states
        .iter()
        .fold(announced, |view, (state, stage)| {
            view.stated(state.clone(), *stage)
        })
        .build()
}

fn plan(view: &RepoView, local: &Refs, commands: &[Command], atomic: bool) -> PushPlan {
    let (policy, none) = (policy(), BTreeMap::new());
    Push {
        repo: &repo(key(1)),
        commands,
        atomic,
        current: local,
        view,
        known_events: &none,
        cx: cx(&policy),
    }
    .authorize()
}

/// Every subset of the commands, in their order.
fn subsets(commands: &[Command]) -> Vec<Vec<Command>> {
    (0..1_u32 << commands.len())
        .map(|mask| {
            let chosen = commands.iter().enumerate();
            chosen
                .filter(|(at, _)| mask & (1 << at) != 0)
                .map(|(_, command)| command.clone())
                .collect()
        })
        .collect()
}

/// Applies commands to refs as git would.
fn apply<'a>(local: &Refs, commands: impl IntoIterator<Item = &'a Command>) -> Refs {
    let mut refs = local.clone();
    for command in commands {
        if command.new.is_zero() {
            refs.remove(&refname(&command.name));
        } else {
            refs.insert(refname(&command.name), command.new);
        }
    }
    refs
}

fn agrees(state: &StateEvent, command: &Command) -> bool {
    let declared = state.refs().get(&refname(&command.name));
    declared.copied().unwrap_or(Oid::ZERO) == command.new
}

/// KIND-5, spelled out.
fn beats(a: &Version, b: &Version) -> bool {
    a.created_at > b.created_at || (a.created_at == b.created_at && a.id < b.id)
}

fn best<'a>(states: impl Iterator<Item = &'a StateEvent>) -> Option<&'a StateEvent> {
    states.reduce(|a, b| {
        if beats(&b.version(), &a.version()) {
            b
        } else {
            a
        }
    })
}

fn winner(situation: &Situation) -> Option<&StateEvent> {
    let mine = situation.states.iter();
    let served = mine.filter(|(state, stage)| *stage == Stage::Served && state.author() != key(3));
    best(served.map(|(state, _)| state))
}

/// PUSH-7 … PUSH-9 read aloud: which commands are accepted, and because of which state.
fn expected<'a>(
    situation: &'a Situation,
    commands: &[Command],
) -> (Vec<bool>, Option<&'a StateEvent>) {
    if apply(&situation.local, commands) == situation.local {
        return (vec![true; commands.len()], None);
    }
    let winner = winner(situation);
    let candidates = situation.states.iter().filter(|(state, stage)| {
        let waits = matches!(stage, Stage::Waiting | Stage::Parked) && state.author() != key(3);
        let wins = winner.is_none_or(|winner| beats(&state.version(), &winner.version()));
        (waits && wins) || winner.is_some_and(|it| it.id() == state.id())
    });
    let matching = candidates.map(|(state, _)| state).filter(|state| {
        let agreeing = commands.iter().filter(|command| agrees(state, command));
        apply(&situation.local, agreeing) == *state.refs()
    });
    let chosen = best(matching);
    let accept = |command| chosen.is_some_and(|state| agrees(state, command));
    (commands.iter().map(accept).collect(), chosen)
}

/// What reconcile makes of `local`.
fn shown(view: &RepoView, local: &Refs) -> Refs {
    match desired(&repo(key(1)), view, &policy()).refs {
        DesiredRefs::Winner { refs, .. } => refs,
        DesiredRefs::Frozen | DesiredRefs::Empty => local.clone(),
    }
}

fn accepted(plan: &PushPlan) -> Vec<bool> {
    plan.verdicts.iter().map(Verdict::accepts).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

    /// PUSH-7, PUSH-8, PUSH-9
    #[test]
    fn every_subset_of_a_push_is_judged_as_the_rules_read(situation in any_situation()) {
        let (view, local) = (view_of(&situation), &situation.local);
        for commands in subsets(&situation.commands) {
            let plan = plan(&view, local, &commands, false);
            let (verdicts, chosen) = expected(&situation, &commands);
            prop_assert_eq!(accepted(&plan), verdicts, "{:?}", &commands);
            if let Some(candidate) = plan.candidate {
                prop_assert_eq!(Some(candidate), chosen.map(StateEvent::id));
            }
        }
    }

    /// PUSH-9: what moves a ref leads to a state that is not older than the winner, and exactly there.
    #[test]
    fn refs_never_move_but_to_the_winner_or_past_it(situation in any_situation()) {
        let (view, local) = (view_of(&situation), &situation.local);
        for commands in subsets(&situation.commands) {
            let plan = plan(&view, local, &commands, false);
            let verdicts = commands.iter().zip(&plan.verdicts);
            let moved = apply(&situation.local, verdicts.filter(|it| it.1.accepts()).map(|it| it.0));
            if moved == situation.local {
                continue;
            }
            let candidate = situation.states.iter().map(|(state, _)| state)
                .find(|state| Some(state.id()) == plan.candidate);
            let candidate = candidate.expect("what moves refs names its state");
            prop_assert_eq!(candidate.refs(), &moved);
            prop_assert!(candidate.author() != key(3));
            if let Some(winner) = winner(&situation) {
                prop_assert!(!beats(&winner.version(), &candidate.version()));
            }
        }
    }

    /// PUSH-8, AFTER-1
    #[test]
    fn an_atomic_push_is_all_or_nothing(situation in any_situation()) {
        let (view, local) = (view_of(&situation), &situation.local);
        for commands in subsets(&situation.commands) {
            let free = accepted(&plan(&view, local, &commands, false));
            let atomic = accepted(&plan(&view, local, &commands, true));
            let all = free.iter().all(|it| *it);
            prop_assert_eq!(atomic, vec![all; commands.len()]);
        }
    }

    /// KIND-5: the order in which events came plays no part.
    #[test]
    fn the_order_of_events_does_not_matter(
        (situation, shuffled) in any_situation().prop_flat_map(|situation| {
            let states = Just(situation.states.clone()).prop_shuffle();
            (Just(situation), states)
        }),
    ) {
        let other = Situation { states: shuffled, ..situation.clone() };
        let (commands, local) = (&situation.commands, &situation.local);
        let [one, two] = [&situation, &other].map(|it| plan(&view_of(it), local, commands, false));
        prop_assert_eq!(one, two);
    }

    /// GIT-5, PUSH-10: whoever is refused hears a reason for each ref, on one line, and a next step.
    #[test]
    fn every_refusal_has_words(situation in any_situation()) {
        let (view, local) = (view_of(&situation), &situation.local);
        for commands in subsets(&situation.commands) {
            let plan = plan(&view, local, &commands, false);
            for verdict in &plan.verdicts {
                if let Verdict::Refuse(reason) = verdict {
                    prop_assert!(!reason.is_empty() && !reason.contains('\n'));
                }
            }
            if !plan.accepts_any() && !commands.is_empty() {
                let refusal = refusal(&plan, &commands);
                prop_assert!(!refusal.summary.contains('\n'));
                prop_assert!(refusal.advice.len() > commands.len().min(1));
            }
        }
    }

    /// PUSH-13, AFTER-7: a push that commits leaves every accepted ref where it was told to be, and
    /// nothing more to settle; one that does not has no acceptance left, and a newer state is why.
    #[test]
    fn a_committed_push_ends_as_it_was_reported(situation in any_situation()) {
        let (policy, none, home) = (policy(), BTreeMap::new(), repo(key(1)));
        let cx = cx(&policy);
        // What is shown is there, and what that completes has been served.
        let mut facts = ObjectFacts::none();
        let (mut view, mut local) = (view_of(&situation), situation.local.clone());
        for _ in 0..=situation.states.len() {
            local = shown(&view, &local);
            for oid in local.values() {
                facts.add(home.clone(), *oid);
            }
            view = applied(&view, &settle(&view, &facts, cx), cx);
        }
        let (view, local) = (view, local);
        for commands in subsets(&situation.commands) {
            let plan = plan(&view, &local, &commands, false);
            if !plan.accepts_any() {
                continue;
            }
            let mut installed = facts.clone();
            for tip in plan.tips() {
                installed.add(home.clone(), tip);
            }
            let push = Push {
                repo: &home,
                commands: &commands,
                atomic: false,
                current: &local,
                view: &view,
                known_events: &none,
                cx,
            };
            match push.complete(&plan, &facts, 1) {
                Ok(batch) => {
                    let after = applied(&view, &batch, cx);
                    let shown = shown(&after, &local);
                    for (command, _) in commands.iter().zip(&plan.verdicts).filter(|it| it.1.accepts()) {
                        let end = shown.get(&refname(&command.name)).copied().unwrap_or(Oid::ZERO);
                        prop_assert_eq!(end, command.new);
                    }
                    prop_assert_eq!(settle(&after, &installed, cx), vec![]);
                }
                Err(refused) => {
                    prop_assert!(!refused.accepts_any());
                    let settled = applied(&view, &settle(&view, &installed, cx), cx);
                    let winner = grasp_core::refplan::winner(&home, &settled, &policy);
                    let candidate = settled.states.values().flatten()
                        .find(|entry| Some(entry.item.id()) == plan.candidate);
                    if let (Some(winner), Some(candidate)) = (winner, candidate) {
                        prop_assert!(beats(&winner.item.version(), &candidate.item.version()));
                    }
                }
            }
        }
    }
}
