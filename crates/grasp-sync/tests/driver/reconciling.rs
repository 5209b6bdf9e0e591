//! Set reconciliation, and what happens when it does not work.

use grasp_core::EventId;
use grasp_testkit::{Event, Person, json};

use crate::home::{Following, MemoryHome};
use crate::peer::{Peer, reconcile, seal};

fn announcements(names: &[&str]) -> Vec<Event> {
    let alice = Person::named("alice");
    let sign = |name: &&str| alice.draft(30_617).tag(["d", name]).sign();
    names.iter().map(sign).collect()
}

/// SYNC-25, SYNC-26: only what we lack is asked for, by id.
#[tokio::test]
async fn only_the_difference_is_fetched() {
    let events = announcements(&["known", "missing"]);
    let mut peer = Peer::with_negentropy().await;
    let home = MemoryHome::new().with(&[&events[0]]);
    let running = Following::new().bootstrap(&peer.url).start(home);
    let mut visitor = peer.visitor().await;
    let live = visitor.asked().await;
    visitor.end(&live).await;
    let opened = visitor.hear("NEG-OPEN").await;
    let answer = reconcile(&seal(events.iter()), &opened[3]);
    visitor.say(json!(["NEG-MSG", opened[1], answer])).await;
    assert_eq!(visitor.hear("NEG-CLOSE").await[1], opened[1]);
    let asked = visitor.asked().await;
    let ids = asked
        .filters
        .iter()
        .flat_map(|filter| filter.ids.iter().flatten());
    let ids: Vec<_> = ids.map(|id| EventId::from_byte_array(*id)).collect();
    assert_eq!(ids, [events[1].id]);
    visitor.deliver(&asked, &events[1]).await;
    running.home.eventually_has(&events[1]).await;
}

/// SYNC-25: a peer that answers with nonsense, or out of turn, or not at all as it should, is read page by page.
#[tokio::test]
async fn without_a_difference_the_history_is_read() {
    for nonsense in [
        json!(["NEG-MSG", "", "00"]),
        json!([
            "NEG-MSG",
            "",
            "61ffffffffffffffffff7f02ffffffffffffffffff7f"
        ]),
        json!(["NEG-ERR", "", "error: out of memory"]),
        json!(["CLOSED", "", "unsupported: no negentropy here"]),
        json!(["EOSE", ""]),
        json!(["NOTICE", "ERROR: unknown command NEG-OPEN"]),
    ] {
        let events = announcements(&["missing"]);
        let mut peer = Peer::with_negentropy().await;
        let running = Following::new()
            .bootstrap(&peer.url)
            .start(MemoryHome::new());
        let mut visitor = peer.visitor().await;
        let live = visitor.asked().await;
        visitor.end(&live).await;
        let opened = visitor.hear("NEG-OPEN").await;
        let mut answer = nonsense.clone();
        if answer[1] == "" {
            answer[1] = opened[1].clone();
        }
        visitor.say(answer).await;
        let history = visitor.history().await;
        assert!(
            history.filters.iter().all(|filter| filter.ids.is_none()),
            "{nonsense}"
        );
        visitor.deliver(&history, &events[0]).await;
        running.home.eventually_has(&events[0]).await;
    }
}

/// SYNC-25: over many rounds, too.
#[tokio::test]
async fn a_large_difference_is_found_in_rounds() {
    let names: Vec<_> = (0..1_500).map(|n| format!("n{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let events = announcements(&names);
    let (known, missing): (Vec<_>, Vec<_>) =
        events.iter().enumerate().partition(|(n, _)| n % 3 > 0);
    let known: Vec<_> = known.into_iter().map(|(_, event)| event).collect();
    let mut peer = Peer::with_negentropy().await;
    let running = Following::new()
        .bootstrap(&peer.url)
        .start(MemoryHome::new().with(&known));
    let visitor = peer.visitor().await;
    let served = events.clone();
    let serving = tokio::spawn(async move { visitor.serve(&served, usize::MAX).await });
    for (_, event) in missing {
        running.home.eventually_has(event).await;
    }
    running.handle.stop().await;
    serving.await.unwrap();
}
