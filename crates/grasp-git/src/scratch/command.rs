//! The command line of a fetch: what HUNT-10 asks for, one line each.

use std::path::Path;
use std::process::Command;

use super::{Errand, Pinned};
use crate::child::git;

/// Settings of every fetch.
const OPTIONS: [&str; 17] = [
    // Where it may go: to what was judged, by no detour, and in nobody's name.
    "http.followRedirects=false",
    "http.proxy=",
    "credential.helper=",
    "core.askPass=",
    "protocol.version=2",
    "transfer.bundleURI=false",
    "fetch.uriProtocols=",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    // What it may do afterwards: nothing.
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.writeCommitGraph=false",
    // What comes stays a pack; it is read once and thrown away.
    "fetch.unpackLimit=1",
    "transfer.unpackLimit=1",
    "core.fsync=none",
    "pack.indexVersion=2",
    "fetch.fsckObjects=true",
];

/// Blemishes of age, which real history is full of: what GIT-11 lets through. Anything else that git's own check finds ends
/// the fetch; what it lets through is judged again by our list.
const BLEMISHES: [&str; 15] = [
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badFilemode",
    "badName",
    "badTagName",
    "badTimezone",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "missingTaggerEntry",
    "multipleAuthors",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
];

/// A `git fetch` in `repository` that reads what it wants from its standard input.
pub(super) fn fetch(repository: &Path, errand: &Errand<'_>) -> Command {
    let mut options: Vec<String> = OPTIONS.into_iter().map(str::to_owned).collect();
    options.extend(BLEMISHES.map(|name| format!("fetch.fsck.{name}=ignore")));
    options.push(format!("http.curloptResolve={}", resolve(&errand.pin)));
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut command = git(repository, &options);
    command
        .env("GIT_DIR", ".")
        .env("GIT_ALLOW_PROTOCOL", "http:https")
        .arg("fetch")
        .args([
            "--stdin",
            "--progress",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            "--no-write-commit-graph",
            "--refmap=",
            "--",
        ])
        .arg(errand.url);
    command
}

/// `HOST:PORT:ADDRESS[,ADDRESS]…`, as curl reads it.
fn resolve(pin: &Pinned<'_>) -> String {
    let addresses: Vec<String> = pin.addresses.iter().map(ToString::to_string).collect();
    format!("{}:{}:{}", pin.host, pin.port, addresses.join(","))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn errand() -> Errand<'static> {
        Errand {
            url: "https://git.example.com/project.git",
            pin: Pinned {
                host: "git.example.com",
                port: 443,
                addresses: vec![
                    "93.184.216.34".parse().unwrap(),
                    "2606:2800::1".parse().unwrap(),
                ],
            },
            wants: Vec::new(),
            lenders: &[],
        }
    }

    /// HUNT-10
    #[test]
    fn every_fetch_is_safe_in_every_respect() {
        let command = fetch(Path::new("/"), &errand());
        let arguments: Vec<_> = command.get_args().map(|it| it.to_str().unwrap()).collect();
        let is_set = |option: &str| arguments.windows(2).any(|two| two == ["-c", option]);
        for option in [
            "http.followRedirects=false",
            "http.proxy=",
            "credential.helper=",
            "http.curloptResolve=git.example.com:443:93.184.216.34,2606:2800::1",
            "fetch.fsckObjects=true",
            "transfer.bundleURI=false",
            "fetch.uriProtocols=",
            "protocol.version=2",
            "submodule.recurse=false",
            "core.hooksPath=/dev/null",
            "safe.directory=*",
            "maintenance.auto=false",
            "fetch.fsck.zeroPaddedFilemode=ignore",
        ] {
            assert!(is_set(option), "{option} is missing in {arguments:?}");
        }
        for flag in [
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
        ] {
            assert!(arguments.contains(&flag), "{flag}");
        }
        assert_eq!(arguments[arguments.len() - 2..], ["--", errand().url]);
        let environment: BTreeMap<_, _> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)))
            .collect();
        for (name, value) in [
            ("GIT_ALLOW_PROTOCOL", "http:https"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("LC_ALL", "C"),
        ] {
            assert_eq!(environment.get(name), Some(&value), "{name}");
        }
        assert!(
            !environment
                .keys()
                .any(|name| name.to_ascii_lowercase().contains("proxy"))
        );
    }
}
