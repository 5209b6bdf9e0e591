//! Which request means what: the routing table of protocol.md §12 as a pure function.

use grasp_core::name::{Coordinate, Identifier, RepoAddress, parse_npub};
use grasp_git::http::Service as GitService;
use http::{HeaderMap, Method, header};

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// Any `OPTIONS`: 204 (G1-20).
    Preflight,
    /// `/.well-known/nostr.json` (NIP-05).
    WellKnown,
    /// `info/refs?service=…` of a repository.
    InfoRefs(RepoAddress, GitService),
    /// `POST …/git-upload-pack`.
    UploadPack(RepoAddress),
    /// `POST …/git-receive-pack`.
    ReceivePack(RepoAddress),
    /// The page of a repository.
    RepositoryPage(Coordinate),
    /// The NIP-11 document.
    RelayInformation,
    /// A WebSocket at the root.
    Relay,
    /// `/healthz`.
    Health,
    /// `/readyz`.
    Ready,
    /// `/metrics`.
    Metrics,
    /// `/icon.png`.
    Icon,
    /// `/`.
    Landing,
    /// Nothing of ours.
    NotFound,
}

/// What of the server's configuration routing depends on.
#[derive(Debug, Clone)]
pub(crate) struct Mount {
    /// Empty, or `/a/b` (NAME-6).
    pub(crate) base: String,
    /// Whether `/prs/` is on (G6-6).
    pub(crate) proposals: bool,
}

impl Mount {
    /// Reads a request. The path is looked at as it was sent: nothing is decoded but the one segment
    /// that names a repository, once (NAME-2).
    pub(super) fn route(
        &self,
        method: &Method,
        path: &str,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Route {
        let Some(path) = self.strip_base(path) else {
            return if method == Method::OPTIONS {
                Route::Preflight
            } else {
                Route::NotFound
            };
        };
        if method == Method::OPTIONS {
            return Route::Preflight;
        }
        let reads = method == Method::GET || method == Method::HEAD;
        if path == "/.well-known/nostr.json" && reads && self.base.is_empty() {
            return Route::WellKnown;
        }
        if path == "/" && reads {
            return root(headers);
        }
        let segments: Vec<&str> = path[1..].split('/').collect();
        match segments.as_slice() {
            ["prs", rest @ ..] => self
                .proposals
                .then(|| proposals(method, rest, query))
                .flatten()
                .unwrap_or(Route::NotFound),
            ["healthz"] if reads => Route::Health,
            ["readyz"] if reads => Route::Ready,
            ["metrics"] if reads => Route::Metrics,
            ["icon.png"] if reads => Route::Icon,
            [owner, name, rest @ ..] => {
                announced(method, owner, name, rest, query).unwrap_or(Route::NotFound)
            }
            _ => Route::NotFound,
        }
    }

    fn strip_base<'p>(&self, path: &'p str) -> Option<&'p str> {
        match path.strip_prefix(self.base.as_str())? {
            "" if !self.base.is_empty() => Some("/"),
            rest if rest.starts_with('/') => Some(rest),
            _ => None,
        }
    }
}

