//! Following other servers: whatever a repository's other relays hold, this server soon holds too.
//!
//! [`engine`] decides what to ask of which relay, and when. It opens no socket and reads no clock: what
//! happened comes in, what to do goes out, and a driver does it. [`outbound`] says whom we may dial; [`relay_url`] is how
//! relays are named.
//! *Invariant:* nothing here performs IO, reads a clock or draws randomness of its own.

#![forbid(unsafe_code)]

pub mod engine;
pub mod outbound;
pub mod relay_url;
