//! Where source code cites rules, and whether that is in a test.
//!
//! Reads lines, not Rust: `cargo fmt` sees to it that a function's closing brace stands where its `fn` line began.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::id::{self, RuleId};

/// One mention of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Citation {
    pub(super) rule: RuleId,
    pub(super) site: Site,
}

/// Where a rule is mentioned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) file: PathBuf,
    /// The test function that it is above or in.
    pub(super) test: Option<String>,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.strip_prefix("crates").unwrap_or(&self.file);
        write!(f, "{}", file.display())?;
        let test = self.test.as_ref();
        test.map_or(Ok(()), |test| write!(f, " {test}"))
    }
}

/// Every mention of a rule of one of the `families` in a source file.
pub(super) fn citations(file: &Path, text: &str, families: &BTreeSet<&str>) -> Vec<Citation> {
    let lines: Vec<&str> = text.lines().collect();
    let suite = file
        .components()
        .any(|part| part.as_os_str() == "conformance");
    let tests = tests(&lines, suite);
    let mentions = lines.iter().enumerate().flat_map(|(number, line)| {
        let around = tests.iter().find(|test| test.lines.contains(&number));
        id::named(line).map(move |(rule, _)| Citation {
            rule,
            site: Site {
                file: file.to_owned(),
                test: around.map(|test| test.name.to_owned()),
            },
        })
    });
    mentions
        .filter(|citation| families.contains(citation.rule.family()))
        .collect()
}

/// A test function, from the first line of what stands above it to its closing brace.
struct Test<'a> {
    name: &'a str,
    lines: RangeInclusive<usize>,
}

/// The tests of a file. Those of a `suite` have no attribute: a macro makes tests of its public functions.
fn tests<'a>(lines: &[&'a str], suite: bool) -> Vec<Test<'a>> {
    let mut tests: Vec<Test<'_>> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let inside = tests
            .last()
            .is_some_and(|test| test.lines.contains(&number));
        let Some(name) = function(line).filter(|_| !inside) else {
            continue;
        };
        let start = head(&lines[..number]);
        let attributed = lines[start..number].iter().any(|above| {
            let above = above.trim_start();
            above.starts_with("#[test]") || above.starts_with("#[tokio::test")
        });
        if attributed || suite && line.starts_with("pub async fn ") {
            let lines = start..=end(lines, number);
            tests.push(Test { name, lines });
        }
    }
    tests
}

/// The name of the function that starts on this line.
fn function(line: &str) -> Option<&str> {
    let (before, behind) = line.split_once("fn ")?;
    let qualifiers = ["pub", "pub(crate)", "pub(super)", "async", "const"];
    let is_function = before
        .split_whitespace()
        .all(|word| qualifiers.contains(&word));
    let (name, _) = behind.split_once(['(', '<'])?;
    is_function.then_some(name)
}

/// Where the comments and attributes start that belong to what follows `above`.
fn head(above: &[&str]) -> usize {
    let belongs = |line: &&str| {
        let line = line.trim();
        let comment = line.starts_with("//") && !line.starts_with("//!");
        comment || !line.is_empty() && !line.starts_with("//!") && !line.ends_with(['{', '}', ';'])
    };
    above.len() - above.iter().rev().take_while(|line| belongs(line)).count()
}

/// The line of the closing brace of the function that starts on line `start`.
fn end(lines: &[&str], start: usize) -> usize {
    let first = lines[start];
    if first.ends_with("{}") {
        return start;
    }
    let indent = first.len() - first.trim_start().len();
    let closing = format!("{}}}", &first[..indent]);
    lines[start..]
        .iter()
        .position(|line| *line == closing)
        .map_or(lines.len() - 1, |length| start + length)
}
