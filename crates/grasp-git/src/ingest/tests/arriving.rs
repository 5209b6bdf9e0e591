//! What is there after a push, and what is not (PUSH-17, PUSH-18, GIT-4a).

use super::*;

#[test]
fn a_push_is_there_for_plain_git() {
    let target = Target::new();
    let work = target.place.work("work");
    work.commit("dir/a", "1");
    let tip = work.commit("dir/b", "2");
    let installed = target
        .push(&work.pack("HEAD\n", &[]), &[tip])
        .expect("taken");
    assert_eq!(installed.objects, 8);
    target.show(tip);
    assert_sound(&target.home());
    target.assert_quarantine_is_empty();
    assert_eq!(
        git_text(&target.home(), &["rev-list", "--count", "main"]),
        "2"
    );
}

/// A tiny repository after one push: nine files and folders, 36 KiB.
#[test]
fn a_tiny_repository_is_small() {
    fn measure(path: &Path) -> (u64, u64) {
        use std::os::unix::fs::MetadataExt;
        let metadata = fs::symlink_metadata(path).expect("there");
        let mut sum = (1, metadata.blocks() * 512);
        if metadata.is_dir() {
            for entry in fs::read_dir(path).expect("a folder") {
                let (files, bytes) = measure(&entry.expect("readable").path());
                sum = (sum.0 + files, sum.1 + bytes);
            }
        }
        sum
    }
    let target = Target::new();
    let work = target.place.work("work");
    let tip = work.commit("README.md", "hello\n");
    target
        .push(&work.pack("HEAD\n", &[]), &[tip])
        .expect("taken");
    target.show(tip);
    let (files, bytes) = measure(&target.home());
    assert!(
        files <= 10 && bytes <= 36 << 10,
        "{files} entries, {bytes} bytes"
    );
}

#[test]
fn a_thin_pack_is_completed_without_a_process() {
    let target = Target::new();
    let work = target.place.work("work");
    let text = lines((0..2000).map(|n| format!("line {n}")));
    let first = work.commit("file", &text);
    target
        .push(&work.pack("HEAD\n", &[]), &[first])
        .expect("taken");
    let tip = work.commit("file", text.replace("line 77\n", "changed\n"));
    let thin = work.pack(&format!("{tip}\n^{first}\n"), &["--thin"]);
    assert!(thin.len() < 1000, "it is a delta: {}", thin.len());

    let quarantined = target.receive(&thin).expect("its base is here");
    assert!(!quarantined.folder.path().join("index.git").exists());
    quarantined.finish(&[tip]).expect("complete");
    target.show(tip);
    assert_sound(&target.home());
    for pack in target.packs() {
        if !pack.contains(".idx") {
            continue;
        }
        git(
            &target.home(),
            &["verify-pack", &format!("objects/pack/{pack}")],
            b"",
        );
    }
}

/// PUSH-17, ST-7
#[test]
fn a_push_without_all_of_its_history_is_refused() {
    let target = Target::new();
    let work = target.place.work("work");
    let first = work.commit("a", "1");
    let tip = work.commit("b", "2");
    let missing = |pack: &[u8]| match target.push(pack, &[tip]) {
        Err(IngestError::Missing { missing, by }) => (missing, by),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        missing(&work.pack(&format!("{tip}\n^{first}\n"), &[])),
        (first, Some(tip))
    );
    let (blob, tree) = (work.oid("HEAD:b"), work.oid("HEAD^{tree}"));
    let rest = [
        tip,
        first,
        tree,
        work.oid("HEAD:a"),
        work.oid("HEAD~1^{tree}"),
    ];
    assert_eq!(missing(&work.pack_of(&rest)), (blob, Some(tree)));
    assert_eq!(missing(&work.pack_of(&[blob])), (tip, None));
    assert_eq!(missing(&RawPack::new().finish()), (tip, None));
    target.assert_untouched();
}

/// PUSH-18
#[test]
fn what_no_tip_needs_is_not_installed() {
    let target = Target::new();
    let work = target.place.work("work");
    let text = lines((0..500).map(|n| format!("line {n}")));
    work.commit("file", &text);
    let tip = work.commit("file", text.replace("line 7\n", "changed\n"));
    work.git(&["checkout", "--quiet", "--orphan", "other"]);
    let junk = work.commit("file", text.replace("line 9\n", "illegal\n"));
    let extra = work.object("blob", b"not asked for");
    let hole = work.object("commit", &commit_text(Oid::from_bytes([8; 20]), &[]));
    let list = format!("{tip}\n{junk}\n");
    let listed = work.pack(&list, &[]);
    let oids = git_text(
        &work.path,
        &["rev-list", "--objects", "--no-object-names", "main"],
    );
    let mut wanted: Vec<String> = oids.lines().map(str::to_owned).collect();
    wanted.sort();

    let quarantined = target.receive(&listed).expect("harmless");
    assert_eq!(quarantined.objects(), 9);
    let installed = quarantined.finish(&[tip]).expect("complete");
    assert_eq!(installed.objects, 6);
    assert_eq!(target.objects(), wanted);
    target.show(tip);
    assert_sound(&target.home());

    // Leftovers with holes do not refuse a push that is whole.
    let second = Target::new();
    let mut all: Vec<Oid> = wanted
        .iter()
        .map(|hex| hex.parse().expect("an oid"))
        .collect();
    all.extend([extra, hole]);
    second.push(&work.pack_of(&all), &[tip]).expect("complete");
    assert_eq!(second.objects(), wanted);
}

