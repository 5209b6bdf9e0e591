//! A relay that is no relay of ours: it hands out what a test gave it, fitting or not.

use std::sync::{Arc, Mutex};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

/// Listens until it is dropped.
#[derive(Debug)]
pub struct FakeRelay {
    /// Where it is reached.
    pub ws: String,
    kept: Arc<Mutex<Vec<Value>>>,
    listening: JoinHandle<()>,
}

/// What it does.
#[derive(Debug, Clone)]
enum Manner {
    HandingOut(Arc<Vec<Value>>),
    TellingLive(Arc<Vec<Value>>),
    Keeping(Arc<Mutex<Vec<Value>>>),
}

impl FakeRelay {
    /// Gives each question about stored events of a repository (`#a`) all of `events`, whether they match or not, and
    /// knows no negentropy.
    pub async fn handing_out(events: Vec<Value>) -> Self {
        Self::listening(Manner::HandingOut(Arc::new(events)), Arc::default()).await
    }

    /// Has nothing stored. To each question about what names a repository (`#a`) from now on (`limit: 0`) it tells all of
    /// `events`, after it said that there is nothing before.
    pub async fn telling_live(events: Vec<Value>) -> Self {
        Self::listening(Manner::TellingLive(Arc::new(events)), Arc::default()).await
    }

    /// Keeps what it is given, `events` to begin with, and gives it to whoever asks for its author and kind.
    pub async fn keeping(events: Vec<Value>) -> Self {
        let kept = Arc::new(Mutex::new(events));
        Self::listening(Manner::Keeping(Arc::clone(&kept)), kept).await
    }

    /// What a relay that keeps events has.
    pub fn kept(&self) -> Vec<Value> {
        self.kept.lock().expect("nobody panicked with it").clone()
    }

    async fn listening(manner: Manner, kept: Arc<Mutex<Vec<Value>>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, manner.clone()));
            }
        });
        Self {
            ws: format!("ws://{address}"),
            kept,
            listening,
        }
    }
}

impl Drop for FakeRelay {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// One connection, to its end. One that does not shake hands asks for something else and is closed.
async fn serve(stream: TcpStream, manner: Manner) {
    let Ok(mut socket) = accept_async(stream).await else {
        return;
    };
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else {
            continue;
        };
        let answers = match &manner {
            Manner::HandingOut(events) => answers(&text, events),
            Manner::TellingLive(events) => tell(&text, events),
            Manner::Keeping(kept) => {
                keep(&text, &mut kept.lock().expect("nobody panicked with it"))
            }
        };
        for answer in answers {
            if socket
                .send(Message::text(answer.to_string()))
                .await
                .is_err()
            {
                return;
            }
        }
    }
}

fn tell(text: &str, events: &[Value]) -> Vec<Value> {
    let message: Value = serde_json::from_str(text).unwrap_or_default();
    let name = &message[1];
    match message[0].as_str() {
        Some("REQ") => {
            let is_live = |filter: &Value| filter["limit"] == 0 && filter["#a"].is_array();
            let filters = message.as_array().map_or(&[][..], |parts| &parts[2..]);
            let is_followed = filters.iter().any(is_live);
            let told = events.iter().filter(|_| is_followed);
            let told = told.map(|it| json!(["EVENT", name, it]));
            std::iter::once(json!(["EOSE", name])).chain(told).collect()
        }
        Some("NEG-OPEN") => vec![json!(["NEG-ERR", name, "blocked: none here"])],
        _ => Vec::new(),
    }
}

fn keep(text: &str, kept: &mut Vec<Value>) -> Vec<Value> {
    let message: Value = serde_json::from_str(text).unwrap_or_default();
    let name = &message[1];
    match message[0].as_str() {
        Some("REQ") => {
            let lists = |field: &Value, value: &Value| {
                field
                    .as_array()
                    .is_some_and(|values| values.contains(value))
            };
            let filter = &message[2];
            let is_asked = |event: &&Value| {
                lists(&filter["authors"], &event["pubkey"])
                    && lists(&filter["kinds"], &event["kind"])
            };
            let stored = kept.iter().filter(is_asked);
            let mut answers: Vec<_> = stored.map(|it| json!(["EVENT", name, it])).collect();
            answers.push(json!(["EOSE", name]));
            answers
        }
        Some("EVENT") => {
            kept.push(name.clone());
            vec![json!(["OK", name["id"], true, ""])]
        }
        _ => Vec::new(),
    }
}

fn answers(text: &str, events: &[Value]) -> Vec<Value> {
    let message: Value = serde_json::from_str(text).unwrap_or_default();
    let name = &message[1];
    match message[0].as_str() {
        Some("REQ") => {
            let asks = |filter: &Value| filter["limit"] != 0 && filter["#a"].is_array();
            let filters = message.as_array().map_or(&[][..], |parts| &parts[2..]);
            let is_asked = filters.iter().any(asks);
            let stored = events.iter().filter(|_| is_asked);
            let mut answers: Vec<_> = stored.map(|it| json!(["EVENT", name, it])).collect();
            answers.push(json!(["EOSE", name]));
            answers
        }
        Some("NEG-OPEN") => vec![json!(["NEG-ERR", name, "blocked: none here"])],
        _ => Vec::new(),
    }
}
