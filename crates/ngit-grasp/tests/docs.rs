//! The feature pages name the tests that prove their sentences. A name that is gone would be a promise that nobody keeps.

use std::fs;
use std::path::Path;

/// Where tests are that a page may name, seen from this crate.
const TESTS: [&str; 2] = ["tests/blackbox", "../grasp-relay/tests"];

#[test]
fn every_test_that_a_feature_page_names_exists() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named = 0;
    for page in fs::read_dir(here.join("../../docs/features")).expect("there are pages") {
        let page = page.expect("readable").path();
        let text = fs::read_to_string(&page).expect("readable");
        for (file, test) in text
            .split('`')
            .skip(1)
            .step_by(2)
            .filter_map(|code| code.split_once("::"))
        {
            let is_there = TESTS.iter().any(|folder| {
                let source = here.join(folder).join(format!("{file}.rs"));
                let source = fs::read_to_string(source).unwrap_or_default();
                source.contains(&format!("fn {test}("))
            });
            assert!(
                is_there,
                "{} names {file}::{test}, which does not exist",
                page.display()
            );
            named += 1;
        }
    }
    assert!(named > 30, "only {named} tests are named");
}
