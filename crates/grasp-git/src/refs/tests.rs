use std::collections::BTreeMap;

use grasp_core::oid::Oid;

use super::*;
use crate::testing::{Place, Work, assert_sound, git, git_text, name, refs};

/// What plain git lists, in the shape of a snapshot.
fn for_each_ref(home: &Path) -> BTreeMap<RefName, RefValue> {
    let format = "--format=%(refname) %(objectname) %(*objectname)";
    let listed = git_text(home, &["for-each-ref", format]);
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let ref_name = name(words.next().expect("a name"));
        let oid = words
            .next()
            .and_then(|hex| hex.parse().ok())
            .expect("an oid");
        let peeled = words.next().and_then(|hex| hex.parse().ok());
        (ref_name, RefValue { oid, peeled })
    };
    listed.lines().map(parse).collect()
}

fn history(place: &Place) -> (Work, Oid, Oid) {
    let work = place.work("work");
    let commit = work.commit("file", "content");
    work.git(&["tag", "--annotate", "-m", "one", "v1"]);
    let tag = work.oid("refs/tags/v1");
    (work, commit, tag)
}

/// GIT-12
#[test]
fn plain_git_lists_what_a_snapshot_says() {
    let place = Place::new();
    let repo = place.repository("project");
    let (work, commit, tag) = history(&place);
    let home = place.repositories.path(&repo);
    work.copy_objects_to(&home);

    let wanted = refs([("refs/heads/main", commit), ("refs/tags/v1", tag)]);
    let lock = place.repositories.lock(&repo);
    let written = lock.write_refs(&wanted, default_head()).expect("written");

    assert_eq!(written.refs, for_each_ref(&home));
    assert_eq!(written.refs[&name("refs/tags/v1")].peeled, Some(commit));
    assert_eq!(written.head_oid(), Some(commit));
    assert_eq!(written.oids(), wanted);
    assert_sound(&home);
    git(
        place.folder.path(),
        &["clone", "--quiet", home.to_str().expect("text"), "clone"],
        b"",
    );
}

/// GIT-12, case 22: refs that a newer state does not list disappear, and a branch may become a folder.
#[test]
fn a_write_replaces_the_whole_set() {
    let place = Place::new();
    let repo = place.repository("project");
    let (work, commit, _) = history(&place);
    let home = place.repositories.path(&repo);
    work.copy_objects_to(&home);
    let lock = place.repositories.lock(&repo);

    let before = lock
        .write_refs(
            &refs([("refs/heads/a", commit), ("refs/heads/old", commit)]),
            name("refs/heads/a"),
        )
        .expect("written");
    let after = lock
        .write_refs(&refs([("refs/heads/a/b", commit)]), name("refs/heads/a/b"))
        .expect("a folder in the place of a branch");

    assert!(after.generation > before.generation);
    assert_eq!(for_each_ref(&home), after.refs);
    assert_eq!(git_text(&home, &["symbolic-ref", "HEAD"]), "refs/heads/a/b");
}

/// A loose ref shadows the packed one: it counts when it is read, and goes with the next write.
#[test]
fn loose_refs_of_others_are_read_and_then_packed() {
    let place = Place::new();
    let repo = place.repository("project");
    let (work, commit, tag) = history(&place);
    let home = place.repositories.path(&repo);
    work.copy_objects_to(&home);
    git(
        &home,
        &["update-ref", "refs/heads/main", &commit.to_string()],
        b"",
    );
    git(
        &home,
        &["update-ref", "refs/tags/v1", &tag.to_string()],
        b"",
    );
    let reopened = read(&home, || {
        place.repositories.objects(&place.repositories.lease(&repo))
    });
    let found = reopened.expect("readable");
    assert_eq!(found.refs, for_each_ref(&home));

    let lock = place.repositories.lock(&repo);
    lock.renew().expect("known");
    place.repositories.publish_for_test(&repo, found.clone());
    lock.write_refs(&found.oids(), default_head())
        .expect("the same set, packed");
    assert_eq!(for_each_ref(&home), found.refs, "nothing is lost");
    assert_eq!(
        fs::read_dir(home.join("refs")).expect("a folder").count(),
        0
    );
}

