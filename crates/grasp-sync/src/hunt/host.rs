//! Who is behind an address: what limits and grudges are kept by.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use grasp_core::clone_url::CloneUrl;
use nostr::types::Url;

use crate::outbound::is_global;

/// A domain: the name of a host, whatever the port and the scheme, so that one host cannot be asked more often by being
/// named in more ways. In closed networks and tests many servers share one address, so there the port is part of it.
/// Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(Arc<str>);

impl Host {
    /// Who is behind this address.
    pub fn of(address: &CloneUrl) -> Self {
        let url = Url::parse(address.as_str()).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let name = host.trim_end_matches('.');
        let port = url.as_ref().and_then(Url::port_or_known_default);
        match port.filter(|_| is_local(name)) {
            Some(port) => Self(format!("{name}:{port}").into()),
            None => Self(name.into()),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_local(name: &str) -> bool {
    let literal = name.trim_start_matches('[').trim_end_matches(']');
    match literal.parse::<IpAddr>() {
        Ok(address) => !is_global(address),
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(address: &str) -> String {
        Host::of(&address.parse().expect("a clone URL")).to_string()
    }

    /// HUNT-7
    #[test]
    fn one_host_is_one_domain_however_it_is_named() {
        for same in [
            "https://git.example.com/a.git",
            "http://git.example.com/b.git",
            "https://git.example.com:8443/a.git",
            "https://GIT.example.com./a.git",
        ] {
            assert_eq!(host(same), "git.example.com");
        }
        assert_eq!(host("https://example.com/x"), "example.com");
        assert_eq!(host("https://1.1.1.1:444/x"), "1.1.1.1");
        assert_eq!(host("https://[2606:4700::1111]/x"), "[2606:4700::1111]");
    }

    #[test]
    fn in_closed_networks_a_port_makes_a_server() {
        assert_eq!(host("http://127.0.0.1:7334/x"), "127.0.0.1:7334");
        assert_eq!(host("http://10.0.0.5/x"), "10.0.0.5:80");
        assert_eq!(host("http://[::1]:9/x"), "[::1]:9");
        assert_eq!(host("http://localhost:9/x"), "localhost:9");
    }
}
