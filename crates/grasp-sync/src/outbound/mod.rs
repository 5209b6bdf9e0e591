//! Whom we may dial. Every address that a stranger's event names passes here before a connection is made.
//!
//! The gate has two halves. [`OutboundPolicy::admit`] judges what is written, [`OutboundPolicy::pin`] what the name resolves to;
//! its result holds the addresses that were judged, so that a name which resolves otherwise a moment later changes
//! nothing. *Invariant:* a [`Pinned`] has no other constructor, so who dials one dials what was judged.

mod address;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use nostr::types::Url;
use nostr::types::url::Host;

pub use address::is_global;

/// What a connection is for: decides the schemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A relay: `ws` and `wss`.
    Relay,
    /// Git data, and what a relay says of itself: `http` and `https`.
    Http,
}

impl Purpose {
    /// Default port, and whether the scheme is encrypted. `None` for a scheme that is not for this.
    fn scheme(self, scheme: &str) -> Option<(u16, bool)> {
        match (self, scheme) {
            (Self::Relay, "ws") | (Self::Http, "http") => Some((80, false)),
            (Self::Relay, "wss") | (Self::Http, "https") => Some((443, true)),
            _ => None,
        }
    }
}

/// Why we do not go there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not a URL with a host, or one that URL parsers read differently.
    #[error("not a URL that can be dialled")]
    Malformed,
    /// A scheme that is not for this purpose.
    #[error("the scheme {0:?} is not dialled for this purpose")]
    Scheme(String),
    /// A user name or password.
    #[error("a URL that names a user is not dialled")]
    Credentials,
    /// A name that means something only inside a network.
    #[error("{0:?} is no name of the public internet")]
    LocalName(String),
    /// Nothing to dial.
    #[error("{0:?} has no address")]
    NoAddress(String),
    /// One of its addresses is not of the public internet.
    #[error("{host:?} resolves to {address}, which is not of the public internet")]
    NotGlobal {
        /// The name.
        host: String,
        /// The address.
        address: IpAddr,
    },
    /// One of its addresses is our own.
    #[error("{host:?} resolves to {address}, which is this server")]
    Ourselves {
        /// The name.
        host: String,
        /// The address.
        address: IpAddr,
    },
}

/// Where we may go.
#[derive(Debug, Clone, Default)]
pub struct OutboundPolicy {
    /// Everything may be dialled: closed networks and tests (NET-4), and the operator's own choice of a bootstrap relay.
    pub allow_non_global: bool,
    /// Addresses that this host is bound to.
    pub own: BTreeSet<IpAddr>,
}

/// A host that may be resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    host: String,
    port: u16,
    is_encrypted: bool,
    literal: Option<IpAddr>,
}

impl Destination {
    /// The name, as the certificate and the `Host` header have it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether TLS is spoken.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// The address, if the host is one: then there is nothing to resolve.
    pub fn literal(&self) -> Option<IpAddr> {
        self.literal
    }
}

/// A host with the addresses that were judged: these are dialled, and nothing is resolved again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    destination: Destination,
    addresses: Vec<SocketAddr>,
}

