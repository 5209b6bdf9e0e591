//! One repository against its events, and every object that refs and events need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use grasp_core::explain::{Difference, between, refs_seen};
use grasp_core::lifecycle::Stage;
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::refplan::{self, DesiredRefs};
use grasp_core::view::{ObjectFacts, RepoView};
use grasp_git::{Inspection, Lease, RepoLock};
use grasp_store::History;

use super::{CheckError, Checked, Finding, Service};
use crate::service::reconcile;

/// How long a repository may take to follow its events before that is a finding.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is compared, as of one moment.
pub(super) struct Ground {
    pub(super) view: RepoView,
    pub(super) found: Option<Inspection>,
    /// Refs that readers are shown, if they were asked for.
    shown: Option<BTreeMap<grasp_core::refname::RefName, Oid>>,
    is_dirty: bool,
    pub(super) lease: Lease,
}

impl Service {
    /// Looks at one repository. Reads every object that it needs; ends early, with what was found so far, if
    /// `given_up` becomes true.
    pub async fn check(
        &self,
        repository: &RepoAddress,
        given_up: &Arc<AtomicBool>,
    ) -> Result<Checked, CheckError> {
        // A repository that is just following is no finding.
        let in_line = self.store.dirty().wait_clean(repository);
        let _ = tokio::time::timeout(PATIENCE, in_line).await;
        let (service, at) = (self.clone(), repository.clone());
        let given_up = Arc::clone(given_up);
        self.blocking(move || {
            let ground = service.ground(&service.git.lock(&at))?;
            Ok(service.look(&at, &ground, &given_up))
        })
        .await
    }

    /// Reads events and folder while nobody writes to it.
    pub(super) fn ground(&self, lock: &RepoLock) -> Result<Ground, CheckError> {
        let repository = lock.address();
        let lease = self.git.lease(repository);
        let snapshot = self.store.snapshot()?;
        let view = reconcile::view_of(&snapshot.view(), repository, History::WithSuperseded)?;
        Ok(Ground {
            view,
            found: self.git.inspect(repository)?,
            shown: self.git.cached_refs(repository).map(|refs| refs.oids()),
            is_dirty: self.store.dirty().contains(repository),
            lease,
        })
    }

    fn look(&self, repository: &RepoAddress, ground: &Ground, given_up: &AtomicBool) -> Checked {
        let mut checked = Checked {
            repository: repository.clone(),
            findings: Vec::new(),
            objects: 0,
        };
        let desired = refplan::desired(repository, &ground.view, &self.policy);
        let Some(found) = &ground.found else {
            if desired.exists && !ground.is_dirty {
                checked.findings.push(Finding::DirectoryMissing);
            }
            return checked;
        };
        if !desired.exists {
            if !ground.is_dirty {
                let is_empty = found.is_empty;
                checked
                    .findings
                    .push(Finding::DirectoryUnwanted { is_empty });
            }
            return checked;
        }
        checked.findings.extend(around(found));
        if !found.unreadable_packs.is_empty() {
            return checked; // nothing can be read
        }
        let mut needed = needs(found, &desired.refs, &desired.proposals);
        let mut tips: Vec<Oid> = needed.keys().copied().collect();
        let objects = match self.git.objects(&ground.lease) {
            Ok(objects) => objects,
            Err(failure) => {
                let problem = failure.to_string();
                checked.findings.push(Finding::Unreadable { problem });
                return checked;
            }
        };
        // What only an event names may be elsewhere; what is here of it must be whole.
        for (oid, by) in named(&ground.view) {
            if !needed.contains_key(&oid) && objects.contains(&oid) {
                needed.insert(oid, by);
                tips.push(oid);
            }
        }
        // Refs first: a hole is told with what people see of it.
        let walked = objects.walk(tips.iter().copied(), given_up);
        checked.objects = walked.objects;
        let whole = if walked.holes.is_empty() {
            tips.iter().copied().collect()
        } else {
            ground.lease.forget_complete();
            objects.complete(&tips, &[])
        };
        for hole in walked.holes {
            let needed_by = needed.get(&hole.tip).cloned().unwrap_or_default();
            checked.findings.push(Finding::Object { hole, needed_by });
        }
        if walked.more > 0 {
            let count = walked.more;
            checked.findings.push(Finding::MoreObjects { count });
        }
        if walked.is_cut {
            return checked;
        }
        if ground.is_dirty {
            checked.findings.push(Finding::NotInLine);
        } else {
            let differences = self.differences(repository, ground, found, &whole);
            checked
                .findings
                .extend(differences.into_iter().map(Finding::Ref));
        }
        checked
    }

