//! The names of rules: `PUSH-14`, `ANN-3a`, `G1-7`.

use std::fmt;

/// A rule's name. Its family is letters and perhaps a number (`PUSH`, `G1`), then come a number and perhaps a letter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RuleId {
    family: String,
    number: u32,
    letter: Option<char>,
}

impl RuleId {
    pub(super) fn family(&self) -> &str {
        &self.family
    }

    /// Reads a whole word.
    pub(super) fn parse(word: &str) -> Option<Self> {
        let (family, rest) = word.split_once('-')?;
        let letters = family.trim_end_matches(|c: char| c.is_ascii_digit());
        if letters.is_empty() || !letters.chars().all(|c| c.is_ascii_uppercase()) {
            return None;
        }
        let digits = rest.trim_end_matches(|c: char| c.is_ascii_lowercase());
        let mut suffix = rest[digits.len()..].chars();
        let letter = suffix.next();
        // `GRASP-01` and its like name documents.
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
        if !plain || suffix.next().is_some() {
            return None;
        }
        Some(Self {
            family: family.to_owned(),
            number: digits.parse().ok()?,
            letter,
        })
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.family, self.number)?;
        self.letter.map_or(Ok(()), |letter| write!(f, "{letter}"))
    }
}

/// Every rule that a line names, with what stands behind the name.
pub(super) fn named(line: &str) -> impl Iterator<Item = (RuleId, &str)> {
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut rest = line;
    std::iter::from_fn(move || {
        let start = rest.find(part_of_word)?;
        let word = &rest[start..];
        let length = word.find(|c: char| !part_of_word(c)).unwrap_or(word.len());
        rest = &word[length..];
        Some((&word[..length], rest))
    })
    .filter_map(|(word, behind)| Some((RuleId::parse(word)?, behind)))
}
