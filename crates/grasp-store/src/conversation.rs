//! Served and held events by what they refer to (DEL-6).

use std::collections::BTreeSet;

use grasp_core::lifecycle::Stage;
use grasp_core::recovery::{Conversation, Member, Name};
use grasp_core::related::References;

use crate::error::StoreError;
use crate::facts::{ADDRESS_LETTERS, ID_LETTERS};
use crate::keys::read_sequence;
use crate::record::Record;
use crate::view::View;

impl Conversation for View<'_> {
    type Error = StoreError;

    fn member(&self, name: &Name) -> Result<Option<Member>, StoreError> {
        let found = match name {
            Name::Event(id) => self.record(id)?,
            Name::Address(address) => self.served_at(address)?,
        };
        let seen = |stage| matches!(stage, Stage::Served | Stage::Held);
        found
            .filter(|(_, record)| seen(record.stage()))
            .map(|(_, record)| self.read_member(&record))
            .transpose()
    }

    fn referring(&self, name: &Name, max: usize) -> Result<Vec<Member>, StoreError> {
        let (letters, value) = match name {
            Name::Event(id) => (ID_LETTERS, id.to_hex()),
            Name::Address(address) => (ADDRESS_LETTERS, address.clone()),
        };
        let (mut members, mut seen) = (Vec::new(), BTreeSet::new());
        for letter in letters {
            let start = self.hash.tag(letter, &value);
            for table in [&self.tables.held_tags, &self.tables.tags] {
                for row in table.prefix_iter(self.reading, &start)? {
                    let sequence = read_sequence(row?.0).ok_or(StoreError::Corrupt("tags"))?;
                    if members.len() == max {
                        return Ok(members);
                    }
                    if !seen.insert(sequence) {
                        continue;
                    }
                    if let Some(record) = self.record_at(sequence)? {
                        // What a hash finds is checked.
                        let member = self.read_member(&record)?;
                        members.extend(Some(member).filter(|member| refers_to(member, name)));
                    }
                }
            }
        }
        Ok(members)
    }
}

impl View<'_> {
    fn read_member(&self, record: &Record<'_>) -> Result<Member, StoreError> {
        let event = record.event()?;
        Ok(Member {
            gated: !self.gates(&event)?.is_empty(),
            stage: record.stage(),
            standing: record.standing(),
            event,
        })
    }
}

fn refers_to(member: &Member, name: &Name) -> bool {
    let references = References::of(&member.event);
    match name {
        Name::Event(id) => references.events.contains(id),
        Name::Address(address) => references.addresses.contains(address),
    }
}
