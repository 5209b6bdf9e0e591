//! A GRASP server: Nostr relay and git host in one binary.
//!
//! Here is what makes a process of it: the command line, the configuration, the wiring and the end. *Invariant:*
//! the names of environment variables stand in `config`, and nowhere else in the workspace.

#![forbid(unsafe_code)]

mod cli;
mod compose;
mod config;
mod failure;
mod git_version;

use std::process::ExitCode;

use failure::Failure;

fn main() -> ExitCode {
    let invocation = match cli::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(shown) => shown.exit(),
    };
    let ended = match invocation.action {
        cli::Action::Serve => cli::serve(invocation.flags).map(|()| ExitCode::SUCCESS),
        cli::Action::Ask(request) => cli::ask(invocation.flags, request),
        cli::Action::CheckEvents { execute } => cli::check_events(invocation.flags, execute),
    };
    ended.unwrap_or_else(Failure::report)
}
