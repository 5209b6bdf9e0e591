use std::fs;
use std::io;
use std::path::Path;

use grasp_core::name::RepoAddress;

use super::*;
use crate::refs::default_head;
use crate::testing::{
    Place, RawPack, Work, address, assert_sound, entry, git, git_text, lines, oid_of, refs,
};

/// A repository that packs are taken into.
struct Target {
    place: Place,
    repo: RepoAddress,
    lease: Lease,
    limits: PackLimits,
}

impl Target {
    fn new() -> Self {
        let place = Place::new();
        let repo = place.repository("project");
        let lease = place.repositories.lease(&repo);
        Self {
            place,
            repo,
            lease,
            limits: PackLimits::default(),
        }
    }

    fn receive(&self, pack: &[u8]) -> Result<Quarantined, IngestError> {
        self.receive_beside(&[], pack)
    }

    fn receive_beside(&self, extra: &[Lease], pack: &[u8]) -> Result<Quarantined, IngestError> {
        let never = Arc::default();
        ingest(
            &self.place.repositories,
            &self.lease,
            extra,
            &mut &*pack,
            &self.limits,
            &never,
        )
    }

    fn push(&self, pack: &[u8], tips: &[Oid]) -> Result<Installed, IngestError> {
        self.receive(pack)?.finish(tips)
    }

    fn home(&self) -> std::path::PathBuf {
        self.place.repositories.path(&self.repo)
    }

    fn packs(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.home().join("objects/pack"))
            .expect("there")
            .map(|entry| {
                entry
                    .expect("readable")
                    .file_name()
                    .into_string()
                    .expect("text")
            })
            .collect();
        names.sort();
        names
    }

    /// Everything in the repository, by plain git.
    fn objects(&self) -> Vec<String> {
        let format = "--batch-check=%(objectname)";
        let listed = git_text(&self.home(), &["cat-file", "--batch-all-objects", format]);
        listed.lines().map(str::to_owned).collect()
    }

    fn assert_quarantine_is_empty(&self) {
        let folder = self.place.repositories.root().join(".grasp/quarantine");
        assert_eq!(fs::read_dir(folder).expect("there").count(), 0);
    }

    fn assert_untouched(&self) {
        assert!(self.packs().is_empty());
        self.assert_quarantine_is_empty();
    }

    fn show(&self, tip: Oid) {
        let lock = self.place.repositories.lock(&self.repo);
        lock.write_refs(&refs([("refs/heads/main", tip)]), default_head())
            .expect("present");
    }
}

fn commit_text(tree: Oid, parents: &[Oid]) -> Vec<u8> {
    let parents = lines(parents.iter().map(|parent| format!("parent {parent}")));
    format!("tree {tree}\n{parents}author A <a@e> 1 +0000\ncommitter A <a@e> 1 +0000\n\nx\n")
        .into_bytes()
}

fn tree_entry(mode: &str, name: &[u8], oid: Oid) -> Vec<u8> {
    [mode.as_bytes(), b" ", name, b"\0", oid.as_bytes()].concat()
}

/// A commit of one tree with one blob, as a pack; the commit's name.
fn commit_pack(tree: &[u8], blob: &[u8]) -> (Vec<u8>, Oid) {
    let commit = commit_text(oid_of("tree", tree), &[]);
    let pack = RawPack::new()
        .object(entry::COMMIT, &commit)
        .object(entry::TREE, tree)
        .object(entry::BLOB, blob);
    (pack.finish(), oid_of("commit", &commit))
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next)
        .flatten()
        .take(bytes)
        .collect()
}

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
