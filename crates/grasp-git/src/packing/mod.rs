//! Finds out what some tips need, and writes exactly that as a pack (PUSH-18).
//!
//! Entries are copied as they lie in their old pack, deltas and all, wherever their base comes along; so
//! a pack is rewritten about as fast as it is read, and without a process.

mod index;
mod reach;
mod write;

pub(crate) use reach::{Needed, Sources};
pub(crate) use write::write;
