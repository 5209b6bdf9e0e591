//! A relay that is no relay of ours: it hands out what a test gave it, fitting or not.

use std::sync::Arc;

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
    listening: JoinHandle<()>,
}

impl FakeRelay {
    /// Gives each question about stored events of a repository (`#a`) all of `events`, whether they match or not, and
    /// knows no negentropy.
    pub async fn handing_out(events: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let events = Arc::new(events);
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&events)));
            }
        });
        Self {
            ws: format!("ws://{address}"),
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
async fn serve(stream: TcpStream, events: Arc<Vec<Value>>) {
    let Ok(mut socket) = accept_async(stream).await else {
        return;
    };
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else {
            continue;
        };
        for answer in answers(&text, &events) {
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
