//! Whether an address is one of this host's (NET-2).
//!
//! The kernel knows best, and its answer holds while addresses come and go: only an address of this host can be bound.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::net::UdpSocket;

use crate::outbound::{Pinned, Refusal};

/// Refuses to dial this host.
pub(super) async fn refuse(pinned: &Pinned) -> Result<(), Refusal> {
    for address in pinned.addresses() {
        let address = address.ip().to_canonical();
        if is_bound_here(address).await {
            let host = pinned.destination().host().to_owned();
            return Err(Refusal::Ourselves { host, address });
        }
    }
    Ok(())
}

/// Hosts that share an address with others may be allowed to bind any at all (`ip_nonlocal_bind`). There the answer tells
/// nothing, and what a relay says of itself has to do.
async fn is_bound_here(address: IpAddr) -> bool {
    let nobodys: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    can_bind(address).await && !can_bind(nobodys).await
}

async fn can_bind(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NET-2
    #[tokio::test]
    async fn an_address_of_this_host_is_known_as_such() {
        assert!(is_bound_here(Ipv4Addr::LOCALHOST.into()).await);
        assert!(!is_bound_here(Ipv4Addr::new(198, 51, 100, 7).into()).await);
    }
}
