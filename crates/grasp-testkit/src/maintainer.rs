//! A maintainer with an announced repository and a work tree: where most tests begin.

use nostr::event::Event;

use crate::git::{GitHome, Pushed, Refs, WorkTree};
use crate::person::Person;
use crate::relay::{Answer, publish};
use crate::server::Endpoint;

/// What the relay says of what waits for git data.
pub const PURGATORY: &str = "purgatory: won't be served until git data arrives";

/// Somebody who maintains one repository on one server.
#[derive(Debug, Clone)]
pub struct Maintainer {
    /// Who.
    pub person: Person,
    /// The `d` tag.
    pub identifier: String,
    /// The work tree they push from.
    pub work: WorkTree,
    /// The server they push to.
    pub server: Endpoint,
}

impl Maintainer {
    /// Alice, with an empty work tree and nothing published.
    pub async fn new(identifier: &str, server: &Endpoint) -> Self {
        Self::named("alice", identifier, server).await
    }

    /// Somebody of another name, with an empty work tree and nothing published.
    pub async fn named(name: &str, identifier: &str, server: &Endpoint) -> Self {
        Self {
            person: Person::named(name),
            identifier: identifier.to_owned(),
            work: GitHome::new().init("work").await,
            server: server.clone(),
        }
    }

    /// Alice, whose announcement is in purgatory.
    pub async fn announcing(identifier: &str, server: &Endpoint) -> Self {
        Self::named_announcing("alice", identifier, server).await
    }

    /// Somebody of another name whose announcement is in purgatory.
    pub async fn named_announcing(name: &str, identifier: &str, server: &Endpoint) -> Self {
        let this = Self::named(name, identifier, server).await;
        this.announce().await;
        this
    }

    /// Alice, whose repository is served with one commit on `main`.
    pub async fn serving(identifier: &str, server: &Endpoint) -> Self {
        Self::named_serving("alice", identifier, server).await
    }

    /// Somebody of another name whose repository is served with one commit on `main`.
    pub async fn named_serving(name: &str, identifier: &str, server: &Endpoint) -> Self {
        let this = Self::named_announcing(name, identifier, server).await;
        let first = this.commit("first").await;
        this.publish_state([("refs/heads/main", first)]).await;
        this.push().await.accepted();
        this
    }

    /// Publishes the plain announcement, which must be accepted.
    pub async fn announce(&self) -> Event {
        let event = self
            .person
            .announcement(&self.identifier, &self.server)
            .sign();
        self.publish(&event).await.accepted();
        event
    }

    /// Pushes all branches and tags to another server that hosts the repository too.
    pub async fn push_to(&self, server: &Endpoint) -> Pushed {
        let url = server.clone_url(&self.person.npub(), &self.identifier);
        let all = ["refs/heads/*:refs/heads/*", "refs/tags/*:refs/tags/*"];
        self.work.push_to(&url, &all).await
    }

    /// Publishes an event.
    pub async fn publish(&self, event: &Event) -> Answer {
        publish(&self.server.ws, event).await
    }

    /// Signs a state; it is later than all before.
    pub fn state<R, O>(&self, refs: impl IntoIterator<Item = (R, O)>) -> Event
    where
        R: AsRef<str>,
        O: AsRef<str>,
    {
        self.person.state(&self.identifier, refs).sign()
    }

    /// Signs a state and publishes it; it must be accepted.
    pub async fn publish_state<R, O>(&self, refs: impl IntoIterator<Item = (R, O)>) -> Event
    where
        R: AsRef<str>,
        O: AsRef<str>,
    {
        let state = self.state(refs);
        self.publish(&state).await.accepted();
        state
    }

    /// Commits one more file on the present branch and returns the commit.
    pub async fn commit(&self, text: &str) -> String {
        self.work.commit(text).await
    }

    /// Commits on `main`, publishes a state of `main` alone and pushes it.
    pub async fn advance(&self, text: &str) -> (String, Event) {
        let tip = self.commit(text).await;
        let state = self.publish_state([("refs/heads/main", &tip)]).await;
        self.push_refs(&["main"]).await.accepted();
        (tip, state)
    }

    /// Where the repository is cloned from.
    pub fn url(&self) -> String {
        self.server.clone_url(&self.person.npub(), &self.identifier)
    }

    /// The path of [`Maintainer::url`], for HTTP by hand.
    pub fn path(&self) -> String {
        let url = self.url();
        let (_, path) = url
            .split_once(&self.server.authority)
            .expect("the server's own URL");
        path.to_owned()
    }

    /// The `a` value of the repository.
    pub fn coordinate(&self) -> String {
        self.person.coordinate(&self.identifier)
    }

    /// Pushes all branches and tags.
    pub async fn push(&self) -> Pushed {
        let all = ["refs/heads/*:refs/heads/*", "refs/tags/*:refs/tags/*"];
        self.push_refs(&all).await
    }

    /// Pushes refspecs.
    pub async fn push_refs(&self, refspecs: &[&str]) -> Pushed {
        self.work.push_to(&self.url(), refspecs).await
    }

    /// What the repository lists.
    pub async fn remote_refs(&self) -> Refs {
        self.work.home().ls_remote(&self.url()).await
    }

    /// What the repository lists below `refs/heads/` and `refs/tags/`, peeled entries aside.
    pub async fn remote_branches_and_tags(&self) -> Refs {
        let mut refs = self.remote_refs().await;
        refs.retain(|name, _| {
            (name.starts_with("refs/heads/") || name.starts_with("refs/tags/"))
                && !name.ends_with("^{}")
        });
        refs
    }
}
