//! Gathers what an explanation of a repository is made from.

use std::collections::{BTreeMap, BTreeSet};

use grasp_core::explain::{Explanation, Question, explain};
use grasp_core::lifecycle::Stage;
use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::oid::Oid;
use grasp_core::refname::RefName;
use grasp_core::refplan;
use grasp_core::view::RepoView;
use grasp_store::{History, StoreError};

use super::facts::{self, Wanted};
use super::{Refusal, Service};

/// Refs, and what HEAD names.
type Shown = (BTreeMap<RefName, Oid>, RefName);

/// What explains a repository.
#[derive(Debug, Clone)]
pub struct Explained {
    /// What its events and objects say.
    pub explanation: Explanation,
    /// What was refused of late around it.
    pub refusals: Vec<Refusal>,
    /// It is to be brought in line, and is not yet.
    pub is_dirty: bool,
}

/// Why a repository cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The store could not be read.
    #[error("the events cannot be read")]
    Store(#[from] StoreError),
    /// The repository could not be read.
    #[error("the repository cannot be read")]
    Git(#[from] grasp_git::Error),
}

impl Service {
    /// Why the repository of this coordinate looks as it does. Reads only.
    pub async fn explain(&self, repo: &Coordinate) -> Result<Explained, ExplainError> {
        let service = self.clone();
        let repo = repo.clone();
        self.blocking(move || service.explain_now(&repo)).await
    }

    fn explain_now(&self, repo: &Coordinate) -> Result<Explained, ExplainError> {
        let address = RepoAddress::Announced(repo.clone());
        let snapshot = self.store.snapshot()?;
        let view = snapshot.view();
        let archive = view.archive_of(&address)?;
        let view = view.repo_view(&repo.identifier, &[repo.owner], History::WithSuperseded)?;
        drop(snapshot);
        let shown = self.shown(&address)?;
        let wanted = Wanted {
            objects: self.named(&address, &view, shown.as_ref()),
            ..Wanted::default()
        };
        let measured = facts::measure(&self.git, &view, wanted)?;
        let explanation = explain(Question {
            repo,
            view: &view,
            facts: &measured.facts,
            shown: shown.as_ref().map(|(refs, head)| (refs, head)),
            archive,
            policy: &self.policy,
        });
        let mut scopes: BTreeSet<Coordinate> = BTreeSet::from([repo.clone()]);
        for person in &explanation.people {
            scopes.insert(Coordinate::new(person.key, repo.identifier.clone()));
        }
        Ok(Explained {
            refusals: self.refusals.of(&scopes),
            is_dirty: self.store.dirty().contains(&address),
            explanation,
        })
    }

    /// The refs and HEAD on the disk; `None` without a directory.
    fn shown(&self, address: &RepoAddress) -> Result<Option<Shown>, grasp_git::Error> {
        match self.git.refs(address) {
            Ok(refs) => Ok(Some((refs.oids(), refs.head.clone()))),
            Err(grasp_git::Error::NotFound { .. }) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Everything whose absence would be a reason: what refs are at, should be at, and what waits.
    fn named(
        &self,
        address: &RepoAddress,
        view: &RepoView,
        shown: Option<&Shown>,
    ) -> BTreeSet<Oid> {
        let desired = refplan::desired(address, view, &self.policy);
        let mut named: BTreeSet<Oid> = desired.proposals.into_values().collect();
        let waits = |stage| matches!(stage, Stage::Served | Stage::Waiting | Stage::Parked);
        let states = view.states.values().flatten();
        let states = states.filter(|entry| waits(entry.stage));
        named.extend(states.flat_map(|entry| entry.item.oids()));
        named.extend(shown.into_iter().flat_map(|(refs, _)| refs.values()));
        named
    }
}
