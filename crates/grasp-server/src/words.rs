//! Words that depend on a number.

/// So many of something, for a person.
pub(crate) fn counted(count: impl TryInto<u64>, one: &str, many: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let what = if count == 1 { one } else { many };
    format!("{count} {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_told_from_many() {
        let refs = [0_usize, 1, 2].map(|count| counted(count, "ref", "refs"));
        assert_eq!(refs, ["0 refs", "1 ref", "2 refs"]);
    }
}
