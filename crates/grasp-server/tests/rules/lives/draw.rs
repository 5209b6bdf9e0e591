//! How lives are drawn.

use proptest::prelude::*;

use super::episodes::episode;
use super::step::{Declared, Form, PEOPLE, PRS, Step};
use crate::history::COMMITS_MAX;

const STEPS_MAX: usize = 14;

/// What a life is mostly about: how often each kind of step is drawn.
struct Theme {
    announcements: u32,
    states: u32,
    pushes: u32,
    proposals: u32,
    conversation: u32,
    deletions: u32,
    repeats: u32,
    leaving: u32,
    time: u32,
}

const THEMES: [Theme; 5] = [
    Theme {
        announcements: 5,
        states: 4,
        pushes: 12,
        proposals: 8,
        conversation: 3,
        deletions: 5,
        repeats: 2,
        leaving: 1,
        time: 4,
    },
    // Who may move refs, and who no more.
    Theme {
        announcements: 10,
        states: 3,
        pushes: 6,
        proposals: 0,
        conversation: 0,
        deletions: 3,
        repeats: 1,
        leaving: 1,
        time: 3,
    },
    // What they say.
    Theme {
        announcements: 1,
        states: 8,
        pushes: 16,
        proposals: 0,
        conversation: 0,
        deletions: 0,
        repeats: 1,
        leaving: 0,
        time: 2,
    },
    // What others ask for.
    Theme {
        announcements: 1,
        states: 1,
        pushes: 2,
        proposals: 14,
        conversation: 3,
        deletions: 2,
        repeats: 1,
        leaving: 1,
        time: 2,
    },
    // What goes and comes back.
    Theme {
        announcements: 4,
        states: 2,
        pushes: 6,
        proposals: 2,
        conversation: 2,
        deletions: 8,
        repeats: 5,
        leaving: 4,
        time: 3,
    },
];

/// A life begins with repositories that are served, or nothing much would ever happen in it.
pub(super) fn life() -> impl Strategy<Value = Vec<Step>> {
    let together = |size: usize| {
        let everybody = (1 << size) - 1;
        let announced = (0..size).map(move |who| Step::Announce {
            who,
            lists: everybody,
            lead: None,
            here: true,
            lasts: None,
        });
        let first = Step::Advance {
            who: 0,
            to: 0,
            declared: Declared::main(0),
            age: 0,
        };
        announced.chain([first]).collect::<Vec<Step>>()
    };
    let beginnings = [Vec::new(), together(1), together(2), together(3)];
    let lives = |theme| {
        let one = step(theme).prop_map(|step| vec![step]);
        prop::collection::vec(prop_oneof![8 => one, 1 => episode()], 1..=STEPS_MAX)
    };
    let steps = prop::strategy::Union::new(THEMES.iter().map(lives));
    (prop::sample::select(beginnings.to_vec()), steps)
        .prop_map(|(beginning, steps)| [beginning, steps.concat()].concat())
}

fn step(theme: &Theme) -> impl Strategy<Value = Step> + use<> {
    let kinds = [
        (theme.announcements, announcement().boxed()),
        (theme.states, state().boxed()),
        (theme.pushes, push().boxed()),
        (theme.proposals, proposal().boxed()),
        (theme.conversation, conversation().boxed()),
        (theme.deletions, deletion().boxed()),
        (theme.repeats, again().boxed()),
        (theme.leaving, leaving().boxed()),
        (theme.time, time().boxed()),
    ];
    prop::strategy::Union::new_weighted(
        kinds
            .into_iter()
            .filter(|(weight, _)| *weight > 0)
            .collect(),
    )
}

pub(super) fn who() -> impl Strategy<Value = usize> {
    0..PEOPLE.len()
}

pub(super) fn at() -> impl Strategy<Value = usize> {
    0..COMMITS_MAX
}

/// So many seconds before now an event was signed: sometimes in the second of the one before.
fn age() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0_u64), 2 => 1..4_u64]
}

/// Mostly for ever.
fn lasts() -> impl Strategy<Value = Option<u64>> {
    prop::option::weighted(0.06, prop::sample::select(vec![1000, 3000, 200_000]))
}

fn announcement() -> impl Strategy<Value = Step> {
    let lists = prop_oneof![2 => Just(7_u8), 2 => 0..8_u8];
    let lead = prop::option::weighted(0.15, who());
    let here = prop::bool::weighted(0.9);
    (who(), lists, lead, here, lasts()).prop_map(|(who, lists, lead, here, lasts)| Step::Announce {
        who,
        lists,
        lead,
        here,
        lasts,
    })
}

