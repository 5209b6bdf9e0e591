//! Bare repositories, their refs and packs, and git's smart HTTP protocol.
//!
//! Keeps and moves objects; decides nothing about who may. What a signed event allows is
//! `grasp-core`'s business, and only the service's `reconcile` asks this crate to write refs.

#![forbid(unsafe_code)]

pub mod child;
pub mod http;
pub mod pktline;
pub mod refs;
