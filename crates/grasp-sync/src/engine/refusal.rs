//! What a peer means when it says no.
//!
//! `CLOSED` and `NOTICE` carry prose. Its prefix, where it has one, and the words that the common relays use decide
//! what we do; what nobody knows is a failure that may pass.

/// Why a peer refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// It wants to know who we are (SYNC-36).
    AuthRequired,
    /// Too much at the moment (SYNC-41).
    RateLimited,
    /// It does not want us, or not such filters: that will not heal soon (SYNC-42).
    Policy,
    /// Too many questions at once (SYNC-43).
    TooManyQueries,
    /// More subscriptions than it allows (SYNC-21).
    TooManySubscriptions,
    /// More filters in one REQ than it allows (SYNC-44).
    TooManyFilters,
    /// Filters that weigh more than it allows (SYNC-45).
    TooManyBytes,
    /// More values in one filter than it allows (SYNC-20).
    TooManyValues,
    /// It does not know what we talk about: for negentropy, that it has none (SYNC-25).
    Unknown,
    /// Anything else (SYNC-46).
    Failure,
}

impl Refusal {
    /// All of them, for metrics.
    pub const ALL: [Self; 10] = [
        Self::AuthRequired,
        Self::RateLimited,
        Self::Policy,
        Self::TooManyQueries,
        Self::TooManySubscriptions,
        Self::TooManyFilters,
        Self::TooManyBytes,
        Self::TooManyValues,
        Self::Unknown,
        Self::Failure,
    ];

    /// Its name as a label.
    pub fn label(self) -> &'static str {
        match self {
            Self::AuthRequired => "auth_required",
            Self::RateLimited => "rate_limited",
            Self::Policy => "policy",
            Self::TooManyQueries => "too_many_queries",
            Self::TooManySubscriptions => "too_many_subscriptions",
            Self::TooManyFilters => "too_many_filters",
            Self::TooManyBytes => "too_many_bytes",
            Self::TooManyValues => "too_many_values",
            Self::Unknown => "unknown",
            Self::Failure => "failure",
        }
    }

    /// Reads the text of a `CLOSED` or `NEG-ERR`.
    pub fn read(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        Self::by_words(&text).unwrap_or_else(|| Self::by_prefix(&text))
    }

    /// Reads the text of a `NOTICE`, which need not be about anything we asked. `None` if it is not clearly a refusal.
    pub fn read_notice(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let by_prefix = Some(Self::by_prefix(&text)).filter(|refusal| *refusal != Self::Failure);
        Self::by_words(&text).or(by_prefix)
    }

    fn by_words(text: &str) -> Option<Self> {
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if !has(&[
            "too many",
            "too large",
            "too big",
            "too long",
            "exceed",
            "maximum",
            "limit",
        ]) {
            return None;
        }
        // The most special words first: "too many filters in subscription" is about filters.
        if has(&["tag value", "values", "too many ids", "too many tags"]) {
            Some(Self::TooManyValues)
        } else if has(&["byte", "size", "too large", "too big", "too long"]) {
            Some(Self::TooManyBytes)
        } else if has(&["filters", "filter count"]) {
            Some(Self::TooManyFilters)
        } else if has(&["subscription", "concurrent req", "subs", "too many reqs"]) {
            Some(Self::TooManySubscriptions)
        } else if has(&["queries", "requests at once"]) {
            Some(Self::TooManyQueries)
        } else {
            None
        }
    }

    fn by_prefix(text: &str) -> Self {
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let prefix = text.split_once(':').map_or("", |(prefix, _)| prefix.trim());
        match prefix {
            "auth-required" => Self::AuthRequired,
            "rate-limited" => Self::RateLimited,
            "blocked" | "restricted" | "invalid" | "unsupported" => Self::Policy,
            _ if has(&["rate limit", "slow down", "too fast"]) => Self::RateLimited,
            _ if has(&["auth-required", "authenticate"]) => Self::AuthRequired,
            _ if has(&[
                "not a member",
                "members only",
                "whitelist",
                "not allowed",
                "denied",
            ]) =>
            {
                Self::Policy
            }
            _ if has(&[
                "unknown",
                "unrecogni",
                "unsupported",
                "not support",
                "negentropy",
                "neg-",
            ]) =>
            {
                Self::Unknown
            }
            _ => Self::Failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_common_relays_are_understood() {
        for (text, refusal) in [
            (
                "auth-required: we only serve known users",
                Refusal::AuthRequired,
            ),
            ("rate-limited: slow down", Refusal::RateLimited),
            ("restricted: not a member", Refusal::Policy),
            ("blocked: you are banned", Refusal::Policy),
            ("invalid: filter needs kinds or authors", Refusal::Policy),
            ("You are not allowed here", Refusal::Policy),
            ("rate-limited: too many queries", Refusal::TooManyQueries),
            (
                "ERROR: too many concurrent REQs",
                Refusal::TooManySubscriptions,
            ),
            (
                "error: too many subscriptions",
                Refusal::TooManySubscriptions,
            ),
            ("rate-limited: too many REQs", Refusal::TooManySubscriptions),
            (
                "Maximum concurrent subscription count reached",
                Refusal::TooManySubscriptions,
            ),
            (
                "error: too many filters in subscription",
                Refusal::TooManyFilters,
            ),
            (
                "error: subscription bytes exceed the limit",
                Refusal::TooManyBytes,
            ),
            ("message too large", Refusal::TooManyBytes),
            ("invalid: too many tag values", Refusal::TooManyValues),
            ("ERROR: unknown cmd NEG-OPEN", Refusal::Unknown),
            ("error: could not connect to the database", Refusal::Failure),
            ("", Refusal::Failure),
        ] {
            assert_eq!(Refusal::read(text), refusal, "{text:?}");
        }
    }

    #[test]
    fn a_notice_may_be_small_talk() {
        for talk in ["welcome", "relay restarts at noon", "error: try again"] {
            assert_eq!(Refusal::read_notice(talk), None, "{talk:?}");
        }
        let notice = Refusal::read_notice("ERROR: too many concurrent REQs");
        assert_eq!(notice, Some(Refusal::TooManySubscriptions));
    }
}
