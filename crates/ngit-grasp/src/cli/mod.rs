//! The command line: one flag for each setting, made from the settings themselves.
//!
//! Values are not checked here. A flag is only a stronger source of the text of a setting, so that a wrong one
//! is reported together with every other mistake, by the name of its variable.

mod operate;
mod serve;
mod welcome;

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Command};
use grasp_server::control::{self, Request};

use crate::config::sections;
use crate::config::setting::{Effect, Setting};
pub(crate) use operate::{ask, check_events};
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Runs the server; also without a subcommand.
    Serve,
    /// Asks the server, or its data if it does not run (CLI-5).
    Ask(Request),
    /// Looks at the event store of a server that does not run.
    CheckEvents {
        /// Mends it.
        execute: bool,
    },
}

/// The flag that all questions have.
const JSON: &str = "json";
/// The flags that name a repository.
const OWNER: &str = "owner";
const IDENTIFIER: &str = "identifier";

/// The argument that names a repository.
const REPOSITORY: &str = "repository";

const CHECK_EVENTS: &str = "event-integrity-check";
const REPAIR: &str = "repair";
const EXECUTE: &str = "execute";
const PURGE_ORPHANS: &str = "purge-orphans";

/// What all questions have in common.
const ASKING: &str = "Asks the running server over control.sock in the relay data folder, as the user that runs it or as \
    root. If no server runs, the command opens the data itself. The folders are those of the server: run it where the \
    server runs (.env), or pass --relay-data-path and --git-data-path.";

/// How many sections `-h` shows; `--help` shows all.
const SECTIONS_IN_SHORT_HELP: usize = 2;

/// Reads the command line. The error is also `--help` and `--version`; it knows how to print itself.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, clap::Error> {
    let matches = command().try_get_matches_from(args)?;
    let (mut path, mut matches) = (Vec::new(), &matches);
    while let Some((name, below)) = matches.subcommand() {
        path.push(name);
        matches = below;
    }
    let flags = sections()
        .iter()
        .flat_map(|(_, settings)| settings)
        .filter_map(|setting| {
            let text = matches.get_one::<String>(setting.field)?;
            Some((setting.variable(), text.clone()))
        })
        .collect();
    Ok(Invocation {
        action: action(&path, matches),
        flags,
    })
}

fn action(path: &[&str], matches: &ArgMatches) -> Action {
    let command = match path {
        ["status"] => control::Command::Status,
        ["explain"] => control::Command::Explain {
            repository: text(matches, REPOSITORY),
        },
        ["integrity-check"] => control::Command::IntegrityCheck {
            identifier: matches.get_one(IDENTIFIER).cloned(),
            repair: matches.get_flag(REPAIR),
        },
        ["cleanup-empty-repos"] => control::Command::CleanupEmptyRepos {
            execute: matches.get_flag(EXECUTE),
            purge_orphans: matches.get_flag(PURGE_ORPHANS),
        },
        ["sync", "status"] => control::Command::SyncStatus,
        ["holding", "list"] => control::Command::HoldingList,
        ["holding", "restore"] => control::Command::HoldingRestore(scope(matches)),
        ["holding-eject"] => control::Command::HoldingEject(scope(matches)),
        [CHECK_EVENTS] => {
            return Action::CheckEvents {
                execute: matches.get_flag(EXECUTE),
            };
        }
        _ => return Action::Serve,
    };
    Action::Ask(Request {
        command,
        json: matches.get_flag(JSON),
    })
}

fn scope(matches: &ArgMatches) -> control::Scope {
    control::Scope {
        owner: text(matches, OWNER),
        identifier: text(matches, IDENTIFIER),
    }
}

/// The text of an argument that clap has required.
fn text(matches: &ArgMatches, name: &str) -> String {
    matches.get_one(name).cloned().unwrap_or_default()
}

