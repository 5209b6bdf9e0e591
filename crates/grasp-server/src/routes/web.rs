//! What a browser and a monitor see: pages, the icon, NIP-05, readiness.

use axum::body::Body;
use grasp_core::name::{Coordinate, npub};
use grasp_core::refname::RefSpace;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use serde_json::json;

use super::{App, plain};
use crate::pages::{self, Frame, Landing, NotFound, RepositoryPage, RepositoryState};
use crate::service::RepositorySeen;

impl App {
    fn frame(&self) -> Frame<'_> {
        Frame {
            service_name: &self.info.name,
            base_path: &self.mount.base,
            version: &self.info.version,
        }
    }

    /// `GET /` for people.
    pub(super) fn landing(&self) -> Response<Body> {
        let grasps: Vec<&str> = self
            .info
            .supported_grasps
            .iter()
            .map(String::as_str)
            .collect();
        let page = Landing {
            frame: self.frame(),
            description: &self.info.description,
            web_url: &self.links.web(),
            relay_url: &self.links.relay(),
            owner_npub: &npub(&self.info.pubkey),
            repositories: None,
            grasps: &grasps,
            criteria: &self.info.repo_acceptance_criteria,
        };
        html(StatusCode::OK, pages::landing(&page))
    }

    /// `GET <repo>` for people (G1-18).
    pub(super) async fn repository_page(&self, repo: &Coordinate, path: &str) -> Response<Body> {
        match self.service.repository(repo).await {
            Ok(Some(seen)) => html(StatusCode::OK, self.describe(repo, &seen)),
            Ok(None) => self.not_found(path, true),
            Err(failure) => {
                tracing::error!(%repo, error = &failure as &dyn std::error::Error, "a page cannot be made");
                plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the repository cannot be read",
                )
            }
        }
    }

    fn describe(&self, repo: &Coordinate, seen: &RepositorySeen) -> String {
        let count = |space| {
            seen.refs
                .refs
                .keys()
                .filter(|name| name.space() == space)
                .count()
        };
        let (branches, tags) = (count(RefSpace::Branch), count(RefSpace::Tag));
        let maintainers: Vec<String> = seen
            .maintainers
            .iter()
            .filter(|key| **key != repo.owner)
            .map(npub)
            .collect();
        let head = seen.refs.head.as_str().strip_prefix("refs/heads/");
        let state = match &seen.signed {
            Some(signed) => RepositoryState::Served {
                head,
                branches,
                tags,
                signed,
            },
            None if seen.waiting => RepositoryState::Waiting,
            None => RepositoryState::Frozen { branches, tags },
        };
        pages::repository(&RepositoryPage {
            frame: self.frame(),
            identifier: repo.identifier.as_str(),
            name: seen.announcement.first_value("name"),
            description: seen.announcement.first_value("description"),
            owner_npub: &npub(&repo.owner),
            maintainer_npubs: &maintainers,
            clone_url: &self.links.clone_url(repo),
            nostr_url: &self.links.nostr_url(repo),
            workshop_url: &self.links.workshop_url(repo),
            state,
        })
    }

    /// Nothing here; `repository` if the path could have been one.
    pub(super) fn not_found(&self, path: &str, repository: bool) -> Response<Body> {
        html(
            StatusCode::NOT_FOUND,
            pages::not_found(&NotFound {
                frame: self.frame(),
                path,
                repository,
            }),
        )
    }

    /// NIP-05 of the relay owner, at the root mount only. `?name=` is honoured.
    pub(super) fn well_known(&self, query: Option<&str>) -> Response<Body> {
        let asked =
            query.and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("name=")));
        let names = if asked.is_none_or(|name| name == "_") {
            json!({ "_": self.owner_hex })
        } else {
            json!({})
        };
        let mut response = Response::new(Body::from(json!({ "names": names }).to_string()));
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json; charset=utf-8"),
        );
        response
    }

    /// `/readyz`: the store takes writes and there is room on the disk.
    pub(super) fn ready(&self) -> Response<Body> {
        match self.service.readiness() {
            Ok(()) => plain(StatusCode::OK, "ready\n"),
            Err(reason) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        }
    }
}

/// `/icon.png`.
pub(super) fn icon() -> Response<Body> {
    let mut response = Response::new(Body::from(pages::ICON));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("image/png"));
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=86400"),
    );
    response
}

/// An HTML page that may load nothing and run nothing but its own style (HTTP-5).
fn html(code: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(pages::CONTENT_SECURITY_POLICY),
    );
    response
}
