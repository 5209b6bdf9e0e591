//! The six founding scenarios, step by step (protocol.md §15.4).

use std::time::Duration;

use grasp_sync::engine::{
    ConnectionStatus, Counted, Input, Notice, Output, PeerInfo, Progress, Purpose, SyncLevel,
    SyncMethod, Time, settings,
};

use crate::script::{PLAIN, Req, Script};
use crate::world::{at_level, coordinate, relay, repository, root};

fn shapes(reqs: &[Req]) -> Vec<String> {
    reqs.iter().map(Req::shape).collect()
}

/// A connected relay whose histories are all read.
fn settled() -> Script {
    let mut script = Script::new(vec![repository(1, &[1]), root(10, 1)]);
    script.connect(PLAIN);
    script.answer_all(20);
    assert_eq!(script.books(1), (2, 0, 0));
    script.take();
    script
}

fn lose_connection(script: &mut Script) {
    let relay = script.relay(1);
    let connection = script.engine.connection(relay).expect("connected");
    script.give(Input::Disconnected { connection });
}

/// Scenario 1. SYNC-1, SYNC-3, SYNC-4, SYNC-7
#[test]
fn a_first_connection_is_a_fresh_start() {
    let mut script = Script::new(vec![repository(1, &[1]), root(10, 1)]);
    let relay_1 = script.relay(1);
    let status = |script: &Script| {
        let index = script.engine.relay_sync_index();
        index.get(relay_1).expect("registered").connection_status
    };
    assert_eq!(script.books(1), (0, 0, 2), "registered");
    assert_eq!(
        status(&script),
        ConnectionStatus::Connecting,
        "and dialled at the first tick"
    );
    script.connect(PLAIN);
    assert_eq!(status(&script), ConnectionStatus::Connected);

    // Layer 1 goes live first, and its history is the first batch; everything else is in flight behind it.
    let reqs = script.reqs();
    assert_eq!(shapes(&reqs), ["L1"]);
    assert!(reqs[0].is_live());
    let batches: Vec<_> = script
        .engine
        .pending_sync_index()
        .batches(relay_1)
        .collect();
    let purposes: Vec<_> = batches.iter().map(|batch| batch.purpose).collect();
    assert_eq!(purposes, [Purpose::Announcements, Purpose::NewItems]);
    assert!(batches.iter().all(|batch| batch.since.is_none()));
    assert_eq!(script.books(1), (0, 2, 0));

    // Layers 2 and 3 go live when the peer has answered, before any history.
    script.eose(&reqs[0]);
    let reqs = script.reqs();
    assert_eq!(shapes(&reqs[..1]), ["L1 d a e E A q q"]);
    assert!(reqs[0].is_live());
    let history = script.answer_all(3);
    let mut asked = shapes(&reqs[1..]);
    for req in &reqs[1..] {
        script.eose(req);
    }
    script.pass_secs(3);
    let rest = script.answer_all(10);
    asked.extend(shapes(&history));
    asked.extend(shapes(&rest));
    assert_eq!(&asked[..2], ["L1", "d a A q e E q"], "histories follow");

    // All ended: confirmed.
    assert_eq!(script.books(1), (2, 0, 0));
    let state = script
        .engine
        .relay_sync_index()
        .get(relay_1)
        .expect("known");
    assert!(state.announcements_synced && state.last_connected.is_some());
}

/// Scenario 1: with NIP-77 histories are reconciled.
#[test]
fn a_fresh_start_tries_negentropy_first() {
    let mut script = Script::new(vec![repository(1, &[1])]);
    script.connect(PeerInfo {
        negentropy: Some(true),
        ..PLAIN
    });
    let methods: Vec<_> = script
        .engine
        .pending_sync_index()
        .batches(script.relay(1))
        .map(|batch| batch.sync_method)
        .collect();
    assert_eq!(methods, [SyncMethod::Negentropy; 2]);
}

