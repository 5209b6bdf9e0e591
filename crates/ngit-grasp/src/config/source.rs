//! Where the text of a setting comes from, and the list of everything that is wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use super::preset;
use super::setting::{Value, variable};

/// The texts of all settings, by variable name, strongest source first:
/// flag, environment, `.env`. Every name starts with `NGIT_`.
#[derive(Default)]
pub(crate) struct Sources {
    /// From the command line.
    pub(crate) flags: BTreeMap<String, String>,
    /// From the process environment.
    pub(crate) environment: BTreeMap<String, String>,
    /// From the `.env` file of the working directory.
    pub(crate) dotenv: BTreeMap<String, String>,
    /// What could not be read at all.
    pub(crate) mistakes: Vec<Mistake>,
}

/// One thing the operator has to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// The variable, or the file.
    pub(crate) of: String,
    /// The rest of the sentence.
    pub(crate) says: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.of, self.says)
    }
}

/// Everything that is wrong with the configuration, at once.
#[derive(Debug, thiserror::Error)]
#[error("the configuration has {} {}:{}", .0.len(), if .0.len() == 1 { "mistake" } else { "mistakes" }, list(.0))]
pub(crate) struct Mistakes(pub(crate) Vec<Mistake>);

fn list(mistakes: &[Mistake]) -> String {
    mistakes
        .iter()
        .fold(String::new(), |all, one| format!("{all}\n  - {one}"))
}

impl Sources {
    /// Takes what is ours from the process environment.
    pub(crate) fn take_environment(&mut self, vars: impl Iterator<Item = (OsString, OsString)>) {
        for (name, value) in vars {
            let Some(name) = name.to_str().filter(|name| name.starts_with("NGIT_")) else {
                continue;
            };
            match value.into_string() {
                Ok(value) => {
                    self.environment.insert(name.to_owned(), value);
                }
                Err(_) => self.mistake(name, "is not valid UTF-8"),
            }
        }
    }

    /// Takes what is ours from a `.env` file, if there is one.
    pub(crate) fn take_dotenv(&mut self, path: &Path) {
        let file = match std::fs::read(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                let shown = path.display().to_string();
                return self.mistake(&shown, &format!("cannot be read: {error}"));
            }
        };
        for (number, entry) in dotenvy::from_read_iter(file.as_slice()).enumerate() {
            match entry {
                Ok((name, value)) if name.starts_with("NGIT_") => {
                    self.dotenv.insert(name, value);
                }
                Ok(_) => {}
                // The parser's own message quotes the line, and the line may hold a secret.
                Err(_) => self.mistake(
                    &path.display().to_string(),
                    &format!("has an entry, the {}th, that is not NAME=value", number + 1),
                ),
            }
        }
    }

    /// The text of a variable, from the strongest source that has it.
    pub(crate) fn text(&self, variable: &str) -> Option<&str> {
        [&self.flags, &self.environment, &self.dotenv]
            .into_iter()
            .find_map(|source| source.get(variable))
            .map(String::as_str)
    }

    /// Every variable that somebody set.
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        [&self.flags, &self.environment, &self.dotenv]
            .into_iter()
            .flat_map(|source| source.keys().map(String::as_str))
            .collect()
    }

    fn mistake(&mut self, of: &str, says: &str) {
        self.mistakes.push(Mistake {
            of: of.to_owned(),
            says: says.to_owned(),
        });
    }
}

/// Longest text of a wrong setting that is shown, in characters.
const TEXT_SHOWN_MAX: usize = 60;

/// Turns texts into values and remembers every mistake, so that the operator hears of all at once.
pub(crate) struct Reader<'a> {
    sources: &'a Sources,
    /// Whether `NGIT_TEST`'s values replace the defaults.
    pub(crate) test_preset: bool,
    /// What was wrong.
    pub(crate) mistakes: Vec<Mistake>,
    /// Variables that were set to something else than their default, and have no effect yet.
    pub(crate) without_effect: Vec<String>,
}

impl<'a> Reader<'a> {
    /// Reads from `sources`.
    pub(crate) fn new(sources: &'a Sources) -> Self {
        Self {
            sources,
            test_preset: false,
            mistakes: sources.mistakes.clone(),
            without_effect: Vec::new(),
        }
    }

    /// The value of a setting; `None` if it was wrong, which is noted.
    pub(crate) fn value<T: Value>(&mut self, field: &str, default: &str) -> Option<T> {
        let name = variable(field);
        let preset = preset::of(field).filter(|_| self.test_preset);
        let text = self
            .sources
            .text(&name)
            .map(str::trim)
            .filter(|text| T::EMPTY_IS_A_VALUE || !text.is_empty())
            .unwrap_or_else(|| preset.unwrap_or(default));
        match T::parse(text) {
            Ok(value) => Some(value),
            Err(expected) => {
                let shown: String = text.chars().take(TEXT_SHOWN_MAX).collect();
                self.mistake(&name, &format!("must be {expected}, and is {shown:?}"));
                None
            }
        }
    }

    /// Checks a setting that nothing acts on yet, and notes it if the operator changed it.
    pub(crate) fn later<T: Value>(&mut self, field: &str, default: &str) {
        let given = self.value::<T>(field, default);
        let name = variable(field);
        if self.sources.text(&name).is_some() && given != T::parse(default).ok() && given.is_some()
        {
            self.without_effect.push(name);
        }
    }

    /// Notes a mistake that only several settings together make.
    pub(crate) fn mistake(&mut self, of: &str, says: &str) {
        self.mistakes.push(Mistake {
            of: of.to_owned(),
            says: says.to_owned(),
        });
    }
}
