//! The line between stored and live, event by event (RLY-1).

use axum::extract::ws::Message;
use grasp_testkit::Person;
use serde_json::json;

use super::*;

/// A subscription and everything it has sent so far.
struct Fixture {
    subscription: Arc<Subscription>,
    outbound: Arc<Outbound>,
}

impl Fixture {
    fn new(filters: &[serde_json::Value]) -> Self {
        let filters = filters
            .iter()
            .map(|filter| Filter::parse(filter).expect("a filter"))
            .collect();
        let outbound = Outbound::new(1_000, 1_000, Arc::default());
        Self {
            subscription: Subscription::new("s".into(), filters, Arc::clone(&outbound)),
            outbound,
        }
    }

    fn offer(&self, event: &Event, version: u64) -> Offered {
        self.subscription.offer(LiveEvent {
            event,
            json: &Bytes::from(event.content.clone()),
            version: Some(CommitVersion::new(version)),
        })
    }

    async fn sent(&self) -> Vec<String> {
        let frames = self.outbound.take(usize::MAX).await;
        self.outbound
            .written(frames.iter().map(Frame::weight).sum());
        let texts = frames.into_iter().map(|frame| match frame.into_message() {
            Some(Message::Text(text)) => text.as_str().to_owned(),
            other => panic!("{other:?}"),
        });
        texts.collect()
    }
}

fn event(name: &str) -> Event {
    Person::named("alice").draft(1).content(name).sign()
}

fn boundary(first: u64, last: u64, late: &[&Event]) -> Boundary {
    Boundary {
        first: CommitVersion::new(first),
        last: CommitVersion::new(last),
        late: late.iter().map(|event| event.id).collect(),
    }
}

fn live(name: &str) -> String {
    format!(r#"["EVENT","s",{name}]"#)
}

const EOSE: &str = r#"["EOSE","s"]"#;

#[tokio::test]
async fn what_the_snapshot_had_is_not_sent_again_and_the_rest_follows_eose() {
    let fixture = Fixture::new(&[json!({"kinds": [1]})]);
    let (old, new, later) = (event("old"), event("new"), event("later"));
    fixture.offer(&old, 5);
    fixture.offer(&new, 6);
    fixture.subscription.go_live(Some(boundary(5, 5, &[])));
    assert_eq!(fixture.sent().await, [EOSE.to_owned(), live("new")]);
    fixture.offer(&event("published late"), 4);
    fixture.offer(&later, 7);
    assert_eq!(fixture.sent().await, [live("later")]);
    assert_eq!(fixture.outbound.bytes(), 0);
}

#[tokio::test]
async fn what_was_read_from_a_later_snapshot_is_not_sent_again_either() {
    let fixture = Fixture::new(&[json!({"kinds": [1]})]);
    let (held, slow, again) = (event("held"), event("slow"), event("not read"));
    fixture.offer(&held, 6);
    fixture
        .subscription
        .go_live(Some(boundary(5, 8, &[&held, &slow])));
    fixture.offer(&again, 12);
    fixture.offer(&slow, 7);
    assert_eq!(fixture.sent().await, [EOSE.to_owned(), live("not read")]);
    // Visible anew after the last snapshot: that is news.
    fixture.offer(&slow, 9);
    assert_eq!(fixture.sent().await, [live("slow")]);
}

#[tokio::test]
async fn a_filter_without_a_stored_part_wants_whatever_is_published() {
    let fixture = Fixture::new(&[json!({"kinds": [2]}), json!({"kinds": [1], "limit": 0})]);
    fixture.offer(&event("one"), 4);
    fixture.subscription.go_live(Some(boundary(5, 5, &[])));
    fixture.offer(&event("two"), 5);
    assert_eq!(
        fixture.sent().await,
        [EOSE.to_owned(), live("one"), live("two")]
    );
}

/// RLY-3: also while the stored part is being sent.
#[tokio::test]
async fn held_events_count_against_the_bound_and_are_let_go() {
    let fixture = Fixture::new(&[json!({})]);
    let heavy = event(&"x".repeat(400));
    assert_eq!(fixture.offer(&heavy, 1), Offered::Done);
    assert_eq!(fixture.offer(&heavy, 2), Offered::Done);
    assert_eq!(fixture.offer(&heavy, 3), Offered::Overflowed);
    fixture.subscription.go_live(Some(boundary(0, 0, &[])));
    let sent = fixture.sent().await;
    assert_eq!(sent.len(), 1);
    assert!(sent[0].starts_with(r#"["CLOSED","s","error: live event buffer overflow"#));
    assert_eq!(fixture.outbound.bytes(), 0);
}

#[tokio::test]
async fn nothing_follows_the_end() {
    let fixture = Fixture::new(&[json!({})]);
    let room = fixture.outbound.reserve_page().await;
    fixture.subscription.end();
    let frame = Frame::event(event_prefix("s"), Bytes::from_static(b"stored"));
    assert!(!fixture.subscription.send_stored(room, vec![frame]));
    fixture.offer(&event("live"), 1);
    fixture.subscription.go_live(None);
    fixture.subscription.close("error: too late");
    assert_eq!(fixture.outbound.bytes(), 0);
}