/// Scenario 2. SYNC-6
#[test]
fn a_short_pause_costs_a_quick_reconnect() {
    let mut script = settled();
    let relay_1 = script.relay(1);
    let before = script
        .engine
        .relay_sync_index()
        .get(relay_1)
        .expect("known")
        .last_connected;
    lose_connection(&mut script);
    assert!(
        script
            .out
            .iter()
            .any(|output| matches!(output, Output::SaveCursor { .. }))
    );
    assert_eq!(script.books(1), (2, 0, 0), "what is confirmed stays");
    script.pass_secs(3);
    // Something new while we are away.
    script.give(Input::Noticed(root(11, 1)));
    script.connect(PLAIN);
    assert_eq!(script.counted(Counted::LongReconnect), 0);

    let reqs = script.reqs();
    assert_eq!(shapes(&reqs), ["L1"], "layer 1 live");
    let since = before
        .expect("set")
        .minus(settings::SINCE_OVERLAP)
        .as_secs();
    let batches: Vec<_> = script
        .engine
        .pending_sync_index()
        .batches(relay_1)
        .collect();
    let sinces: Vec<_> = batches
        .iter()
        .map(|batch| (batch.purpose, batch.since))
        .collect();
    assert_eq!(
        sinces,
        [
            (Purpose::Announcements, Some(since)),
            (Purpose::CatchUp, Some(since))
        ],
        "layer 1, then what is confirmed, both since"
    );
    assert!(
        batches
            .iter()
            .all(|batch| batch.sync_method == SyncMethod::ReqEose)
    );
    script.eose(&reqs[0]);
    let reqs = script.answer_all(20);
    assert!(reqs[0].is_live() && reqs[0].filters.len() == 8);
    // The new root comes with the self-subscriber's batch, from its beginning.
    let new = reqs
        .iter()
        .find(|req| req.shape() == "e E q" && !req.is_live());
    assert_eq!(new.expect("asked for").filters[0].since, None);
    assert_eq!(script.books(1), (3, 0, 0));
}

/// Scenario 2: a catch-up that did not end is not forgotten by the next reconnect.
#[test]
fn a_catch_up_that_is_cut_short_is_done_again() {
    let mut script = settled();
    let relay_1 = script.relay(1);
    let last = |script: &Script| {
        let index = script.engine.relay_sync_index();
        index.get(relay_1).expect("known").last_connected
    };
    let before = last(&script);
    for _ in 0..3 {
        lose_connection(&mut script);
        script.connect(PLAIN);
        assert_eq!(last(&script), before, "nothing was read yet");
    }
    script.answer_all(20);
    assert!(last(&script) > before);
}

/// Scenario 3. The 15-minute rule.
#[test]
fn a_long_pause_costs_a_fresh_start_and_is_counted() {
    for (pause, is_long) in [(899, false), (901, true)] {
        let mut script = settled();
        lose_connection(&mut script);
        script.refuse_dials(
            grasp_sync::engine::DialFailure::Unreachable,
            Duration::from_secs(pause),
        );
        // The next dial is due by then; what counts is how long we were away.
        let relay_1 = script.relay(1);
        let state = script
            .engine
            .relay_sync_index()
            .get(relay_1)
            .expect("known");
        assert_eq!(state.should_clear_state(script.now), is_long, "{pause} s");
    }
    let mut script = settled();
    lose_connection(&mut script);
    script.refuse_dials(
        grasp_sync::engine::DialFailure::Unreachable,
        Duration::from_secs(1_000),
    );
    script.connect(PLAIN);
    assert_eq!(script.counted(Counted::LongReconnect), 1);
    assert_eq!(script.books(1), (0, 2, 0), "all is asked for again");
    let relay_1 = script.relay(1);
    let mut batches = script.engine.pending_sync_index().batches(relay_1);
    assert!(batches.all(|batch| batch.since.is_none()));
}

/// Scenario 4. A consolidation is live only and loses nothing.
#[test]
fn seventy_filters_too_many_are_merged() {
    let mut script = settled();
    let relay_1 = script.relay(1);
    let filters = |script: &Script| script.engine.live(relay_1).expect("connected").filters();
    assert_eq!(filters(&script), 8);
    let mut peak = 0;
    let mut merged_by = None;
    for n in 0..40 {
        script.give(Input::Noticed(root(100 + n, 1)));
        script.take();
        let reqs = script.answer_all(8);
        peak = peak.max(filters(&script));
        if filters(&script) == 8 {
            merged_by = Some((n, reqs, script.take()));
            break;
        }
    }
    let (n, reqs, out) = merged_by.expect("merged at some point");
    assert!(peak > settings::CONSOLIDATE_ABOVE && peak <= 8 + settings::CONSOLIDATE_ABOVE + 3);
    // Everything was closed, and opened again with all that is confirmed; nothing of it was asked for again.
    let closes = out
        .iter()
        .filter(|output| matches!(output, Output::Unsubscribe { .. }))
        .count();
    assert!(closes > 0);
    let live = reqs
        .iter()
        .rfind(|req| req.is_live())
        .expect("opened again");
    assert_eq!(live.shape(), "L1 d a e E A q q");
    let roots = live.filters.iter().find_map(|filter| filter.tags.get(&'e'));
    assert_eq!(roots.expect("roots").len(), n as usize + 2);
    let after = reqs.iter().rposition(Req::is_live).expect("there is one");
    assert!(reqs[after + 1..].is_empty(), "no history after it");
    assert_eq!(script.books(1), (n as usize + 3, 0, 0));
}

