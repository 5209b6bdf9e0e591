//! Packs that are too large, not whole, or not packs; and disks that fail.

use super::*;

#[test]
fn a_thin_pack_without_its_base_is_refused() {
    let target = Target::new();
    let delta = [5, 5, 0x90, 5];
    let pack = RawPack::new()
        .ref_delta(&oid_of("blob", b"hello"), &delta)
        .finish();
    assert!(matches!(
        target.receive(&pack),
        Err(IngestError::Malformed(_))
    ));
    target.assert_untouched();
}

/// Case 11: the stream breaks off, small or large; nothing is left and a second try works.
#[test]
fn an_interrupted_push_leaves_nothing() {
    struct Broken<'a>(&'a [u8]);
    impl Read for Broken<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::ErrorKind::ConnectionReset.into()),
                read => Ok(read),
            }
        }
    }
    let target = Target::new();
    let work = target.place.work("work");
    let tip = work.commit("file", noise(3, 5 << 20));
    let pack = work.pack("HEAD\n", &[]);
    for cut in [5, 1000, SMALL_BYTES + 100_000, pack.len() - 3] {
        let never = Arc::default();
        let mut stream = Broken(&pack[..cut]);
        let broken = ingest(
            &target.place.repositories,
            &target.lease,
            &[],
            &mut stream,
            &target.limits,
            &never,
        );
        assert!(matches!(broken, Err(IngestError::Read(_))), "{cut}");
        let truncated = target.receive(&pack[..cut]);
        assert!(matches!(truncated, Err(IngestError::Truncated)), "{cut}");
        target.assert_untouched();
    }
    drop(target.receive(&pack).expect("sound, and then given up"));
    target.assert_untouched();
    target.push(&pack, &[tip]).expect("a second try works");
}

#[test]
fn a_raised_flag_ends_an_ingestion() {
    struct Raise<'a>(&'a [u8], Arc<AtomicBool>, usize);
    impl Read for Raise<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.len() < self.2 {
                self.1.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            self.0.read(buffer)
        }
    }
    let target = Target::new();
    let work = target.place.work("work");
    work.commit("file", noise(3, 5 << 20));
    let pack = work.pack("HEAD\n", &[]);
    for left in [pack.len(), 1 << 20] {
        let flag = Arc::new(AtomicBool::new(false));
        let mut stream = Raise(&pack, Arc::clone(&flag), left);
        let ended = ingest(
            &target.place.repositories,
            &target.lease,
            &[],
            &mut stream,
            &target.limits,
            &flag,
        );
        assert!(matches!(ended, Err(IngestError::Interrupted)));
        target.assert_untouched();
    }
}

/// Case 81
#[test]
fn a_bomb_is_refused_and_leaves_nothing() {
    let mut target = Target::new();
    target.limits.object_bytes = 5 << 20;
    let zeros = vec![0; 6 << 20];
    let tree = tree_entry("100644", b"bomb", oid_of("blob", &zeros));
    let (pack, _) = commit_pack(&tree, &zeros);
    let refused = target.receive(&pack).expect_err("too large");
    assert_eq!(
        refused.to_string(),
        "the pack has an object of 6291456 bytes, the limit is 5242880"
    );
    target.assert_untouched();
}

#[test]
fn a_full_quarantine_refuses_and_names_its_limit() {
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    let config = crate::GitConfig {
        quarantine_percent: 0,
        ..crate::GitConfig::default()
    };
    let repositories = Repositories::open(folder.path(), config).expect("empty");
    let repo = address(1, "project");
    repositories.lock(&repo).create().expect("created");
    let lease = repositories.lease(&repo);
    let pack = RawPack::new().object(entry::BLOB, b"x").finish();
    let refused = ingest(
        &repositories,
        &lease,
        &[],
        &mut &*pack,
        &PackLimits::default(),
        &Arc::default(),
    );
    assert!(matches!(
        refused,
        Err(IngestError::QuarantineFull { limit: 0 })
    ));
}

#[test]
fn a_wrong_sum_is_refused_small_and_large() {
    let target = Target::new();
    for bytes in [10, 3 << 20] {
        let mut pack = RawPack::new()
            .object(entry::BLOB, &noise(7, bytes))
            .finish();
        *pack.last_mut().expect("twenty bytes") ^= 1;
        assert!(
            matches!(target.receive(&pack), Err(IngestError::Checksum)),
            "{bytes}"
        );
        target.assert_untouched();
    }
}

#[test]
fn an_object_sent_twice_is_refused() {
    let target = Target::new();
    let twice = RawPack::new()
        .object(entry::BLOB, b"x")
        .object(entry::BLOB, b"x")
        .finish();
    assert!(
        matches!(target.receive(&twice), Err(IngestError::Twice(oid)) if oid == oid_of("blob", b"x"))
    );
    target.assert_untouched();
}

#[test]
fn a_chain_of_deltas_has_an_end() {
    let target = Target::new();
    let mut content = noise(6, 100);
    let mut pack = RawPack::new().object(entry::BLOB, &content);
    let mut last = oid_of("blob", &content);
    for nth in 0..4200_u32 {
        // The same size: four bytes of a counter, then the rest of the base.
        let mut delta = vec![100, 100, 4];
        delta.extend(nth.to_be_bytes());
        delta.extend([0x91, 4, 96]);
        content[..4].copy_from_slice(&nth.to_be_bytes());
        pack = pack.ref_delta(&last, &delta);
        last = oid_of("blob", &content);
    }
    let refused = target.receive(&pack.finish());
    assert!(
        matches!(refused, Err(IngestError::DeltaTooDeep { .. })),
        "{refused:?}"
    );
}

/// Case 89: a disk that takes no more, here a folder that takes nothing.
#[test]
fn a_failing_installation_leaves_nothing() {
    let target = Target::new();
    let work = target.place.work("work");
    let tip = work.commit("a", "1");
    let quarantined = target.receive(&work.pack("HEAD\n", &[])).expect("sound");
    let folder = target.home().join("objects/pack");
    fs::remove_dir(&folder).expect("empty");
    let failed = quarantined.finish(&[tip]).expect_err("there is no folder");
    assert!(failed.is_ours(), "{failed:?}");
    fs::create_dir(&folder).expect("made");
    target.assert_untouched();
}
