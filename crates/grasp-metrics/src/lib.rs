//! What the other crates count with, and the text that monitoring reads.
//!
//! Each crate keeps its numbers in one struct that it is handed: plain numbers are atomics of the standard
//! library, numbers by label are a [`Family`], a [`Table`] or a [`Histogram`] of this crate. The server puts
//! them all into one [`Text`].
//!
//! *Invariant:* a label's values come from an enum that [`labels!`] declares, never from a peer, and every
//! series exists from the start. So the number of series is fixed, however many clients, repositories and
//! events there are (cases.md 80).

#![forbid(unsafe_code)]

mod family;
mod histogram;
mod label;
mod text;

pub use family::{Family, Table};
pub use histogram::{Histogram, Histograms};
pub use label::Label;
pub use text::{Metric, Sort, Text};