/// GIT-12: locks of a git that died block nothing.
#[test]
fn a_stale_lock_blocks_nothing() {
    let place = Place::new();
    let repo = place.repository("project");
    let (work, commit, _) = history(&place);
    let home = place.repositories.path(&repo);
    work.copy_objects_to(&home);
    for stale in ["packed-refs.lock", "HEAD.lock", "packed-refs.new"] {
        fs::write(home.join(stale), "stale").expect("written");
    }
    fs::create_dir_all(home.join("refs/heads")).expect("a folder");
    fs::write(home.join("refs/heads/main.lock"), "").expect("written");
    let lock = place.repositories.lock(&repo);
    let wanted = refs([("refs/heads/main", commit)]);
    lock.write_refs(&wanted, default_head()).expect("written");
    assert_eq!(for_each_ref(&home).len(), 1);
}

#[test]
fn a_ref_to_a_missing_object_is_refused_and_changes_nothing() {
    let place = Place::new();
    let repo = place.repository("project");
    let lock = place.repositories.lock(&repo);
    let absent = Oid::from_bytes([7; 20]);
    let refused = lock.write_refs(&refs([("refs/heads/main", absent)]), default_head());
    assert!(matches!(refused, Err(Error::MissingObject { oid, .. }) if oid == absent));
    assert!(
        place
            .repositories
            .refs(&repo)
            .expect("there")
            .refs
            .is_empty()
    );
}

/// 1,000 refs are one write.
#[test]
fn a_thousand_refs_are_written_at_once() {
    let place = Place::new();
    let repo = place.repository("project");
    let (work, commit, tag) = history(&place);
    let home = place.repositories.path(&repo);
    work.copy_objects_to(&home);
    let names: Vec<String> = (0..1_000)
        .map(|nth| format!("refs/heads/b{nth:04}"))
        .collect();
    let mut wanted = refs(names.iter().map(|text| (text.as_str(), commit)));
    wanted.insert(name("refs/tags/v1"), tag);
    let lock = place.repositories.lock(&repo);
    let written = lock
        .write_refs(&wanted, name("refs/heads/b0000"))
        .expect("written");
    assert_eq!(written.refs, for_each_ref(&home));
    let read = read(&home, || unreachable!("the file says what is peeled")).expect("readable");
    assert_eq!(read.refs, written.refs);
}

#[test]
fn a_file_that_promises_less_is_peeled_by_looking() {
    let oid = "1".repeat(40);
    let file = format!(
        "# pack-refs with: peeled sorted \n{oid} refs/heads/a\n{oid} refs/tags/t\n{oid} refs/tags/u\n^{}\n",
        "2".repeat(40)
    );
    let packed = packed::parse(file.as_bytes());
    assert_eq!(
        packed.unpeeled.into_iter().collect::<Vec<_>>(),
        [name("refs/heads/a")]
    );
    assert!(packed.refs[&name("refs/tags/u")].peeled.is_some());
    let bare = packed::parse(format!("{oid} refs/tags/t\n{oid} refs/tags/u\n^{oid}\n").as_bytes());
    assert_eq!(
        bare.unpeeled.into_iter().collect::<Vec<_>>(),
        [name("refs/tags/t")]
    );
}

#[test]
fn lines_that_git_would_not_write_are_passed_over() {
    let oid = "1".repeat(40);
    let zero = "0".repeat(40);
    let file = format!(
        "garbage\n{oid} refs/heads/a..b\n{zero} refs/heads/z\n{oid}refs/heads/x\n^{oid}\n\n{oid} refs/heads/ok"
    );
    let packed = packed::parse(file.as_bytes());
    assert_eq!(
        packed.refs.into_keys().collect::<Vec<_>>(),
        [name("refs/heads/ok")]
    );
}
