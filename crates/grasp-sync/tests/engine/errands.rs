//! What the server asks for beside what is followed, and what it does when notices were lost.

use grasp_core::filter::Filter;
use grasp_sync::engine::{DialFailure, Input, Notice, PeerMessage};
use std::time::Duration;

use crate::script::{PLAIN, Script};
use crate::world::{id, relay, repository, root};

fn by_id(n: u32) -> Vec<Filter> {
    vec![Filter {
        ids: Some([id(n).to_bytes()].into()),
        ..Filter::default()
    }]
}

fn ask(script: &mut Script, n: u32) {
    script.give(Input::Asked {
        relay: relay(1),
        filters: by_id(n),
    });
}

/// SYNC-33: asked once, after what is followed live, and its end confirms nothing.
#[test]
fn a_question_of_the_server_is_asked_once() {
    let mut script = Script::new(vec![repository(1, &[1])]);
    script.connect(PLAIN);
    script.answer_all(15);
    let books = script.books(1);
    ask(&mut script, 7);
    script.pass_secs(5);
    let reqs = script.reqs();
    let asked: Vec<_> = reqs.iter().map(|req| req.filters.clone()).collect();
    assert_eq!(asked, [by_id(7)]);
    script.eose(&reqs[0]);
    assert_eq!(script.answer_all(30).len(), 0, "and not again");
    assert_eq!(script.books(1), books);
}

/// SYNC-27, SYNC-33: many answers are read page by page.
#[test]
fn a_question_with_many_answers_is_read_to_its_end() {
    let mut script = Script::new(vec![repository(1, &[1])]);
    script.connect(PLAIN);
    script.answer_all(15);
    ask(&mut script, 7);
    script.pass_secs(5);
    let first = script.reqs().remove(0);
    script.deliver(&first, 1_000..1_200);
    script.eose(&first);
    script.pass_secs(5);
    let second = script.reqs().remove(0);
    assert_eq!(second.filters[0].ids, first.filters[0].ids);
    assert_eq!(second.filters[0].until, Some(1_000));
}

/// SYNC-44: a peer that takes one filter at a time is asked filter by filter, now and from then on.
#[test]
fn a_question_of_several_filters_is_cut_for_a_peer_that_takes_fewer() {
    let mut script = Script::new(vec![repository(1, &[1])]);
    script.connect(PLAIN);
    script.answer_all(15);
    let asked: Vec<Filter> = (7..9).flat_map(by_id).collect();
    script.give(Input::Asked {
        relay: relay(1),
        filters: asked.clone(),
    });
    script.pass_secs(5);
    let refused = script.reqs().remove(0);
    assert_eq!(refused.filters, asked);
    script.close(&refused, "error: too many filters in subscription");
    let again = script.answer_all(15);
    let again: Vec<Filter> = again.into_iter().flat_map(|req| req.filters).collect();
    assert_eq!(again, asked, "each by itself");
}

/// SYNC-33: whoever is not connected is not asked, then or later.
#[test]
fn a_question_for_an_absent_relay_is_dropped() {
    let mut script = Script::new(vec![repository(1, &[1])]);
    script.refuse_dials(DialFailure::Unreachable, Duration::from_secs(1));
    ask(&mut script, 7);
    script.connect(PLAIN);
    let asked = script.answer_all(15);
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|req| req.filters != by_id(7)));
}

/// SYNC-33: a refusal of the question is no refusal of anything else.
#[test]
fn a_question_that_is_refused_or_not_answered_is_forgotten() {
    for reason in [Some("error: no"), Some("restricted: not for you"), None] {
        let mut script = Script::new(vec![repository(1, &[1])]);
        script.connect(PLAIN);
        script.answer_all(15);
        ask(&mut script, 7);
        script.pass_secs(5);
        let req = script.reqs().remove(0);
        match reason {
            Some(reason) => script.close(&req, reason),
            None => script.pass_secs(130),
        }
        script.reqs();
        script.pass_secs(300);
        assert!(script.reqs().iter().all(|req| req.filters != by_id(7)));
        let another = PeerMessage::Eose {
            subscription: req.subscription,
        };
        script.hear(req.connection, another);
        assert_eq!(script.books(1).1, 0, "{reason:?}: nothing is in flight");
    }
}

/// SYNC-9: after a loss the index is what the store says, not what it was.
#[test]
fn what_a_reload_does_not_name_is_followed_no_longer() {
    let mut script = Script::new(vec![
        repository(1, &[1]),
        repository(2, &[2]),
        root(5, 1),
        root(6, 2),
    ]);
    script.give(Input::Noticed(repository(9, &[9])));
    let notices: Vec<Notice> = vec![repository(2, &[2, 3]), root(6, 2)];
    script.give(Input::Reloaded {
        notices: notices.clone(),
    });
    script.pass_secs(10);
    let fresh = Script::new(notices);
    assert_eq!(
        script.engine.repo_sync_index().sizes(),
        fresh.engine.repo_sync_index().sizes()
    );
    assert_eq!(script.books(1), (0, 0, 0));
    assert_eq!(script.books(2).2, fresh.books(2).2);
    assert_eq!(script.books(3).2, fresh.books(3).2);
}