#[test]
fn a_push_of_what_is_there_installs_nothing() {
    let target = Target::new();
    let work = target.place.work("work");
    let tip = work.commit("a", "1");
    let pack = work.pack("HEAD\n", &[]);
    target.push(&pack, &[tip]).expect("taken");
    let packs = target.packs();
    assert_eq!(
        target.push(&pack, &[tip]).expect("again"),
        Installed::default()
    );
    assert_eq!(
        target
            .push(&RawPack::new().finish(), &[tip])
            .expect("no objects"),
        Installed::default()
    );
    assert_eq!(
        target.push(&pack, &[]).expect("nothing accepted"),
        Installed::default()
    );
    assert_eq!(target.packs(), packs);
}

#[test]
fn tags_may_name_anything() {
    let target = Target::new();
    let work = target.place.work("work");
    work.commit("dir/a", "1");
    for (tag, named) in [
        ("c", "HEAD"),
        ("t", "HEAD^{tree}"),
        ("b", "HEAD:dir/a"),
        ("n", "c"),
    ] {
        work.git(&["tag", "--annotate", "-m", "x", tag, named]);
    }
    let blob = work.object("blob", b"a tip without a tag");
    let mut tips: Vec<Oid> = ["c", "t", "b", "n"]
        .map(|tag| work.oid(&format!("refs/tags/{tag}")))
        .into();
    tips.push(blob);
    let list = lines(&tips);
    target
        .push(&work.pack(&list, &[]), &tips)
        .expect("complete");
    assert_sound(&target.home());
    assert_eq!(
        Objects::open(&target.lease)
            .expect("there")
            .complete(&tips, &[])
            .len(),
        5
    );
}

/// GIT-4a: what the relatives have need not be sent, and ends up in the repository itself.
#[test]
fn a_push_may_build_on_relatives_and_is_complete_without_them() {
    let target = Target::new();
    let work = target.place.work("work");
    let text = lines((0..2000).map(|n| format!("line {n}")));
    work.commit("other", "o");
    let first = work.commit("dir/file", &text);
    let relative = address(2, "project");
    target
        .place
        .repositories
        .lock(&relative)
        .create()
        .expect("created");
    let lent = target.place.repositories.lease(&relative);
    work.copy_objects_to(&lent.path());

    let tip = work.commit("dir/file", text.replace("line 77\n", "changed\n"));
    let thin = work.pack(&format!("{tip}\n^{first}\n"), &["--thin"]);
    assert!(matches!(
        target.push(&thin, &[tip]),
        Err(IngestError::Malformed(_) | IngestError::Missing { .. })
    ));
    let installed = target
        .receive_beside(std::slice::from_ref(&lent), &thin)
        .expect("bases are lent");
    installed.finish(&[tip]).expect("complete");

    let lock = target.place.repositories.lock(&relative);
    lock.remove().expect("removed");
    drop((lent, lock));
    target.show(tip);
    assert_sound(&target.home());
    let oids = git_text(
        &work.path,
        &["rev-list", "--objects", "--no-object-names", "HEAD"],
    );
    assert_eq!(target.objects().len(), oids.lines().count());
    assert!(!target.home().join("objects/info/alternates").exists());
}

/// Too large for memory: indexed by a child, while it comes in.
#[test]
fn a_large_pack_goes_through_a_child() {
    let target = Target::new();
    let work = target.place.work("work");
    for nth in 0..4 {
        work.commit(&format!("file{nth}"), noise(nth + 1, 1 << 20));
    }
    let tip = work.oid("HEAD");
    let pack = work.pack("HEAD\n", &[]);
    assert!(pack.len() > SMALL_BYTES);
    let quarantined = target.receive(&pack).expect("sound");
    assert!(quarantined.folder.path().join("index.git").exists());
    quarantined.finish(&[tip]).expect("complete");
    target.show(tip);
    assert_sound(&target.home());
    target.assert_quarantine_is_empty();

    // And a thin one, whose base is here.
    let mut changed = noise(1, 1 << 20);
    changed[5000] ^= 1;
    work.commit("file0", changed);
    let tip2 = work.commit("big", noise(99, 3 << 20));
    let thin = work.pack(&format!("{tip2}\n^{tip}\n"), &["--thin"]);
    target.push(&thin, &[tip2]).expect("complete");
    assert_sound(&target.home());
}

