//! What is kept of a pack that a stranger sent (HUNT-5, HUNT-12).

use std::collections::BTreeSet;

use super::*;

fn wanted(oids: &[Oid]) -> BTreeSet<Oid> {
    oids.iter().copied().collect()
}

/// HUNT-12, PUSH-18
#[test]
fn of_a_pack_that_lacks_something_the_whole_tips_are_kept_and_nothing_else() {
    let target = Target::new();
    let work = target.place.work("work");
    let base = work.commit("a", "1");
    let good = work.commit("b", "2");
    work.git(&["checkout", "--quiet", "-b", "side", &base.to_string()]);
    let torn = work.commit("c", "3");
    let blob = work.oid("HEAD:c");
    work.git(&["checkout", "--quiet", "--orphan", "stranger"]);
    let stranger = work.commit("d", "4");
    let absent = oid_of("blob", b"nowhere");

    let listed = work.git(&["rev-list", "--objects", "--no-object-names", "--all"]);
    let sent: Vec<Oid> = listed
        .lines()
        .map(|line| line.parse().expect("an oid"))
        .filter(|oid| *oid != blob)
        .collect();
    let quarantined = target.receive(&work.pack_of(&sent)).expect("sound");
    let kept = quarantined
        .finish_whole(&wanted(&[good, torn, absent]))
        .expect("what is whole");
    assert_eq!(kept.whole, wanted(&[good]));
    assert_eq!(kept.installed.objects, 6);
    let objects = target.objects();
    assert!(objects.contains(&good.to_string()));
    for other in [torn, stranger] {
        assert!(
            !objects.contains(&other.to_string()),
            "it was not whole, or not asked for"
        );
    }
    target.show(good);
    assert_sound(&target.home());
    target.assert_quarantine_is_empty();
}

/// HUNT-12
#[test]
fn a_pack_without_anything_that_was_asked_for_leaves_nothing() {
    let target = Target::new();
    let work = target.place.work("work");
    work.commit("a", "1");
    let quarantined = target.receive(&work.pack("HEAD\n", &[])).expect("sound");
    let elsewhere = oid_of("commit", b"another history");
    let kept = quarantined.finish_whole(&wanted(&[elsewhere]));
    assert_eq!(kept.expect("nothing"), Kept::default());
    target.assert_untouched();
}

/// HUNT-5a: what a relative has need not be sent, and is here on its own afterwards.
#[test]
fn what_a_relative_has_completes_a_tip() {
    let target = Target::new();
    let relative = target.place.repository("relative");
    let lent = target.place.repositories.lease(&relative);
    let work = target.place.work("work");
    let first = work.commit("a", "1");
    work.copy_objects_to(&lent.path());
    let tip = work.commit("b", "2");
    let rest = work.pack(&format!("{tip}\n^{first}\n"), &[]);
    let quarantined = target.receive_beside(std::slice::from_ref(&lent), &rest);
    let kept = quarantined
        .expect("sound")
        .finish_whole(&wanted(&[tip, first]))
        .expect("complete");
    assert_eq!(kept.whole, wanted(&[tip, first]));
    target
        .place
        .repositories
        .lock(&relative)
        .remove()
        .expect("removed");
    target.show(tip);
    assert_sound(&target.home());
}

/// GIT-9: a sender that tears everything costs a few walks.
#[test]
fn after_a_few_torn_tips_the_rest_counts_as_torn() {
    let target = Target::new();
    let work = target.place.work("work");
    let mut sent = Vec::new();
    let mut tips = BTreeSet::new();
    for nth in 0..12 {
        work.git(&["checkout", "--quiet", "--orphan", &format!("b{nth}")]);
        let tip = work.commit("a", nth.to_string());
        sent.extend([tip, work.oid("HEAD^{tree}")]);
        tips.insert(tip);
    }
    let quarantined = target.receive(&work.pack_of(&sent)).expect("sound");
    let kept = quarantined.finish_whole(&tips).expect("nothing is whole");
    assert_eq!(kept, Kept::default());
    target.assert_untouched();
}

/// PR-6
#[test]
fn what_leads_to_a_commit_is_told_before_anything_is_installed() {
    let target = Target::new();
    let work = target.place.work("work");
    let commit = work.commit("a", "1");
    work.git(&["tag", "-m", "x", "v1"]);
    work.git(&["tag", "-m", "x", "folder", "HEAD^{tree}"]);
    let revisions = "HEAD\nv1\nfolder\n";
    let quarantined = target.receive(&work.pack(revisions, &[])).expect("sound");
    let leads = |oid| quarantined.leads_to_commit(&oid).expect("readable");
    assert!(leads(commit) && leads(work.oid("v1")));
    for other in ["folder", "HEAD^{tree}", "HEAD:a"] {
        assert!(!leads(work.oid(other)), "{other}");
    }
    assert!(!leads(oid_of("commit", b"nowhere")));
}
