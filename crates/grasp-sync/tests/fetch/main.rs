//! Fetching with real sockets, from stock git and from hosts that are dead, slow, lying, or no git hosts at all.

#![allow(clippy::unwrap_used, reason = "a test reports by panicking")]

mod asking;
mod by_git;
mod endless;
mod outside;
mod refused;
mod support;
#[path = "../driver/tls.rs"]
mod tls;
