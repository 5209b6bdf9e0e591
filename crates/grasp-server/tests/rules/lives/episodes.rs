//! Several steps that chance seldom brings together, about what has to be right in just that order.

use proptest::prelude::*;

use super::draw::{at, declared, who};
use super::step::{Declared, Form, PEOPLE, PRS, Step};

type Episode = BoxedStrategy<Vec<Step>>;

/// One of them.
pub(super) fn episode() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![
        overtaken(),
        unanswered(),
        left_out(),
        uploaded(),
        expired(),
        twice_deleted(),
        shared(),
        turned(),
        vanished(),
        listed(),
        restored(),
        tested(),
        outlived(),
    ]
}

fn announce(who: usize, lists: u8, lead: Option<usize>) -> Step {
    Step::Announce {
        who,
        lists,
        lead,
        here: true,
        lasts: None,
    }
}

fn sign(who: usize, declared: Declared) -> Step {
    Step::State {
        who,
        declared,
        age: 0,
        lasts: None,
    }
}

fn advance(who: usize, to: usize, declared: Declared) -> Step {
    Step::Advance {
        who,
        to,
        declared,
        age: 0,
    }
}

/// PUSH-13: a push brings what a newer state waits for as well, and that one wins. Of the commits that they name
/// nobody has one yet.
fn overtaken() -> Episode {
    let far = prop::sample::select(vec![5_usize, 7]);
    (who(), 1..PEOPLE.len(), far, who())
        .prop_map(|(who, other, far, to)| {
            let by = (who + other) % PEOPLE.len();
            let pushed = Step::PushState {
                to,
                of: who,
                form: Form::Exact,
            };
            let sign = |who, at| sign(who, Declared::main(at));
            vec![sign(who, far), sign(by, far - 1), pushed]
        })
        .boxed()
}

/// ANN-3b: the lead moves to somebody who never answers.
fn unanswered() -> Episode {
    (who(), who())
        .prop_map(|(who, lead)| {
            let moved = announce(who, 1 << who, Some(lead));
            vec![moved, Step::Pass { secs: 1800 }]
        })
        .boxed()
}

/// DEL-3: whom a deleted announcement left out stays out.
fn left_out() -> Episode {
    (who(), who(), at())
        .prop_map(|(who, other, at)| {
            let retracted = Step::DeleteNewest { who, state: false };
            let alone = announce(who, 1 << who, None);
            vec![alone, retracted, advance(other, who, Declared::main(at))]
        })
        .boxed()
}

/// PR-4: the commit, then what it is for.
fn uploaded() -> Episode {
    (who(), 0..=PRS, at(), any::<bool>())
        .prop_map(|(to, place, at, right)| {
            let upload = Step::UploadFirst {
                to,
                place,
                at,
                right,
            };
            vec![upload, Step::SendDraft]
        })
        .boxed()
}

/// PUR-8: another server still has what expired here.
fn expired() -> Episode {
    (who(), declared())
        .prop_map(|(who, declared)| {
            let (back, synced) = (0, true);
            vec![
                sign(who, declared),
                Step::Pass { secs: 1800 },
                Step::SendAgain { back, synced },
            ]
        })
        .boxed()
}

/// DEL-6: what was deleted by itself does not come back with its scope.
fn twice_deleted() -> Episode {
    (who(), at())
        .prop_map(|(who, at)| {
            vec![
                advance(who, who, Declared::main(at)),
                Step::DeleteNewest { who, state: true },
                Step::DeleteScope { who },
                announce(who, 7, None),
            ]
        })
        .boxed()
}

/// DEL-4: what two repositories share outlives one of them.
fn shared() -> Episode {
    (who(), who(), any::<bool>())
        .prop_map(|(to, also, patch)| {
            let issue = Step::Issue { to, also, patch };
            vec![issue, Step::DeleteScope { who: to }]
        })
        .boxed()
}

/// REF-4: HEAD moves between two branches that stay.
fn turned() -> Episode {
    (who(), who())
        .prop_map(|(who, to)| {
            let turn = |head| {
                let both = Declared {
                    main: Some(1),
                    dev: Some(2),
                    tag: None,
                    head,
                };
                advance(who, to, both)
            };
            vec![turn("refs/heads/dev"), turn("refs/heads/main")]
        })
        .boxed()
}

/// DEL-8: who vanished begins anew, with or without something that others hung on the repository.
fn vanished() -> Episode {
    (who(), who(), at(), any::<bool>())
        .prop_map(|(who, other, at, missed)| {
            let issue = Step::Issue {
                to: if missed { who } else { other },
                also: other,
                patch: false,
            };
            vec![
                issue,
                Step::Vanish { who, here: true },
                announce(who, 7, None),
                advance(other, who, Declared::main(at)),
            ]
        })
        .boxed()
}

/// DEL-8: whose announcement is gone keeps the rest, or has it back, whoever else vanishes.
fn outlived() -> Episode {
    (who(), 0..=PRS, at())
        .prop_map(|(who, gone, at)| {
            let own = false;
            vec![
                advance(who, who, Declared::main(at)),
                Step::Propose { to: who, at, own },
                Step::DeleteNewest { who, state: false },
                Step::Vanish {
                    who: gone,
                    here: true,
                },
                announce(who, 7, None),
            ]
        })
        .boxed()
}

/// DEL-7: what a list took it gives back.
fn listed() -> Episode {
    (who(), any::<bool>())
        .prop_map(|(who, by_white)| {
            let relist = |black, white| Step::Relist {
                black,
                white,
                restores: true,
            };
            if by_white {
                let others = 7 & !(1 << who);
                vec![relist(0, Some(others)), relist(0, Some(7))]
            } else {
                vec![relist(1 << who, None), relist(0, None)]
            }
        })
        .boxed()
}

/// DEL-6: what its owner took elsewhere comes back by the operator.
fn restored() -> Episode {
    who()
        .prop_map(|who| {
            let elsewhere = Step::Announce {
                who,
                lists: 0,
                lead: None,
                here: false,
                lasts: None,
            };
            vec![elsewhere, Step::Restore { who }]
        })
        .boxed()
}

/// DEL-11: with what hangs on it.
fn tested() -> Episode {
    (who(), any::<bool>())
        .prop_map(|(who, patch)| {
            let issue = Step::Issue {
                to: who,
                also: who,
                patch,
            };
            vec![
                Step::Test(Box::new(announce(who, 7, None))),
                issue,
                Step::Pass { secs: 7300 },
                Step::CleanUp,
            ]
        })
        .boxed()
}
