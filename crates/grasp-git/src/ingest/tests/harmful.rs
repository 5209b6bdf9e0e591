//! What GIT-11 keeps out, and what it lets through.

use super::*;

/// GIT-11: names that land in `.git` somewhere, and what else harms a reader.
#[test]
fn harmful_trees_are_refused_small_and_large() {
    let blob = oid_of("blob", b"x");
    let names: [&[u8]; 16] = [
        b".git",
        b".GIT",
        b".Git",
        b"git~1",
        b"GIT~1",
        b".git.",
        b".git ",
        b".git...",
        b".git::$INDEX_ALLOCATION",
        ".g\u{200c}it".as_bytes(),
        "\u{feff}.git".as_bytes(),
        b"a\\.git",
        b".git\\config",
        b".",
        b"..",
        b"a/b",
    ];
    let mut trees: Vec<Vec<u8>> = names
        .iter()
        .map(|name| tree_entry("100644", name, blob))
        .collect();
    let two = |a: (&str, &[u8]), b: (&str, &[u8])| {
        [tree_entry(a.0, a.1, blob), tree_entry(b.0, b.1, blob)].concat()
    };
    trees.extend([
        tree_entry("100644", b"", blob),
        tree_entry("100644", b"null", Oid::ZERO),
        two(("100644", b"a"), ("100644", b"a")),
        two(("100644", b"b"), ("100644", b"a")),
        two(("100644", b"a"), ("40000", b"a")),
        tree_entry("120000", b".gitmodules", blob),
        tree_entry("120000", b".GitModules", blob),
        tree_entry("120000", b"gi7eba~1", blob),
        tree_entry("120000", b".gitattributes", blob),
        tree_entry("120000", b"GITATT~1", blob),
        tree_entry("100644", b"cut", blob)[..20].to_vec(),
    ]);
    let target = Target::new();
    for tree in &trees {
        let (pack, _) = commit_pack(tree, b"x");
        let refused = target.receive(&pack);
        assert!(
            matches!(refused, Err(IngestError::Harmful { .. })),
            "{:?}: {refused:?}",
            String::from_utf8_lossy(tree)
        );
    }
    let large = RawPack::new()
        .object(entry::TREE, &trees[0])
        .object(entry::BLOB, &noise(4, 3 << 20));
    assert!(matches!(
        target.receive(&large.finish()),
        Err(IngestError::Harmful { .. })
    ));
    target.assert_untouched();

    for fine in [
        &b".gitignore"[..],
        b".github",
        b"git",
        b".git-blame",
        b"git~2",
        b"git~11",
        b"...",
        b".gitt",
        b"a.git",
    ] {
        let (pack, tip) = commit_pack(&tree_entry("100644", fine, blob), b"x");
        target
            .push(&pack, &[tip])
            .unwrap_or_else(|error| panic!("{}: {error}", String::from_utf8_lossy(fine)));
    }
}

#[test]
fn broken_commits_and_tags_are_refused_and_blemishes_of_age_are_not() {
    let target = Target::new();
    let tree = oid_of("tree", b"");
    let refused = |kind: u8, text: &str| {
        let pack = RawPack::new()
            .object(kind, text.as_bytes())
            .object(entry::TREE, b"")
            .finish();
        matches!(target.receive(&pack), Err(IngestError::Harmful { .. }))
    };
    let who = "A <a@e> 1 +0000";
    let zero = Oid::ZERO;
    for bad in [
        "x\n\n".to_owned(),
        format!("tree {tree}\n\nno author\n"),
        format!("tree {tree}\nauthor {who}\n\nno committer\n"),
        format!("tree {zero}\nauthor {who}\ncommitter {who}\n\n"),
        format!("tree {tree}\nparent {zero}\nauthor {who}\ncommitter {who}\n\n"),
        format!("tree {tree}\nparent xyz\nauthor {who}\ncommitter {who}\n\n"),
        format!("tree {tree}\nauthor {who}\0\ncommitter {who}\n\n"),
        format!("tree {tree}\nauthor {who}\ncommitter {who}"),
    ] {
        assert!(refused(entry::COMMIT, &bad), "{bad:?}");
    }
    for bad in [
        format!("object {tree}\ntype tree\n\n"),
        format!("object {zero}\ntype tree\ntag x\n\n"),
        format!("object {tree}\ntype thing\ntag x\n\n"),
        format!("type tree\nobject {tree}\ntag x\n\n"),
    ] {
        assert!(refused(4, &bad), "{bad:?}");
    }
    for old in [
        format!("tree {tree}\nauthor A a@e\ncommitter <> nonsense\n\n"),
        format!("tree {tree}\nauthor {who}\nauthor B <b@e> 2 +99999\ncommitter {who}\n"),
        format!(
            "tree {tree}\nauthor {who}\ncommitter {who}\nencoding x\ngpgsig y\n z\n\n\0 in the text"
        ),
    ] {
        assert!(!refused(entry::COMMIT, &old), "{old:?}");
    }
    assert!(!refused(
        4,
        &format!("object {tree}\ntype tree\ntag without tagger\n\n")
    ));
    let padded = [
        tree_entry("0100644", b"a", oid_of("blob", b"x")),
        tree_entry("100664", b"b", oid_of("blob", b"x")),
    ]
    .concat();
    let (pack, tip) = commit_pack(&padded, b"x");
    target.push(&pack, &[tip]).expect("odd modes are old");
}

