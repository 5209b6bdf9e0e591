//! Stores for tests: real ones, in folders that go with them.

use tempfile::TempDir;

use crate::store::{Store, StoreConfig};

/// A configuration without a floor: test machines may be full.
pub(crate) fn config() -> StoreConfig {
    StoreConfig {
        map_size: 1 << 30,
        disk_floor: 0,
        ..StoreConfig::default()
    }
}

/// An empty store.
pub(crate) fn store() -> (TempDir, Store) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = Store::open(folder.path(), config()).expect("an empty folder opens");
    (folder, store)
}
