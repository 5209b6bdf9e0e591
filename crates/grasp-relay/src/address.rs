//! Who is at the other end, as far as limits care (NAME-7, NAME-8).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use axum::http::{HeaderMap, header::FORWARDED};
use ipnet::IpNet;

pub use crate::limits::addresses::{AddressLimits, Addresses, Rate, Refused, Slot};

/// The address of a client, and what limits count it as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientAddress {
    ip: IpAddr,
    key: Option<AddressKey>,
}

/// What limits by address are kept for: an IPv4 address or an IPv6 /64 (NAME-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressKey {
    /// One address.
    V4(Ipv4Addr),
    /// The upper half of one.
    V6([u16; 4]),
}

impl ClientAddress {
    /// An address that reached us without a trusted proxy in between.
    pub fn direct(ip: IpAddr) -> Self {
        let ip = ip.to_canonical();
        let key = is_global(ip).then(|| match ip {
            IpAddr::V4(v4) => AddressKey::V4(v4),
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments();
                AddressKey::V6([a, b, c, d])
            }
        });
        Self { ip, key }
    }

    /// An address that is never limited, whatever it is.
    fn unlimited(ip: IpAddr) -> Self {
        Self { ip, key: None }
    }

    /// The address itself, v4-mapped ones as IPv4.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// What limits count it as; `None` for one that no limit by address applies to: it is a proxy or a
    /// test (NAME-8).
    pub fn key(&self) -> Option<AddressKey> {
        self.key
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ip.fmt(out)
    }
}

/// Finds the client's address in what a connection tells.
#[derive(Debug)]
pub struct AddressResolver {
    trusted: Vec<IpNet>,
    setting: &'static str,
    warned: AtomicBool,
}

impl AddressResolver {
    /// Believes the forwarding headers of neighbours in `trusted`. `setting` is what the operator calls
    /// that list.
    pub fn new(trusted: Vec<IpNet>, setting: &'static str) -> Self {
        Self {
            trusted,
            setting,
            warned: AtomicBool::new(false),
        }
    }

    /// The client behind a request from `peer` (NAME-7): the peer itself, or, if that is a trusted
    /// proxy, the first untrusted address on the way that the proxies report. A malformed report counts
    /// as none.
    pub fn resolve(&self, peer: IpAddr, headers: &HeaderMap) -> ClientAddress {
        let peer = peer.to_canonical();
        if !self.trusts(peer) {
            self.warn_once_if_forwarded(peer, headers);
            return ClientAddress::direct(peer);
        }
        let hops = reported_hops(headers).unwrap_or_default();
        let client = hops.iter().rev().find(|hop| !self.trusts(**hop));
        match client {
            Some(client) => ClientAddress::direct(*client),
            None => ClientAddress::unlimited(*hops.first().unwrap_or(&peer)),
        }
    }

    fn trusts(&self, ip: IpAddr) -> bool {
        self.trusted.iter().any(|net| net.contains(&ip))
    }

    /// A proxy that nobody declared makes all clients look like one: worth a word (NAME-8).
    fn warn_once_if_forwarded(&self, peer: IpAddr, headers: &HeaderMap) {
        let undeclared = self.trusted.is_empty() && !is_global(peer);
        if undeclared && is_forwarded(headers) && !self.warned.swap(true, Relaxed) {
            tracing::warn!(
                %peer,
                setting = self.setting,
                "requests come through a proxy that is not declared: clients are not limited by address until the setting names it"
            );
        }
    }
}

const X_FORWARDED_FOR: &str = "x-forwarded-for";
const X_REAL_IP: &str = "x-real-ip";

fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(X_FORWARDED_FOR)
        || headers.contains_key(FORWARDED)
        || headers.contains_key(X_REAL_IP)
}

/// The addresses that the proxies report, the client first. `None` if the report is malformed.
fn reported_hops(headers: &HeaderMap) -> Option<Vec<IpAddr>> {
    if headers.contains_key(X_FORWARDED_FOR) {
        return each_element(headers, X_FORWARDED_FOR, read_address);
    }
    if headers.contains_key(FORWARDED) {
        return each_element(headers, FORWARDED.as_str(), read_forwarded);
    }
    each_element(headers, X_REAL_IP, read_address)
}

/// The most hops a report may have: a longer one is malformed.
const HOPS_MAX: usize = 64;

fn each_element(
    headers: &HeaderMap,
    name: &str,
    read: impl Fn(&str) -> Option<IpAddr>,
) -> Option<Vec<IpAddr>> {
    let mut hops = Vec::new();
    for value in headers.get_all(name) {
        for element in value.to_str().ok()?.split(',') {
            hops.push(read(element.trim())?);
        }
    }
    (hops.len() <= HOPS_MAX).then_some(hops)
}

