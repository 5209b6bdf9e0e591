//! Servers that follow each other over a network that fails in every way: real stores, real admission, the real
//! engines of sync and hunt; the network, the clock and all chance are simulated, so that a run is its seed. Git data
//! goes from server to server in this process, and is taken in as what is fetched is.
//!
//! [`search`] runs many seeds and tells of the first that fails; `cargo run -p grasp-testkit -- sim --seeds N` is the same
//! from a shell. *Invariant:* nothing that a run does depends on the machine: whatever a server does by itself is
//! awaited before time goes on, so a seed that failed fails again, with its trace.

mod budget;
mod dice;
mod hunter;
mod liar;
mod life;
mod model;
mod network;
mod node;
mod run;
mod search;
mod sources;
mod trace;
mod weather;
mod wire;
#[path = "../../../grasp-server/tests/rules/world/mod.rs"]
#[expect(
    dead_code,
    unused_imports,
    reason = "shared with the rules' tests, which use all of it"
)]
mod world;

pub use search::{Failure, command, replay, search};