/// The commands that ask.
fn questions() -> Vec<Command> {
    vec![
        Command::new("status")
            .about("Shows how the server is: addresses, disk, what is stored, what waits"),
        Command::new("sync")
            .about("Shows how following other servers goes")
            .subcommand_required(true)
            .subcommand(
                Command::new("status")
                    .about("Lists the relays that are followed: in which state, why, what is pending, what comes next")
                    .after_help(ASKING),
            ),
        Command::new("holding")
            .about("Shows and restores repositories that were deleted and are still held")
            .subcommand_required(true)
            .subcommand(
                Command::new("list")
                    .about("Lists what is held, and how long")
                    .after_help(ASKING),
            )
            .subcommand(
                Command::new("restore")
                    .about("Brings back what is held of a repository")
                    .args(scope_flags())
                    .after_help(ASKING),
            ),
        Command::new("holding-eject")
            .about("Removes for good what is held of a repository: events and git data")
            .args(scope_flags()),
        Command::new("explain")
            .about("Explains a repository: who counts, which state wins, what waits and for what, what was refused")
            .arg(
                Arg::new(REPOSITORY)
                    .required(true)
                    .value_name("NPUB/IDENTIFIER")
                    .help("The repository; its clone URL does too"),
            ),
        Command::new("integrity-check")
            .about("Reads every object that repositories need, compares refs and folders with events; exit code 3 if something is wrong")
            .arg(
                Arg::new(IDENTIFIER)
                    .long(IDENTIFIER)
                    .value_name("ID")
                    .help("Only the repositories of this identifier, whoever owns them [default: all]"),
            )
            .arg(switch(
                REPAIR,
                "Mends what can be mended. Nothing is deleted: what cannot be read is moved to damaged/ in the repository, \
                 what a co-maintainer's repository has is taken from there, and refs whose objects are gone are not \
                 shown until a push or another server brings them",
            )),
        Command::new("cleanup-empty-repos")
            .about("Lists folders of repositories that no event here asks for")
            .arg(switch(
                EXECUTE,
                "Removes those that hold no objects. Each is looked at once more, as everywhere: if an event asks for it by \
                 then, it stays",
            ))
            .arg(switch(PURGE_ORPHANS, "Counts those that hold objects too, so that --execute removes them")),
    ]
}

/// The one command that no running server answers.
fn event_check() -> Command {
    Command::new(CHECK_EVENTS)
        .about("Verifies every stored event and every row that finds one; the server must be stopped")
        .after_help(
            "Writes JSON: a line for each finding, and a summary. Exit code 3 if something is wrong.",
        )
        .arg(switch(
            EXECUTE,
            "Makes all indexes and counters anew from the events, and removes records that are not what their authors \
             signed; their text stands in the findings, so keep the output",
        ))
}

/// Which repository.
fn scope_flags() -> [Arg; 2] {
    let flag = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .required(true)
            .allow_hyphen_values(true)
            .help(help)
    };
    [
        flag(OWNER, "KEY", "Whose repository: npub or hex"),
        flag(IDENTIFIER, "NAME", "Its identifier"),
    ]
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
}

/// For programs: JSON instead of text.
fn json_flag() -> Arg {
    Arg::new(JSON)
        .long(JSON)
        .action(ArgAction::SetTrue)
        .global(true)
        .help("Writes JSON, one value a line, instead of text")
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
        .subcommands(questions().into_iter().map(|command| command.arg(json_flag()).after_help(ASKING)))
        .subcommand(event_check())
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

    /// CLI-1
    #[test]
    fn what_is_held_is_asked_for_by_owner_and_identifier() {
        let asked = |args: &[&str]| {
            let args = ["ngit-grasp"].iter().chain(args).map(OsString::from);
            parse(args).map(|it| (it.action, it.flags))
        };
        let scope = control::Scope {
            owner: "npub1x".to_owned(),
            identifier: "-x".to_owned(),
        };
        let named = ["--owner", "npub1x", "--identifier", "-x"];
        for (words, command) in [
            (
                &["holding-eject"][..],
                control::Command::HoldingEject(scope.clone()),
            ),
            (
                &["holding", "restore"],
                control::Command::HoldingRestore(scope),
            ),
        ] {
            let folder = ["--git-data-path", "/g", "--json"];
            let args = [words, &named, &folder].concat();
            let (action, flags) = asked(&args).expect("valid");
            assert_eq!(
                action,
                Action::Ask(Request {
                    command,
                    json: true
                })
            );
            assert_eq!(flags["NGIT_GIT_DATA_PATH"], "/g");
            assert!(asked(words).is_err(), "a repository has to be named");
        }
        let (action, _) = asked(&["holding", "list"]).expect("valid");
        let command = control::Command::HoldingList;
        assert_eq!(
            action,
            Action::Ask(Request {
                command,
                json: false
            })
        );
        assert!(asked(&["holding"]).is_err());
    }

    /// CLI-1
    #[test]
    fn a_question_takes_the_folders_of_the_server() {
        let args = [
            "ngit-grasp",
            "status",
            "--json",
            "--relay-data-path",
            "/srv/relay",
        ];
        let invocation = parse(args.map(OsString::from)).expect("valid");
        let request = Request {
            command: control::Command::Status,
            json: true,
        };
        assert_eq!(invocation.action, Action::Ask(request));
        assert_eq!(invocation.flags["NGIT_RELAY_DATA_PATH"], "/srv/relay");
    }

    /// CLI-1
    #[test]
    fn no_question_starts_a_server() {
        for args in [
            &["status"][..],
            &["sync", "status"],
            &["explain", "x"],
            &["integrity-check", "--repair"],
            &["cleanup-empty-repos", "--execute", "--purge-orphans"],
        ] {
            let line = ["ngit-grasp"].iter().chain(args).map(OsString::from);
            let Action::Ask(request) = parse(line).expect("valid").action else {
                panic!("{args:?} starts a server");
            };
            assert!(request.command.name().starts_with(args[0]));
        }
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