/// A client without offset deltas names bases that are in the pack, and perhaps here as well.
#[test]
fn deltas_that_name_a_base_of_the_same_pack_are_fine() {
    let target = Target::new();
    let base: Vec<u8> = noise(5, 200);
    let changed = [&base[..], b"!"].concat();
    // Sizes 200 and 201; copy 200 bytes from 0; insert one.
    let delta = [0xc8, 0x01, 0xc9, 0x01, 0x90, 200, 1, b'!'];
    let (base_oid, oid) = (oid_of("blob", &base), oid_of("blob", &changed));
    let pack = RawPack::new()
        .ref_delta(&base_oid, &delta)
        .object(entry::BLOB, &base)
        .finish();
    target
        .push(
            &RawPack::new().object(entry::BLOB, &base).finish(),
            &[base_oid],
        )
        .expect("taken");
    target
        .push(&pack, &[oid, base_oid])
        .expect("the base is in both");
    let objects = Objects::open(&target.lease).expect("there");
    assert_eq!(objects.complete(&[oid, base_oid], &[]).len(), 2);
    assert_sound(&target.home());
}

#[test]
fn racing_pushes_into_one_repository_all_arrive() {
    let target = Target::new();
    let packs: Vec<(Vec<u8>, Oid)> = (0..8)
        .map(|nth| {
            let work = target.place.work(&format!("work{nth}"));
            let tip = work.commit("file", format!("{nth}"));
            (work.pack("HEAD\n", &[]), tip)
        })
        .collect();
    std::thread::scope(|scope| {
        for (pack, tip) in packs.iter().chain(&packs) {
            let target = &target;
            scope.spawn(move || target.push(pack, &[*tip]).expect("taken"));
        }
    });
    let tips: Vec<Oid> = packs.iter().map(|(_, tip)| *tip).collect();
    assert_eq!(
        Objects::open(&target.lease)
            .expect("there")
            .complete(&tips, &[])
            .len(),
        8
    );
    assert_sound(&target.home());
    target.assert_quarantine_is_empty();
}

/// A history of some size, in one pack: what a first push costs.
#[test]
fn a_history_with_many_deltas_arrives_whole() {
    let target = Target::new();
    let work: Work = target.place.work("work");
    let stream = fast_import(60, 20);
    git(&work.path, &["fast-import", "--quiet"], stream.as_bytes());
    work.git(&["repack", "-adfq"]);
    let tip = work.oid("refs/heads/main");
    let pack = work.pack("main\n", &[]);
    target.push(&pack, &[tip]).expect("complete");
    target.show(tip);
    assert_sound(&target.home());
}

/// `commits` commits that each change one of `files` files.
fn fast_import(commits: u32, files: u32) -> String {
    use std::fmt::Write;
    let mut stream = String::new();
    for nth in 0..commits {
        let file = nth % files;
        let line = |line| format!("{file} {line} {}", if line == nth % 50 { nth } else { 0 });
        let content = lines((0..50).map(line));
        write!(
            stream,
            "commit refs/heads/main\ncommitter A <a@e> {} +0000\ndata 1\nx\nM 100644 inline d{}/f{file}\ndata {}\n{content}\n",
            1_700_000_000 + nth,
            file % 5,
            content.len()
        )
        .expect("a String takes everything");
    }
    stream
}

/// Case 101: a restored backup, or a volume of a container.
#[test]
fn a_repository_of_another_user_works() {
    fn give_away(path: &Path) -> io::Result<()> {
        std::os::unix::fs::lchown(path, Some(65_534), Some(65_534))?;
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                give_away(&entry?.path())?;
            }
        }
        Ok(())
    }
    let target = Target::new();
    let work = target.place.work("work");
    let first = work.commit("a", "1");
    target
        .push(&work.pack("HEAD\n", &[]), &[first])
        .expect("taken");
    match give_away(&target.home()) {
        // Only root can make the case; for others it is what the rest of these tests are.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        given => given.expect("given away"),
    }
    let small = work.commit("b", "2");
    let thin = work.pack(&format!("{small}\n^{first}\n"), &["--thin"]);
    target.push(&thin, &[small]).expect("in process");
    let large = work.commit("c", noise(8, 3 << 20));
    let thin = work.pack(&format!("{large}\n^{small}\n"), &["--thin"]);
    target.push(&thin, &[large]).expect("by a child");
    target.show(large);
    assert_sound(&target.home());
}
