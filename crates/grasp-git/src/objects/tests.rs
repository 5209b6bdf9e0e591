use super::*;
use crate::testing::{Place, Work, git};

fn filled(place: &Place, work: &Work) -> Objects {
    let repo = place.repository("project");
    work.copy_objects_to(&place.repositories.path(&repo));
    let lease = place.repositories.lease(&repo);
    place.repositories.objects(&lease).expect("there")
}

#[test]
fn objects_are_found_by_name_and_kind() {
    let place = Place::new();
    let work = place.work("work");
    let commit = work.commit("dir/file", "content");
    work.git(&["tag", "--annotate", "-m", "one", "v1"]);
    work.git(&["tag", "--annotate", "-m", "two", "v2", "v1"]);
    let objects = filled(&place, &work);
    let kind = |name: &str| objects.kind(&work.oid(name));
    assert_eq!(kind("HEAD"), Some(ObjectKind::Commit));
    assert_eq!(kind("HEAD^{tree}"), Some(ObjectKind::Tree));
    assert_eq!(kind("HEAD:dir/file"), Some(ObjectKind::Blob));
    assert_eq!(kind("v2"), Some(ObjectKind::Tag));
    assert_eq!(objects.peel_to_commit(&work.oid("v2")), Some(commit));
    assert_eq!(objects.peel_to_commit(&work.oid("HEAD:dir")), None);
    assert_eq!(objects.peel_tag(&commit), None);
    let absent = Oid::from_bytes([9; 20]);
    assert!(!objects.contains(&absent));
    assert_eq!(objects.kind(&absent), None);
    assert!(objects.contains(&EMPTY_TREE));
}

#[test]
fn a_pack_that_comes_later_is_seen() {
    let place = Place::new();
    let work = place.work("work");
    let first = work.commit("a", "1");
    let objects = filled(&place, &work);
    let second = work.commit("b", "2");
    assert!(objects.contains(&first) && !objects.contains(&second));
    let pack = work.pack(&format!("{second}\n^{first}\n"), &[]);
    git(&objects.lease.path(), &["index-pack", "--stdin"], &pack);
    assert!(objects.contains(&second));
}

#[test]
fn loose_objects_of_others_count() {
    let place = Place::new();
    let repo = place.repository("project");
    let home = place.repositories.path(&repo);
    let text = git(&home, &["hash-object", "-w", "--stdin"], b"loose");
    let oid: Oid = String::from_utf8(text)
        .expect("text")
        .trim()
        .parse()
        .expect("an oid");
    let objects = place
        .repositories
        .objects(&place.repositories.lease(&repo))
        .expect("there");
    assert_eq!(objects.kind(&oid), Some(ObjectKind::Blob));
    assert_eq!(objects.complete(&[oid], &[]), BTreeSet::from([oid]));
}

/// ST-7: connectivity, not only presence.
#[test]
fn a_tip_with_a_hole_below_it_is_not_complete() {
    let place = Place::new();
    let work = place.work("work");
    work.commit("dir/a", "1");
    let whole = work.commit("dir/b", "2");
    let blob = work.object("blob", b"present");
    let absent = Oid::from_bytes([9; 20]);
    let mut entry = b"100644 gone\0".to_vec();
    entry.extend(absent.as_bytes());
    let holed_tree = work.object("tree", &entry);
    let commit = |tree: Oid, parent: Oid| {
        let text = format!(
            "tree {tree}\nparent {parent}\nauthor A <a@e> 1 +0000\ncommitter A <a@e> 1 +0000\n\nx\n"
        );
        work.object("commit", text.as_bytes())
    };
    let holed = commit(holed_tree, whole);
    let above = commit(work.oid("HEAD^{tree}"), holed);
    let orphan = commit(work.oid("HEAD^{tree}"), absent);

    let repo = place.repository("project");
    let home = place.repositories.path(&repo);
    let pack = work.pack_of(&[
        whole,
        work.oid("HEAD~1"),
        work.oid("HEAD^{tree}"),
        work.oid("HEAD~1^{tree}"),
        work.oid("HEAD:dir"),
        work.oid("HEAD~1:dir"),
        work.oid("HEAD:dir/a"),
        work.oid("HEAD:dir/b"),
        blob,
        holed_tree,
        holed,
        above,
        orphan,
    ]);
    git(&home, &["index-pack", "--stdin"], &pack);
    let open = || {
        place
            .repositories
            .objects(&place.repositories.lease(&repo))
            .expect("there")
    };
    let tips = [whole, blob, holed, above, orphan, absent];
    assert_eq!(open().complete(&tips, &[]), BTreeSet::from([whole, blob]));
    assert_eq!(
        open().complete(&tips, &[work.oid("HEAD~1")]),
        BTreeSet::from([whole, blob])
    );
    // What is trusted is not walked again.
    assert!(open().complete(&tips, &[holed]).contains(&above));
}

#[test]
fn gitlinks_are_not_followed_and_the_empty_tree_is_never_missing() {
    let place = Place::new();
    let work = place.work("work");
    let mut entry = b"160000 module\0".to_vec();
    entry.extend([3; 20]);
    let tree = work.object("tree", &entry);
    let text = |tree: Oid| {
        format!("tree {tree}\nauthor A <a@e> 1 +0000\ncommitter A <a@e> 1 +0000\n\nx\n")
    };
    let linked = work.object("commit", text(tree).as_bytes());
    let empty = work.object("commit", text(EMPTY_TREE).as_bytes());
    let repo = place.repository("project");
    git(
        &place.repositories.path(&repo),
        &["index-pack", "--stdin"],
        &work.pack_of(&[tree, linked, empty]),
    );
    let objects = place
        .repositories
        .objects(&place.repositories.lease(&repo))
        .expect("there");
    assert_eq!(objects.complete(&[linked, empty], &[]).len(), 2);
}

#[test]
fn a_walk_with_merges_and_trusted_tags_ends_whole() {
    let place = Place::new();
    let work = place.work("work");
    for nth in 0..10 {
        work.commit(&format!("dir/{nth}/file"), format!("{nth}"));
    }
    work.git(&["tag", "--annotate", "-m", "one", "v1"]);
    work.git(&["checkout", "--quiet", "-b", "side", "HEAD~3"]);
    work.commit("side", "1");
    work.git(&["checkout", "--quiet", "main"]);
    work.git(&["merge", "--quiet", "--no-edit", "side"]);
    let tip = work.commit("dir/3/more", "2");
    let objects = filled(&place, &work);
    let tips = [tip, work.oid("v1"), work.oid("side")];
    assert_eq!(objects.complete(&tips, &[work.oid("v1")]).len(), 3);
    assert_eq!(objects.complete(&tips, &[]).len(), 3);
}