fn root(headers: &HeaderMap) -> Route {
    if wants_relay_information(headers) {
        Route::RelayInformation
    } else if headers
        .get(header::UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
    {
        Route::Relay
    } else {
        Route::Landing
    }
}

/// `Accept` names `application/nostr+json`, whatever else and in whatever case it names (cases.md 96).
fn wants_relay_information(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let named = parts
                .next()
                .is_some_and(|name| name.eq_ignore_ascii_case("application/nostr+json"));
            named
                && !parts
                    .any(|parameter| matches!(parameter, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
        })
}

fn coordinate(owner: &str, name: &str) -> Option<Coordinate> {
    Some(Coordinate::new(
        parse_npub(owner)?,
        Identifier::from_url_segment(name)?,
    ))
}

fn announced(
    method: &Method,
    owner: &str,
    name: &str,
    rest: &[&str],
    query: Option<&str>,
) -> Option<Route> {
    let repo = coordinate(owner, name)?;
    match rest {
        [] | [""] if method == Method::GET || method == Method::HEAD => {
            Some(Route::RepositoryPage(repo))
        }
        _ => git(method, RepoAddress::Announced(repo), rest, query),
    }
}

fn proposals(method: &Method, segments: &[&str], query: Option<&str>) -> Option<Route> {
    let [owner, name, rest @ ..] = segments else {
        return None;
    };
    git(
        method,
        RepoAddress::Proposals(coordinate(owner, name)?),
        rest,
        query,
    )
}

fn git(method: &Method, repo: RepoAddress, rest: &[&str], query: Option<&str>) -> Option<Route> {
    match rest {
        ["info", "refs"] if method == Method::GET || method == Method::HEAD => {
            Some(Route::InfoRefs(repo, service_of(query?)?))
        }
        ["git-upload-pack"] if method == Method::POST => Some(Route::UploadPack(repo)),
        ["git-receive-pack"] if method == Method::POST => Some(Route::ReceivePack(repo)),
        _ => None,
    }
}

fn service_of(query: &str) -> Option<GitService> {
    GitService::from_name(
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix("service="))?,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::PublicKey;
    use grasp_core::name::npub;

    fn mount(base: &str, proposals: bool) -> Mount {
        Mount {
            base: base.to_owned(),
            proposals,
        }
    }

    fn get(mount: &Mount, path: &str) -> Route {
        let (path, query) = path
            .split_once('?')
            .map_or((path, None), |(path, query)| (path, Some(query)));
        mount.route(&Method::GET, path, query, &HeaderMap::new())
    }

    fn owner() -> PublicKey {
        PublicKey::from_hex(&"1".repeat(64)).expect("hex")
    }

    #[test]
    fn a_repository_is_found_by_its_canonical_npub_only() {
        let root = mount("", false);
        let repo = Coordinate::new(owner(), "x".parse().expect("valid"));
        let npub = npub(&owner());
        assert_eq!(
            get(&root, &format!("/{npub}/x.git")),
            Route::RepositoryPage(repo.clone())
        );
        assert_eq!(
            get(&root, &format!("/{npub}/x.git/")),
            Route::RepositoryPage(repo.clone())
        );
        let address = RepoAddress::Announced(repo);
        assert_eq!(
            get(
                &root,
                &format!("/{npub}/x.git/info/refs?service=git-upload-pack")
            ),
            Route::InfoRefs(address.clone(), GitService::UploadPack)
        );
        assert_eq!(
            root.route(
                &Method::POST,
                &format!("/{npub}/x.git/git-receive-pack"),
                None,
                &HeaderMap::new()
            ),
            Route::ReceivePack(address)
        );
        for path in [
            format!("/{}/x.git", owner().to_hex()),
            format!("/{}/x.git", npub.to_uppercase()),
            format!("/{npub}/x"),
            format!("/{npub}/..%2fx.git/info/refs?service=git-upload-pack"),
            format!("/{npub}/x.git/info/refs"),
            format!("/{npub}/x.git/info/refs?service=git-evil"),
            format!("/{npub}/x.git/HEAD"),
            format!("/{npub}/x.git/git-upload-pack"),
            format!("/prs/{npub}/x.git/info/refs?service=git-upload-pack"),
            "/<script>".to_owned(),
        ] {
            assert_eq!(get(&root, &path), Route::NotFound, "{path}");
        }
    }

    #[test]
    fn everything_moves_below_the_base_path() {
        let mounted = mount("/services/grasp", true);
        assert_eq!(get(&mounted, "/services/grasp"), Route::Landing);
        assert_eq!(get(&mounted, "/services/grasp/"), Route::Landing);
        assert_eq!(get(&mounted, "/services/grasp/healthz"), Route::Health);
        assert_eq!(
            get(&mounted, "/services/grasp/.well-known/nostr.json"),
            Route::NotFound
        );
        for outside in ["/", "/services", "/services/graspy", "/healthz"] {
            assert_eq!(get(&mounted, outside), Route::NotFound, "{outside}");
        }
    }

    #[test]
    fn options_is_a_preflight_anywhere() {
        let mounted = mount("/grasp", false);
        for path in ["/", "/grasp", "/grasp/x/y/z", "/nowhere"] {
            assert_eq!(
                mounted.route(&Method::OPTIONS, path, None, &HeaderMap::new()),
                Route::Preflight,
                "{path}"
            );
        }
    }

    #[test]
    fn the_accept_header_chooses_the_relay_information() {
        let root = mount("", false);
        for (accept, expected) in [
            ("application/nostr+json", Route::RelayInformation),
            (
                "text/html, Application/Nostr+JSON;q=0.8",
                Route::RelayInformation,
            ),
            ("text/html, application/nostr+json;q=0", Route::Landing),
            ("application/json", Route::Landing),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().expect("a header value"));
            assert_eq!(
                root.route(&Method::GET, "/", None, &headers),
                expected,
                "{accept}"
            );
        }
    }
}