    /// Refs on the disk against those that events say, and against those that readers are shown.
    fn differences(
        &self,
        repository: &RepoAddress,
        ground: &Ground,
        found: &Inspection,
        whole: &BTreeSet<Oid>,
    ) -> Vec<Difference> {
        let mut facts = ObjectFacts::none();
        for oid in whole {
            facts.add(repository.clone(), *oid);
        }
        let disk = Some((&found.refs, &found.head));
        let seen = refs_seen(repository, &ground.view, &facts, disk, &self.policy);
        let mut differences = seen.differences;
        // A ref whose objects are gone is told by the object.
        differences.retain(|one| {
            let at = found
                .refs
                .iter()
                .find(|(name, _)| name.as_str() == one.name);
            one.should.is_some() || at.is_none_or(|(_, oid)| whole.contains(oid))
        });
        let shown = ground.shown.as_ref();
        for other in shown.map_or_else(Vec::new, |shown| between(&found.refs, shown)) {
            if !differences.iter().any(|it| it.name == other.name) {
                differences.push(other);
            }
        }
        differences
    }
}

/// What lies around objects and refs.
fn around(found: &Inspection) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in found.unreadable_packs.clone() {
        findings.push(Finding::UnreadablePack { name });
    }
    if found.refs_damaged > 0 {
        let lines = found.refs_damaged;
        findings.push(Finding::RefsDamaged { lines });
    }
    if found.head_damaged {
        findings.push(Finding::HeadDamaged);
    }
    if found.loose_refs > 0 {
        let count = found.loose_refs;
        findings.push(Finding::LooseRefs { count });
    }
    if found.alternates {
        findings.push(Finding::Alternates);
    }
    for file in found.leftovers.clone() {
        findings.push(Finding::Leftover { file });
    }
    findings
}

/// What refs are at and should be at, with the name of one that needs it.
fn needs(
    found: &Inspection,
    desired: &DesiredRefs,
    proposals: &BTreeMap<grasp_core::refname::RefName, Oid>,
) -> BTreeMap<Oid, String> {
    let none = BTreeMap::new();
    let signed = match desired {
        DesiredRefs::Winner { refs, .. } => refs,
        DesiredRefs::Empty | DesiredRefs::Frozen => &none,
    };
    let all = found.refs.iter().chain(signed).chain(proposals);
    all.map(|(name, oid)| (*oid, name.to_string())).collect()
}

/// What events name that git must keep (DEL-12).
pub(super) fn named(view: &RepoView) -> BTreeMap<Oid, String> {
    let states = view.states.values().flatten();
    let states = states.filter(|entry| entry.stage != Stage::Held);
    let states = states.flat_map(|entry| {
        let by = format!("state {}", entry.item.id());
        entry
            .item
            .oids()
            .into_iter()
            .map(move |oid| (oid, by.clone()))
    });
    let proposals = view.proposals.values();
    let proposals = proposals.filter(|entry| entry.stage != Stage::Held);
    let proposals =
        proposals.filter_map(|entry| Some((entry.commit?, format!("event {}", entry.event))));
    let uploads = view.uploads.iter();
    let uploads = uploads.map(|upload| (upload.commit, format!("event {}", upload.event)));
    states.chain(proposals).chain(uploads).collect()
}
