//! Gathers what the rules of related events (§9) and of deletion requests (§11) look at.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use grasp_core::admission::{DeletionFacts, DeletionTarget};
use grasp_core::event::{VerifiedEvent, Version, kind};
use grasp_core::filter::{Filter, Matchable};
use grasp_core::lifecycle::{Stage, Standing};
use grasp_core::name::{Coordinate, Identifier};
use grasp_core::related::{References, RelatedFacts, Relative};
use grasp_core::request::Targets;
use grasp_core::view::RepoView;
use nostr::event::EventId;
use nostr::key::PublicKey;
use nostr::types::Timestamp;

use crate::error::StoreError;
use crate::gather::History;
use crate::record::{Record, TagValue};
use crate::view::{View, parse_address};

/// Tags that name an event by its id, and by its address (REL-1).
pub(crate) const ID_LETTERS: [char; 3] = ['e', 'E', 'q'];
pub(crate) const ADDRESS_LETTERS: [char; 3] = ['a', 'A', 'q'];
/// Of the events that mention a newcomer so many are looked at: one that counts is enough.
const MENTIONS_MAX: usize = 16;
/// Of an author's events so many are looked at to see whether they take part in anything.
const PARTICIPATION_MAX: usize = 64;

impl View<'_> {
    /// What is served around `event`. Who mentions it is looked for only if nothing that it refers to
    /// can carry it, and who is exempt from budgets only if no target is an anchor (REL-2, REL-6).
    pub fn related_facts(
        &self,
        event: &VerifiedEvent,
        references: &References,
    ) -> Result<RelatedFacts, StoreError> {
        let mut facts = RelatedFacts::default();
        let mut coordinates = BTreeSet::new();
        for id in &references.events {
            if let Some((_, record)) = self.record(id)? {
                self.add_target(&mut facts, &mut coordinates, &record)?;
            }
        }
        for address in &references.addresses {
            if let Some((_, record)) = self.served_at(address)? {
                self.add_target(&mut facts, &mut coordinates, &record)?;
            }
        }
        // The writer runs this for every event: what cannot matter any more is not looked for.
        let stands_on = |standing: fn(Standing) -> bool| {
            facts.targets.iter().any(|target| standing(target.standing))
        };
        let anchored = stands_on(|it| it == Standing::Anchor);
        let carried = stands_on(|it| it != Standing::Bare);
        if !carried {
            facts.mentioned_by = self.mentions(event)?;
        }
        if !anchored {
            self.add_exempt(&mut facts, &coordinates)?;
        }
        facts.participates = matches!(event.kind(), kind::PROFILE | kind::RELAY_LIST)
            && self.participates(&event.author())?;
        Ok(facts)
    }

    fn add_target(
        &self,
        facts: &mut RelatedFacts,
        coordinates: &mut BTreeSet<String>,
        record: &Record<'_>,
    ) -> Result<(), StoreError> {
        let relative = relative(record);
        if record.stage() != Stage::Served || facts.targets.contains(&relative) {
            return Ok(());
        }
        let root = match relative.standing {
            Standing::Reply { root, .. } => Some(root),
            Standing::Anchor if kind::is_root(relative.kind) => Some(relative.event),
            Standing::Anchor | Standing::Bare => None,
        };
        if let Some(root) = root {
            facts.budgets.insert(root, self.budget_of(&root)?);
            if let Some((_, root)) = self.record(&root)? {
                coordinates.extend(repositories(&root));
            }
        }
        coordinates.extend(repositories(record));
        facts.targets.push(relative);
        Ok(())
    }

    /// The owners of the repositories, and whom their served announcements list.
    fn add_exempt(
        &self,
        facts: &mut RelatedFacts,
        coordinates: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        for address in coordinates {
            let Some((_, record)) = self.served_at(address)? else {
                continue;
            };
            facts.exempt.insert(record.public_key());
            if let Ok(it) = grasp_core::announcement::Announcement::parse(record.event()?) {
                facts.exempt.extend(it.listing().active());
            }
        }
        Ok(())
    }

    /// Served events that refer to the id or the address of `event`, within the references that count.
    fn mentions(&self, event: &VerifiedEvent) -> Result<Vec<Relative>, StoreError> {
        let address = event.address();
        let mut names = vec![(ID_LETTERS, event.id().to_hex())];
        if let Some(address) = &address {
            // A replaceable event has no `d`, and some write no colon for it.
            let bare = address.strip_suffix(':').map(str::to_owned);
            names.extend(bare.map(|address| (ADDRESS_LETTERS, address)));
            names.push((ADDRESS_LETTERS, address.clone()));
        }
        let mut mentions: Vec<Relative> = Vec::new();
        for (letters, value) in names {
            for letter in letters {
                let filter = Filter {
                    tags: BTreeMap::from([(letter, BTreeSet::from([value.clone()]))]),
                    ..Filter::default()
                };
                let mut looked_at = 0;
                self.each_match(&filter, Timestamp::zero(), |record| {
                    looked_at += 1;
                    let by = relative(&record);
                    let references = References::of(&record.event()?);
                    let counts = references.events.contains(&event.id())
                        || address
                            .as_ref()
                            .is_some_and(|it| references.addresses.contains(it));
                    if counts && !mentions.contains(&by) {
                        mentions.push(by);
                    }
                    Ok(match looked_at {
                        MENTIONS_MAX => ControlFlow::Break(()),
                        _ => ControlFlow::Continue(()),
                    })
                })?;
            }
        }
        Ok(mentions)
    }

    /// Whether `author` takes part in an accepted repository (EV-2): owns or maintains one, or wrote a
    /// served root or descendant.
    pub fn participates(&self, author: &PublicKey) -> Result<bool, StoreError> {
        let served = |stage| stage == Stage::Served;
        if !self.listers(author, None, served)?.is_empty() {
            return Ok(true);
        }
        let filter = Filter {
            authors: Some(BTreeSet::from([author.to_bytes()])),
            ..Filter::default()
        };
        let (mut takes_part, mut looked_at) = (false, 0);
        self.each_match(&filter, Timestamp::zero(), |record| {
            looked_at += 1;
            takes_part |= record.standing() != Standing::Bare;
            Ok(if takes_part || looked_at == PARTICIPATION_MAX {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })?;
        Ok(takes_part)
    }

    /// What the targets of a deletion request are (DEL-1).
    pub fn deletion_facts(&self, request: &VerifiedEvent) -> Result<DeletionFacts, StoreError> {
        let mut facts = DeletionFacts {
            unused_requests: self.unused_requests(&request.author())?,
            ..DeletionFacts::default()
        };
        // One that names too much is refused whatever is here.
        let named = Targets::of(request).unwrap_or_default();
        let mut scopes: Scopes = BTreeMap::new();
        let mut note = |record: &Record<'_>| note_scopes(&mut scopes, record);
        for id in &named.events {
            if let Some((_, record)) = self.record(id)? {
                note(&record);
                facts.events.insert(*id, target(&record));
            }
        }
        for address in &named.addresses {
            let Some((kind, author, d)) = parse_address(address) else {
                continue;
            };
            self.versions(kind, &author, d, |_, _, record| {
                note(&record);
                facts.versions.push(target(&record));
                Ok(ControlFlow::Continue(()))
            })?;
        }
        facts.views = self.views_of(&scopes)?;
        Ok(facts)
    }

    /// What these events are, and the views that their removal changes. What is not stored is left out.
    pub fn removal_facts(&self, events: &[EventId]) -> Result<DeletionFacts, StoreError> {
        let mut facts = DeletionFacts::default();
        let mut scopes: Scopes = BTreeMap::new();
        for event in events {
            if let Some((_, record)) = self.record(event)? {
                note_scopes(&mut scopes, &record);
                facts.events.insert(*event, target(&record));
            }
        }
        facts.views = self.views_of(&scopes)?;
        Ok(facts)
    }

    fn views_of(&self, scopes: &Scopes) -> Result<Vec<RepoView>, StoreError> {
        let view = |(identifier, seeds): (&Identifier, &BTreeSet<PublicKey>)| {
            let seeds: Vec<_> = seeds.iter().copied().collect();
            self.repo_view(identifier, &seeds, History::WithSuperseded)
        };
        scopes.iter().map(view).collect()
    }
}

/// Identifiers, each with the keys to look from.
type Scopes = BTreeMap<Identifier, BTreeSet<PublicKey>>;

/// The repositories whose views the deletion of an event may change.
fn note_scopes(scopes: &mut Scopes, record: &Record<'_>) {
    match record.kind() {
        kind::ANNOUNCEMENT | kind::STATE => {
            let d = record.first_tag('d').map(|d| d.as_text(str::parse));
            if let Some(Ok(identifier)) = d {
                scopes
                    .entry(identifier)
                    .or_default()
                    .insert(record.public_key());
            }
        }
        kind if kind::is_proposal(kind) => {
            for address in repositories(record) {
                if let Some(target) = Coordinate::from_address(&address) {
                    let seeds = scopes.entry(target.identifier).or_default();
                    seeds.extend([target.owner, record.public_key()]);
                }
            }
        }
        _ => {}
    }
}

fn relative(record: &Record<'_>) -> Relative {
    Relative {
        event: record.event_id(),
        kind: record.kind(),
        author: record.public_key(),
        standing: record.standing(),
    }
}

fn target(record: &Record<'_>) -> DeletionTarget {
    let id = record.event_id();
    DeletionTarget {
        event: id,
        author: record.public_key(),
        kind: record.kind(),
        version: Version {
            created_at: Timestamp::from_secs(record.created_at()),
            id,
        },
        stage: record.stage(),
    }
}

/// The repositories that an event names, or is.
fn repositories(record: &Record<'_>) -> Vec<String> {
    let named = record
        .tags()
        .filter(|(letter, _)| matches!(letter, 'a' | 'A'));
    let mut addresses: Vec<_> = named
        .filter_map(|(_, value)| match value {
            TagValue::Text(text) if text.starts_with("30617:") => Some(text.to_owned()),
            _ => None,
        })
        .take(grasp_core::lifecycle::REFERENCES_MAX)
        .collect();
    if matches!(record.kind(), kind::ANNOUNCEMENT | kind::STATE) {
        let d = record
            .first_tag('d')
            .map(|d| d.as_text(str::to_owned))
            .unwrap_or_default();
        addresses.push(format!("30617:{}:{d}", record.public_key().to_hex()));
    }
    addresses
}
