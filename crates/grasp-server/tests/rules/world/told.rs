//! What clients are told, and what tests expect of it.

use super::PURGATORY;

/// What a push was told.
#[derive(Debug)]
pub(crate) struct Pushed {
    /// Everything, sideband framing aside.
    pub(crate) text: String,
    pub(super) accepted: bool,
}

impl Pushed {
    #[track_caller]
    pub(crate) fn accepted(self) {
        assert!(
            self.accepted,
            "the push should be accepted: {:?}",
            self.text
        );
    }

    /// Whether the command for this ref was carried out.
    pub(crate) fn took(&self, name: &str) -> bool {
        self.text.contains(&format!("ok {name}\n"))
    }

    #[track_caller]
    pub(crate) fn refused(self) -> String {
        assert!(!self.accepted, "the push should be refused: {}", self.text);
        self.text
    }
}

/// What the sender of an event was told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) accepted: bool,
    pub(crate) message: String,
}

impl Answer {
    /// Stored and served.
    #[track_caller]
    pub(crate) fn is_stored(&self) {
        assert_eq!((self.accepted, self.message.as_str()), (true, ""));
    }

    /// Accepted into purgatory.
    #[track_caller]
    pub(crate) fn waits(&self) {
        assert_eq!((self.accepted, self.message.as_str()), (true, PURGATORY));
    }

    /// `OK true duplicate: …`.
    #[track_caller]
    pub(crate) fn is_duplicate(&self) {
        assert!(
            self.accepted && self.message.starts_with("duplicate:"),
            "{self:?}"
        );
    }

    #[track_caller]
    pub(crate) fn is_refused(&self) {
        assert!(!self.accepted, "{self:?}");
    }
}
