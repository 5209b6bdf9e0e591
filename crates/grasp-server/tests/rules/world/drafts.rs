//! Events of [`REPO`] as tests sign them.

use std::collections::BTreeMap;

use grasp_core::name::{Coordinate, RepoAddress};
use grasp_testkit::{Draft, Endpoint, Event, Person};

use super::{HOST, REPO};
use crate::history::Commit;

/// An announcement of [`REPO`] that lists this service.
pub(crate) fn announcing(owner: &Person) -> Draft<'_> {
    owner.announcement(REPO, &endpoint())
}

/// One that lists it and names maintainers.
pub(crate) fn listing<'p>(owner: &'p Person, others: &[&Person]) -> Draft<'p> {
    maintained(announcing(owner), others)
}

/// A state of `main` alone.
pub(crate) fn main_at(author: &Person, commit: &Commit) -> Event {
    author
        .state(REPO, [("refs/heads/main", &commit.oid)])
        .sign()
}

/// A pull request to `owner`.
pub(crate) fn proposing(author: &Person, owner: &Person, commit: &Commit) -> Event {
    author
        .pull_request(&owner.coordinate(REPO), &commit.oid)
        .sign()
}

/// The same announcement with a `maintainers` tag.
pub(crate) fn maintained<'p>(draft: Draft<'p>, others: &[&Person]) -> Draft<'p> {
    let names = std::iter::once("maintainers".to_owned());
    draft
        .without("maintainers")
        .tag(names.chain(others.iter().map(|other| other.hex())))
}

/// Where the `/prs/` repository of a submitter is cloned from.
pub(crate) fn prs_url(submitter: &Person) -> String {
    format!("https://{HOST}/prs/{}/{REPO}.git", submitter.npub())
}

/// The repository of `owner`.
pub(crate) fn address(owner: &Person) -> RepoAddress {
    let identifier = REPO.parse().expect("valid");
    RepoAddress::Announced(Coordinate::new(owner.key(), identifier))
}

/// `main` at this commit and nothing else.
pub(crate) fn main_only(commit: &Commit) -> BTreeMap<String, String> {
    BTreeMap::from([("refs/heads/main".to_owned(), commit.oid.clone())])
}

/// How this server is reached.
pub(crate) fn endpoint() -> Endpoint {
    Endpoint {
        authority: HOST.to_owned(),
        http: format!("https://{HOST}"),
        ws: format!("wss://{HOST}"),
    }
}
