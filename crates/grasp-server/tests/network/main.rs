//! Servers that follow each other over a network that fails in every way: real stores, real admission, the real
//! engine; the network, the clock and all chance are simulated, so that a run is its seed.
//!
//! `SIM_SEEDS=1000` runs more seeds, `SIM_FIRST=77 SIM_SEEDS=1 SIM_TRACE=1` replays one and prints what happened.

mod dice;
mod healing;
#[path = "../rules/history.rs"]
#[expect(
    dead_code,
    reason = "shared with the rules' tests, which use all of it"
)]
mod history;
mod life;
mod network;
mod node;
mod wire;
#[path = "../rules/world/mod.rs"]
#[expect(
    dead_code,
    unused_imports,
    reason = "shared with the rules' tests, which use all of it"
)]
mod world;
