//! Hosts that speak only the old protocol: there git itself is sent, on a short lead.

use std::collections::BTreeSet;
use std::time::Duration;

use grasp_core::name::{Coordinate, RepoAddress};
use grasp_core::oid::Oid;
use grasp_git::Lease;
use grasp_git::scratch::{self, Bounds, Errand, Pack, Pinned, ScratchError};
use grasp_sync::fetch::{FetchRequest, Progress};
use grasp_sync::hunt::FetchOutcome;
use grasp_testkit::{Behaviour, GitHost, Person, WorkTree, eventually, process};
use tokio::io::AsyncReadExt as _;

use crate::support::{
    Place, fetch, fetch_with, fetcher, held, make_whole, nobodys, oid, request, settings,
};

/// A host of the old protocol that holds `project`.
async fn old() -> (GitHost, WorkTree, Oid) {
    let (host, work, tip) = held().await;
    host.behave(Behaviour::VersionZero);
    (host, work, tip)
}

/// A repository of ours that has `main` of `work`.
async fn lender(place: &Place, work: &WorkTree) -> Lease {
    let owner = Person::named("alice").key();
    let repo = RepoAddress::Announced(Coordinate::new(owner, "project".parse().unwrap()));
    place.repositories.lock(&repo).create().unwrap();
    let path = place.repositories.path(&repo);
    work.push_to(path.to_str().unwrap(), &["main"])
        .await
        .accepted();
    place.repositories.lease(&repo)
}

/// Sends git to `host`, under another name than its own.
async fn errand(
    place: &Place,
    host: &GitHost,
    want: Oid,
    bounds: &Bounds,
) -> Result<Option<Pack>, ScratchError> {
    let (address, port) = host.authority.split_once(':').unwrap();
    let url = host.url_at("git.pinned.example", "project");
    let errand = Errand {
        url: &url,
        pin: Pinned {
            host: "git.pinned.example",
            port: port.parse().unwrap(),
            addresses: vec![address.parse().unwrap()],
        },
        wants: vec![want],
        lenders: &[],
    };
    scratch::fetch(&place.repositories, &errand, bounds, |_| ()).await
}

/// How many processes run for this host.
fn processes_for(host: &GitHost) -> usize {
    let port = host.authority.rsplit(':').next().unwrap();
    process::with_argument(&format!(":{port}/"))
}

/// HUNT-10: the advertisement is read by us first, then git fetches the listed tips in one go.
#[tokio::test]
async fn a_host_of_the_old_protocol_is_fetched_from_by_git() {
    let (host, work, _first) = old().await;
    let tip = oid(&work.commit("second").await);
    work.git(["checkout", "-q", "--orphan", "other"]).await;
    let other = oid(&work.commit("other").await);
    host.hold("project", &work, &["main", "other"]).await;
    let place = fetcher();
    let progress = Progress::new();
    let wanted = request(&host.url("project"), [tip, other, nobodys(1)]);
    let came = fetch_with(&place, wanted, &progress).await.unwrap();
    assert_eq!(came.packs.len(), 1);
    assert!(make_whole(&came.packs, tip).await);
    assert!(make_whole(&came.packs, other).await);
    assert_eq!(came.lacking, BTreeSet::from([nobodys(1)]));
    assert!(came.advertisement.is_some());
    assert!(progress.bytes() > came.packs[0].len() as u64);
    assert_eq!(place.quarantined(), 0);
}

/// HUNT-11: the old protocol has a fingerprint, too.
#[tokio::test]
async fn an_old_host_without_news_is_asked_for_nothing() {
    let (host, work, _first) = old().await;
    let tip = oid(&work.commit("second").await);
    let missed = fetch(&host.url("project"), [tip]).await.unwrap();
    assert_eq!(missed.lacking, BTreeSet::from([tip]));
    let again = || FetchRequest {
        unless: missed.advertisement,
        ..request(&host.url("project"), [tip])
    };
    let came = fetch_with(&fetcher(), again(), &Progress::new())
        .await
        .unwrap();
    assert_eq!(came.advertisement, missed.advertisement);
    host.hold("project", &work, &["main"]).await;
    let came = fetch_with(&fetcher(), again(), &Progress::new())
        .await
        .unwrap();
    assert!(make_whole(&came.packs, tip).await);
}

/// HUNT-5: what is not listed is asked for singly, where the host allows it.
#[tokio::test]
async fn what_an_old_host_does_not_list_is_asked_for_only_if_it_gives_it_out() {
    let (host, work, first) = old().await;
    let tip = oid(&work.commit("second").await);
    host.hold("project", &work, &["main"]).await;
    let came = fetch(&host.url("project"), [first]).await.unwrap();
    assert_eq!(came.lacking, BTreeSet::from([first]));
    let path = host.repository("project");
    let allow = ["config", "uploadpack.allowReachableSHA1InWant", "true"];
    work.home().run(&path, allow).await;
    let came = fetch(&host.url("project"), [first, nobodys(1), tip])
        .await
        .unwrap();
    assert_eq!(
        (came.packs.len(), came.lacking),
        (2, BTreeSet::from([nobodys(1)]))
    );
}

