//! Following other servers: whatever a repository's other relays hold, this server soon holds too.
//!
//! [`engine`] decides what to ask of which relay, and when; [`outbound`] says whom we may dial; [`relay_url`] is how relays
//! are named. These open no socket and read no clock. [`driver`] does what the engine wants: it goes to relays
//! through [`dial`] and talks with them through [`client`], and what it learns goes to the [`home`]; [`intake`]
//! remembers what was not taken in there, [`descendants`] which replies to ask about.
//! [`visit`] asks a relay once that is not followed. [`hunt`] decides where to look for git data, and [`fetch`] goes there.
//! *Invariant:* all that decides is pure; what acts decides nothing.

#![forbid(unsafe_code)]

pub mod client;
pub mod defect;
pub mod descendants;
pub mod dial;
pub mod driver;
pub mod engine;
pub mod fetch;
pub mod home;
pub mod hunt;
pub mod intake;
pub mod outbound;
pub mod relay_url;
pub mod visit;
