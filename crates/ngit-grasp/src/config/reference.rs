//! The operator's reference of settings, written from the sections themselves so that it cannot drift.

use std::fmt::Write as _;

use super::preset::TEST_PRESET;
use super::setting::{Effect, Setting, variable};

const OPENING: &str = "\
# Settings

<!-- Written from the configuration types by a test of the binary. Change those, then run
     UPDATE_REFERENCE=1 cargo test -p ngit-grasp reference -->

Every setting is an environment variable and a flag: the flag is the name without `NGIT_`, in lower case,
with `-` for `_` (`NGIT_BIND_ADDRESS` is `--bind-address`). A flag beats the environment, the environment
beats a `.env` file in the working directory, and that beats the default. Booleans are `true` or `false`,
on flags too. Lists are separated by commas. An empty value means \"not set\", except that an empty list is
an empty list. All mistakes are reported at once, by name, and the server does not start (exit code 78). A
variable that starts with `NGIT_` and is not listed here is ignored with one warning.

Settings marked *later* are read and checked, but nothing acts on them in this version; the start says so
if one differs from its default.
";

const OWNER: &str = "
## The relay's own key

The relay signs with a key of its own. It is taken from the first of these that is there:

1. the systemd credential `relay_owner_nsec` (`LoadCredential=relay_owner_nsec:/etc/ngit-grasp/nsec`);
2. the variable `NGIT_RELAY_OWNER_NSEC` (environment or `.env` only: process lists show flags);
3. the file `.relay-owner.nsec` in the working directory, which the first start makes with mode 0600.

An empty or invalid key stops the start. A file that others may read is tightened to 0600.
";

fn render() -> String {
    let mut out = OPENING.to_owned();
    for (title, settings) in super::sections() {
        let _ = write!(
            out,
            "\n## {title}\n\n| variable | takes | default | meaning |\n|---|---|---|---|\n"
        );
        for setting in settings {
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {}{} |",
                setting.variable(),
                setting.takes,
                default_of(&setting),
                if setting.effect == Effect::Later {
                    "*Later.* "
                } else {
                    ""
                },
                setting.meaning,
            );
        }
    }
    out.push_str(OWNER);
    out.push_str(
        "\n## For test harnesses\n\n`NGIT_TEST=1` replaces some defaults (what is set explicitly still \
         wins):\n\n| variable | default then |\n|---|---|\n",
    );
    for (field, value) in TEST_PRESET {
        let _ = writeln!(out, "| `{}` | `{value}` |", variable(field));
    }
    out.push_str(
        "\n`NGIT_TEST_LISTENER_FD` is the number of a listening socket that the process inherits; it is \
         used instead of binding `NGIT_BIND_ADDRESS`.\n",
    );
    out
}

fn default_of(setting: &Setting) -> String {
    match (setting.default_shown, setting.default) {
        (Some(words), _) => words.to_owned(),
        (None, "") => "none".to_owned(),
        (None, list) if list.contains(',') => {
            let entries: Vec<String> = list.split(',').map(|one| format!("`{one}`")).collect();
            entries.join(", ")
        }
        (None, text) => format!("`{text}`"),
    }
}

#[test]
fn the_settings_reference_is_current() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/operate/settings.md"
    );
    let expected = render();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(path, &expected).expect("the reference is writable");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/operate/settings.md is not what the configuration says; run \
         UPDATE_REFERENCE=1 cargo test -p ngit-grasp reference"
    );
}
