//! A relay client that says exactly what a test wants, and hears everything.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use nostr::event::Event;
use serde_json::{Value, json};
use tokio::net::TcpStream;
pub use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

use crate::wait::DEADLINE;

/// How long a client listens before it says that nothing came.
const SILENCE: Duration = Duration::from_millis(300);

/// The `OK` of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whose.
    pub id: String,
    /// Whether the relay took it.
    pub accepted: bool,
    /// The words.
    pub message: String,
}

impl Answer {
    /// Fails the test if the event was refused; the words.
    #[track_caller]
    pub fn accepted(self) -> String {
        assert!(self.accepted, "refused: {}", self.message);
        self.message
    }

    /// Fails the test if the event was accepted; the words.
    #[track_caller]
    pub fn refused(self) -> String {
        assert!(!self.accepted, "accepted: {:?}", self.message);
        self.message
    }
}

/// Publishes one event over a connection of its own.
pub async fn publish(url: &str, event: &Event) -> Answer {
    RelayClient::connect(url).await.publish(event).await
}

/// Publishes one event over a connection of its own; `None` if the server goes away meanwhile.
pub async fn try_publish(url: &str, event: &Event) -> Option<Answer> {
    let mut relay = RelayClient::try_connect(url, &[]).await.ok()?;
    let text = format!(r#"["EVENT",{}]"#, event.as_json());
    relay.try_send(Message::text(text)).await.ok()?;
    loop {
        let message = relay.receive().await?;
        if message[0] == "OK" && message[1] == event.id.to_hex() {
            return Some(answer(&message));
        }
    }
}

/// Queries over a connection of its own; `None` if the server goes away meanwhile.
pub async fn try_query(url: &str, filter: &Value) -> Option<Vec<Event>> {
    let mut relay = RelayClient::try_connect(url, &[]).await.ok()?;
    let request = json!(["REQ", "q", filter]).to_string();
    relay.try_send(Message::text(request)).await.ok()?;
    let mut events = Vec::new();
    loop {
        let message = relay.receive().await?;
        match message[0].as_str() {
            Some("EVENT") => events.push(parse(&message[2])),
            Some("EOSE") => return Some(events),
            _ => return None,
        }
    }
}

/// Queries over a connection of its own.
pub async fn query(url: &str, filters: &[Value]) -> Vec<Event> {
    RelayClient::connect(url).await.query(filters).await
}

/// One connection.
#[derive(Debug)]
pub struct RelayClient {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// Heard while waiting for something else, oldest first.
    heard: VecDeque<Value>,
    queries: u64,
}

impl RelayClient {
    /// Connects; fails the test if that fails.
    pub async fn connect(url: &str) -> Self {
        Self::try_connect(url, &[])
            .await
            .expect("the relay accepts connections")
    }

    /// Connects with further request headers.
    pub async fn try_connect(
        url: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, tokio_tungstenite::tungstenite::Error> {
        let mut request = url.into_client_request()?;
        for (name, value) in headers {
            let value = value.parse().expect("a header value");
            request.headers_mut().insert(*name, value);
        }
        // Without Nagle: a small message after another would wait for the answer to neither.
        let (socket, _) = connect_async_with_config(request, None, true).await?;
        Ok(Self {
            socket,
            heard: VecDeque::new(),
            queries: 0,
        })
    }

    /// Sends any text.
    pub async fn send_text(&mut self, text: &str) {
        self.send(Message::text(text)).await;
    }

    /// Sends a JSON message.
    pub async fn send_json(&mut self, message: &Value) {
        self.send_text(&message.to_string()).await;
    }

    /// Sends any frame.
    pub async fn send(&mut self, frame: Message) {
        self.try_send(frame).await.expect("the connection is open");
    }

    /// Sends any frame; an error if the connection has ended.
    pub async fn try_send(
        &mut self,
        frame: Message,
    ) -> Result<(), tokio_tungstenite::tungstenite::Error> {
        self.socket.send(frame).await
    }

    /// The next message, heard before or now. `None` when the connection has ended.
    pub async fn next(&mut self) -> Option<Value> {
        match self.heard.pop_front() {
            Some(message) => Some(message),
            None => self.receive().await,
        }
    }

    /// The next message; fails the test if none comes.
    pub async fn expect(&mut self) -> Value {
        self.next().await.expect("the connection is open")
    }

    /// The next message that `wanted` picks; the others stay for later.
    pub async fn expect_where(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.heard.iter().position(&wanted) {
            return self.heard.remove(at).expect("just found");
        }
        loop {
            let message = self.receive().await.expect("the connection is open");
            if wanted(&message) {
                return message;
            }
            self.heard.push_back(message);
        }
    }

    /// What came while something else was waited for.
    pub fn heard(&mut self) -> Vec<Value> {
        self.heard.drain(..).collect()
    }

    /// Whatever comes within a short silence. To show that something does not come, first do
    /// something that would come after it.
    pub async fn drain(&mut self) -> Vec<Value> {
        let mut messages: Vec<_> = self.heard.drain(..).collect();
        while let Ok(Some(message)) = tokio::time::timeout(SILENCE, self.receive_unbounded()).await
        {
            messages.push(message);
        }
        messages
    }

    /// Publishes and waits for the `OK`.
    pub async fn publish(&mut self, event: &Event) -> Answer {
        self.send_event(event).await;
        self.answer_to(&event.id.to_hex()).await
    }

    /// Answers a challenge (NIP-42) and waits for the `OK`.
    pub async fn authenticate(&mut self, proof: &Event) -> Answer {
        self.send_text(&format!(r#"["AUTH",{}]"#, proof.as_json()))
            .await;
        self.answer_to(&proof.id.to_hex()).await
    }

    /// Sends an event without waiting for its `OK`.
    pub async fn send_event(&mut self, event: &Event) {
        self.send_text(&format!(r#"["EVENT",{}]"#, event.as_json()))
            .await;
    }

    /// Waits for the `OK` of an id.
    pub async fn answer_to(&mut self, id: &str) -> Answer {
        answer(&self.expect_where(|m| m[0] == "OK" && m[1] == id).await)
    }

    /// The stored events that match, in the order sent.
    pub async fn query(&mut self, filters: &[Value]) -> Vec<Event> {
        self.queries += 1;
        let id = format!("query-{}", self.queries);
        self.subscribe(&id, filters).await;
        let events = self.stored(&id).await;
        self.send_json(&json!(["CLOSE", id])).await;
        events
    }

    /// Opens a subscription.
    pub async fn subscribe(&mut self, id: &str, filters: &[Value]) {
        let mut request = vec![json!("REQ"), json!(id)];
        request.extend_from_slice(filters);
        self.send_json(&Value::Array(request)).await;
    }

    /// What a subscription brings until its `EOSE`. Fails the test if it is closed before.
    pub async fn stored(&mut self, id: &str) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let message = self
                .expect_where(|m| {
                    m[1] == id && (m[0] == "EVENT" || m[0] == "EOSE" || m[0] == "CLOSED")
                })
                .await;
            match message[0].as_str() {
                Some("EVENT") => events.push(parse(&message[2])),
                Some("EOSE") => return events,
                _ => panic!("subscription closed: {message}"),
            }
        }
    }

    /// The next live event of a subscription.
    pub async fn live(&mut self, id: &str) -> Event {
        let message = self.expect_where(|m| m[0] == "EVENT" && m[1] == id).await;
        parse(&message[2])
    }

    /// How many stored events match (NIP-45).
    pub async fn count(&mut self, filter: Value) -> u64 {
        self.send_json(&json!(["COUNT", "count", filter])).await;
        let message = self
            .expect_where(|m| m[0] == "COUNT" && m[1] == "count")
            .await;
        message[2]["count"].as_u64().expect("a count")
    }

    /// Whether the relay still answers on this connection.
    pub async fn is_alive(&mut self) -> bool {
        let probe = json!(["REQ", "alive?", {"ids": ["0".repeat(64)]}]);
        if self
            .try_send(Message::text(probe.to_string()))
            .await
            .is_err()
        {
            return false;
        }
        while let Some(message) = self.receive().await {
            if message[0] == "EOSE" && message[1] == "alive?" {
                return true;
            }
            self.heard.push_back(message);
        }
        false
    }

    async fn receive(&mut self) -> Option<Value> {
        tokio::time::timeout(DEADLINE, self.receive_unbounded())
            .await
            .expect("the relay says something in time")
    }

    async fn receive_unbounded(&mut self) -> Option<Value> {
        loop {
            match self.socket.next().await? {
                Ok(Message::Text(text)) => {
                    return Some(serde_json::from_str(&text).expect("a relay sends JSON"));
                }
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}

fn answer(ok: &Value) -> Answer {
    Answer {
        id: ok[1].as_str().expect("OK has an id").to_owned(),
        accepted: ok[2].as_bool().expect("OK has a boolean"),
        message: ok[3].as_str().expect("OK has a message").to_owned(),
    }
}

fn parse(event: &Value) -> Event {
    let event = Event::from_json(event.to_string()).expect("a relay sends events");
    event
        .verify()
        .expect("a relay sends what its author signed");
    event
}
