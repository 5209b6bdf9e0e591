//! The relay at the root: the upgrade of a WebSocket, and the relay information document.

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::extract::ws::WebSocketUpgrade;
use axum::response::IntoResponse;
use grasp_relay::address::ClientAddress;
use http::request::Parts;
use http::{Response, header};

use super::App;

impl App {
    /// `GET /` with an upgrade.
    pub(super) async fn open_socket(
        &self,
        mut parts: Parts,
        client: ClientAddress,
    ) -> Response<Body> {
        let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
            Ok(upgrade) => self.relay.configure(upgrade),
            Err(malformed) => return malformed.into_response(),
        };
        let relay = self.relay.clone();
        let stop = self.stop.clone();
        upgrade.on_upgrade(move |socket| async move { relay.serve(socket, client, stop).await })
    }

    /// `GET /` that accepts `application/nostr+json` (G1-7).
    pub(super) fn relay_information(&self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.relay_information.clone()));
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static("application/nostr+json"),
        );
        response
    }
}
