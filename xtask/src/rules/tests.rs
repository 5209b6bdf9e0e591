//! The check on made-up rules and tests.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use super::id::{self, RuleId};
use super::{LATER, PROTOCOL, Problem, Rules, citation, protocol};

fn rule(name: &str) -> RuleId {
    RuleId::parse(name).expect("a rule's name")
}

fn names(text: &str) -> Vec<String> {
    id::named(text).map(|(rule, _)| rule.to_string()).collect()
}

#[test]
fn names_of_rules_are_whole_words() {
    assert_eq!(
        names("(PUSH-14, ANN-3a; G1-7/N11-2): `AFTER-6`."),
        ["PUSH-14", "ANN-3a", "G1-7", "N11-2", "AFTER-6"]
    );
    let others = "AFTER-*, GRASP-01, x-PUSH-1, PUSH-1-x, push-1, PUSH-1ab, PUSH-, 11-1, A_B-1";
    assert_eq!(names(others), [""; 0]);
}

#[test]
fn a_rule_is_stated_in_a_row_a_bullet_a_numbered_point_or_with_its_mark() {
    let document = "\
| no | level | requirement |
| AA-1 | MUST [S] | something, see CC-9 |
| AA-2 [P] | something (AA-1, BB-1) |
- BB-1 without a mark, after AA-1
- BB-1a [O] more.
  BB-7 is only mentioned on this line
3. CC-1 [P] a point
DD-1 [P] in running text. DD-2 [R] also, as DD-1 says.
- something else than BB-8
";
    let found: Vec<String> = protocol::rules(document)
        .iter()
        .map(RuleId::to_string)
        .collect();
    assert_eq!(
        found,
        ["AA-1", "AA-2", "BB-1", "BB-1a", "CC-1", "DD-1", "DD-2"]
    );
}

const SOURCE: &str = r#"
//! AA-1 of a whole module
/// AA-2 of production code
fn production() {
    // AA-3
}

#[cfg(test)]
mod tests {
    /// AA-4 of a helper
    fn helper() {}

    /// AA-5: why
    #[test]
    #[expect(
        clippy::some_lint,
        reason = "AA-6"
    )]
    fn law() {
        fn inner() {
            // AA-7
        }
        assert!(true, "AA-8");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn asynchronous(
        many: usize,
    ) {
        // ZZ-1 of a family that the document does not have
        // AA-9
    }

    #[test]
    fn nothing() {}
    // AA-10
    const LAST: u8 = 0;
}
"#;

fn cited(file: &str, text: &str) -> Vec<(String, Option<String>)> {
    citation::citations(Path::new(file), text, &["AA"].into())
        .into_iter()
        .map(|citation| (citation.rule.to_string(), citation.site.test))
        .collect()
}

#[test]
fn a_citation_counts_above_a_test_and_in_it() {
    let expected = [
        ("AA-1", None),
        ("AA-2", None),
        ("AA-3", None),
        ("AA-4", None),
        ("AA-5", Some("law")),
        ("AA-6", Some("law")),
        ("AA-7", Some("law")),
        ("AA-8", Some("law")),
        ("AA-9", Some("asynchronous")),
        ("AA-10", None),
    ];
    assert_eq!(
        cited("crates/a/src/a.rs", SOURCE),
        expected.map(|(rule, test)| (rule.to_owned(), test.map(str::to_owned)))
    );
}

#[test]
fn a_suites_public_functions_are_tests() {
    let suite =
        "/// AA-1\npub async fn law(store: &Store) {\n}\n/// AA-2\nasync fn helper() {\n}\n";
    assert_eq!(
        cited("crates/a/src/conformance/rooms.rs", suite),
        [
            ("AA-1".to_owned(), Some("law".to_owned())),
            ("AA-2".to_owned(), None)
        ]
    );
    assert_eq!(cited("crates/a/src/rooms.rs", suite)[0].1, None);
}

/// A repository with this document, list and test file.
fn repository(document: &str, later: &str, test: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("written");
    };
    write(PROTOCOL, document);
    write(LATER, later);
    write("crates/a/tests/a.rs", test);
    folder
}

fn problems(document: &str, later: &str, test: &str) -> Vec<Problem> {
    let folder = repository(document, later, test);
    Rules::read(folder.path()).expect("readable").problems()
}

#[test]
fn every_rule_has_a_test_or_a_later_owner_and_never_both() {
    let document = "- AA-1 one\n- AA-2 two\n- AA-3 three\n- AA-4 four\n";
    let later = "| rules | owner | why |\n|---|---|---|\n| AA-2, AA-3 | sync | needs peers |\n";
    let test = "/// AA-1, AA-3\n#[test]\nfn law() {\n}\n";
    assert_eq!(
        problems(document, later, test),
        [
            Problem::TestedAfterAll(rule("AA-3"), "a/tests/a.rs law".to_owned()),
            Problem::Untested(rule("AA-4")),
        ]
    );
}

#[test]
fn what_does_not_exist_is_neither_cited_nor_listed() {
    let later = "| AA-8 | sync | needs peers |\n";
    let test = "// AA-9\n/// AA-1\n#[test]\nfn law() {\n}\n\n/// AA-7\nfn helper() {}\n";
    assert_eq!(
        problems("- AA-1 one\n", later, test),
        [
            Problem::LaterUnknown(rule("AA-8")),
            Problem::Unknown(rule("AA-9"), "a/tests/a.rs law".to_owned()),
            Problem::Unknown(rule("AA-7"), "a/tests/a.rs".to_owned()),
        ]
    );
}

#[test]
fn a_rule_is_stated_once_and_listed_once_with_owner_and_reason() {
    let document = "- AA-1 one\n- AA-1 again\n- AA-2 two\n";
    let later = "| AA-1 | sync | |\n| AA-2 | sync | needs peers |\n| AA-2 | hunt | the same |\n";
    assert_eq!(
        problems(document, later, ""),
        [
            Problem::DefinedTwice(rule("AA-1")),
            Problem::LaterTwice(rule("AA-2")),
            Problem::LaterUnexplained(rule("AA-1")),
        ]
    );
}

#[test]
fn a_problem_fails_the_check() {
    let sound = repository("- AA-1 one\n", "", "/// AA-1\n#[test]\nfn law() {\n}\n");
    assert_eq!(super::check(sound.path()).expect("read"), ExitCode::SUCCESS);
    let broken = repository("- AA-1 one\n", "", "");
    assert_eq!(
        super::check(broken.path()).expect("read"),
        ExitCode::FAILURE
    );
}

#[test]
fn a_document_without_rules_is_a_mistake() {
    let empty = repository("No rule, only text.\n", "", "");
    assert!(super::check(empty.path()).is_err());
}
