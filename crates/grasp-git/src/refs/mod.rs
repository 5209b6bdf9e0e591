//! What a repository's refs are, as readers and writers see them.

mod snapshot;

pub use snapshot::{RefSnapshot, RefValue};
