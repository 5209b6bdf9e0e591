//! The command line: one flag for each setting, made from the settings themselves.
//!
//! Values are not checked here. A flag is only a stronger source of the text of a setting, so that a wrong one
//! is reported together with every other mistake, by the name of its variable.

mod serve;
mod welcome;

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use crate::config::sections;
use crate::config::setting::{Effect, Setting};
pub(crate) use serve::serve;

/// What the operator asked for.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// The subcommand.
    pub(crate) action: Action,
    /// Texts of settings, by variable name.
    pub(crate) flags: BTreeMap<String, String>,
}

/// The subcommands (CLI-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Runs the server; also without a subcommand.
    Serve,
}

/// How many sections `-h` shows; `--help` shows all.
const SECTIONS_IN_SHORT_HELP: usize = 2;

/// Reads the command line. The error is also `--help` and `--version`; it knows how to print itself.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, clap::Error> {
    let matches = command().try_get_matches_from(args)?;
    let matches = matches.subcommand_matches("serve").unwrap_or(&matches);
    let flags = sections()
        .iter()
        .flat_map(|(_, settings)| settings)
        .filter_map(|setting| {
            let text = matches.get_one::<String>(setting.field)?;
            Some((setting.variable(), text.clone()))
        })
        .collect();
    Ok(Invocation {
        action: Action::Serve,
        flags,
    })
}

fn command() -> Command {
    Command::new("ngit-grasp")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A GRASP server: Nostr relay and git host in one")
        .long_about(
            "A GRASP server: a Nostr relay at / and a git host at /<npub>/<identifier>.git, in one process. \
             Maintainers sign what their branches and tags are; only that is served.\n\n\
             Started without anything it listens on 127.0.0.1:7334 and keeps its data under ./data.",
        )
        .after_help(
            "Every flag is also an environment variable (NGIT_ and the name in capitals), which a .env file \
             can hold; a flag wins. The relay's own key comes from the systemd credential relay_owner_nsec, \
             from NGIT_RELAY_OWNER_NSEC or from .relay-owner.nsec, never from a flag.",
        )
        .subcommand(Command::new("serve").about("Runs the server (what happens without a subcommand)"))
        .disable_help_subcommand(true)
        .args(sections().into_iter().enumerate().flat_map(|(index, (title, settings))| {
            settings
                .into_iter()
                .map(move |setting| flag(&setting, title, index >= SECTIONS_IN_SHORT_HELP))
        }))
}

fn flag(setting: &Setting, section: &'static str, only_in_long_help: bool) -> Arg {
    let meaning = setting.meaning.replace('`', "");
    let default = match (setting.default_shown, setting.default) {
        (Some(words), _) => words.replace('`', ""),
        (None, "") => "none".to_owned(),
        (None, text) => text.to_owned(),
    };
    let takes = setting.takes.replace('`', "");
    let later = match setting.effect {
        Effect::Now => "",
        Effect::Later => " Without effect in this version.",
    };
    Arg::new(setting.field)
        .long(setting.flag())
        .value_name("VALUE")
        .action(ArgAction::Set)
        .allow_hyphen_values(true)
        .global(true)
        .help_heading(section)
        .hide_short_help(only_in_long_help)
        .help(format!("{meaning}{later} [{takes}; default: {default}]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(args: &[&str]) -> BTreeMap<String, String> {
        let args = ["ngit-grasp"].iter().chain(args).map(OsString::from);
        parse(args).expect("valid").flags
    }

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }

    /// CLI-1
    #[test]
    fn serve_may_be_left_out_and_flags_stand_on_either_side_of_it() {
        for args in [
            &["--bind-address", "127.0.0.1:1"][..],
            &["--bind-address=127.0.0.1:1", "serve"],
            &["serve", "--bind-address", "127.0.0.1:1"],
        ] {
            assert_eq!(
                flags(args),
                BTreeMap::from([("NGIT_BIND_ADDRESS".to_owned(), "127.0.0.1:1".to_owned())])
            );
        }
        assert!(flags(&[]).is_empty());
    }

    /// CONF-2: booleans take a value, on flags too.
    #[test]
    fn a_flag_takes_its_value_as_it_is() {
        assert_eq!(
            flags(&["--metrics-enabled", "false"])["NGIT_METRICS_ENABLED"],
            "false"
        );
        assert_eq!(
            flags(&["--user-index-relays", ""])["NGIT_USER_INDEX_RELAYS"],
            ""
        );
        assert_eq!(flags(&["--relay-name", "-1"])["NGIT_RELAY_NAME"], "-1");
    }

    #[test]
    fn there_is_no_flag_for_the_secret() {
        let args = ["ngit-grasp", "--relay-owner-nsec", "x"].map(OsString::from);
        assert!(parse(args).is_err());
    }

    #[test]
    fn help_and_version_are_there() {
        for (arg, part) in [
            ("--help", "--relay-filter-limit"),
            ("-h", "--domain"),
            ("--version", "ngit-grasp "),
        ] {
            let error = parse(["ngit-grasp", arg].map(OsString::from)).expect_err("shown instead");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
