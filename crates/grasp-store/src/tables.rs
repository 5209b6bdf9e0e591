//! The tables, what their keys and values are, and the rows of the `meta` table.

use crate::counters::Stats;
use crate::error::{EngineError, StoreError};
use crate::keys::KeyedHash;
use crate::lmdb::{self, Environment, Reading, Table, Transaction};
use crate::version::CommitVersion;

/// Every table of the store.
pub(crate) struct Tables {
    /// name → value: key of the hash, version of the last commit, counters.
    pub(crate) meta: Table,
    /// sequence → record. Appended to, so its pages fill up.
    pub(crate) events: Table,
    /// first 16 bytes of the id → sequence. All stages.
    pub(crate) ids: Table,
    /// suffix → nothing. Served only, as the next three.
    pub(crate) times: Table,
    /// kind, suffix → nothing.
    pub(crate) kinds: Table,
    /// first 8 bytes of the author, kind, suffix → nothing.
    pub(crate) authors: Table,
    /// hash of letter and value, suffix → nothing.
    pub(crate) tags: Table,
    /// hash of kind, author and `d`, suffix → stage. Replaceable and addressable events of all stages.
    pub(crate) versions: Table,
    /// hash of a listed key, hash of the identifier, sequence → stage, owner (MNT-10). Announcements
    /// of all stages.
    pub(crate) listings: Table,
    /// hash of a target or a submitter, sequence → see `proposals`. Proposals of all stages.
    pub(crate) proposals: Table,
    /// time, what → nothing.
    pub(crate) deadlines: Table,
    /// repository, event → commit, bytes, deadline.
    pub(crate) uploads: Table,
    /// event, repository → nothing.
    pub(crate) uploads_by_event: Table,
    /// identifier, owner, event → nothing: which `/prs/` repository shows which proposal.
    pub(crate) placements: Table,
    /// identifier → see `hunts`.
    pub(crate) hunts: Table,
    /// event, reason → until.
    pub(crate) marks: Table,
    /// event, author, first 8 bytes of the request → request.
    pub(crate) gated_events: Table,
    /// hash of an address, request → until.
    pub(crate) gated_addresses: Table,
    /// author, request to vanish → until.
    pub(crate) gated_authors: Table,
    /// request → first seen, last use (DEL-9).
    pub(crate) requests: Table,
    /// author → how many of their requests were of no use yet (§16).
    pub(crate) unused_requests: Table,
    /// author → waiting announcements, other waiting events.
    pub(crate) load: Table,
    /// root → events, bytes of the replies that count against it.
    pub(crate) budgets: Table,
    /// unused before used, sequence → nothing: events of keys that take part in nothing (EV-8).
    pub(crate) idle: Table,
    /// time, sequence → nothing: when what is superseded or held is gone.
    pub(crate) holding: Table,
    /// hash of letter and value, sequence → nothing: held events by what they refer to.
    pub(crate) held_tags: Table,
    /// owner, identifier → the list that took the scope away.
    pub(crate) curated: Table,
    /// hash of a relay's address → length of the address, address, what sync remembers of it (SYNC-11).
    pub(crate) cursors: Table,
    /// repository → since, until, whether it returns.
    pub(crate) archives: Table,
    /// repository → version of the commit that marked it.
    pub(crate) dirty: Table,
    /// first 8 bytes of the author, sequence → nothing. Every stage but Served.
    pub(crate) unseen: Table,
    /// work → see `plans`.
    pub(crate) plans: Table,
    /// work, number → events.
    pub(crate) plan_steps: Table,
}

/// Opens the tables, each under the name of its field.
macro_rules! open_tables {
    ($environment:expr; $($table:ident),+) => {{
        let [$($table),+] = lmdb::tables($environment, [$(stringify!($table)),+])?;
        Ok(Self { $($table),+ })
    }};
}

impl Tables {
    pub(crate) fn open(environment: &Environment) -> Result<Self, EngineError> {
        open_tables!(environment;
            meta, events, ids, times, kinds, authors, tags, versions, listings, proposals,
            deadlines, uploads, uploads_by_event, placements, hunts, marks, gated_events,
            gated_addresses, gated_authors, requests, unused_requests, load, budgets, idle,
            holding, held_tags, curated, cursors, archives, dirty, unseen, plans, plan_steps
        )
    }

