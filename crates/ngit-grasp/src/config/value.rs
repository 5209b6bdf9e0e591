//! The types that settings have, each with its unit and its check.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use grasp_core::curation::RepositoryEntry;
use grasp_core::maintainers::MaintainerRule;
use grasp_core::name::Identifier;
use grasp_core::service::ServiceAddress;
use ipnet::IpNet;

use super::setting::Value;

impl Value for bool {
    const TAKES: &'static str = "`true` or `false`";

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("`true` or `false`".to_owned()),
        }
    }
}

impl Value for String {
    const TAKES: &'static str = "a text";

    fn parse(text: &str) -> Result<Self, String> {
        if text.contains(char::is_control) {
            return Err("a text without control characters".to_owned());
        }
        Ok(text.to_owned())
    }
}

impl Value for PathBuf {
    const TAKES: &'static str = "a path";

    fn parse(text: &str) -> Result<Self, String> {
        Ok(Self::from(text))
    }
}

impl Value for SocketAddr {
    const TAKES: &'static str = "`address:port`";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| "an IP address and a port, such as 127.0.0.1:7334".to_owned())
    }
}

impl Value for IpNet {
    const TAKES: &'static str = "an address or a network";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
            .or_else(|_| text.parse::<std::net::IpAddr>().map(Self::from))
            .map_err(|_| "addresses or networks, such as 10.0.0.0/8".to_owned())
    }
}

/// A number of things; zero of them would be no limit but an outage.
impl Value for NonZero<usize> {
    const TAKES: &'static str = "a number above zero";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| "a whole number above zero".to_owned())
    }
}

/// So too a number within a time.
impl Value for NonZero<u32> {
    const TAKES: &'static str = "a number above zero";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| format!("a whole number from 1 to {}", u32::MAX))
    }
}

/// A size, with a binary unit or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

impl Value for Bytes {
    const TAKES: &'static str = "bytes: `1048576`, `512MiB`, `2GiB`";

    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "a number of bytes, such as 1048576, 512MiB or 2GiB".to_owned();
        let digits = text.trim_end_matches(|unit: char| !unit.is_ascii_digit());
        let shift = match text[digits.len()..].trim() {
            "" | "B" => 0,
            "KiB" | "K" => 10,
            "MiB" | "M" => 20,
            "GiB" | "G" => 30,
            "TiB" | "T" => 40,
            _ => return Err(wrong()),
        };
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        number
            .checked_mul(1 << shift)
            .map(Self)
            .ok_or_else(|| "less than 16 EiB".to_owned())
    }
}

/// A part of a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Percent(pub(crate) u8);

impl Value for Percent {
    const TAKES: &'static str = "1 to 100";

    fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(percent @ 1..=100) => Ok(Self(percent)),
            _ => Err("a number from 1 to 100".to_owned()),
        }
    }
}

/// A time span whose setting counts `UNIT` milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span<const UNIT: u64>(pub(crate) Duration);

/// `NGIT_…_MS`.
pub(crate) type Milliseconds = Span<1>;
/// `NGIT_…_SECS`.
pub(crate) type Seconds = Span<1_000>;
/// `NGIT_…_HOURS`.
pub(crate) type Hours = Span<3_600_000>;

impl<const UNIT: u64> Value for Span<UNIT> {
    const TAKES: &'static str = match UNIT {
        1 => "milliseconds",
        1_000 => "seconds",
        _ => "hours",
    };

    fn parse(text: &str) -> Result<Self, String> {
        text.parse::<u64>()
            .ok()
            .and_then(|count| count.checked_mul(UNIT))
            .map(|millis| Self(Duration::from_millis(millis)))
            .ok_or_else(|| format!("a whole number of {}", Self::TAKES))
    }
}

/// Unset is a value: "whatever fits", or "without".
impl<T: Value> Value for Option<T> {
    const TAKES: &'static str = T::TAKES;

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(None);
        }
        T::parse(text).map(Some)
    }
}

/// Separated by commas; blanks around the entries do not count.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T: Value> Value for List<T> {
    const TAKES: &'static str = "a list, separated by commas";
    const EMPTY_IS_A_VALUE: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        text.split(',')
            .map(str::trim)
            .filter(|entry| !entry.is_empty())
            .map(T::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// A list that an operator keeps over years: an entry that is none is skipped, with a warning (§19).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entries<T> {
    /// What it names.
    pub(crate) good: Vec<T>,
    /// What it does not, and why.
    pub(crate) bad: Vec<String>,
}

impl<T: Value> Value for Entries<T> {
    const TAKES: &'static str = "a list, separated by commas";
    const EMPTY_IS_A_VALUE: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        let entries = text.split(',').map(str::trim);
        for entry in entries.filter(|entry| !entry.is_empty()) {
            match T::parse(entry) {
                Ok(value) => good.push(value),
                Err(wanted) => bad.push(format!("{entry} ({wanted})")),
            }
        }
        Ok(Self { good, bad })
    }
}

impl Value for RepositoryEntry {
    const TAKES: &'static str = "`npub`, `npub/identifier` or `identifier`";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: grasp_core::curation::EntryError| error.to_string())
    }
}

