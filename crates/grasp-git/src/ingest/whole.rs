//! Takes of a pack what is whole, for whoever asked a stranger for it.
//!
//! A push is all or nothing. Another server may have one branch and not the next, or lie about a third: what is
//! complete is worth keeping, and what is not must cost little (HUNT-5, HUNT-12).

use std::collections::BTreeSet;

use grasp_core::oid::Oid;

use super::{IngestError, Installed, Quarantined};
use crate::objects::ObjectKind;
use crate::objects::{Objects, TAG_CHAIN_MAX, tag_target};
use crate::packing::{Needed, Sources};

/// So many tips may turn out to be torn before the rest counts as torn too: each costs a walk, and only a
/// sender that is broken has so many.
const TORN_MAX: usize = 8;

/// What was kept of a pack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    /// The tips that the repository holds now with all they need.
    pub whole: BTreeSet<Oid>,
    /// What that added.
    pub installed: Installed,
}

impl Quarantined {
    /// Installs exactly what those of `tips` need that are whole, durably: with what was sent, what is here, and
    /// what the relatives have. The other tips leave nothing behind.
    pub fn finish_whole(self, tips: &BTreeSet<Oid>) -> Result<Kept, IngestError> {
        let relatives = self.open_relatives()?;
        let has = |tip: &&Oid| self.brings(tip) || relatives.iter().any(|it| it.contains(tip));
        let present: Vec<Oid> = tips.iter().filter(has).copied().collect();
        let whole = match self.keep(&present) {
            Err(IngestError::Missing { .. }) => self.whole_among(&present, &relatives)?,
            kept => return kept,
        };
        self.keep(&whole)
    }

    fn keep(&self, tips: &[Oid]) -> Result<Kept, IngestError> {
        if tips.is_empty() {
            return Ok(Kept::default());
        }
        Ok(Kept {
            installed: self.install(tips)?,
            whole: tips.iter().copied().collect(),
        })
    }

    fn whole_among(&self, tips: &[Oid], relatives: &[Objects]) -> Result<Vec<Oid>, IngestError> {
        let sources = self.sources(relatives);
        let mut sure = Needed::default();
        let (mut whole, mut torn) = (Vec::new(), 0);
        for tip in tips {
            let present = |oid: &Oid| self.own.contains(oid) || sources.covers(&sure, oid);
            match sources.need(&[*tip], present, &self.cancel) {
                Ok(needed) => {
                    sure.merge(needed);
                    whole.push(*tip);
                }
                Err(failure @ (IngestError::Store(_) | IngestError::Interrupted)) => {
                    return Err(failure);
                }
                Err(_) if torn == TORN_MAX => break,
                Err(_) => torn += 1,
            }
        }
        Ok(whole)
    }

    /// Whether `oid` is a commit, or a tag that leads to one, in what was sent, here, or with a relative (PR-6).
    pub fn leads_to_commit(&self, oid: &Oid) -> Result<bool, IngestError> {
        let relatives = self.open_relatives()?;
        let mut stores: Vec<&Objects> = relatives.iter().collect();
        stores.push(&self.own);
        let sources = Sources::new(
            self.pack.as_ref(),
            stores.into_iter().map(Objects::store).collect(),
        );
        let (mut at, mut buffer) = (*oid, Vec::new());
        for _ in 0..TAG_CHAIN_MAX {
            match sources.read(&at, &mut buffer)? {
                Some(ObjectKind::Commit) => return Ok(true),
                Some(ObjectKind::Tag) => match tag_target(&buffer) {
                    Some(target) => at = target,
                    None => return Ok(false),
                },
                Some(ObjectKind::Tree | ObjectKind::Blob) | None => return Ok(false),
            }
        }
        Ok(false)
    }
}
