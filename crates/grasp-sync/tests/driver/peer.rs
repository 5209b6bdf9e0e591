//! A relay that a test holds by the hand: it says what the test says, and nothing else.

use futures_util::{SinkExt, StreamExt};
use grasp_core::filter::Filter;
use grasp_sync::relay_url::RelayUrl;
use grasp_testkit::{DEADLINE, Event, Value, json};
use negentropy::{Id, Negentropy, NegentropyStorageVector};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

/// What it answers when it is asked what it is.
#[derive(Debug, Clone)]
pub(crate) enum About {
    /// This document.
    Document(Value),
    /// These bytes, as they are.
    Raw(String),
    /// Nothing, and it does not hang up.
    Silence,
}

/// What it does with whoever wants a WebSocket.
#[derive(Debug, Clone)]
pub(crate) enum Door {
    /// Lets them in.
    Open,
    /// Answers with these bytes.
    Raw(String),
}

/// A relay on a port of its own.
pub(crate) struct Peer {
    pub(crate) url: RelayUrl,
    visitors: mpsc::UnboundedReceiver<Visitor>,
    listening: JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Peer {
    /// A relay that has no set reconciliation.
    pub(crate) async fn plain() -> Self {
        Self::with(
            About::Document(json!({"supported_nips": [1, 11]})),
            Door::Open,
        )
        .await
    }

    /// A relay that has it.
    pub(crate) async fn with_negentropy() -> Self {
        let about = json!({"supported_nips": [1, 11, 77]});
        Self::with(About::Document(about), Door::Open).await
    }

    pub(crate) async fn with(about: About, door: Door) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (let_in, visitors) = mpsc::unbounded_channel();
        let listening = tokio::spawn(async move {
            let mut waiting = Vec::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let receive = receive(stream, about.clone(), door.clone(), let_in.clone());
                waiting.push(tokio::spawn(receive));
            }
        });
        Self {
            url: format!("ws://127.0.0.1:{port}").parse().unwrap(),
            visitors,
            listening,
        }
    }

    /// The next who comes in.
    pub(crate) async fn visitor(&mut self) -> Visitor {
        let visitor = timeout(DEADLINE, self.visitors.recv()).await;
        visitor.expect("nobody comes").unwrap()
    }

    /// Whether anybody came that was not asked for.
    pub(crate) fn is_unvisited(&mut self) -> bool {
        self.visitors.try_recv().is_err()
    }
}

