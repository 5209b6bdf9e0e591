//! A GRASP server: Nostr relay and git host in one binary.

#![forbid(unsafe_code)]
#![allow(
    dead_code,
    unused_imports,
    reason = "the configuration waits for the server it configures"
)]

mod cli;
mod config;
mod git_version;

fn main() {
    if let Err(shown) = cli::parse(std::env::args_os()) {
        shown.exit();
    }
}
