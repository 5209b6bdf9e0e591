//! Signers and what they sign.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nostr::event::{Event, Kind, Tag, UnsignedEvent};
use nostr::key::{Keys, PublicKey};
use nostr::nips::nip19::ToBech32 as _;
use nostr::types::Timestamp;
use secp256k1::{All, Secp256k1};

use crate::server::Endpoint;

static SECP: LazyLock<Secp256k1<All>> = LazyLock::new(Secp256k1::new);

/// The next second of the tests' calendar: each call is later than all before it, so that what is
/// signed second also wins second (KIND-5). It starts a day in the past and never reaches the present.
pub fn next_second() -> u64 {
    static SECONDS: LazyLock<AtomicU64> =
        LazyLock::new(|| AtomicU64::new(Timestamp::now().as_secs() - 86_400));
    SECONDS.fetch_add(1, Ordering::Relaxed)
}

/// Somebody with a key. The same name is always the same key.
#[derive(Debug, Clone)]
pub struct Person {
    keys: Keys,
}

impl Person {
    /// The person of this name.
    pub fn named(name: &str) -> Self {
        let part = |number: u8| {
            let mut hasher = DefaultHasher::new();
            (name, number).hash(&mut hasher);
            format!("{:016x}", hasher.finish())
        };
        let secret = [part(0), part(1), part(2), part(3)].concat();
        Self {
            keys: Keys::parse(&secret).expect("nearly every 32 bytes are a secret key"),
        }
    }

    /// Whoever holds this secret key (nsec or hex); `None` if it is none.
    pub fn holding(secret: &str) -> Option<Self> {
        Some(Self {
            keys: Keys::parse(secret.trim()).ok()?,
        })
    }

    /// The secret key, for clients that sign by themselves.
    pub fn secret_hex(&self) -> String {
        self.keys.secret_key().to_secret_hex()
    }

    /// The public key.
    pub fn key(&self) -> PublicKey {
        self.keys.public_key()
    }

    /// The public key as events name it.
    pub fn hex(&self) -> String {
        self.key().to_hex()
    }

    /// The public key as paths name it.
    pub fn npub(&self) -> String {
        self.key()
            .to_bech32()
            .unwrap_or_else(|never: std::convert::Infallible| match never {})
    }

    /// The `a` value of this person's repository `identifier`.
    pub fn coordinate(&self, identifier: &str) -> String {
        format!("30617:{}:{identifier}", self.hex())
    }

