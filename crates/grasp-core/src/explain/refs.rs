//! What a repository shows, against what it should show (REF-*).

use std::collections::{BTreeMap, BTreeSet};

use nostr::event::EventId;

use super::{Missing, Shown};
use crate::name::RepoAddress;
use crate::oid::Oid;
use crate::policy::Policy;
use crate::refname::{RefName, RefSpace};
use crate::refplan::{self, Desired, DesiredRefs};
use crate::view::{ObjectFacts, RepoView};

/// Directory, refs and HEAD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefsSeen {
    /// Whether the directory should be there (REF-6).
    pub wanted: bool,
    /// Whether it is.
    pub exists: bool,
    /// What decides about branches, tags and HEAD.
    pub condition: Condition,
    /// What HEAD names on the disk.
    pub head: Option<RefName>,
    /// Branches, tags and proposals on the disk.
    pub shown: usize,
    /// Refs that are not as they should be and could be: the repository is not in line.
    pub differences: Vec<Difference>,
    /// Objects of refs that should be shown and are gone: the repository is degraded (REF-8).
    pub missing: Missing,
}

/// What decides about branches, tags and HEAD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// There is none, and should be none.
    Absent,
    /// A state.
    Decided {
        /// Which.
        by: EventId,
    },
    /// Nothing was served yet (DEL-2, G6-3).
    Empty,
    /// No state decides any more: they stay as last applied (REF-5).
    Frozen,
}

/// A ref that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its name, or HEAD.
    pub name: String,
    /// Where it is.
    pub is: Option<String>,
    /// Where it should be.
    pub should: Option<String>,
}

/// Compares what a repository shows with what it should show, any repository this server can hold. `facts` says what it
/// has.
pub fn refs_seen(
    address: &RepoAddress,
    view: &RepoView,
    facts: &ObjectFacts,
    shown: Option<Shown<'_>>,
    policy: &Policy,
) -> RefsSeen {
    compare(
        address,
        refplan::desired(address, view, policy),
        facts,
        shown,
    )
}

pub(super) fn compare(
    address: &RepoAddress,
    desired: Desired,
    facts: &ObjectFacts,
    shown: Option<Shown<'_>>,
) -> RefsSeen {
    let none = BTreeMap::new();
    let exists = shown.is_some();
    let (shown, head) = shown.map_or((&none, None), |(refs, head)| (refs, Some(head)));
    let (condition, mut should, should_head) = match desired.refs {
        _ if !desired.exists => (Condition::Absent, BTreeMap::new(), None),
        DesiredRefs::Winner { state, refs, head } => {
            (Condition::Decided { by: state }, refs, Some(head))
        }
        DesiredRefs::Empty => (Condition::Empty, BTreeMap::new(), Some(RefName::main())),
        DesiredRefs::Frozen => (Condition::Frozen, signed(shown), head.cloned()),
    };
    should.extend(desired.proposals);
    let is_gone = |oid: &Oid| !facts.holds(address, oid);
    let missing: Missing = should
        .values()
        .filter(|oid| is_gone(oid))
        .copied()
        .collect();
    should.retain(|_, oid| !missing.contains(oid));
    let mut differences = between(shown, &should);
    if head != should_head.as_ref() {
        differences.push(Difference {
            name: "HEAD".to_owned(),
            is: head.map(ToString::to_string),
            should: should_head.map(|head| head.to_string()),
        });
    }
    RefsSeen {
        wanted: desired.exists,
        exists,
        condition,
        head: head.cloned(),
        shown: shown.len(),
        differences,
        missing,
    }
}

fn signed(refs: &BTreeMap<RefName, Oid>) -> BTreeMap<RefName, Oid> {
    let signed = |name: &RefName| matches!(name.space(), RefSpace::Branch | RefSpace::Tag);
    let signed = refs.iter().filter(|(name, _)| signed(name));
    signed.map(|(name, oid)| (name.clone(), *oid)).collect()
}

/// The refs that differ, by name.
pub fn between(is: &BTreeMap<RefName, Oid>, should: &BTreeMap<RefName, Oid>) -> Vec<Difference> {
    let names: BTreeSet<&RefName> = is.keys().chain(should.keys()).collect();
    let text = |refs: &BTreeMap<RefName, Oid>, name| refs.get(name).map(Oid::to_string);
    names
        .into_iter()
        .filter(|name| is.get(*name) != should.get(*name))
        .map(|name| Difference {
            name: name.to_string(),
            is: text(is, name),
            should: text(should, name),
        })
        .collect()
}
