//! Pages that name the tests which prove their sentences. A name that is gone would be a promise that nobody keeps.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where tests are that a page may name without a folder, seen from `crates`.
const TESTS: [&str; 13] = [
    "ngit-grasp/tests/blackbox",
    "grasp-relay/tests",
    "grasp-server/tests",
    "grasp-server/tests/rules",
    "grasp-store/tests",
    "grasp-core/tests/rules",
    "grasp-core/src/push/tests",
    "grasp-git/tests/wire",
    "grasp-sync/src",
    "grasp-sync/tests",
    "grasp-sync/tests/engine",
    "grasp-sync/tests/fetch",
    "grasp-testkit/tests",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The tests that a page names, as `file::test` or `folder/file::test` in code spans.
fn named(text: &str) -> Vec<(&str, &str)> {
    let code = text.split('`').skip(1).step_by(2);
    code.filter_map(|code| code.split_once("::")).collect()
}

fn exists(file: &str, test: &str) -> bool {
    let crates = root().join("crates");
    let folders = TESTS
        .iter()
        .map(|folder| crates.join(folder))
        .chain([crates.clone()]);
    folders
        .map(|folder| folder.join(format!("{file}.rs")))
        .filter_map(|file| fs::read_to_string(file).ok())
        .any(|source| source.contains(&format!("fn {test}(")))
}

/// Checks a page; how many tests it names.
#[track_caller]
fn check(page: &Path) -> usize {
    let text = fs::read_to_string(page).expect("readable");
    let named = named(&text);
    for (file, test) in &named {
        let page = page.display();
        assert!(
            exists(file, test),
            "{page} names {file}::{test}, which does not exist"
        );
    }
    named.len()
}

#[test]
fn every_test_that_a_feature_page_names_exists() {
    let pages = fs::read_dir(root().join("docs/features")).expect("there are pages");
    let named: usize = pages
        .map(|page| check(&page.expect("readable").path()))
        .sum();
    assert!(named > 30, "only {named} tests are named");
}

/// The rows of a table: their cells, without those beside the outer bars.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter_map(|line| {
        let row = line.strip_prefix('|')?.strip_suffix('|')?;
        Some(row.split('|').map(str::trim).collect())
    })
}

/// BND-1: each bound stands with its setting and its default, names itself and has a test.
#[test]
fn the_table_of_limits_is_that_of_the_settings() {
    let read = |page: &str| fs::read_to_string(root().join(page)).expect("readable");
    let (limits, settings) = (
        read("docs/features/limits.md"),
        read("docs/operate/settings.md"),
    );
    let mut bounds = 0;
    for row in rows(&limits) {
        let [bound, setting, default, _, words, series, tests] = row[..] else {
            continue;
        };
        if bound == "bound" || bound.starts_with("--") {
            continue;
        }
        bounds += 1;
        assert!(!named(tests).is_empty(), "{bound} has no test");
        assert!(!words.is_empty() && !series.is_empty(), "{bound}");
        if setting == "fixed" {
            assert!(!default.is_empty(), "{bound}");
            continue;
        }
        let known = rows(&settings).find(|row| row[0] == setting);
        let known = known.unwrap_or_else(|| panic!("{bound}: {setting} is no setting"));
        assert_eq!(known[2], default, "{setting}");
        assert!(!known[3].starts_with("*Later.*"), "{setting} does nothing");
    }
    assert!(bounds > 50, "only {bounds} bounds");
}

/// What a name with braces stands for: `A_{B,C}` is `A_B` and `A_C`.
fn spelled_out(name: &str) -> Vec<String> {
    let Some((start, rest)) = name.split_once('{') else {
        return vec![name.to_owned()];
    };
    let (parts, end) = rest.split_once('}').expect("closed");
    let names = parts.split(',').map(|part| [start, part, end].concat());
    names.flat_map(|name| spelled_out(&name)).collect()
}

/// §19: what peers and operators may expect names every setting that there is.
#[test]
fn the_protocol_names_every_setting() {
    let read = |page: &str| fs::read_to_string(root().join(page)).expect("readable");
    let (protocol, settings) = (read("docs/protocol.md"), read("docs/operate/settings.md"));
    let code = protocol.split('`').skip(1).step_by(2);
    let names: BTreeSet<String> = code
        .filter(|code| code.starts_with("NGIT_"))
        .flat_map(spelled_out)
        .collect();
    let mut known = 0;
    for row in rows(&settings) {
        let Some(name) = row[0]
            .strip_prefix("`NGIT_")
            .and_then(|it| it.strip_suffix('`'))
        else {
            continue;
        };
        let name = format!("NGIT_{name}");
        assert!(
            names.contains(&name),
            "docs/protocol.md does not name {name}"
        );
        known += 1;
    }
    assert!(known > 100, "only {known} settings");
}

#[test]
fn every_case_has_a_test_or_later_work_that_owns_it() {
    let page = root().join("docs/cases.md");
    check(&page);
    let text = fs::read_to_string(&page).expect("readable");
    let mut expected = 1..=103;
    for row in text.lines() {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, number, _, proof, _] = cells[..] else {
            continue;
        };
        let Ok(number) = number.parse::<u32>() else {
            continue;
        };
        assert_eq!(Some(number), expected.next(), "in order, each once");
        assert!(
            proof.starts_with("later: ") || !named(proof).is_empty(),
            "case {number} has no test"
        );
    }
    assert_eq!(expected.next(), None, "the last one");
}
