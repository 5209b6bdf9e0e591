//! Looks whether what is stored is what was stored: every event, and every row that finds one (CLI-1).
//!
//! Nothing here is needed while all is well: one transaction writes a record and what follows from it. It is for
//! the day when a disk lied. All rows that follow from records are made anew in a transaction, and compared with
//! those that are there; a look then throws the new ones away, a repair keeps them. *Invariant:* rows are made
//! from records and never records from rows; what is no event goes only with a repair, and its text is told.

mod compare;
mod rebuild;
#[cfg(test)]
mod tests;

use nostr::event::EventId;

use crate::error::StoreError;
use crate::store::Store;

/// Something in the store that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventFinding {
    /// A record that does not read as one.
    Unreadable {
        /// The number it is stored under.
        number: u64,
    },
    /// A record whose text is not what its author signed.
    Forged {
        /// The number it is stored under.
        number: u64,
        /// What is wrong.
        problem: String,
        /// What is stored, so that a repair loses nothing.
        json: String,
    },
    /// What a record says of its event besides the text.
    Header {
        /// Which event.
        event: EventId,
    },
    /// Rows of one table that are missing, or that find nothing.
    Rows {
        /// Which table.
        table: &'static str,
        /// How many should be there and are not, or say something else.
        missing: u64,
        /// How many are there and should not be.
        surplus: u64,
    },
    /// The numbers of what is stored.
    Counters,
}

impl EventFinding {
    /// One word for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "unreadable",
            Self::Forged { .. } => "forged",
            Self::Header { .. } => "header",
            Self::Rows { .. } => "rows",
            Self::Counters => "counters",
        }
    }
}

/// What a look at the whole store came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventsChecked {
    /// Events that are what their authors signed.
    pub events: u64,
    /// Records that are not. A repair has removed them.
    pub unsound: u64,
    /// How much was told.
    pub findings: u64,
}

impl Store {
    /// Looks at everything, tells what is wrong, and with `mend` makes it right, in one transaction. For a store
    /// that no server uses: nothing else is written meanwhile. Blocking.
    pub fn check_events(
        &self,
        mend: bool,
        tell: &mut dyn FnMut(EventFinding),
    ) -> Result<EventsChecked, StoreError> {
        let (environment, tables, hash) = self.parts();
        let before = environment.clone().static_read_txn()?;
        let mut transaction = environment.write_txn()?;
        let mut checked = EventsChecked::default();
        let mut count = |finding| {
            checked.findings += 1;
            tell(finding);
        };
        let rebuilt = rebuild::rebuild(tables, hash, &mut transaction, &mut count)?;
        compare::compare(tables, &before, &transaction, &mut count)?;
        (checked.events, checked.unsound) = (rebuilt.events, rebuilt.unsound);
        if mend && checked.findings > 0 {
            transaction.commit()?;
        }
        Ok(checked)
    }
}
