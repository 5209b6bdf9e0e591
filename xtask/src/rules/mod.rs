//! Holds every numbered rule to a test that cites it.
//!
//! A rule without a test is a wish, and nobody notices when the last test of a rule goes. So each rule is cited by
//! a test, or stands on the list of what later work owns; that list only shrinks, since a rule may not be on both
//! sides. A citation in production code explains and proves nothing: it counts for nothing here, but the rule it
//! names must exist.

mod citation;
mod id;
mod later;
mod protocol;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, iter};

use anyhow::{Context, Result, ensure};

use citation::{Citation, Site};
use id::RuleId;
use later::Later;

const PROTOCOL: &str = "docs/protocol.md";
const LATER: &str = "docs/rules-later.md";

/// What is wrong with rules and tests.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
enum Problem {
    #[error("{PROTOCOL} has {0} twice")]
    DefinedTwice(RuleId),
    #[error(
        "{0} is cited by no test: cite it in the test that proves it, or say in {LATER} which work owns it"
    )]
    Untested(RuleId),
    #[error("{0} is cited by {1}: take it off {LATER}")]
    TestedAfterAll(RuleId, String),
    #[error("{0} stands in {LATER}, but {PROTOCOL} has no such rule")]
    LaterUnknown(RuleId),
    #[error("{0} stands in {LATER} twice")]
    LaterTwice(RuleId),
    #[error("{0} stands in {LATER} without an owner or a reason")]
    LaterUnexplained(RuleId),
    #[error("{1} cites {0}, but {PROTOCOL} has no such rule")]
    Unknown(RuleId, String),
}

/// Everything that is compared.
struct Rules {
    /// In the document's order.
    defined: Vec<RuleId>,
    citations: Vec<Citation>,
    later: Vec<Later>,
}

impl Rules {
    fn read(root: &Path) -> Result<Self> {
        let read = |name: &str| {
            fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))
        };
        let defined = protocol::rules(&read(PROTOCOL)?);
        ensure!(!defined.is_empty(), "{PROTOCOL} states no rule");
        let families: BTreeSet<&str> = defined.iter().map(RuleId::family).collect();
        let mut citations = Vec::new();
        for path in sources(&root.join("crates"))? {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.strip_prefix(root).unwrap_or(&path);
            citations.extend(citation::citations(name, &text, &families));
        }
        let later = later::list(&read(LATER)?);
        Ok(Self {
            defined,
            citations,
            later,
        })
    }

    /// Each rule's tests.
    fn tested(&self) -> BTreeMap<&RuleId, Vec<&Site>> {
        let mut tested: BTreeMap<&RuleId, Vec<&Site>> = BTreeMap::new();
        for citation in self.citations.iter().filter(|one| one.site.test.is_some()) {
            let sites = tested.entry(&citation.rule).or_default();
            if !sites.contains(&&citation.site) {
                sites.push(&citation.site);
            }
        }
        tested
    }

    fn problems(&self) -> Vec<Problem> {
        let tested = self.tested();
        let later: BTreeMap<&RuleId, &Later> =
            self.later.iter().map(|line| (&line.rule, line)).collect();
        let known: BTreeSet<&RuleId> = self.defined.iter().collect();

        let twice = repeated(self.defined.iter()).map(|rule| Problem::DefinedTwice(rule.clone()));
        let of_rules = self.defined.iter().filter_map(|rule| {
            match (tested.get(rule), later.contains_key(rule)) {
                (None, false) => Some(Problem::Untested(rule.clone())),
                (Some(sites), true) => {
                    let site = sites.first().map(ToString::to_string).unwrap_or_default();
                    Some(Problem::TestedAfterAll(rule.clone(), site))
                }
                _ => None,
            }
        });
        let listed_twice = repeated(self.later.iter().map(|line| &line.rule))
            .map(|rule| Problem::LaterTwice(rule.clone()));
        let of_the_list = self.later.iter().filter_map(|line| {
            if !known.contains(&line.rule) {
                return Some(Problem::LaterUnknown(line.rule.clone()));
            }
            let explained = !line.owner.is_empty() && !line.reason.is_empty();
            (!explained).then(|| Problem::LaterUnexplained(line.rule.clone()))
        });
        let of_citations = self
            .citations
            .iter()
            .filter(|citation| !known.contains(&citation.rule))
            .map(|citation| Problem::Unknown(citation.rule.clone(), citation.site.to_string()));
        twice
            .chain(of_rules)
            .chain(listed_twice)
            .chain(of_the_list)
            .chain(of_citations)
            .collect()
    }
}

/// What stands in `rules` more than once.
fn repeated<'a>(rules: impl Iterator<Item = &'a RuleId>) -> impl Iterator<Item = &'a RuleId> {
    let mut seen = BTreeSet::new();
    rules.filter(move |rule| !seen.insert(*rule))
}

/// Every Rust file below `folder`, sorted.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Says what is wrong, and fails if anything is.
pub(crate) fn check(root: &Path) -> Result<ExitCode> {
    let rules = Rules::read(root)?;
    let problems = rules.problems();
    let mut out = io::stdout().lock();
    for problem in &problems {
        writeln!(out, "{problem}")?;
    }
    writeln!(
        out,
        "{} rules: {} cited by tests, {} left to later work; {} problems",
        rules.defined.len(),
        rules.tested().len(),
        rules.later.len(),
        problems.len(),
    )?;
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints each rule with its tests, or with the work that owns it.
pub(crate) fn list(root: &Path) -> Result<ExitCode> {
    let rules = Rules::read(root)?;
    let tested = rules.tested();
    let mut table = String::new();
    for rule in &rules.defined {
        let tests = tested.get(rule).into_iter().flatten();
        let later = rules.later.iter().filter(|line| line.rule == *rule);
        let mut lines: Vec<String> = tests
            .map(ToString::to_string)
            .chain(later.map(|line| format!("later: {} ({})", line.owner, line.reason)))
            .collect();
        if lines.is_empty() {
            lines.push("nothing".to_owned());
        }
        let names = iter::once(rule.to_string()).chain(iter::repeat(String::new()));
        for (name, line) in names.zip(lines) {
            writeln!(table, "{name:<10}{line}")?;
        }
    }
    match io::stdout().write_all(table.as_bytes()) {
        // Who reads the first lines only has seen enough.
        Err(failure) if failure.kind() != io::ErrorKind::BrokenPipe => Err(failure.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests;
