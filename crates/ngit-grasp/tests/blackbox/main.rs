//! The real binary, real git, loopback. Each file is a feature; each test's name is a rule, and
//! cites its number. One binary for all, so that it is linked once.

#![allow(
    clippy::similar_names,
    reason = "a server serves states, and what it served is compared"
)]

mod address_limits;
mod agreement;
mod announce_and_push;
mod bad_input;
mod clone_shapes;
mod corpora;
mod crash;
mod deletion;
mod footprint;
mod framing;
mod holding;
mod http_routes;
mod hunt;
mod hunt_sources;
mod identity;
mod large;
mod lists;
mod maintainers;
mod metrics;
mod metrics_of_the_hunt;
mod operate;
#[cfg(feature = "strace")]
mod order;
mod proposals;
mod purgatory;
mod races;
mod refs_and_head;
mod refused_pushes;
mod relay_auth;
mod relay_limits;
mod relay_protocol;
mod requests;
mod restart;
mod start;
mod sync;