/// `1.2.3.4`, `::1`, or either with a port (`1.2.3.4:5`, `[::1]:5`).
fn read_address(text: &str) -> Option<IpAddr> {
    let bare = text.parse().ok();
    let bracketed = || {
        let inner = text.strip_prefix('[')?.strip_suffix(']')?;
        inner.parse().ok()
    };
    let with_port = || {
        text.parse()
            .ok()
            .map(|socket: std::net::SocketAddr| socket.ip())
    };
    bare.or_else(bracketed)
        .or_else(with_port)
        .map(|ip: IpAddr| ip.to_canonical())
}

/// The `for` of one element of RFC 7239.
fn read_forwarded(element: &str) -> Option<IpAddr> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let value = value.trim().trim_matches('"');
        name.trim()
            .eq_ignore_ascii_case("for")
            .then(|| read_address(value))?
    })
}

/// Whether the public internet routes to it.
fn is_global(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => is_global_v4(v4),
        IpAddr::V6(v6) => is_global_v6(v6),
    }
}

fn is_global_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = matches!(
        (a, b, c),
        (0 | 240..=255, ..) | (100, 64..=127, _) | (192, 0, 0) | (198, 18..=19, _)
    );
    !(special
        || ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_documentation()
        || ip.is_multicast())
}

fn is_global_v6(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.segments();
    let special = matches!(
        (first, second),
        (0x2001, 0x0db8) | (0x0064, 0xff9b) | (0x3fff, 0..=0x0fff)
    );
    !(special
        || first < 0x0100 // unspecified, loopback, v4-compatible, discard-only
        || ip.is_unique_local()
        || ip.is_unicast_link_local()
        || ip.is_multicast())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().expect("a header"));
        }
        map
    }

    fn resolve(peer: &str, pairs: &[(&'static str, &str)]) -> ClientAddress {
        let trusted = vec![
            "10.0.0.0/8".parse().expect("a net"),
            "fd00::/8".parse().expect("a net"),
        ];
        AddressResolver::new(trusted, "TRUSTED").resolve(ip(peer), &headers(pairs))
    }

    /// NAME-7, case 97
    #[test]
    fn only_a_trusted_neighbour_is_believed() {
        let forwarded = [("x-forwarded-for", "1.2.3.4")];
        assert_eq!(resolve("10.0.0.1", &forwarded).ip(), ip("1.2.3.4"));
        assert_eq!(resolve("::ffff:10.0.0.1", &forwarded).ip(), ip("1.2.3.4"));
        assert_eq!(resolve("8.8.8.8", &forwarded).ip(), ip("8.8.8.8"));
    }

    /// NAME-7
    #[test]
    fn the_nearest_untrusted_hop_is_the_client() {
        let spoofed = [
            ("x-forwarded-for", "6.6.6.6, 1.2.3.4"),
            ("x-forwarded-for", "10.0.0.7"),
        ];
        assert_eq!(resolve("10.0.0.1", &spoofed).ip(), ip("1.2.3.4"));
        let inside = resolve("10.0.0.1", &[("x-forwarded-for", "10.0.0.9, 10.0.0.8")]);
        assert_eq!((inside.ip(), inside.key()), (ip("10.0.0.9"), None));
    }

    /// NAME-7
    #[test]
    fn other_headers_stand_in_and_malformed_ones_count_as_none() {
        let forwarded = r#"for="[2001:db9::5]:80";proto=https, For=10.0.0.3"#;
        assert_eq!(
            resolve("fd00::1", &[("forwarded", forwarded)]).ip(),
            ip("2001:db9::5")
        );
        assert_eq!(
            resolve("10.0.0.1", &[("x-real-ip", "::ffff:9.9.9.9")]).ip(),
            ip("9.9.9.9")
        );
        for bad in [
            "",
            "unknown",
            "1.2.3.4,",
            "1.2.3.4 5.6.7.8",
            "1.2.3.400",
            "evil:1",
        ] {
            assert_eq!(
                resolve("10.0.0.1", &[("x-forwarded-for", bad)]).ip(),
                ip("10.0.0.1"),
                "{bad}"
            );
        }
        assert_eq!(
            resolve("10.0.0.1", &[("forwarded", "for=_hidden")]).ip(),
            ip("10.0.0.1")
        );
    }

    /// NAME-8
    #[test]
    fn limits_count_an_address_or_a_slash_64_and_nothing_private() {
        let key = |text| ClientAddress::direct(ip(text)).key();
        assert_eq!(key("::ffff:1.2.3.4"), key("1.2.3.4"));
        assert_eq!(key("2a00:1:2:3::1"), key("2a00:1:2:3:ffff::9"));
        assert_ne!(key("2a00:1:2:3::1"), key("2a00:1:2:4::1"));
        for local in [
            "127.0.0.1",
            "10.1.1.1",
            "192.168.0.1",
            "172.16.0.1",
            "100.64.0.1",
            "169.254.1.1",
            "0.0.0.0",
            "::1",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "2001:db8::1",
        ] {
            assert_eq!(key(local), None, "{local}");
        }
    }
}
