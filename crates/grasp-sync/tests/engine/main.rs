//! The engine as its driver sees it: inputs in, outputs out. `script` plays one peer by hand, `sim` many by a seed.

mod errands;
mod healing;
mod incremental;
mod manners;
mod network;
mod packing;
mod peer;
mod reconciliation;
mod refused;
mod scenarios;
mod script;
mod sim;
mod world;
