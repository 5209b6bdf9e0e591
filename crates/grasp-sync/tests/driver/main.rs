//! The driver with real sockets: against peers that a test holds by the hand, and that lie, break off, or say nothing.

#![allow(clippy::unwrap_used, reason = "a test reports by panicking")]

mod dialling;
mod encrypted;
mod home;
mod lying;
mod peer;
mod reconciling;
mod stopping;
mod talking;
mod tls;
