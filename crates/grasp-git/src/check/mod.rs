//! Looks whether a repository on the disk is what it should be, object by object.
//!
//! What a push or a start looks at is bounded by what is known to be whole; here nothing is taken for granted, and
//! every object is read and hashed. *Invariant:* looking changes nothing; what mends a repository needs its lock, and
//! moves aside what it replaces instead of deleting it.

mod inspect;
mod list;
mod mend;
#[cfg(test)]
mod tests;
mod walk;

pub use inspect::Inspection;
pub use list::Listed;
pub use walk::{Hole, Problem, Walked};