async fn receive(
    mut stream: TcpStream,
    about: About,
    door: Door,
    let_in: mpsc::UnboundedSender<Visitor>,
) -> Option<()> {
    let head = peek_head(&stream).await?;
    let wants_socket = head.to_ascii_lowercase().contains("upgrade: websocket");
    let answer = match (wants_socket, door, about) {
        (true, Door::Open, _) => {
            let socket = accept_async(stream).await.ok()?;
            return let_in.send(Visitor { socket }).ok();
        }
        (true, Door::Raw(answer), _) | (false, _, About::Raw(answer)) => answer,
        (false, _, About::Document(document)) => http_answer(&document.to_string()),
        (false, _, About::Silence) => {
            // Held open until the other side has had enough.
            return stream
                .readable()
                .await
                .ok()
                .map(drop)
                .and(std::future::pending().await);
        }
    };
    stream.write_all(answer.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}

/// An answer of HTTP.
pub(crate) fn http_answer(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

/// The head of a request, or the beginning of something that is none.
async fn peek_head(stream: &TcpStream) -> Option<String> {
    let mut bytes = vec![0; 4_096];
    loop {
        let length = stream
            .peek(&mut bytes)
            .await
            .ok()
            .filter(|length| *length > 0)?;
        let head = String::from_utf8_lossy(&bytes[..length]);
        if head.contains("\r\n\r\n") || !head.starts_with('G') {
            return Some(head.into_owned());
        }
        tokio::task::yield_now().await;
    }
}

/// Who came in, as the relay sees them.
pub(crate) struct Visitor {
    pub(crate) socket: WebSocketStream<TcpStream>,
}

/// A question of a visitor.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) subscription: Value,
    pub(crate) filters: Vec<Filter>,
}

impl Asked {
    pub(crate) fn is_live(&self) -> bool {
        self.filters.iter().all(|filter| filter.limit == Some(0))
    }

    fn matches(&self, event: &Event) -> bool {
        self.filters.iter().any(|filter| filter.matches(event))
    }
}

impl Visitor {
    /// The next message; `None` if they leave.
    pub(crate) async fn try_hear(&mut self) -> Option<Value> {
        loop {
            let message = timeout(DEADLINE, self.socket.next()).await;
            match message.expect("the visitor says nothing")? {
                Ok(Message::Text(text)) => return serde_json::from_str(&text).ok(),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// The next message that begins with `verb`; others are passed over.
    pub(crate) async fn hear(&mut self, verb: &str) -> Value {
        loop {
            let message = self.try_hear().await.expect("the visitor left");
            if message[0] == verb {
                return message;
            }
        }
    }

    /// The next question.
    pub(crate) async fn asked(&mut self) -> Asked {
        question(&self.hear("REQ").await)
    }

    pub(crate) async fn say(&mut self, message: Value) {
        self.try_say(message).await.unwrap();
    }

    async fn try_say(&mut self, message: Value) -> Option<()> {
        let message = Message::text(message.to_string());
        self.socket.send(message).await.ok()
    }

    pub(crate) async fn deliver(&mut self, to: &Asked, event: &Event) {
        let event: Value = serde_json::from_str(&event.as_json()).unwrap();
        self.say(json!(["EVENT", to.subscription, event])).await;
    }

    pub(crate) async fn end(&mut self, asked: &Asked) {
        self.say(json!(["EOSE", asked.subscription])).await;
    }

    /// Takes the live subscription and returns the question for what there was before.
    pub(crate) async fn history(&mut self) -> Asked {
        loop {
            let asked = self.asked().await;
            if !asked.is_live() {
                return asked;
            }
            self.end(&asked).await;
        }
    }

    /// Behaves from now on, with these events, until they leave; after `patience` messages it breaks off.
    pub(crate) async fn serve(mut self, events: &[Event], patience: usize) {
        let mut sets = std::collections::BTreeMap::new();
        for _ in 0..patience {
            let Some(message) = self.try_hear().await else {
                return;
            };
            let name = message[1].clone();
            let answered = match message[0].as_str() {
                Some("REQ") => self.answer(&question(&message), events).await,
                Some("NEG-OPEN") => {
                    let filter = Filter::parse(&message[2]).unwrap();
                    let matching = events.iter().filter(|event| filter.matches(*event));
                    let set = sets.entry(name.to_string()).or_insert(seal(matching));
                    let answer = reconcile(set, &message[3]);
                    self.try_say(json!(["NEG-MSG", name, answer])).await
                }
                Some("NEG-MSG") => {
                    let answer = reconcile(&sets[&name.to_string()], &message[2]);
                    self.try_say(json!(["NEG-MSG", name, answer])).await
                }
                _ => Some(()),
            };
            if answered.is_none() {
                return;
            }
        }
    }

    async fn answer(&mut self, asked: &Asked, events: &[Event]) -> Option<()> {
        if !asked.is_live() {
            for event in events.iter().filter(|event| asked.matches(event)) {
                let event: Value = serde_json::from_str(&event.as_json()).unwrap();
                self.try_say(json!(["EVENT", asked.subscription, event]))
                    .await?;
            }
        }
        self.try_say(json!(["EOSE", asked.subscription])).await
    }
}

fn question(message: &Value) -> Asked {
    let filters = message.as_array().unwrap()[2..].iter();
    Asked {
        subscription: message[1].clone(),
        filters: filters
            .map(|filter| Filter::parse(filter).unwrap())
            .collect(),
    }
}

/// The set that a relay compares.
pub(crate) fn seal<'e>(events: impl Iterator<Item = &'e Event>) -> NegentropyStorageVector {
    let mut set = NegentropyStorageVector::new();
    for event in events {
        let id = Id::from_byte_array(event.id.to_bytes());
        set.insert(event.created_at.as_secs(), id).unwrap();
    }
    set.seal().unwrap();
    set
}

/// A relay's answer to one message.
pub(crate) fn reconcile(set: &NegentropyStorageVector, message: &Value) -> String {
    let text = message.as_str().unwrap().as_bytes().chunks(2);
    let bytes = text.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap());
    let bytes: Vec<u8> = bytes.collect();
    let answer = Negentropy::borrowed(set, 60_000).unwrap().reconcile(&bytes);
    answer
        .unwrap()
        .iter()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}