    /// Begins an event of any kind.
    pub fn draft(&self, kind: u16) -> Draft<'_> {
        Draft {
            person: self,
            kind,
            created_at: None,
            content: String::new(),
            tags: Vec::new(),
        }
    }

    /// Begins an announcement that lists `server` in both `clone` and `relays`.
    pub fn announcement(&self, identifier: &str, server: &Endpoint) -> Draft<'_> {
        self.draft(30617)
            .tag(["d", identifier])
            .tag(["name", identifier])
            .tag(["clone", &server.clone_url(&self.npub(), identifier)])
            .tag(["relays", &server.ws])
    }

    /// Begins an announcement that lists several servers.
    pub fn announcement_on(&self, identifier: &str, servers: &[&Endpoint]) -> Draft<'_> {
        let clone = servers
            .iter()
            .map(|server| server.clone_url(&self.npub(), identifier));
        let relays = servers.iter().map(|server| server.ws.clone());
        self.draft(30617)
            .tag(["d", identifier])
            .tag(["name", identifier])
            .tag(["clone".to_owned()].into_iter().chain(clone))
            .tag(["relays".to_owned()].into_iter().chain(relays))
    }

    /// Begins a state with `HEAD` on `main`.
    pub fn state<R, O>(&self, identifier: &str, refs: impl IntoIterator<Item = (R, O)>) -> Draft<'_>
    where
        R: AsRef<str>,
        O: AsRef<str>,
    {
        refs.into_iter().fold(
            self.draft(30618)
                .tag(["d", identifier])
                .tag(["HEAD", "ref: refs/heads/main"]),
            |draft, (name, oid)| draft.tag([name.as_ref(), oid.as_ref()]),
        )
    }

    /// Begins an issue about the repository at `coordinate`.
    pub fn issue(&self, coordinate: &str) -> Draft<'_> {
        self.draft(1621)
            .tag(["a", coordinate])
            .tag(["subject", "an issue"])
    }

    /// Begins a NIP-22 comment on an event.
    pub fn comment(&self, on: &Event) -> Draft<'_> {
        self.draft(1111)
            .tag(["E", &on.id.to_hex()])
            .tag(["K", &on.kind.as_u16().to_string()])
            .tag(["e", &on.id.to_hex()])
            .tag(["k", &on.kind.as_u16().to_string()])
            .content("a comment")
    }

    /// Begins a pull request with the tip `commit`.
    pub fn pull_request(&self, coordinate: &str, commit: &str) -> Draft<'_> {
        self.draft(1618)
            .tag(["a", coordinate])
            .tag(["subject", "a change"])
            .tag(["c", commit])
    }

    /// Begins an update of a pull request.
    pub fn pull_request_update(&self, coordinate: &str, pr: &Event, commit: &str) -> Draft<'_> {
        self.draft(1619)
            .tag(["a", coordinate])
            .tag(["E", &pr.id.to_hex()])
            .tag(["P", &pr.pubkey.to_hex()])
            .tag(["c", commit])
    }

    /// Begins a deletion request for one event.
    pub fn deletion(&self, of: &Event) -> Draft<'_> {
        self.draft(5).tag(["e", &of.id.to_hex()])
    }

    /// Signs bytes that are an event's id.
    fn sign(&self, event: UnsignedEvent) -> Event {
        let id = event.compute_id();
        let signature = self
            .keys
            .sign_schnorr_with_aux_rand(&SECP, id.as_bytes(), &[0; 32]);
        event
            .add_signature(signature)
            .expect("our own signature is right")
    }
}

/// An event that is not signed yet.
#[derive(Debug, Clone)]
pub struct Draft<'a> {
    person: &'a Person,
    kind: u16,
    created_at: Option<u64>,
    content: String,
    tags: Vec<Vec<String>>,
}

impl Draft<'_> {
    /// Adds a tag.
    #[must_use]
    pub fn tag<T: AsRef<str>>(mut self, values: impl IntoIterator<Item = T>) -> Self {
        let values = values.into_iter().map(|value| value.as_ref().to_owned());
        self.tags.push(values.collect());
        self
    }

    /// Takes all tags of this name away, to say something else instead.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.tags.retain(|tag| tag[0] != name);
        self
    }

    /// Sets the content.
    #[must_use]
    pub fn content(mut self, content: &str) -> Self {
        content.clone_into(&mut self.content);
        self
    }

    /// Dates the event; without this it is later than all events signed before.
    #[must_use]
    pub fn at(mut self, second: u64) -> Self {
        self.created_at = Some(second);
        self
    }

    /// Signs.
    pub fn sign(self) -> Event {
        let tags = self
            .tags
            .into_iter()
            .map(|tag| Tag::parse(tag).expect("a tag has a name"));
        self.person.sign(UnsignedEvent::new(
            self.person.key(),
            Timestamp::from_secs(self.created_at.unwrap_or_else(next_second)),
            Kind::from(self.kind),
            tags,
            self.content,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_draft_verifies_and_later_ones_win() {
        let alice = Person::named("alice");
        let first = alice.draft(1).tag(["t", "x"]).content("one").sign();
        let second = alice.draft(1).content("two").sign();
        first.verify().expect("signed by its author");
        assert!(first.created_at < second.created_at);
        assert_eq!(first.pubkey, Person::named("alice").key());
        assert_ne!(first.pubkey, Person::named("bob").key());
    }
}