/// Git looks by itself what is here.
#[tokio::test]
async fn what_a_lender_has_is_not_sent() {
    let (host, work, first) = old().await;
    let place = fetcher();
    let lease = lender(&place, &work).await;
    let tip = oid(&work.commit("second").await);
    host.hold("project", &work, &["main"]).await;
    let lent = |want| FetchRequest {
        lenders: vec![lease.clone()],
        ..request(&host.url("project"), [want])
    };
    let came = fetch_with(&place, lent(tip), &Progress::new())
        .await
        .unwrap();
    // A commit, a tree, a file: nothing of the first commit.
    assert_eq!(came.packs[0][8..12], 3_u32.to_be_bytes());
    let path = host.repository("project");
    work.home()
        .run(&path, ["branch", "first", &first.to_string()])
        .await;
    let came = fetch_with(&place, lent(first), &Progress::new())
        .await
        .unwrap();
    assert_eq!((came.packs.len(), came.lacking.len()), (0, 0));
}

/// HUNT-10, NET-2: git goes to the vetted address and looks nothing up.
#[tokio::test]
async fn git_goes_where_it_is_pinned() {
    let (host, _work, tip) = old().await;
    let place = fetcher();
    let pack = errand(&place, &host, tip, &Bounds::default())
        .await
        .unwrap();
    let mut bytes = Vec::new();
    pack.expect("a pack").read_to_end(&mut bytes).await.unwrap();
    assert!(make_whole(&[bytes], tip).await);
    assert!(
        host.asked()[0]
            .header("host")
            .starts_with("git.pinned.example:")
    );
}

/// HUNT-10, NET-3: case 68.
#[tokio::test]
async fn git_follows_no_redirect_and_asks_nobody_for_a_password() {
    let (host, _work, tip) = held().await;
    let (elsewhere, _, _) = held().await;
    let place = fetcher();
    for refusal in [
        Behaviour::redirect(&elsewhere.url("project")),
        Behaviour::status(401),
    ] {
        host.behave(refusal);
        let refused = errand(&place, &host, tip, &Bounds::default()).await;
        assert!(matches!(refused, Err(ScratchError::Git(_))), "{refused:?}");
    }
    assert_eq!(elsewhere.requests(), 0);
    assert_eq!(place.quarantined(), 0);
}

/// HUNT-9: a pack that is too large is not written to its end.
#[tokio::test]
async fn what_git_brings_is_bounded() {
    let (host, work, _) = old().await;
    let noise: Vec<u8> = (0_u32..200_000)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes())
        .collect();
    let tip = oid(&work.commit_file("noise", &noise).await);
    host.hold("project", &work, &["main"]).await;
    let bounds = Bounds {
        pack_bytes: 20_000,
        ..Bounds::default()
    };
    let place = Place::new(settings(), bounds);
    let wanted = request(&host.url("project"), [tip]);
    let error = fetch_with(&place, wanted, &Progress::new())
        .await
        .expect_err("too much");
    assert!(
        matches!(error.outcome(), FetchOutcome::Harmful { .. }),
        "{error:?}"
    );
    assert_eq!(place.quarantined(), 0);
}

/// HUNT-9: a git that hears nothing is ended, and nothing of it stays.
#[tokio::test]
async fn a_git_that_hears_nothing_is_ended() {
    let (host, _work, tip) = held().await;
    host.behave(Behaviour::Silent);
    let place = fetcher();
    let bounds = Bounds {
        warn_after: Duration::from_millis(100),
        silence_max: Duration::from_millis(500),
        ..Bounds::default()
    };
    let ended = errand(&place, &host, tip, &bounds).await;
    assert!(matches!(ended, Err(ScratchError::Silent(_))), "{ended:?}");
    eventually("no process stays", async || processes_for(&host) == 0).await;
    assert_eq!(place.quarantined(), 0);
}

/// HUNT-9: whoever gives a fetch up ends its git.
#[tokio::test]
async fn a_git_that_nobody_waits_for_is_ended() {
    let (host, _work, tip) = held().await;
    host.behave(Behaviour::Silent);
    let place = fetcher();
    {
        let bounds = Bounds::default();
        let running = errand(&place, &host, tip, &bounds);
        tokio::pin!(running);
        let asked = eventually("git asks", async || host.running() > 0);
        tokio::select! {
            ended = &mut running => panic!("it ended: {ended:?}"),
            () = asked => {}
        }
        assert!(processes_for(&host) > 0);
    }
    eventually("no process stays", async || processes_for(&host) == 0).await;
}

/// HUNT-10, GIT-11: what would harm a reader does not come through; blemishes of age do.
#[tokio::test]
async fn git_checks_what_it_fetches() {
    let (host, work, _) = old().await;
    let blob = work.rev("HEAD:first.txt").await;
    let raw: Vec<u8> = (0..20)
        .map(|n| u8::from_str_radix(&blob[n * 2..n * 2 + 2], 16).unwrap())
        .collect();
    for (entry, is_harmless) in [(&b"0100644 old.txt\0"[..], true), (b"100644 .git\0", false)] {
        let tree = work.write_object("tree", &[entry, &raw].concat()).await;
        let commit = format!("tree {tree}\nauthor A <a> 0 +0000\ncommitter A <a> 0 +0000\n\nx\n");
        let commit = work.write_object("commit", commit.as_bytes()).await;
        host.hold("project", &work, &[&format!("+{commit}:refs/heads/x")])
            .await;
        let fetched = fetch(&host.url("project"), [oid(&commit)]).await;
        assert_eq!(fetched.is_ok(), is_harmless, "{fetched:?}");
    }
}
