//! What a relay says of itself (NIP-11), asked beside the handshake.
//!
//! Everything in it may be wrong, and all of it may be missing: a relay that says nothing is dialled like any other.

use std::time::Duration;

use bytes::Bytes;
use grasp_core::PublicKey;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;

use super::connect::Connector;
use crate::engine::PeerInfo;
use crate::outbound::Pinned;
use crate::relay_url::RelayUrl;

/// So long we wait for it (NET-3).
pub const TIME_MAX: Duration = Duration::from_secs(3);
/// More is not read (NET-3).
pub const BYTES_MAX: usize = 256 * 1_024;
/// Bytes of the head of the answer.
const HEAD_BYTES_MAX: usize = 16 * 1_024;
/// More subscriptions are not used, however many a relay allows: each costs memory here, too.
const SUBSCRIPTIONS_MAX: usize = 500;

/// What came of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct About {
    pub(super) info: PeerInfo,
    pub(super) pubkey: Option<PublicKey>,
}

/// Asks, and makes do with nothing.
pub(super) async fn probe(
    connector: &Connector,
    pinned: &Pinned,
    relay: &RelayUrl,
    user_agent: &str,
) -> About {
    let document = ask(connector, pinned, relay, user_agent);
    let document = tokio::time::timeout(TIME_MAX, document).await;
    let document = document.ok().flatten();
    document.map_or_else(About::default, |document| read(&document))
}

async fn ask(
    connector: &Connector,
    pinned: &Pinned,
    relay: &RelayUrl,
    user_agent: &str,
) -> Option<Bytes> {
    let uri: Uri = relay.as_str().parse().ok()?;
    let request = Request::get(uri.path_and_query()?.as_str())
        .header(HOST, uri.authority()?.as_str())
        .header(ACCEPT, "application/nostr+json")
        .header(USER_AGENT, user_agent)
        .body(Empty::<Bytes>::new())
        .ok()?;
    let stream = connector.connect(pinned).await.ok()?;
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .ok()?;
    let answer = async move {
        let answer = sender.send_request(request).await.ok()?;
        if answer.status() != StatusCode::OK {
            return None;
        }
        let body = Limited::new(answer.into_body(), BYTES_MAX).collect().await;
        body.ok().map(http_body_util::Collected::to_bytes)
    };
    // The connection moves the bytes and ends with the request.
    let (answer, _) = tokio::join!(answer, connection);
    answer
}

/// Reads what can be read.
fn read(document: &[u8]) -> About {
    let Ok(document) = serde_json::from_slice::<Value>(document) else {
        return About::default();
    };
    let limit = |name: &str| {
        let value = document.get("limitation")?.get(name)?.as_u64()?;
        usize::try_from(value).ok()
    };
    let nips = document.get("supported_nips").and_then(Value::as_array);
    let pubkey = document.get("pubkey").and_then(Value::as_str);
    About {
        info: PeerInfo {
            max_subscriptions: limit("max_subscriptions").map(|max| max.min(SUBSCRIPTIONS_MAX)),
            default_limit: limit("default_limit"),
            negentropy: nips
                .filter(|nips| !nips.is_empty())
                .map(|nips| nips.iter().any(|nip| nip.as_u64() == Some(77))),
        },
        pubkey: pubkey.and_then(|hex| PublicKey::from_hex(hex).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_relay_says_is_read_as_far_as_it_can_be() {
        let document =
            br#"{"pubkey":"aa4fc8665f5696e33db7e1a572e3b0f5b3d615837b0f362dcb1c8068b098c7b4",
            "supported_nips":[1,11,77],"limitation":{"max_subscriptions":12,"default_limit":300}}"#;
        let about = read(document);
        assert_eq!(
            about.info,
            PeerInfo {
                max_subscriptions: Some(12),
                default_limit: Some(300),
                negentropy: Some(true)
            }
        );
        let pubkey = about.pubkey.map(|key| key.to_hex());
        assert!(pubkey.is_some_and(|hex| hex.starts_with("aa4fc866")));
    }

    #[test]
    fn nonsense_in_one_place_does_not_spoil_another() {
        let about = read(br#"{"pubkey":7,"supported_nips":["x",1],"limitation":{"max_subscriptions":-1,"default_limit":5}}"#);
        assert_eq!(
            about.info,
            PeerInfo {
                default_limit: Some(5),
                negentropy: Some(false),
                ..PeerInfo::default()
            }
        );
        assert_eq!(about.pubkey, None);
        let nothing = [
            &b"not json"[..],
            b"[]",
            br#"{"supported_nips":[],"limitation":[]}"#,
        ];
        for document in nothing {
            assert_eq!(read(document), About::default());
        }
    }

    /// A claim must not make us keep a table of that size.
    #[test]
    fn the_number_of_subscriptions_is_bounded_whatever_a_relay_allows() {
        let about = read(br#"{"limitation":{"max_subscriptions":1000000}}"#);
        assert_eq!(about.info.max_subscriptions, Some(SUBSCRIPTIONS_MAX));
    }
}