/// Scenario 4: only once nothing is in flight.
#[test]
fn a_consolidation_waits_for_what_is_in_flight() {
    let mut script = settled();
    let relay_1 = script.relay(1);
    let mut held = Vec::new();
    for n in 0..40 {
        script.give(Input::Noticed(root(100 + n, 1)));
        script.pass_secs(6);
        held.extend(script.reqs().into_iter().filter(|req| !req.is_live()));
    }
    let live = script.engine.live(relay_1).expect("connected");
    assert!(live.filters() > 8 + settings::CONSOLIDATE_ABOVE);
    for req in &held {
        script.eose(req);
    }
    script.answer_all(30);
    assert_eq!(script.engine.live(relay_1).expect("connected").filters(), 8);
    assert_eq!(script.books(1), (42, 0, 0));
}

/// Scenario 5
#[test]
fn once_a_day_all_is_asked_for_again_and_no_reconnect_is_counted() {
    let mut script = settled();
    let relay_1 = script.relay(1);
    let daily_at = script
        .engine
        .reports()
        .next()
        .expect("one")
        .daily_at
        .expect("set");
    let day = daily_at.since(script.now);
    assert!(day > Duration::from_hours(22) && day <= Duration::from_hours(25));
    script.pass_secs(day.as_secs() - 1);
    assert_eq!(script.books(1), (2, 0, 0));
    script.take();
    script.pass_secs(2);
    assert_eq!(script.books(1), (0, 2, 0));
    assert_eq!(script.counted(Counted::LongReconnect), 0);
    let reqs = script.answer_all(20);
    assert!(reqs[0].is_live() && reqs[0].shape() == "L1");
    assert_eq!(script.books(1), (2, 0, 0));
    let next = script
        .engine
        .reports()
        .next()
        .expect("one")
        .daily_at
        .expect("set");
    assert!(
        next > daily_at + Duration::from_hours(23) && next <= script.now + settings::DAILY_SYNC.1
    );
    assert_eq!(
        script.engine.live(relay_1).expect("connected").filters(),
        8,
        "not doubled"
    );
}

/// Scenario 5: the days differ from relay to relay.
#[test]
fn relays_are_not_all_read_at_the_same_hour() {
    let notices = (1..=20).map(|n| repository(n, &[n])).collect();
    let mut script = Script::new(notices);
    for _ in 0..20 {
        script.connect(PLAIN);
    }
    let mut days: Vec<_> = script
        .engine
        .reports()
        .filter_map(|report| report.daily_at)
        .collect();
    days.sort_unstable();
    let spread = days[19].since(days[0]);
    assert!(spread > Duration::from_hours(1), "{spread:?}");
}

/// Scenario 6. Five seconds, not prolonged by what comes later.
#[test]
fn what_our_store_accepts_is_followed_within_five_seconds() {
    let mut script = settled();
    script.give(Input::Noticed(root(11, 1)));
    for n in 0..4 {
        script.pass_secs(1);
        script.give(Input::Noticed(root(12 + n, 1)));
    }
    assert_eq!(script.books(1), (2, 0, 0), "four seconds");
    script.pass_secs(1);
    assert_eq!(script.books(1), (2, 5, 0), "all five in one batch");
    let reqs = script.reqs();
    let live = reqs.iter().take_while(|req| req.is_live()).count();
    assert!(live > 0 && live < reqs.len(), "live first");
    assert_eq!(reqs[live].shape(), "e E q");
    assert_eq!(reqs[live].filters[0].since, None);
    for req in &reqs {
        script.eose(req);
    }
    script.answer_all(3);
    assert_eq!(script.books(1), (7, 0, 0));
}

/// SYNC-34: a repository in purgatory is followed for its states alone, and for everything once it is served.
#[test]
fn a_promoted_repository_is_followed_in_full() {
    let mut script = Script::new(vec![at_level(1, &[1], SyncLevel::StateOnly)]);
    script.connect(PLAIN);
    let reqs = script.answer_all(20);
    assert!(
        reqs.iter()
            .all(|req| matches!(req.shape().as_str(), "L1" | "d" | "L1 d"))
    );
    script.give(Input::Noticed(repository(1, &[1])));
    let reqs = script.answer_all(20);
    let history = reqs.iter().find(|req| !req.is_live()).expect("asked for");
    assert_eq!(history.shape(), "d a A q");
    assert_eq!(script.books(1), (1, 0, 0));
}