impl Pinned {
    /// The host.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// What to dial, in the order of the resolver. Never empty.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

/// Names that end so mean something only inside a network.
const LOCAL_DOMAINS: [&str; 8] = [
    "localhost",
    "local",
    "localdomain",
    "internal",
    "home.arpa",
    "onion",
    "test",
    "invalid",
];

impl OutboundPolicy {
    /// NET-1: judges what is written. Nothing is resolved for a URL that is refused here.
    pub fn admit(&self, url: &str, purpose: Purpose) -> Result<Destination, Refusal> {
        let spoils = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
        if url.contains(spoils) || has_escaped_control(url) {
            return Err(Refusal::Malformed);
        }
        let url = Url::parse(url).map_err(|_| Refusal::Malformed)?;
        let scheme = || Refusal::Scheme(url.scheme().to_owned());
        let (default_port, is_encrypted) = purpose.scheme(url.scheme()).ok_or_else(scheme)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::Credentials);
        }
        let (host, literal) = match url.host().ok_or(Refusal::Malformed)? {
            Host::Ipv4(v4) => (v4.to_string(), Some(IpAddr::V4(v4))),
            Host::Ipv6(v6) => (v6.to_string(), Some(IpAddr::V6(v6))),
            Host::Domain(name) => (name.trim_end_matches('.').to_owned(), None),
        };
        if literal.is_none() && !self.allow_non_global && is_local_name(&host) {
            return Err(Refusal::LocalName(host));
        }
        Ok(Destination {
            port: url.port().unwrap_or(default_port),
            host,
            is_encrypted,
            literal,
        })
    }

    /// Judges what the host resolved to. One bad address spoils all: who answers with a public and an inner address
    /// wants us to try both.
    pub fn pin(&self, destination: Destination, resolved: &[IpAddr]) -> Result<Pinned, Refusal> {
        let addresses = destination
            .literal
            .as_ref()
            .map_or(resolved, std::slice::from_ref);
        let host = || destination.host.clone();
        if addresses.is_empty() {
            return Err(Refusal::NoAddress(host()));
        }
        for address in addresses.iter().copied().filter(|_| !self.allow_non_global) {
            if !is_global(address) {
                return Err(Refusal::NotGlobal {
                    host: host(),
                    address,
                });
            }
            if self.own.contains(&address.to_canonical()) {
                return Err(Refusal::Ourselves {
                    host: host(),
                    address,
                });
            }
        }
        let port = destination.port;
        Ok(Pinned {
            addresses: addresses
                .iter()
                .map(|address| (*address, port).into())
                .collect(),
            destination,
        })
    }
}

