//! The refs of one repository at one moment.
//!
//! Immutable once built: a reader that took one answers from it to its end, whatever is written
//! meanwhile, and a writer replaces it as a whole (GIT-12).

use std::collections::BTreeMap;

use grasp_core::oid::Oid;
use grasp_core::refname::RefName;

/// All refs of a repository and where `HEAD` points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefSnapshot {
    /// The refs, in the order git lists them.
    pub refs: BTreeMap<RefName, RefValue>,
    /// The branch that `HEAD` names; it need not exist.
    pub head: RefName,
    /// Grows with every change, so that what was computed from an older one can be told apart.
    pub generation: u64,
}

/// What one ref points at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefValue {
    /// The object the ref names.
    pub oid: Oid,
    /// What an annotated tag finally points at; `None` for anything but a tag object.
    pub peeled: Option<Oid>,
}

impl RefSnapshot {
    /// A repository without refs whose `HEAD` waits for `head`.
    pub const fn unborn(head: RefName) -> Self {
        Self {
            refs: BTreeMap::new(),
            head,
            generation: 0,
        }
    }

    /// What `HEAD` resolves to, `None` while its branch does not exist.
    pub fn head_value(&self) -> Option<&RefValue> {
        self.refs.get(&self.head)
    }

    /// The commit that `HEAD` resolves to.
    pub fn head_oid(&self) -> Option<Oid> {
        self.head_value().map(|value| value.oid)
    }

    /// The names with what they name, without peeling.
    pub fn oids(&self) -> BTreeMap<RefName, Oid> {
        let oid = |(name, value): (&RefName, &RefValue)| (name.clone(), value.oid);
        self.refs.iter().map(oid).collect()
    }
}