impl Value for Identifier {
    const TAKES: &'static str = "an identifier";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: grasp_core::name::IdentifierError| error.to_string())
    }
}

/// Somebody who writes events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Author(pub(crate) nostr::key::PublicKey);

impl Value for Author {
    const TAKES: &'static str = "an npub";

    fn parse(text: &str) -> Result<Self, String> {
        let key = grasp_core::name::parse_npub(text);
        key.map(Self).ok_or_else(|| "the npub is none".to_owned())
    }
}

/// The public name: `grasp.example.com`, with a port if it is not the scheme's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Domain(pub(crate) String);

impl Value for Domain {
    const TAKES: &'static str = "`host` or `host:port`";

    fn parse(text: &str) -> Result<Self, String> {
        ServiceAddress::parse(text, "/")
            .map(|_| Self(text.to_owned()))
            .map_err(|_| "a host with or without a port, such as grasp.example.com".to_owned())
    }
}

/// NAME-6.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BasePath(pub(crate) String);

impl Value for BasePath {
    const TAKES: &'static str = "a path such as `/grasp`";

    fn parse(text: &str) -> Result<Self, String> {
        ServiceAddress::parse("localhost", text)
            .map(|_| Self(text.to_owned()))
            .map_err(|_| {
                "a path that starts with `/`, does not end with one, and has no empty, `.` or `..` part"
                    .to_owned()
            })
    }
}

/// A relay elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Relay(pub(crate) grasp_sync::relay_url::RelayUrl);

impl Value for Relay {
    const TAKES: &'static str = "`wss://host` or `ws://host`";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
            .map(Self)
            .map_err(|_| "relay URLs, such as wss://relay.example.com".to_owned())
    }
}

/// Where events are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// On disk.
    Lmdb,
    /// The same store in a temporary folder, git data too; gone after the stop.
    Memory,
}

impl Value for Backend {
    const TAKES: &'static str = "`lmdb` or `memory`";

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "lmdb" => Ok(Self::Lmdb),
            "memory" => Ok(Self::Memory),
            _ => Err("`lmdb` or `memory`".to_owned()),
        }
    }
}

impl Value for MaintainerRule {
    const TAKES: &'static str = "`reciprocal` or `recursive`";

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "reciprocal" => Ok(Self::Reciprocal),
            "recursive" => Ok(Self::Recursive),
            _ => Err("`reciprocal` or `recursive`".to_owned()),
        }
    }
}

/// What is logged: a level for our own crates, or a `tracing` filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFilter(pub(crate) String);

impl Value for LogFilter {
    const TAKES: &'static str = "a level, or a `tracing` filter";

    fn parse(text: &str) -> Result<Self, String> {
        const OURS: [&str; 7] = [
            "ngit_grasp",
            "grasp_core",
            "grasp_store",
            "grasp_git",
            "grasp_relay",
            "grasp_sync",
            "grasp_server",
        ];
        let level = text.to_ascii_lowercase();
        let directives = match level.as_str() {
            "off" => "off".to_owned(),
            "error" | "warn" | "info" | "debug" | "trace" => OURS
                .iter()
                .fold("warn".to_owned(), |all, one| format!("{all},{one}={level}")),
            _ => text.to_owned(),
        };
        tracing_subscriber::EnvFilter::try_new(&directives)
            .map(|_| Self(directives))
            .map_err(|_| "a level (error, warn, info, debug, trace) or a filter".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(Bytes::parse("196608"), Ok(Bytes(196_608)));
        assert_eq!(Bytes::parse("512MiB"), Ok(Bytes(512 << 20)));
        assert_eq!(Bytes::parse("1 TiB"), Ok(Bytes(1 << 40)));
        for bad in ["", "MiB", "1.5GiB", "-1", "1GB", "99999999999TiB", "1€"] {
            assert!(Bytes::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lists_are_separated_by_commas_and_may_be_empty() {
        let parsed = List::<IpNet>::parse(" 10.0.0.0/8 ,, ::1, 192.168.1.7 ").expect("valid");
        let shown: Vec<String> = parsed.0.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.0.0.0/8", "::1/128", "192.168.1.7/32"]);
        assert_eq!(List::<IpNet>::parse(""), Ok(List(Vec::new())));
        assert!(List::<IpNet>::parse("10.0.0.0/8,proxy").is_err());
    }

    /// CONF-2
    #[test]
    fn booleans_are_true_or_false_and_nothing_else() {
        assert_eq!(bool::parse("true"), Ok(true));
        assert_eq!(bool::parse("false"), Ok(false));
        for bad in ["1", "yes", "True", "on"] {
            assert!(bool::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bare_level_means_our_own_crates() {
        let LogFilter(directives) = LogFilter::parse("debug").expect("a level");
        assert!(directives.starts_with("warn,ngit_grasp=debug,"));
        assert!(directives.contains(",grasp_store=debug"));
        assert_eq!(
            LogFilter::parse("info,hyper=debug"),
            Ok(LogFilter("info,hyper=debug".to_owned()))
        );
        assert!(LogFilter::parse("a=b=c").is_err());
    }
}
