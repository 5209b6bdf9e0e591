//! Tells the program which commit it is built from: `GRASP_BUILD_COMMIT` if a packager sets it, else what git says.
//! Not a name that starts like a setting: `cargo run` hands it to the program too, which would call it unknown.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=GRASP_BUILD_COMMIT");
    if std::env::var_os("GRASP_BUILD_COMMIT").is_some() {
        return;
    }
    // The log of HEAD grows with each commit and each checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=GRASP_BUILD_COMMIT={commit}");
    }
}

/// What git says, if it is there and this is a clone.
fn git(arguments: &[&str]) -> Option<String> {
    let said = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    said.status.success().then(|| text.trim().to_owned())
}
