//! Which addresses are of the public internet, wherever they are hidden.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the public internet routes to it. An IPv4 address inside an IPv6 one counts as what it is: a translator at
/// the provider's would take us there.
pub fn is_global(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_global_v4(v4),
        IpAddr::V6(v6) => is_global_v6(v6),
    }
}

/// By the registry of special-purpose addresses (RFC 6890 and what followed). In doubt: no.
fn is_global_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, ..)    // this network, private, loopback, multicast, reserved
            | (100, 64..=127, _)          // carriers' inner networks
            | (169, 254, _)               // link-local
            | (172, 16..=31, _)           // private
            | (192, 0, 0 | 2)             // protocol assignments, documentation
            | (192, 88, 99)               // 6to4 relays
            | (192, 168, _)               // private
            | (198, 18..=19, _)           // benchmarks
            | (198, 51, 100)              // documentation
            | (203, 0, 113) // documentation
    )
}

fn is_global_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // v4-mapped, and NAT64 of the well-known prefix
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_global_v4(embedded(high, low))
        }
        // 6to4
        [0x2002, high, low, ..] => is_global_v4(embedded(high, low)),
        // Protocol assignments (Teredo hides an address, ORCHID is none), documentation
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => false,
        // Global unicast. All else is special or not given to anybody, v4-compatible and local NAT64 included.
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> bool {
        is_global(text.parse().expect("an address"))
    }

    #[test]
    fn the_public_internet_is_global() {
        for public in [
            "1.1.1.1",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
        ] {
            assert!(check(public), "{public}");
        }
    }

    #[test]
    fn what_is_special_is_not() {
        for special in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:db8::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!check(special), "{special}");
        }
    }

    /// Case 70.
    #[test]
    fn an_address_inside_an_address_counts_as_what_it_is() {
        for hidden in [
            "::ffff:10.0.0.1",
            "::10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1.1.1.1",
            "2002:a00:1::1",
            "2002:7f00:1::",
        ] {
            assert!(!check(hidden), "{hidden}");
        }
        for public in ["::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::1"] {
            assert!(check(public), "{public}");
        }
        assert!(!check("::1.1.1.1"), "v4-compatible addresses are nobody's");
    }
}
