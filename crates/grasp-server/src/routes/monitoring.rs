//! `/metrics`: among the public routes, or alone on a socket of its own.

use std::net::SocketAddr;

use axum::body::Body;
use grasp_metrics::Text;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};

use super::{status, without_body};
use crate::listener::Answer;
use crate::metrics::{Bound, Monitoring};

/// `GET /metrics`.
pub(super) async fn page(monitoring: &Monitoring) -> Response<Body> {
    let mut response = Response::new(Body::from(monitoring.text().await));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(Text::CONTENT_TYPE),
    );
    response
}

/// On a socket of its own there is nothing else, and no base path.
impl Answer for Monitoring {
    async fn answer(&self, request: Request<Body>, _peer: SocketAddr) -> Response<Body> {
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/metrics") => page(self).await,
            (&Method::HEAD, "/metrics") => without_body(page(self).await),
            _ => status(StatusCode::NOT_FOUND),
        }
    }

    fn every_answer(&self) -> HeaderMap {
        HeaderMap::new()
    }

    fn turned_away(&self, bound: Bound) {
        self.service.metrics.refusals.count(bound);
    }
}
