//! The list of rules that later work owns.

use super::id::RuleId;

/// One rule of the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Later {
    pub(super) rule: RuleId,
    pub(super) owner: String,
    pub(super) reason: String,
}

/// Reads the rows `| rules | owner | reason |`; the first cell may name several rules.
pub(super) fn list(document: &str) -> Vec<Later> {
    document.lines().flat_map(of_row).collect()
}

fn of_row(line: &str) -> Vec<Later> {
    let Some(row) = line.strip_prefix('|') else {
        return Vec::new();
    };
    let mut cells = row.split('|').map(str::trim);
    let rules = cells.next().unwrap_or_default();
    let owner = cells.next().unwrap_or_default();
    let reason = cells.next().unwrap_or_default();
    rules
        .split(',')
        .filter_map(|word| RuleId::parse(word.trim()))
        .map(|rule| Later {
            rule,
            owner: owner.to_owned(),
            reason: reason.to_owned(),
        })
        .collect()
}