    /// The tables that follow from the records alone.
    pub(crate) fn derived(&self) -> [(&'static str, &Table); 13] {
        [
            ("ids", &self.ids),
            ("times", &self.times),
            ("kinds", &self.kinds),
            ("authors", &self.authors),
            ("tags", &self.tags),
            ("versions", &self.versions),
            ("listings", &self.listings),
            ("proposals", &self.proposals),
            ("load", &self.load),
            ("budgets", &self.budgets),
            ("holding", &self.holding),
            ("held_tags", &self.held_tags),
            ("unseen", &self.unseen),
        ]
    }

    /// Rows by table.
    #[cfg(feature = "conformance")]
    pub(crate) fn row_counts(
        &self,
        reading: &Reading<'_>,
    ) -> Result<Vec<(&'static str, u64)>, StoreError> {
        let tables = [
            ("meta", &self.meta),
            ("events", &self.events),
            ("ids", &self.ids),
            ("times", &self.times),
            ("kinds", &self.kinds),
            ("authors", &self.authors),
            ("tags", &self.tags),
            ("versions", &self.versions),
            ("listings", &self.listings),
            ("proposals", &self.proposals),
            ("deadlines", &self.deadlines),
            ("uploads", &self.uploads),
            ("placements", &self.placements),
            ("gated_events", &self.gated_events),
            ("gated_addresses", &self.gated_addresses),
            ("gated_authors", &self.gated_authors),
            ("requests", &self.requests),
            ("unused_requests", &self.unused_requests),
            ("load", &self.load),
            ("budgets", &self.budgets),
            ("idle", &self.idle),
            ("holding", &self.holding),
            ("held_tags", &self.held_tags),
            ("curated", &self.curated),
            ("cursors", &self.cursors),
            ("archives", &self.archives),
            ("unseen", &self.unseen),
            ("plans", &self.plans),
            ("plan_steps", &self.plan_steps),
        ];
        tables
            .into_iter()
            .map(|(name, table)| Ok((name, table.len(reading)?)))
            .collect()
    }

    /// The key of this store's hash, drawn once.
    pub(crate) fn keyed_hash(&self, environment: &Environment) -> Result<KeyedHash, StoreError> {
        let mut transaction = environment.write_txn()?;
        if let Some(key) = self.meta.get(&transaction, b"hash key")? {
            let key = key.try_into().map_err(|_| StoreError::Corrupt("meta"))?;
            return Ok(KeyedHash(key));
        }
        let mut key = [0; 16];
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| heed::Error::Io(errno.into()))?;
        self.meta.put(&mut transaction, b"hash key", &key)?;
        transaction.commit()?;
        Ok(KeyedHash(key))
    }

    pub(crate) fn version(&self, reading: &Reading<'_>) -> Result<CommitVersion, StoreError> {
        let bytes = self.meta.get(reading, b"version")?;
        let number = bytes.map_or(Some(0), |bytes| {
            bytes.try_into().ok().map(u64::from_be_bytes)
        });
        number
            .map(CommitVersion::new)
            .ok_or(StoreError::Corrupt("meta"))
    }

    pub(crate) fn put_version(
        &self,
        transaction: &mut Transaction<'_>,
        version: CommitVersion,
    ) -> Result<(), StoreError> {
        let bytes = version.number().to_be_bytes();
        Ok(self.meta.put(transaction, b"version", &bytes)?)
    }

    pub(crate) fn stats(&self, reading: &Reading<'_>) -> Result<Stats, StoreError> {
        let bytes = self.meta.get(reading, b"stats")?;
        bytes
            .map_or(Some(Stats::default()), Stats::decode)
            .ok_or(StoreError::Corrupt("meta"))
    }

    pub(crate) fn put_stats(
        &self,
        transaction: &mut Transaction<'_>,
        stats: &Stats,
    ) -> Result<(), StoreError> {
        Ok(self.meta.put(transaction, b"stats", &stats.encode())?)
    }
}
