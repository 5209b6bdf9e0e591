//! What the people of a life sign.

use std::collections::BTreeMap;

use grasp_testkit::{Draft, Event, Person};

use super::life::Life;
use super::step::{Declared, PEOPLE, Step};
use crate::history::commit;
use crate::world::{HOST, REPO, announcing, maintained, prs_url};

/// DEL-11: how tests of the service mark what they publish.
const TEST: [&str; 2] = ["t", "grasp-audit-test-event"];

impl Life {
    /// The event that a step is about.
    pub(super) async fn written(&mut self, step: &Step) -> Option<Event> {
        Some(match step {
            Step::Announce {
                who,
                lists,
                lead,
                here,
                lasts,
            } => {
                let draft = self.announcement(*who, *lists, *lead, *here);
                self.signed(self.lasting(draft, *lasts), 0)
            }
            Step::State {
                who,
                declared,
                age,
                lasts,
            } => {
                let draft = declaring(&self.people[*who], declared).await;
                self.signed(self.lasting(draft, *lasts), *age)
            }
            Step::Propose { to, at, own } => self.proposal(*to, *at, *own).await,
            Step::SendDraft => self.drafts.pop()?,
            Step::Update { at } => {
                let request = self.sent.iter().rfind(|it| it.kind.as_u16() == 1618)?;
                let target = request.tags.iter().find(|tag| tag.as_slice()[0] == "a")?;
                let target = target.as_slice()[1].clone();
                contributor()
                    .pull_request_update(&target, request, &commit(*at).await.oid)
                    .at(self.seconds)
                    .sign()
            }
            Step::Issue { to, also, patch } => {
                let kind = if *patch { 1617 } else { 1621 };
                let author = contributor();
                let [to, also] = [to, also].map(|owner| self.people[*owner].coordinate(REPO));
                let draft = author.draft(kind).tag(["a", &to]).tag(["a", &also]);
                self.signed(draft, 0)
            }
            Step::Comment { back } => {
                let on = self.pick(*back)?;
                self.signed(self.people[2].comment(&on), 0)
            }
            Step::Vanish { who, here } => {
                let relay = if *here {
                    format!("wss://{HOST}")
                } else {
                    "wss://elsewhere.example.org".to_owned()
                };
                let author = self.person(*who);
                let draft = author.draft(62).tag(["relay".to_owned(), relay]);
                draft.at(self.seconds).sign()
            }
            _ => return None,
        })
    }

    pub(super) async fn delete(&mut self, step: &Step) {
        let request = match step {
            Step::Delete { back, by_address } => {
                let Some(event) = self.pick(*back) else {
                    return;
                };
                let author = self.author(&event);
                match address_of(&event).filter(|_| *by_address) {
                    Some(address) => {
                        let draft = author.draft(5).tag(["a".to_owned(), address]);
                        draft.at(self.seconds).sign()
                    }
                    None => author.deletion(&event).at(self.seconds).sign(),
                }
            }
            Step::DeleteNewest { who, state } => {
                let kind = if *state { 30618 } else { 30617 };
                let Some(event) = self.newest(*who, kind) else {
                    return;
                };
                let request = self.people[*who].deletion(&event);
                request.at(self.seconds).sign()
            }
            Step::DeleteForeign { back, who } => {
                let Some(event) = self.pick(*back) else {
                    return;
                };
                let request = self.people[*who].deletion(&event);
                request.at(self.seconds).sign()
            }
            Step::DeleteScope { who } => {
                let owner = &self.people[*who];
                let request = owner.draft(5).tag(["a", &owner.coordinate(REPO)]);
                request.at(self.seconds).sign()
            }
            Step::DeleteFirst { who, at } => {
                let author = self.people[*who].clone();
                let refs = [("refs/heads/main", &commit(*at).await.oid)];
                let state = author.state(REPO, refs).at(self.seconds).sign();
                self.send(author.deletion(&state).at(self.seconds).sign())
                    .await;
                return self.send(state).await;
            }
            _ => return,
        };
        self.send(request).await;
    }

    /// The newest event of this kind by one of the people, deleted or not.
    pub(super) fn newest(&self, who: usize, kind: u16) -> Option<Event> {
        let author = self.people[who].key();
        let own = self.sent.iter();
        let own = own.filter(|event| event.kind.as_u16() == kind && event.pubkey == author);
        own.max_by_key(|event| (event.created_at, std::cmp::Reverse(event.id)))
            .cloned()
    }

    fn author(&self, event: &Event) -> Person {
        let mut people = self.people.iter();
        let author = people.find(|person| person.key() == event.pubkey);
        author.cloned().unwrap_or_else(contributor)
    }

    fn person(&self, number: usize) -> Person {
        let person = self.people.get(number).cloned();
        person.unwrap_or_else(contributor)
    }

    /// So many seconds ago; by a test of the service, if that is who acts.
    fn signed(&self, draft: Draft<'_>, age: u64) -> Event {
        let draft = if self.tests { draft.tag(TEST) } else { draft };
        draft.at(self.seconds - age).sign()
    }

    /// NIP-40, from now.
    fn lasting<'d>(&self, draft: Draft<'d>, lasts: Option<u64>) -> Draft<'d> {
        match lasts {
            Some(secs) => {
                let end = self.world.now().as_secs() + secs;
                draft.tag(["expiration".to_owned(), end.to_string()])
            }
            None => draft,
        }
    }

    fn announcement(&self, who: usize, lists: u8, lead: Option<usize>, here: bool) -> Draft<'_> {
        let owner = &self.people[who];
        let others: Vec<&Person> = (0..PEOPLE.len())
            .filter(|other| lists & (1 << other) != 0 && *other != who)
            .map(|other| &self.people[other])
            .collect();
        let mut draft = maintained(announcing(owner), &others);
        if let Some(lead) = lead {
            // MNT-2: the legacy tag is ignored then.
            draft = draft.tag(["M", &self.people[lead].hex()]);
            for other in &others {
                draft = draft.tag(["m", &other.hex()]);
            }
        }
        if here {
            draft
        } else {
            draft
                .without("clone")
                .tag(["clone", "https://elsewhere.example.org/x.git"])
        }
    }

    pub(super) async fn proposal(&self, to: usize, at: usize, own: bool) -> Event {
        let (author, owner) = (contributor(), &self.people[to]);
        let mut draft = author.pull_request(&owner.coordinate(REPO), &commit(at).await.oid);
        if own {
            draft = draft.tag(["clone".to_owned(), prs_url(&author)]);
        }
        self.signed(draft, 0)
    }
}

/// Who asks for pulls and maintains nothing.
pub(super) fn contributor() -> Person {
    Person::named("dave")
}

pub(super) async fn declaring<'p>(author: &'p Person, declared: &Declared) -> Draft<'p> {
    let mut draft = author.draft(30618).tag(["d", REPO]);
    if !declared.head.is_empty() {
        draft = draft.tag(["HEAD".to_owned(), format!("ref: {}", declared.head)]);
    }
    let refs = BTreeMap::from([
        ("refs/heads/main", declared.main),
        ("refs/heads/dev", declared.dev),
        ("refs/tags/v1", declared.tag),
    ]);
    for (name, at) in refs {
        if let Some(at) = at {
            draft = draft.tag([name, &commit(at).await.oid]);
        }
    }
    draft
}

/// What `a` calls it by; `None` for events that are not replaced.
fn address_of(event: &Event) -> Option<String> {
    let kind = event.kind.as_u16();
    let addressable = matches!(kind, 30617 | 30618);
    addressable.then(|| format!("{kind}:{}:{REPO}", event.pubkey.to_hex()))
}
