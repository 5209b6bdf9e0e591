//! What this service is called from outside, and whether an announcement means it.

use nostr::types::Url;

use crate::name::{Coordinate, npub};

/// The public name of a service: host, port if given, and the path below which everything lives
/// (NAME-5, NAME-6). The scheme is not part of it: a service may be reached with TLS or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAddress {
    host: String,
    port: Option<u16>,
    base: Vec<String>,
}

/// Why a configured name is no [`ServiceAddress`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceAddressError {
    /// Not a host with an optional port.
    #[error("{0:?} is not a host or host:port")]
    Domain(String),
    /// NAME-6.
    #[error(
        "{0:?} is no base path: it starts with '/', does not end with one, and has no empty, '.' or '..' part"
    )]
    BasePath(String),
}

impl ServiceAddress {
    /// Reads `host[:port]` and a base path (`/` for none).
    pub fn parse(domain: &str, base_path: &str) -> Result<Self, ServiceAddressError> {
        let bad_domain = || ServiceAddressError::Domain(domain.to_owned());
        let url = Url::parse(&format!("http://{domain}/")).map_err(|_| bad_domain())?;
        let clean = url.path() == "/" && url.query().is_none() && url.username().is_empty();
        let host = url
            .host_str()
            .filter(|_| clean && !domain.contains(['/', '@', '#']))
            .ok_or_else(bad_domain)?;
        // `:80` is a default port to the URL parser; the text says whether it was given.
        let port = url.port().or_else(|| domain.ends_with(":80").then_some(80));
        Ok(Self {
            host: host.to_owned(),
            port,
            base: parse_base(base_path)?,
        })
    }

    /// `host[:port]`.
    pub fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    /// The base path: empty, or `/a/b` without a slash at the end.
    pub fn base_path(&self) -> String {
        self.base
            .iter()
            .fold(String::new(), |path, part| path + "/" + part)
    }

    /// Whether `url` is the clone URL of `repo` on this service (NAME-5).
    pub fn is_clone_url(&self, url: &str, repo: &Coordinate) -> bool {
        let Some(parts) = self.path_here(url, &[("http", 80), ("https", 443)]) else {
            return false;
        };
        let [owner, name] = parts.as_slice() else {
            return false;
        };
        *owner == npub(&repo.owner)
            && crate::name::Identifier::from_url_segment(name)
                .is_some_and(|name| name == repo.identifier)
    }

    /// Whether `url` names the repository on this service that `submitter` pushes its proposals for
    /// `identifier` to (G6-4).
    pub fn is_prs_url(
        &self,
        url: &str,
        submitter: &nostr::key::PublicKey,
        identifier: &crate::name::Identifier,
    ) -> bool {
        let Some(parts) = self.path_here(url, &[("http", 80), ("https", 443)]) else {
            return false;
        };
        let [room, owner, name] = parts.as_slice() else {
            return false;
        };
        room == "prs"
            && *owner == npub(submitter)
            && crate::name::Identifier::from_url_segment(name).as_ref() == Some(identifier)
    }

    /// Whether `url` is anything of this service on the web, whatever it names (HUNT-6).
    pub fn is_here(&self, url: &crate::clone_url::CloneUrl) -> bool {
        self.path_here(url.as_str(), &[("http", 80), ("https", 443)])
            .is_some()
    }

    /// Whether `url` is this service's relay (NAME-5).
    pub fn is_relay_url(&self, url: &str) -> bool {
        self.path_here(url, &[("ws", 80), ("wss", 443)])
            .is_some_and(|parts| parts.is_empty() || parts == [""])
    }

    /// The path segments of `url` below the base path, if scheme, host and port are this service's.
    fn path_here(&self, url: &str, schemes: &[(&str, u16)]) -> Option<Vec<String>> {
        if url.contains(['\\', '\t', '\r', '\n']) {
            return None; // the URL parser would repair these; nobody else may
        }
        let parsed = Url::parse(url.trim_end_matches(' ')).ok()?;
        let &(_, default_port) = schemes
            .iter()
            .find(|(scheme, _)| *scheme == parsed.scheme())?;
        let port = parsed.port().unwrap_or(default_port);
        let same_port = self.port.map_or(port == default_port, |ours| ours == port);
        let plain = parsed.username().is_empty()
            && parsed.password().is_none()
            && parsed.query().is_none()
            && parsed.fragment().is_none();
        if !plain || !same_port || parsed.host_str()? != self.host {
            return None;
        }
        let mut segments: Vec<String> = parsed.path_segments()?.map(str::to_owned).collect();
        // `/base` and `/base/` both name the mount point: one empty last segment is nothing.
        if segments.last().is_some_and(String::is_empty) {
            segments.pop();
        }
        (segments.len() >= self.base.len() && segments[..self.base.len()] == self.base[..])
            .then(|| segments.split_off(self.base.len()))
    }
}

