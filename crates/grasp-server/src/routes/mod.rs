//! Answers HTTP requests: finds the route, asks the service, dresses the answer.

mod body;
mod cors;
mod git;
mod monitoring;
mod relay;
mod route;
mod web;

use std::net::SocketAddr;

use axum::body::Body;
use bytes::Bytes;
use grasp_git::http::UploadConfig;
use grasp_relay::Relay;
use grasp_relay::address::{AddressResolver, Addresses};
use grasp_relay::nip11;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use tokio_util::sync::CancellationToken;

use crate::listener::{Answer, NoUri};
use crate::metrics::{Bound, Monitoring};
use crate::pages::Links;
use crate::service::Service;
pub(crate) use route::Mount;
use route::Route;

/// What every request can reach.
pub(crate) struct App {
    /// The way in for events and pushes.
    pub(crate) service: Service,
    /// The relay protocol.
    pub(crate) relay: Relay<Service>,
    /// The NIP-11 document, as bytes.
    pub(crate) relay_information: Bytes,
    /// Bounds per client address, shared with the relay.
    pub(crate) addresses: Addresses,
    /// Finds the client behind trusted proxies.
    pub(crate) resolver: AddressResolver,
    /// Where we are mounted.
    pub(crate) mount: Mount,
    /// What pages say about the service.
    pub(crate) info: nip11::Info,
    /// How its addresses are written.
    pub(crate) links: Links,
    /// How fetches are run.
    pub(crate) upload: UploadConfig,
    /// Largest pack that may be pushed.
    pub(crate) pack_bytes: u64,
    /// NIP-05 answer: the relay owner in hex.
    pub(crate) owner_hex: String,
    /// Ends relay connections.
    pub(crate) stop: CancellationToken,
    /// `/metrics`, if it is among the public routes.
    pub(crate) monitoring: Option<Monitoring>,
}

impl Answer for App {
    async fn answer(&self, request: Request<Body>, peer: SocketAddr) -> Response<Body> {
        let head = request.method() == Method::HEAD;
        let response = self.dispatch(request, peer).await;
        let response = if head {
            without_body(response)
        } else {
            response
        };
        cors::dress(response)
    }

    fn every_answer(&self) -> HeaderMap {
        cors::dress(Response::new(())).headers().clone()
    }

    fn turned_away(&self, bound: Bound) {
        self.service.metrics.refusals.count(bound);
    }
}

impl App {
    async fn dispatch(&self, request: Request<Body>, peer: SocketAddr) -> Response<Body> {
        let client = self.resolver.resolve(peer.ip(), request.headers());
        let (parts, body) = request.into_parts();
        let route = match parts.extensions.get::<NoUri>() {
            Some(NoUri) => Route::NotFound,
            None => self.mount.route(
                &parts.method,
                parts.uri.path(),
                parts.uri.query(),
                &parts.headers,
            ),
        };
        match route {
            Route::Preflight => status(StatusCode::NO_CONTENT),
            Route::InfoRefs(repository, service) => {
                self.info_refs(&repository, service, &parts.headers, &client)
                    .await
            }
            Route::UploadPack(repository) => {
                self.upload_pack(&repository, &parts.headers, body, &client)
                    .await
            }
            Route::ReceivePack(repository) => {
                self.receive_pack(repository, &parts.headers, body, &client)
                    .await
            }
            Route::RelayInformation => self.relay_information(),
            Route::Relay => self.open_socket(parts, client).await,
            Route::RepositoryPage(repository) => {
                self.repository_page(&repository, parts.uri.path()).await
            }
            Route::Landing => self.landing(),
            Route::WellKnown => self.well_known(parts.uri.query()),
            Route::Health => plain(StatusCode::OK, "ok\n"),
            Route::Ready => self.ready(),
            Route::Metrics => match &self.monitoring {
                Some(monitoring) => monitoring::page(monitoring).await,
                None => self.not_found(parts.uri.path(), false),
            },
            Route::Icon => web::icon(),
            Route::NotFound => self.not_found(parts.uri.path(), false),
        }
    }
}

/// An answer without a body.
fn status(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

/// An answer in plain text.
fn plain(code: StatusCode, text: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(text.into());
    *response.status_mut() = code;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

/// HTTP-2: what GET would say, without its body.
fn without_body(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = http_body::Body::size_hint(&body).exact() {
        parts.headers.insert(header::CONTENT_LENGTH, length.into());
    }
    Response::from_parts(parts, Body::empty())
}