/// SYNC-8, SYNC-10: a relay that lost its last repository goes within a minute; a bootstrap relay never.
#[test]
fn relays_without_work_are_dropped_except_bootstrap() {
    let settings = grasp_sync::engine::Settings {
        bootstrap: Some(relay(9)),
        ..Default::default()
    };
    let mut script = Script::with(settings, vec![repository(1, &[1])]);
    script.connect(PLAIN);
    script.connect(PLAIN);
    script.answer_all(20);
    script.give(Input::Noticed(repository(1, &[2])));
    script.pass_secs(66);
    let known: Vec<_> = script.engine.reports().map(|report| report.url).collect();
    assert!(known.contains(&relay(9)) && known.contains(&relay(2)) && !known.contains(&relay(1)));
    let forgets =
        |output: &Output| matches!(output, Output::ForgetCursor { relay: it } if *it == relay(1));
    assert!(script.out.iter().any(forgets));
    script.give(Input::Noticed(Notice::RepositoryGone {
        coordinate: coordinate(1),
    }));
    script.pass_secs(126);
    let known: Vec<_> = script.engine.reports().map(|report| report.url).collect();
    assert_eq!(known, [relay(9)]);
}

/// SYNC-11: a planned restart costs a quick reconnect; a long one, or one that missed something, a fresh start.
#[test]
fn cursors_survive_a_restart() {
    let mut script = settled();
    script.give(Input::Stopping);
    let saved = |output: &Output| match output {
        Output::SaveCursor { relay, cursor } => Some((relay.clone(), cursor.clone())),
        _ => None,
    };
    let cursors: Vec<_> = script.out.iter().filter_map(saved).collect();
    assert_eq!(cursors.len(), 1);
    let restart = |notices: Vec<Notice>, now: Time| {
        let mut again = Script::new(Vec::new());
        again.engine = grasp_sync::engine::Engine::new(grasp_sync::engine::Settings::default(), 2);
        again.now = now;
        let cursors = cursors.clone();
        again.give(Input::Loaded { notices, cursors });
        again.connect(PLAIN);
        let relay_1 = again.relay(1);
        let pending = again.engine.pending_sync_index();
        let purposes: Vec<_> = pending
            .batches(relay_1)
            .map(|batch| batch.purpose)
            .collect();
        (again.books(1).0, purposes[1])
    };
    let same = || vec![repository(1, &[1]), root(10, 1)];
    let soon = script.now + Duration::from_secs(30);
    assert_eq!(restart(same(), soon), (2, Purpose::CatchUp));
    let mut more = same();
    more.push(root(11, 1));
    assert_eq!(restart(more, soon), (0, Purpose::NewItems));
    let late = script.now + Duration::from_secs(1_000);
    assert_eq!(restart(same(), late), (0, Purpose::NewItems));
}

/// SYNC-9: case 64.
#[test]
fn our_own_relay_is_never_dialled() {
    let service =
        grasp_core::service::ServiceAddress::parse("ours.example.com", "/").expect("valid");
    let settings = grasp_sync::engine::Settings {
        service: Some(service),
        ..Default::default()
    };
    let spellings = [
        "wss://OURS.example.com",
        "wss://ours.example.com:443/",
        "ws://ours.example.com",
    ];
    let notice = Notice::Repository {
        coordinate: coordinate(1),
        relays: spellings.map(|url| url.parse().expect("valid")).to_vec(),
        level: SyncLevel::Full,
    };
    let mut script = Script::with(settings, vec![notice, repository(2, &[1])]);
    let known: Vec<_> = script.engine.reports().map(|report| report.url).collect();
    assert_eq!(known, [relay(1)]);
    // One that turns out to be us by its key is dialled once.
    script.pass_secs(1);
    let failure = grasp_sync::engine::DialFailure::Ourselves;
    let (connection, _) = script.dials()[0].clone();
    script.give(Input::ConnectFailed {
        connection,
        failure,
    });
    assert_eq!(
        script.refuse_dials(failure, Duration::from_secs(100_000)),
        0
    );
}

/// For operators: Syncing becomes Connected.
#[test]
fn progress_is_told() {
    let mut script = Script::new(vec![repository(1, &[1])]);
    let progress = |script: &Script| script.engine.reports().next().expect("one").progress;
    assert_eq!(progress(&script), Progress::Connecting);
    script.connect(PLAIN);
    assert_eq!(progress(&script), Progress::Syncing);
    script.answer_all(20);
    assert_eq!(progress(&script), Progress::Connected);
}
