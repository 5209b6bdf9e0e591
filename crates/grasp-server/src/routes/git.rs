//! The git routes: advertisements, fetches, pushes (protocol.md §12, §13).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use futures_util::StreamExt;
use grasp_core::name::RepoAddress;
use grasp_git::RefSnapshot;
use grasp_git::http::{
    self as wire, ProtocolVersion, Service as GitService, UploadRepo, WireError,
};
use grasp_git::pktline;
use grasp_relay::address::{ClientAddress, Rate, Refused};
use http::header::{self, HeaderValue};
use http::{HeaderMap, Response, StatusCode};

use super::{App, body, plain, status};
use crate::metrics::{self, Direction};
use crate::service::RefsError;

/// Of a push beyond its limits so many bytes more are read and dropped at least (GIT-10).
const DROPPED_MAX: u64 = 64 << 20;

/// A read may go so far beyond the bound of a fetch request before the fetch sees it.
const REQUEST_TAIL: u64 = 1 << 20;

/// What a command-line client shows when a repository is late (GIT-13).
const NOT_IN_LINE: &str = "repository is being brought in line, try again";

impl App {
    /// `GET …/info/refs`.
    pub(super) async fn info_refs(
        &self,
        repository: &RepoAddress,
        service: GitService,
        headers: &HeaderMap,
        client: &ClientAddress,
    ) -> Response<Body> {
        if let Err(refused) = self.addresses.allow(client, Rate::Git) {
            return too_many(&refused);
        }
        let refs = match self.service.refs(repository).await {
            Ok(refs) => refs,
            Err(failure) => return self.unreadable(repository, failure),
        };
        let version = version(headers);
        let body = match service {
            GitService::UploadPack => wire::advertise(service, version, &refs, &[]),
            GitService::ReceivePack => {
                let haves = self.service.haves(repository).await;
                let listed = self.service.listed_to_pushers(&refs);
                wire::advertise_some(service, version, &refs, &haves, |name| {
                    listed.contains(name)
                })
            }
        };
        answer(service.advertisement_type(), Body::from(body))
    }

    /// `POST …/git-upload-pack`.
    pub(super) async fn upload_pack(
        &self,
        repository: &RepoAddress,
        headers: &HeaderMap,
        body: Body,
        client: &ClientAddress,
    ) -> Response<Body> {
        let begun = Instant::now();
        let kind = GitService::UploadPack.result_type();
        if let Err(refused) = self.addresses.allow(client, Rate::Git) {
            return too_many(&refused);
        }
        let refs: Arc<RefSnapshot> = match self.service.refs(repository).await {
            Ok(refs) => refs,
            Err(RefsError::NotInLine) => {
                return answer(kind, Body::from(error_packet(NOT_IN_LINE)));
            }
            Err(failure) => return self.unreadable(repository, failure),
        };
        let slot = match self.addresses.git(client).await {
            Ok(slot) => slot,
            Err(refused) => return answer(kind, Body::from(error_packet(refused))),
        };
        let metrics = &self.service.metrics;
        // The fetch itself has the bound, and says so.
        let bytes_max = self.upload.request_max.saturating_add(REQUEST_TAIL);
        let Ok(body) = body::reader(headers, body, bytes_max, Arc::clone(metrics)) else {
            return status(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        };
        let (body, asked) = metrics::Request::fetch(body, Arc::clone(metrics));
        let repo = UploadRepo {
            path: self.service.git.path(repository),
            refs,
            lease: self.service.git.lease(repository),
        };
        match wire::upload_pack(repo, version(headers), body, &self.upload).await {
            Ok(pieces) => match pieces.into_whole() {
                Ok(whole) => {
                    metrics.git_bytes.add(Direction::Out, whole.len() as u64);
                    answer(kind, Body::from(whole))
                }
                Err(pieces) => {
                    let pieces = metrics::Response::new(pieces, Arc::clone(metrics), asked, begun);
                    answer(kind, Body::from_stream(pieces.inspect(move |_| _ = &slot)))
                }
            },
            Err(WireError::Body(failure)) => plain(StatusCode::BAD_REQUEST, failure.to_string()),
            Err(failure) => {
                tracing::error!(%repository, error = &failure as &dyn std::error::Error, "a fetch cannot be served");
                plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the repository cannot be read",
                )
            }
        }
    }

    /// `POST …/git-receive-pack`.
    pub(super) async fn receive_pack(
        &self,
        repository: RepoAddress,
        headers: &HeaderMap,
        body: Body,
        client: &ClientAddress,
    ) -> Response<Body> {
        let kind = GitService::ReceivePack.result_type();
        if let Err(refused) = self.addresses.allow(client, Rate::Git) {
            return too_many(&refused);
        }
        match self.service.refs(&repository).await {
            Ok(_) => {}
            Err(RefsError::NotInLine) => {
                return answer(kind, Body::from(error_packet(NOT_IN_LINE)));
            }
            Err(failure) => return self.unreadable(&repository, failure),
        }
        let slot = match self.addresses.push(client) {
            Ok(slot) => slot,
            Err(refused) => return answer(kind, Body::from(error_packet(refused))),
        };
        // The scanner bounds the pack. What is refused is read on, so that the client hears why, but not
        // for ever.
        let bytes_max = self
            .pack_bytes
            .saturating_mul(2)
            .saturating_add(DROPPED_MAX);
        let metrics = Arc::clone(&self.service.metrics);
        let Ok(body) = body::reader(headers, body, bytes_max, Arc::clone(&metrics)) else {
            return status(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        };
        let (addresses, uploader) = (self.addresses.clone(), *client);
        let turn = Box::new(move || addresses.allow(&uploader, Rate::Uploads));
        let body = metrics::Request::push(body, Arc::clone(&metrics));
        let mut pieces = self.service.receive_pack(repository, body, turn);
        let stream = futures_util::stream::poll_fn(move |cx| {
            let _held = &slot;
            pieces.poll_recv(cx)
        })
        .inspect(move |piece| metrics.git_bytes.add(Direction::Out, piece.len() as u64));
        answer(kind, Body::from_stream(stream.map(Ok::<_, Infallible>)))
    }

    fn unreadable(&self, repository: &RepoAddress, failure: RefsError) -> Response<Body> {
        match failure {
            RefsError::NotFound => self.not_found(&format!("/{repository}.git"), true),
            RefsError::NotInLine => {
                let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, NOT_IN_LINE);
                response
                    .headers_mut()
                    .insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
                response
            }
            RefsError::Broken => plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the repository cannot be read",
            ),
        }
    }
}

/// Protocol version by `Git-Protocol`; what is unknown is answered as v0 (cases.md 3).
fn version(headers: &HeaderMap) -> ProtocolVersion {
    ProtocolVersion::from_header(headers.get("git-protocol").map(HeaderValue::as_bytes))
}

fn answer(kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn too_many(refused: &Refused) -> Response<Body> {
    plain(StatusCode::TOO_MANY_REQUESTS, refused.to_string())
}

/// An error in git's own words: a 4xx would hide the text from the person at the terminal.
fn error_packet(message: impl std::fmt::Display) -> Vec<u8> {
    let mut out = Vec::new();
    pktline::error(&mut out, message);
    out
}