fn state() -> impl Strategy<Value = Step> {
    (who(), declared(), age(), lasts()).prop_map(|(who, declared, age, lasts)| Step::State {
        who,
        declared,
        age,
        lasts,
    })
}

pub(super) fn declared() -> impl Strategy<Value = Declared> {
    let heads = [
        "refs/heads/main",
        "refs/heads/main",
        "refs/heads/dev",
        "refs/heads/dev",
        "refs/heads/gone",
        "",
    ];
    let declared = (
        prop::option::weighted(0.85, at()),
        prop::option::weighted(0.4, at()),
        prop::option::weighted(0.2, at()),
        prop::sample::select(heads.to_vec()),
    );
    declared.prop_map(|(main, dev, tag, head)| Declared {
        main,
        dev,
        tag,
        head,
    })
}

fn push() -> impl Strategy<Value = Step> {
    let form = prop_oneof![
        7 => Just(Form::Exact),
        1 => Just(Form::Partial),
        1 => Just(Form::Surplus),
        2 => Just(Form::AtomicSurplus),
    ];
    prop_oneof![
        6 => (who(), who(), declared(), age())
            .prop_map(|(who, to, declared, age)| Step::Advance { who, to, declared, age }),
        6 => (who(), who(), form).prop_map(|(to, of, form)| Step::PushState { to, of, form }),
        1 => (who(), at()).prop_map(|(to, at)| Step::PushMain { to, at }),
    ]
}

fn proposal() -> impl Strategy<Value = Step> {
    let right = || prop::bool::weighted(0.8);
    let place = || 0..=PRS;
    prop_oneof![
        3 => (who(), at(), any::<bool>())
            .prop_map(|(to, at, own)| Step::Propose { to, at, own }),
        2 => (who(), place(), at(), right())
            .prop_map(|(to, place, at, right)| Step::UploadFirst { to, place, at, right }),
        2 => Just(Step::SendDraft),
        1 => at().prop_map(|at| Step::Update { at }),
        3 => (place(), right()).prop_map(|(to, right)| Step::PushProposal { to, right }),
        1 => (place(), at()).prop_map(|(to, at)| Step::Upload { to, at }),
    ]
}

fn conversation() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (who(), who(), any::<bool>())
            .prop_map(|(to, also, patch)| Step::Issue { to, also, patch }),
        1 => (0..6_usize).prop_map(|back| Step::Comment { back }),
    ]
}

fn deletion() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..8_usize, prop::bool::weighted(0.2))
            .prop_map(|(back, by_address)| Step::Delete { back, by_address }),
        4 => (who(), any::<bool>()).prop_map(|(who, state)| Step::DeleteNewest { who, state }),
        3 => who().prop_map(|who| Step::DeleteScope { who }),
        1 => (0..8_usize, who()).prop_map(|(back, who)| Step::DeleteForeign { back, who }),
        1 => (who(), at()).prop_map(|(who, at)| Step::DeleteFirst { who, at }),
    ]
}

fn again() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..12_usize, any::<bool>())
            .prop_map(|(back, synced)| Step::SendAgain { back, synced }),
        1 => who().prop_map(|to| Step::Forge { to }),
    ]
}

/// Who goes altogether, and what the operator takes away and brings back.
fn leaving() -> impl Strategy<Value = Step> {
    let black = prop::sample::select(vec![0_u8, 0, 1, 2, 4, 6]);
    let white = prop::sample::select(vec![None, None, None, Some(1_u8), Some(3), Some(5)]);
    let restores = prop::bool::weighted(0.7);
    let tests = prop_oneof![announcement(), state(), proposal(), conversation()];
    prop_oneof![
        3 => (0..=PRS, prop::bool::weighted(0.9)).prop_map(|(who, here)| Step::Vanish { who, here }),
        2 => (black, white, restores)
            .prop_map(|(black, white, restores)| Step::Relist { black, white, restores }),
        2 => who().prop_map(|who| Step::Restore { who }),
        1 => tests.prop_map(|step| Step::Test(Box::new(step))),
        1 => Just(Step::CleanUp),
    ]
}

fn time() -> impl Strategy<Value = Step> {
    let day = 86_400;
    let times = [60, 1000, 1799, 1800, 1800, day, 7 * day, 30 * day, 90 * day];
    prop_oneof![
        4 => prop::sample::select(times.to_vec()).prop_map(|secs| Step::Pass { secs }),
        1 => Just(Step::Restart),
        1 => Just(Step::Kill),
    ]
}
