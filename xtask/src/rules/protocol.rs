//! The rules that `docs/protocol.md` states.

use super::id::{self, RuleId};

/// Marks that say where a rule comes from, and so that it is stated here and not only mentioned.
const MARKS: [&str; 4] = [" [S]", " [R]", " [P]", " [O]"];

/// Every rule in the order in which it is stated: first in a table row, bullet or numbered point, or with its mark
/// anywhere.
pub(super) fn rules(document: &str) -> Vec<RuleId> {
    document.lines().flat_map(of_line).collect()
}

fn of_line(line: &str) -> Vec<RuleId> {
    let point = point(line);
    id::named(line)
        .filter(|(_, behind)| {
            let marked = MARKS.iter().any(|mark| behind.starts_with(mark));
            let leads = point.is_some_and(|point| {
                let name = &point[..point.find(' ').unwrap_or(point.len())];
                RuleId::parse(name).is_some() && point[name.len()..] == **behind
            });
            marked || leads
        })
        .map(|(rule, _)| rule)
        .collect()
}

/// What a row, bullet or numbered point says.
fn point(line: &str) -> Option<&str> {
    let numbered = || {
        let (number, rest) = line.split_once(". ")?;
        number.parse::<u32>().ok().map(|_| rest)
    };
    line.strip_prefix("- ")
        .or_else(|| line.strip_prefix("| "))
        .or_else(numbered)
}
