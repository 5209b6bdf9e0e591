//! The addresses of this service as people and clients write them.

use grasp_core::name::{Coordinate, npub};
use grasp_core::service::ServiceAddress;

/// Writes the URLs of a service. Whether with TLS is a guess from the name: an address or `localhost` is
/// a machine of one's own, every other name is behind a reverse proxy that has a certificate.
#[derive(Debug, Clone)]
pub struct Links {
    tls: bool,
    host: String,
}

impl Links {
    /// The links of `service`.
    pub fn new(service: &ServiceAddress) -> Self {
        let authority = service.authority();
        let name = authority
            .rsplit_once(':')
            .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
            .map_or(authority.as_str(), |(name, _)| name);
        let local = name == "localhost"
            || name.ends_with(".localhost")
            || name
                .trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .is_ok();
        Self {
            tls: !local,
            host: authority + &service.base_path(),
        }
    }

    fn secure(&self) -> &'static str {
        if self.tls { "s" } else { "" }
    }

    /// `https://host[/base]`: the landing page, without a slash at the end.
    pub fn web(&self) -> String {
        format!("http{}://{}", self.secure(), self.host)
    }

    /// `wss://host[/base]`: the relay.
    pub fn relay(&self) -> String {
        format!("ws{}://{}", self.secure(), self.host)
    }

    /// `https://host/<npub>/<identifier>.git`: for plain git, and the repository's page.
    pub fn clone_url(&self, repo: &Coordinate) -> String {
        format!(
            "{}/{}/{}.git",
            self.web(),
            npub(&repo.owner),
            repo.identifier.percent_encoded()
        )
    }

    /// `nostr://<npub>/<relay>/<identifier>`: for git with the `ngit` client installed.
    pub fn nostr_url(&self, repo: &Coordinate) -> String {
        format!("nostr://{}", self.hinted(repo))
    }

    /// The repository on a browser for nostr repositories.
    pub fn workshop_url(&self, repo: &Coordinate) -> String {
        format!("https://gitworkshop.dev/{}", self.hinted(repo))
    }

    /// `<npub>/<relay>/<identifier>`. `wss://` is understood and left out; what else the relay's address
    /// has that would end the path segment is escaped.
    fn hinted(&self, repo: &Coordinate) -> String {
        let relay = if self.tls {
            self.host.clone()
        } else {
            self.relay()
        };
        format!(
            "{}/{}/{}",
            npub(&repo.owner),
            relay.replace('/', "%2F").replace(':', "%3A"),
            repo.identifier.percent_encoded()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nostr::key::PublicKey;

    fn links(domain: &str, base: &str) -> Links {
        Links::new(&ServiceAddress::parse(domain, base).expect("valid"))
    }

    fn repo() -> Coordinate {
        Coordinate::new(
            PublicKey::from_hex(&"1".repeat(64)).expect("hex"),
            "my repo".parse().expect("valid"),
        )
    }

    #[test]
    fn a_name_means_tls_and_an_address_does_not() {
        assert_eq!(
            links("grasp.example.com", "/").web(),
            "https://grasp.example.com"
        );
        assert_eq!(links("127.0.0.1:7334", "/").relay(), "ws://127.0.0.1:7334");
        assert_eq!(links("[::1]:7334", "/").web(), "http://[::1]:7334");
        assert_eq!(
            links("localhost:7334", "/a/b").relay(),
            "ws://localhost:7334/a/b"
        );
    }

    /// NAME-5: what we tell people to write is what we recognise.
    #[test]
    fn the_links_are_recognised_as_ours() {
        for (domain, base) in [("grasp.example.com", "/"), ("127.0.0.1:7334", "/grasp")] {
            let service = ServiceAddress::parse(domain, base).expect("valid");
            let links = Links::new(&service);
            assert!(service.is_clone_url(&links.clone_url(&repo()), &repo()));
            assert!(service.is_relay_url(&links.relay()));
        }
    }

    #[test]
    fn a_nostr_url_has_the_relay_as_one_segment() {
        let npub = npub(&repo().owner);
        assert_eq!(
            links("grasp.example.com", "/").nostr_url(&repo()),
            format!("nostr://{npub}/grasp.example.com/my%20repo")
        );
        assert_eq!(
            links("127.0.0.1:7334", "/").nostr_url(&repo()),
            format!("nostr://{npub}/ws%3A%2F%2F127.0.0.1%3A7334/my%20repo")
        );
        assert_eq!(
            links("grasp.example.com", "/grasp").workshop_url(&repo()),
            format!("https://gitworkshop.dev/{npub}/grasp.example.com%2Fgrasp/my%20repo")
        );
    }
}
