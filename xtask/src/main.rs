//! What the repository checks about itself: `cargo xtask rules` holds every rule of `docs/protocol.md` to a test.
//!
//! Such a check belongs to no crate, and a shell script could not be tested.

#![forbid(unsafe_code)]

mod rules;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "cargo xtask rules [--list]";

fn main() -> Result<ExitCode> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("this crate lies in the repository's root")?;
    match words.as_slice() {
        ["rules"] => rules::check(root),
        ["rules", "--list"] => rules::list(root),
        _ => bail!("usage: {USAGE}"),
    }
}
