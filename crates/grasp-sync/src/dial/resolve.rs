//! From a name to its addresses, once.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::ConnectError;
use crate::outbound::Destination;

/// So many names are looked up at once. The system's resolver cannot be interrupted: a look-up that nobody waits for any
/// more keeps its place until it ends.
const AT_ONCE: usize = 16;
/// Of a name with more addresses the first are judged and dialled.
const ADDRESSES_MAX: usize = 32;

/// Looks names up with the system's resolver.
#[derive(Debug)]
pub(super) struct Resolver {
    places: Arc<Semaphore>,
}

impl Resolver {
    pub(super) fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// The addresses of the host, in the order of the resolver.
    pub(super) async fn resolve(&self, host: &Destination) -> Result<Vec<IpAddr>, ConnectError> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let name = (host.host().to_owned(), host.port());
        let looked_up = tokio::task::spawn_blocking(move || {
            let _place = place;
            let addresses = name.to_socket_addrs()?;
            Ok(addresses
                .map(|address| address.ip())
                .take(ADDRESSES_MAX)
                .collect())
        });
        match looked_up.await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(error)) => Err(failed(error)),
            Err(stopped) => Err(ConnectError::Resolver(io::Error::other(stopped))),
        }
    }
}

/// The standard library has only the resolver's words to tell "no such name" from "ask again later".
fn failed(error: io::Error) -> ConnectError {
    let words = error.to_string();
    let is_passing = error.raw_os_error().is_some()
        || words.contains("emporary failure")
        || words.contains("ry again");
    if is_passing {
        ConnectError::Resolver(error)
    } else {
        ConnectError::NoSuchName(Some(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dial::Outcome;

    /// SYNC-46: a resolver that is down must not make every relay a broken one.
    #[test]
    fn a_resolver_that_is_down_is_told_from_a_name_that_is_not() {
        let outcome = |words: &str| failed(io::Error::other(words)).outcome();
        let prefix = "failed to lookup address information";
        assert_eq!(
            outcome(&format!("{prefix}: Name or service not known")),
            Outcome::Name
        );
        for passing in ["Temporary failure in name resolution", "Try again"] {
            assert_eq!(
                outcome(&format!("{prefix}: {passing}")),
                Outcome::Unreachable
            );
        }
        let system = failed(io::Error::from_raw_os_error(24));
        assert_eq!(system.outcome(), Outcome::Unreachable);
    }
}