fn parse_base(path: &str) -> Result<Vec<String>, ServiceAddressError> {
    let bad = || ServiceAddressError::BasePath(path.to_owned());
    if path == "/" || path.is_empty() {
        return Ok(Vec::new());
    }
    let parts = path.strip_prefix('/').ok_or_else(bad)?;
    if parts.contains(['?', '#', '\\', '%'])
        || parts.split('/').any(|part| matches!(part, "" | "." | ".."))
    {
        return Err(bad());
    }
    Ok(parts.split('/').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nostr::key::PublicKey;

    fn repo() -> Coordinate {
        Coordinate::new(
            PublicKey::from_hex(&"1".repeat(64)).expect("hex"),
            "my repo".parse().expect("valid"),
        )
    }

    #[test]
    fn the_service_is_matched_by_parts_never_by_substring() {
        let service = ServiceAddress::parse("grasp.example.com", "/").expect("valid");
        let owner = npub(&repo().owner);
        let path = format!("{owner}/my%20repo.git");
        for ours in [
            "https://grasp.example.com",
            "http://grasp.example.com",
            "https://GRASP.example.com:443",
            "http://grasp.example.com:80",
        ] {
            assert!(
                service.is_clone_url(&format!("{ours}/{path}"), &repo()),
                "{ours}"
            );
        }
        for other in [
            "https://evil-grasp.example.com",
            "https://grasp.example.com.evil",
            "https://grasp.example.com:8443",
            "https://user@grasp.example.com",
            "https://evil/grasp.example.com",
            "ssh://grasp.example.com",
            "https://grasp.example.com@evil",
            "https://grasp.example.com/base",
        ] {
            assert!(
                !service.is_clone_url(&format!("{other}/{path}"), &repo()),
                "{other}"
            );
        }
        for ours in [
            "wss://grasp.example.com",
            "ws://grasp.example.com/",
            "wss://GRASP.example.com:443/",
        ] {
            assert!(service.is_relay_url(ours), "{ours}");
        }
        for other in [
            "https://grasp.example.com",
            "wss://grasp.example.com/x",
            "wss://grasp.example.com:7334",
        ] {
            assert!(!service.is_relay_url(other), "{other}");
        }
    }

    #[test]
    fn a_contributor_s_repository_has_a_room_of_its_own() {
        let service = ServiceAddress::parse("grasp.example.com", "/").expect("valid");
        let (owner, name) = (repo().owner, repo().identifier);
        let url = format!(
            "https://grasp.example.com/prs/{}/my%20repo.git",
            npub(&owner)
        );
        assert!(service.is_prs_url(&url, &owner, &name));
        assert!(!service.is_clone_url(&url, &repo()));
        assert!(!service.is_prs_url(&url.replace("/prs", ""), &owner, &name));
        assert!(!service.is_prs_url(&url, &owner, &"other".parse().expect("valid")));
    }

    #[test]
    fn a_base_path_moves_everything() {
        let service = ServiceAddress::parse("127.0.0.1:7334", "/services/grasp").expect("valid");
        let url = format!(
            "http://127.0.0.1:7334/services/grasp/{}/my%20repo.git",
            npub(&repo().owner)
        );
        assert!(service.is_clone_url(&url, &repo()));
        assert!(!service.is_clone_url(&url.replace("/services", ""), &repo()));
        assert!(service.is_relay_url("ws://127.0.0.1:7334/services/grasp"));
        assert!(!service.is_relay_url("ws://127.0.0.1:7334/"));
        assert_eq!(service.base_path(), "/services/grasp");
    }

    /// NAME-5: owner, name and nothing else.
    #[test]
    fn a_clone_url_names_both_owner_and_repository() {
        let service = ServiceAddress::parse("grasp.example.com", "/").expect("valid");
        let (owner, other) = (repo().owner, PublicKey::from_byte_array([2; 32]));
        let is_ours = |path: &str| {
            let url = format!("https://grasp.example.com/{path}");
            service.is_clone_url(&url, &repo())
        };
        let (owner, other) = (npub(&owner), npub(&other));
        assert!(is_ours(&format!("{owner}/my%20repo.git")));
        for path in [
            format!("{owner}/other.git"),
            format!("{other}/my%20repo.git"),
            format!("{owner}/my%20repo"),
            format!("{owner}/my%20repo.git/x"),
            owner.clone(),
            String::new(),
        ] {
            assert!(!is_ours(&path), "{path}");
        }
    }

    /// NAME-5: as it stands in a URL.
    #[test]
    fn the_authority_has_a_port_where_one_was_given() {
        for domain in [
            "grasp.example.com",
            "127.0.0.1:7334",
            "grasp.example.com:80",
        ] {
            let service = ServiceAddress::parse(domain, "/").expect("valid");
            assert_eq!(service.authority(), domain);
            assert_eq!(service.base_path(), "");
        }
    }

    #[test]
    fn malformed_names_are_refused() {
        for bad in [
            "",
            "a/b",
            "user@host",
            "host:port",
            "a b",
            "host?x",
            "host#x",
        ] {
            assert!(ServiceAddress::parse(bad, "/").is_err(), "{bad}");
        }
        for bad in ["grasp", "/grasp/", "/a//b", "/a/../b", "/a?b"] {
            assert!(ServiceAddress::parse("host", bad).is_err(), "{bad}");
        }
    }

    /// HUNT-6
    #[test]
    fn what_lies_below_our_address_is_ours_and_nothing_else() {
        let is_here = |base: &str, url: &str| {
            let service = ServiceAddress::parse("grasp.example.com", base).expect("valid");
            service.is_here(&url.parse().expect("a clone URL"))
        };
        for ours in ["/x.git", "/npub1/x.git", "", ":443/prs/npub1/x.git"] {
            let url = format!("https://grasp.example.com{ours}");
            assert!(is_here("/", &url), "{url}");
            assert!(!is_here("/base", &url), "{url}");
        }
        assert!(is_here(
            "/base",
            "http://GRASP.example.com/base/npub1/x.git"
        ));
        for other in [
            "https://grasp.example.com:8443/x.git",
            "https://grasp.example.com.evil/x.git",
            "https://evil/grasp.example.com/x.git",
        ] {
            assert!(!is_here("/", other), "{other}");
        }
    }
}
