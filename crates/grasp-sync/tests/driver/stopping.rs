//! The end of a driver, and what is remembered over it (SYNC-11).

use grasp_testkit::{Event, Person, eventually};

use crate::home::{Following, MemoryHome};
use crate::peer::Peer;

fn announcement() -> Event {
    Person::named("alice").draft(30_617).tag(["d", "a"]).sign()
}

/// SYNC-11: what was read is remembered, and everybody hears that we leave.
#[tokio::test]
async fn a_stop_writes_cursors_and_closes_connections() {
    let (event, mut peer) = (announcement(), Peer::plain().await);
    let running = Following::new()
        .bootstrap(&peer.url)
        .start(MemoryHome::new());
    let visitor = peer.visitor().await;
    let served = [event.clone()];
    let serving = tokio::spawn(async move { visitor.serve(&served, usize::MAX).await });
    running.home.eventually_has(&event).await;
    // The history is done when the engine has nothing pending.
    eventually("the history is read", async || {
        let reports = running.handle.status().await;
        reports
            .iter()
            .any(|report| report.batches == 0 && report.live > 0)
    })
    .await;
    running.handle.stop().await;
    running.task.await.unwrap();
    let cursor = running.home.cursor(&peer.url).expect("remembered");
    assert!(cursor.announcements_synced);
    serving.await.expect("it saw us leave");
    assert!(running.handle.status().await.is_empty(), "nobody is there");
}

/// SYNC-11: a cursor covers no event that is not in the store.
#[tokio::test]
async fn a_cursor_does_not_cover_what_is_not_in_the_store() {
    let (event, mut peer) = (announcement(), Peer::plain().await);
    let home = MemoryHome::new().closed_for(&peer.url);
    let running = Following::new().bootstrap(&peer.url).start(home);
    let mut visitor = peer.visitor().await;
    let history = visitor.history().await;
    visitor.deliver(&history, &event).await;
    visitor.end(&history).await;
    running.handle.stop().await;
    let cursor = running.home.cursor(&peer.url);
    assert!(!running.home.has(&event));
    assert!(cursor.is_none_or(|cursor| !cursor.announcements_synced));
}
