//! The suite that every engine must pass, against the one there is.

use grasp_store::{Store, StoreConfig};

fn open() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().expect("a folder");
    // Test machines may be full.
    let config = StoreConfig {
        map_size: 1 << 30,
        disk_floor: 0,
        ..StoreConfig::default()
    };
    let store = Store::open(folder.path(), config).expect("an empty folder opens");
    (folder, store)
}

grasp_store::conformance_suite!(crate::open());
