//! Takes packs in: quarantine, checks, installation.

mod quarantine;

pub(crate) use quarantine::Quarantine;
