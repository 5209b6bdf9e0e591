//! What is asked for, and how.

use std::collections::BTreeSet;

use grasp_sync::fetch::{FetchRequest, Progress};

use grasp_testkit::Behaviour;
use grasp_testkit::git_host::Asked;

use crate::support::{fetch, fetch_with, fetcher, held, make_whole, nobodys, oid, request};

/// HUNT-14: what is known from a signed state is asked for at once.
#[tokio::test]
async fn a_known_tip_comes_with_one_request() {
    let (host, _work, tip) = held().await;
    let came = fetch(&host.url("project"), [tip]).await.unwrap();
    assert!(make_whole(&came.packs, tip).await);
    assert_eq!(came.lacking, BTreeSet::new());
    let asked = host.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0].target, "/project.git/git-upload-pack");
    assert_eq!(asked[0].header("git-protocol"), "version=2");
    assert_eq!(asked[0].header("accept-encoding"), "");
    assert_eq!(asked[0].header("user-agent"), "ngit-grasp/test");
}

/// HUNT-5: all missing oids in one go. HUNT-14: also those that no ref names.
#[tokio::test]
async fn commits_that_no_ref_names_come_in_the_same_go() {
    let (host, work, first) = held().await;
    let second = oid(&work.commit("second").await);
    host.hold("project", &work, &["main"]).await;
    work.git(["checkout", "-q", "--orphan", "other"]).await;
    let other = oid(&work.commit("other").await);
    host.hold("project", &work, &["other:refs/nostr/x"]).await;
    let came = fetch(&host.url("project"), [first, second, other])
        .await
        .unwrap();
    assert_eq!((came.packs.len(), host.requests()), (1, 1));
    assert!(make_whole(&came.packs, second).await);
    assert!(make_whole(&came.packs, other).await);
}

/// What is here already is not sent again, and what is sent may build on it.
#[tokio::test]
async fn what_we_have_is_not_sent() {
    let (host, work, first) = held().await;
    let lines: Vec<_> = (0..3_000).map(|n| (n * n).to_string()).collect();
    let big = lines.join("\n");
    let base = oid(&work.commit_file("big", big.as_bytes()).await);
    let tip = oid(&work.commit_file("big", (big + "more").as_bytes()).await);
    host.hold("project", &work, &["main"]).await;
    let all = fetch(&host.url("project"), [tip]).await.unwrap();
    let with_haves = FetchRequest {
        haves: vec![base, first],
        ..request(&host.url("project"), [tip])
    };
    let came = fetch_with(&fetcher(), with_haves, &Progress::new())
        .await
        .unwrap();
    // A commit, a tree, and the file as a delta against what is here.
    assert_eq!(came.packs[0][8..12], 3_u32.to_be_bytes());
    assert!(came.packs[0].len() * 4 < all.packs[0].len());
}

/// HUNT-14: an oid that the host lacks is named in its refusal.
#[tokio::test]
async fn what_the_host_lacks_is_dropped_and_the_rest_comes() {
    let (host, _work, tip) = held().await;
    let came = fetch(&host.url("project"), [nobodys(1), tip])
        .await
        .unwrap();
    assert!(make_whole(&came.packs, tip).await);
    assert_eq!(came.lacking, BTreeSet::from([nobodys(1)]));
    assert_eq!(host.requests(), 2);
}

/// HUNT-5: after two refusals the refs are listed, the listed tips come in one go, the rest is asked for singly.
#[tokio::test]
async fn with_much_missing_refs_are_listed_and_the_rest_is_asked_for_singly() {
    let (host, work, first) = held().await;
    let second = oid(&work.commit("second").await);
    host.hold("project", &work, &["main"]).await;
    let absent = [nobodys(0), nobodys(1), nobodys(2), nobodys(3)];
    // `first` is not listed: no ref names it any more.
    let wants = absent.into_iter().chain([first, second]);
    let came = fetch(&host.url("project"), wants).await.unwrap();
    assert_eq!(came.lacking, BTreeSet::from(absent));
    assert_eq!(
        came.packs.len(),
        2,
        "the tip and what it needs, and what was asked for singly"
    );
    assert!(make_whole(&came.packs[..1], second).await);
    assert!(came.advertisement.is_some());
    let asked: Vec<_> = host.asked().iter().map(Asked::text).collect();
    let wanted = |text: &String| text.matches("want ").count();
    let listing = asked
        .iter()
        .position(|text| text.contains("ls-refs"))
        .unwrap();
    assert_eq!(wanted(&asked[listing + 1]), 1, "the listed tip");
    assert!(asked[listing + 1].contains(&second.to_string()));
    assert!(asked[listing + 2..].iter().all(|text| wanted(text) == 1));
}

