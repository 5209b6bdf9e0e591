//! What a server of a repository owes, worked out from the set of all events alone: in no order, and in the most naive
//! way. What servers do by and by, each with its own part of the truth, has to end here.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use grasp_core::EventId;
use grasp_core::event::{VerifiedEvent, kind};

/// What is known about a repository.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// To be served by each of its servers.
    pub(crate) owed: BTreeSet<EventId>,
    /// Served by none.
    pub(crate) gone: BTreeSet<EventId>,
}

impl Model {
    /// Of the repository at `address`, from all events that any server ever showed.
    pub(crate) fn of(address: &str, shown: &[&VerifiedEvent]) -> Self {
        let deleted: BTreeSet<EventId> = shown
            .iter()
            .filter(|event| event.kind() == kind::DELETION)
            .flat_map(|request| {
                let of_author = shown.iter().filter(|it| it.author() == request.author());
                let named = of_author.filter(|it| names(request, &["e"], &it.id().to_hex()));
                named.map(|event| event.id())
            })
            .collect();
        let versions = shown.iter().filter(|event| {
            let identifier = event.identifier().map(|it| it.to_string());
            let own = format!(
                "30617:{}:{}",
                event.author(),
                identifier.unwrap_or_default()
            );
            event.kind() == kind::ANNOUNCEMENT && own == address
        });
        let (mut owed, mut gone) = (BTreeSet::new(), BTreeSet::new());
        gone.extend(versions.clone().map(|event| event.id()));
        let latest = versions.max_by_key(|event| (event.created_at(), Reverse(event.id())));
        owed.extend(latest.map(|event| event.id()));
        loop {
            let joining = shown.iter().find(|event| {
                let is_reply = matches!(event.kind(), 1 | 1111 | kind::PATCH | kind::ISSUE);
                is_reply && !owed.contains(&event.id()) && belongs(event, address, &owed)
            });
            match joining {
                Some(event) => drop(owed.insert(event.id())),
                None => break,
            }
        }
        gone.extend(deleted);
        gone.retain(|id| latest.is_none_or(|latest| latest.id() != *id));
        owed.retain(|id| !gone.contains(id));
        Self { owed, gone }
    }
}

fn belongs(event: &VerifiedEvent, address: &str, owed: &BTreeSet<EventId>) -> bool {
    let of_repository = names(event, &["a", "A", "q"], address);
    let mut parents = owed.iter().map(EventId::to_hex);
    of_repository || parents.any(|id| names(event, &["e", "E", "q"], &id))
}

fn names(event: &VerifiedEvent, tags: &[&str], value: &str) -> bool {
    event.event().tags.iter().any(|tag| {
        let tag = tag.as_slice();
        tag.len() > 1 && tags.contains(&tag[0].as_str()) && tag[1] == value
    })
}
