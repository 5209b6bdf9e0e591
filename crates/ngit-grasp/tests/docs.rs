//! Pages that name the tests which prove their sentences. A name that is gone would be a promise that nobody keeps.

use std::fs;
use std::path::{Path, PathBuf};

/// Where tests are that a page may name without a folder, seen from `crates`.
const TESTS: [&str; 7] = [
    "ngit-grasp/tests/blackbox",
    "grasp-relay/tests",
    "grasp-server/tests/rules",
    "grasp-store/tests",
    "grasp-core/tests",
    "grasp-core/src/push/tests",
    "grasp-git/tests/wire",
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
