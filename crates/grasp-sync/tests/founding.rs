//! `docs/founding.md` maps the founding design to the code. A name that is gone would be a promise that nobody keeps.

use std::path::Path;

/// Whether `source` defines an item, a field or a variant of this name.
fn defines(source: &str, name: &str) -> bool {
    let starts_with_name = |line: &str| {
        let line = line.strip_prefix("pub").map_or(line, |rest| {
            let rest = rest
                .strip_prefix("(super)")
                .or(rest.strip_prefix("(crate)"))
                .unwrap_or(rest);
            rest.trim_start()
        });
        let keywords = [
            "const fn ",
            "async fn ",
            "fn ",
            "struct ",
            "enum ",
            "trait ",
            "const ",
            "type ",
        ];
        let keyword = keywords
            .into_iter()
            .find_map(|keyword| line.strip_prefix(keyword));
        let rest = keyword.unwrap_or(line).strip_prefix(name);
        let ends = |rest: &str| match keyword {
            Some(_) => !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'),
            None => {
                rest.starts_with(':')
                    || rest.starts_with(" {")
                    || rest.starts_with('(')
                    || rest == ","
            }
        };
        rest.is_some_and(ends)
    };
    source.lines().map(str::trim_start).any(starts_with_name)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what is checked are files")]
fn everything_that_the_founding_map_names_exists() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let map = std::fs::read_to_string(here.join("../../docs/founding.md")).expect("readable");
    let mut named = 0;
    let codes = map.split('`').skip(1).step_by(2);
    for (file, name) in codes.filter_map(|code| code.split_once(".rs::")) {
        let is_inside = file.starts_with("tests/") || file.starts_with("examples/");
        let folder = if is_inside {
            here.to_owned()
        } else {
            here.join("src")
        };
        let source = std::fs::read_to_string(folder.join(format!("{file}.rs"))).unwrap_or_default();
        assert!(defines(&source, name), "{file}.rs does not define {name}");
        named += 1;
    }
    assert!(named > 80, "only {named} items are named");
}

#[test]
fn a_name_in_passing_is_no_definition() {
    let source = "    pub(super) fn here(\n    /// not_here\n    pub field: u8,\n    there();\n  Variant {\n";
    for (name, is_there) in [
        ("here", true),
        ("field", true),
        ("Variant", true),
        ("not_here", false),
        ("her", false),
    ] {
        assert_eq!(defines(source, name), is_there, "{name}");
    }
}