/// HUNT-5: of many objects that are not listed only so many are asked for singly; the others wait for the next pass.
#[tokio::test]
async fn asking_singly_is_bounded() {
    let (host, _work, _tip) = held().await;
    let absent: BTreeSet<_> = (0..100).map(nobodys).collect();
    let came = fetch(&host.url("project"), absent.clone()).await.unwrap();
    assert_eq!(came.lacking, absent);
    assert!(host.requests() < 24, "{}", host.requests());
}

/// What came meanwhile is not asked for any more.
#[tokio::test]
async fn what_another_brought_is_not_asked_for_singly() {
    let (host, _work, _tip) = held().await;
    let absent: BTreeSet<_> = (0..5).map(nobodys).collect();
    let fetcher = fetcher();
    let wanted = request(&host.url("project"), absent.clone());
    let mut fetching = fetcher.fetch(wanted, Progress::new()).await.unwrap();
    fetching.brought(&absent);
    assert!(fetching.next().await.unwrap().is_none());
    assert_eq!(host.requests(), 0);
}

/// HUNT-11: a miss has the fingerprint of what the host listed; while that stays, nothing is asked for.
#[tokio::test]
async fn a_host_without_news_is_asked_for_nothing() {
    let (host, work, _first) = held().await;
    let tip = oid(&work.commit("second").await);
    let url = host.url("project");
    let missed = fetch(&url, [tip]).await.unwrap();
    assert_eq!(missed.lacking, BTreeSet::from([tip]));
    let fingerprint = missed.advertisement;
    assert!(fingerprint.is_some());

    let again = || FetchRequest {
        unless: fingerprint,
        ..request(&url, [tip])
    };
    let before = host.requests();
    let came = fetch_with(&fetcher(), again(), &Progress::new())
        .await
        .unwrap();
    assert_eq!(
        (came.lacking, came.advertisement),
        (BTreeSet::from([tip]), fingerprint)
    );
    assert_eq!(host.requests(), before + 1);

    host.hold("project", &work, &["main"]).await;
    let came = fetch_with(&fetcher(), again(), &Progress::new())
        .await
        .unwrap();
    assert_ne!(came.advertisement, fingerprint);
    assert!(came.lacking.is_empty());
    assert!(make_whole(&came.packs, tip).await);
}

/// HUNT-5: a tag is listed with what it stands for.
#[tokio::test]
async fn a_commit_below_a_listed_tag_is_listed() {
    let (host, work, tagged) = held().await;
    work.git(["tag", "-a", "-m", "one", "v1"]).await;
    work.commit("second").await;
    host.hold("project", &work, &["v1", "main"]).await;
    let wants = [nobodys(0), nobodys(1), tagged];
    let came = fetch(&host.url("project"), wants).await.unwrap();
    assert!(make_whole(&came.packs, tagged).await);
    // Two refusals, the list, the tagged commit in the one go: nothing singly.
    assert_eq!(host.requests(), 4);
}

/// HUNT-9: whoever watches sees what comes.
#[tokio::test]
async fn progress_counts_what_the_host_sends() {
    let (host, work, _) = held().await;
    let noise: Vec<u8> = (0_u32..200_000)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes())
        .collect();
    let tip = oid(&work.commit_file("noise", &noise).await);
    host.hold("project", &work, &["main"]).await;
    let progress = Progress::new();
    let came = fetch_with(&fetcher(), request(&host.url("project"), [tip]), &progress)
        .await
        .unwrap();
    let pack = came.packs[0].len() as u64;
    assert!(progress.bytes() > pack && progress.bytes() < pack * 2);
}

/// What a host shows is looked at without fetching it.
#[tokio::test]
async fn a_host_shows_what_its_refs_name_and_nothing_else() {
    let (host, work, first) = held().await;
    let tip = oid(&work.commit("second").await);
    host.hold(
        "project",
        &work,
        &["main", &format!("{first}:refs/heads/old")],
    )
    .await;
    let source = host.url("project").parse().unwrap();
    for behaviour in [Behaviour::Faithful, Behaviour::VersionZero] {
        host.behave(behaviour);
        for (oids, is_shown) in [
            (vec![tip, first], true),
            (vec![tip], true),
            (vec![tip, nobodys(1)], false),
        ] {
            let oids = oids.into_iter().collect();
            let shown = fetcher().shows(&source, &oids, Progress::new()).await;
            assert_eq!(shown.unwrap(), is_shown, "{oids:?}");
        }
    }
    assert!(
        host.asked()
            .iter()
            .all(|asked| !asked.text().contains("want"))
    );
}