#[test]
fn submodules_that_attack_their_reader_are_refused() {
    let target = Target::new();
    let file = |content: &str| {
        let tree = tree_entry("100644", b".gitmodules", oid_of("blob", content.as_bytes()));
        target
            .receive(&commit_pack(&tree, content.as_bytes()).0)
            .map(drop)
    };
    for bad in [
        "[submodule \"../x\"]\n\tpath = a\n\turl = https://example.org/x\n",
        "[submodule \"a/../../b\"]\npath = a\n",
        "[submodule \"\"]\npath = a\n",
        "[submodule \"x\"]\nurl = --upload-pack=touch\n",
        "[submodule \"x\"]\nurl = \"-x\"\n",
        "[submodule \"x\"] url = -x\n",
        "[Submodule \"x\"]\n URL = ./%0a/x\n",
        "[submodule \"x\"]\nurl = https://example.org/%0aHost:%20x\n",
        "[submodule \"x\"]\nurl = https:///x\n",
        "[submodule \"x\"]\nurl = ../../:host/x\n",
        "[submodule \"x\"]\npath = -x\n",
        "[submodule \"x\"]\nupdate = !touch x\n",
        "[submodule \"x\"]\nurl = -\\\nx\n",
    ] {
        assert!(
            matches!(file(bad), Err(IngestError::Harmful { .. })),
            "{bad}"
        );
    }
    for fine in [
        "[submodule \"lib\"]\n\tpath = lib\n\turl = https://example.org/lib.git\n\tbranch = main\n",
        "[submodule \"lib\"]\n\tpath = lib # comment\n\turl = ../lib.git\n",
        "[submodule \"lib\"]\n\turl = git@example.org:x/y\n\tupdate = none\n",
        "not a configuration at all",
        "[core]\n\turl = -x\n",
    ] {
        file(fine).unwrap_or_else(|error| panic!("{fine}: {error}"));
    }
    // The blob may come first, under another name.
    let bad = b"[submodule \"x\"]\nurl = -x\n";
    let (pack, tip) = commit_pack(&tree_entry("100644", b"innocent", oid_of("blob", bad)), bad);
    target.push(&pack, &[tip]).expect("a blob is a blob");
    let tree = tree_entry("100644", b".gitmodules", oid_of("blob", bad));
    let pack = RawPack::new().object(entry::TREE, &tree).finish();
    assert!(matches!(
        target.receive(&pack),
        Err(IngestError::Harmful { .. })
    ));
}

#[test]
fn a_name_that_promises_another_kind_is_refused() {
    let target = Target::new();
    let tree = tree_entry("40000", b"folder", oid_of("blob", b"x"));
    let (pack, _) = commit_pack(&tree, b"x");
    assert!(matches!(
        target.receive(&pack),
        Err(IngestError::Harmful { .. })
    ));
}

/// Commits, trees and tags are read whole, so they have a bound of their own.
#[test]
fn what_must_be_read_whole_is_bounded() {
    let target = Target::new();
    let entries: Vec<u8> = (0..100)
        .flat_map(|nth| {
            tree_entry(
                "100644",
                format!("{nth:03}").as_bytes(),
                oid_of("blob", b"x"),
            )
        })
        .collect();
    let (pack, _) = commit_pack(&entries, b"x");
    let quarantined = target.receive(&pack).expect("sound");
    let index = quarantined
        .pack
        .as_ref()
        .expect("objects")
        .path()
        .with_extension("idx");
    let check = |limit| {
        let pack = Pack::open_limited(&index, Some(limit)).expect("there");
        let own = Objects::open(&target.lease).expect("there");
        closure::check(&pack, own.store(), &target.limits, &AtomicBool::new(false)).map(drop)
    };
    check(entries.len()).expect("just fits");
    let refused = check(entries.len() - 1);
    assert!(
        matches!(refused, Err(IngestError::StructureTooLarge { oid, .. }) if oid == oid_of("tree", &entries))
    );
}
