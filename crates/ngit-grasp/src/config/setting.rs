//! One definition of a setting, from which its variable, its flag and its line in the operator's
//! reference come.
//!
//! A field `bind_address` of a [`settings!`] block *is* the variable `NGIT_BIND_ADDRESS` and the flag
//! `--bind-address`: no name is written twice, so none can differ. *Invariant:* outside this folder
//! nothing knows that environment variables exist.

use super::source::Reader;

/// What the command line, the start and the reference need to know of a setting.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// The field's name: `bind_address`.
    pub(crate) field: &'static str,
    /// Its default as an operator would write it; empty for none.
    pub(crate) default: &'static str,
    /// The default in words, where the text alone would not say it.
    pub(crate) default_shown: Option<&'static str>,
    /// What may stand there: "a number above zero".
    pub(crate) takes: &'static str,
    /// What it is for, in Markdown.
    pub(crate) meaning: String,
    /// Whether anything acts on it in this version.
    pub(crate) effect: Effect,
}

/// Whether a setting does something yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It does.
    Now,
    /// It is read and checked, so that a unit file made for a later version starts this one too.
    Later,
}

impl Setting {
    /// `NGIT_BIND_ADDRESS`.
    pub(crate) fn variable(&self) -> String {
        variable(self.field)
    }

    /// `bind-address`: CONF, "name without `NGIT_`, kebab-case".
    pub(crate) fn flag(&self) -> String {
        self.field.replace('_', "-")
    }
}

/// The variable of a field.
pub(crate) fn variable(field: &str) -> String {
    format!("NGIT_{}", field.to_uppercase())
}

/// A group of settings that are read together and shown under one heading.
pub(crate) trait Section: Sized {
    /// Its heading.
    const TITLE: &'static str;

    /// Its settings, in the order of the reference.
    fn settings() -> Vec<Setting>;

    /// Reads all of them. `None` if one was wrong; the reader has noted which, and why.
    fn read(reader: &mut Reader<'_>) -> Option<Self>;
}

/// A type that a setting can have.
pub(crate) trait Value: Sized + PartialEq {
    /// What the operator may write, for the reference.
    const TAKES: &'static str;
    /// Whether an empty text is a value of its own (a list of nothing) instead of "not set".
    const EMPTY_IS_A_VALUE: bool = false;

    /// Reads it; the error finishes the sentence "`NGIT_X` must be …".
    fn parse(text: &str) -> Result<Self, String>;
}

/// Declares a [`Section`]. Settings after `later` are read and checked, but kept nowhere: what would
/// act on them does not exist yet.
macro_rules! settings {
    (
        $(#[doc = $about:literal])+
        $section:ident $title:literal {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty = $default:literal $([$shown:literal])?;
            )*
        }
        $(later {
            $(
                $(#[doc = $later_doc:literal])+
                $later_field:ident: $later_type:ty = $later_default:literal $([$later_shown:literal])?;
            )*
        })?
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone)]
        #[allow(clippy::struct_field_names, reason = "a field is the name of its variable")]
        pub(crate) struct $section {
            $( $(#[doc = $doc])+ pub(crate) $field: $type, )*
        }

        impl $crate::config::setting::Section for $section {
            const TITLE: &'static str = $title;

            fn settings() -> Vec<$crate::config::setting::Setting> {
                use $crate::config::setting::{Effect, Setting, Value};
                vec![
                    $( Setting {
                        field: stringify!($field),
                        default: $default,
                        default_shown: [$($shown)?].first().copied(),
                        takes: <$type as Value>::TAKES,
                        meaning: [$($doc),+].map(str::trim).join(" "),
                        effect: Effect::Now,
                    }, )*
                    $( $( Setting {
                        field: stringify!($later_field),
                        default: $later_default,
                        default_shown: [$($later_shown)?].first().copied(),
                        takes: <$later_type as Value>::TAKES,
                        meaning: [$($later_doc),+].map(str::trim).join(" "),
                        effect: Effect::Later,
                    }, )* )?
                ]
            }

            fn read(reader: &mut $crate::config::source::Reader<'_>) -> Option<Self> {
                $( let $field = reader.value::<$type>(stringify!($field), $default); )*
                $( $( reader.later::<$later_type>(stringify!($later_field), $later_default); )* )?
                Some(Self { $( $field: $field?, )* })
            }
        }
    };
}
pub(crate) use settings;