/// A name of one part, or below a domain that is not of the public internet.
fn is_local_name(host: &str) -> bool {
    let below = |domain: &str| {
        host.strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    !host.contains('.') || LOCAL_DOMAINS.into_iter().any(below)
}

/// Whether some `%XX` stands for a control character.
pub(crate) fn has_escaped_control(text: &str) -> bool {
    let is_control = |escape: &str| {
        escape
            .get(..2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
            .is_some_and(|byte| byte.is_ascii_control())
    };
    text.split('%').skip(1).any(is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn admit(url: &str) -> Result<Destination, Refusal> {
        OutboundPolicy::default().admit(url, Purpose::Relay)
    }

    fn pin(policy: &OutboundPolicy, resolved: &[&str]) -> Result<Pinned, Refusal> {
        let destination = policy.admit("wss://relay.ngit.dev", Purpose::Relay)?;
        let resolved: Vec<_> = resolved.iter().map(|text| ip(text)).collect();
        policy.pin(destination, &resolved)
    }

    /// NET-1
    #[test]
    fn each_purpose_has_its_schemes() {
        let policy = OutboundPolicy::default();
        for (url, relay, http) in [
            ("ws://ngit.dev", Some(80), None),
            ("wss://ngit.dev", Some(443), None),
            ("wss://ngit.dev:7334/x", Some(7_334), None),
            ("http://ngit.dev", None, Some(80)),
            ("https://ngit.dev", None, Some(443)),
            ("file:///etc/passwd", None, None),
            ("ssh://ngit.dev", None, None),
            ("git://ngit.dev", None, None),
            ("ext::sh -c id", None, None),
        ] {
            let port = |purpose| policy.admit(url, purpose).ok().map(|to| to.port());
            assert_eq!(
                (port(Purpose::Relay), port(Purpose::Http)),
                (relay, http),
                "{url}"
            );
        }
    }

    /// NET-1: case 70.
    #[test]
    fn names_that_mean_something_only_inside_are_refused() {
        for bad in [
            "wss://relay",
            "wss://localhost:7334",
            "wss://LOCALHOST.",
            "wss://a.localhost",
            "wss://printer.local",
            "wss://x.localdomain",
            "wss://metadata.google.internal",
            "wss://router.home.arpa",
            "wss://abc.onion",
            "wss://x.test",
            "wss://x.invalid",
        ] {
            assert!(matches!(admit(bad), Err(Refusal::LocalName(_))), "{bad}");
        }
        for good in [
            "wss://mylocal.dev",
            "wss://internal.dev",
            "wss://ngit.dev.",
            "wss://test.ngit.dev",
        ] {
            assert!(admit(good).is_ok(), "{good}");
        }
    }

    /// NET-1: case 70.
    #[test]
    fn urls_that_parsers_read_differently_are_refused() {
        for bad in [
            "wss://ngit.dev\\@evil.dev",
            "wss://ngit.dev/\t",
            "wss://ngit.dev/%0d%0aHost:%20x",
            "wss://",
            "ngit.dev",
        ] {
            assert_eq!(admit(bad), Err(Refusal::Malformed), "{bad}");
        }
        for bad in [
            "wss://user@ngit.dev",
            "wss://user:secret@ngit.dev",
            "wss://ngit.dev:80@evil.dev",
        ] {
            assert_eq!(admit(bad), Err(Refusal::Credentials), "{bad}");
        }
    }

    /// Case 69: every address must be allowed, and what was judged is what is dialled.
    #[test]
    fn one_inner_address_among_several_refuses_the_name() {
        let policy = OutboundPolicy::default();
        let pinned = pin(&policy, &["93.184.216.34", "2606:2800:220:1::1"]).expect("public");
        let dialled: Vec<_> = pinned.addresses().iter().map(ToString::to_string).collect();
        assert_eq!(dialled, ["93.184.216.34:443", "[2606:2800:220:1::1]:443"]);
        for bad in ["127.0.0.1", "10.0.0.1", "::1", "169.254.169.254"] {
            let refusal = pin(&policy, &["93.184.216.34", bad]);
            assert!(
                matches!(refusal, Err(Refusal::NotGlobal { address, .. }) if address == ip(bad))
            );
        }
        assert!(matches!(pin(&policy, &[]), Err(Refusal::NoAddress(_))));
    }

    /// A literal is judged like any other, in all the forms that URLs give it.
    #[test]
    fn a_literal_address_is_judged_whatever_a_resolver_says() {
        let policy = OutboundPolicy::default();
        for bad in [
            "ws://127.0.0.1",
            "ws://2130706433",
            "ws://0x7f.1",
            "ws://[::1]:80",
            "ws://[::ffff:10.0.0.1]",
        ] {
            let destination = policy
                .admit(bad, Purpose::Relay)
                .expect("nothing is wrong with the text");
            let refusal = policy.pin(destination, &[ip("93.184.216.34")]);
            assert!(matches!(refusal, Err(Refusal::NotGlobal { .. })), "{bad}");
        }
    }

    #[test]
    fn our_own_addresses_are_not_dialled() {
        let policy = OutboundPolicy {
            own: BTreeSet::from([ip("93.184.216.34")]),
            ..OutboundPolicy::default()
        };
        let refusal = pin(&policy, &["93.184.216.34"]);
        assert!(matches!(refusal, Err(Refusal::Ourselves { .. })));
    }

    /// NET-4
    #[test]
    fn a_closed_network_may_be_opened_to_itself() {
        let policy = OutboundPolicy {
            allow_non_global: true,
            ..OutboundPolicy::default()
        };
        let destination = policy
            .admit("ws://localhost:7334", Purpose::Relay)
            .expect("allowed");
        assert!(policy.pin(destination, &[ip("127.0.0.1")]).is_ok());
        assert!(
            policy.admit("file:///etc/passwd", Purpose::Http).is_err(),
            "schemes stay"
        );
    }
}
