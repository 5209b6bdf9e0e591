use super::*;
use crate::{HttpConnection, eventually};

async fn held() -> (GitHost, WorkTree, String) {
    let work = GitHome::new().init("work").await;
    let tip = work.commit("first").await;
    let host = GitHost::start().await;
    host.hold("project", &work, &["main"]).await;
    (host, work, tip)
}

#[tokio::test]
async fn plain_git_clones_from_a_faithful_host() {
    let (host, work, tip) = held().await;
    let clone = work.home().clone_of(&host.url("project"), "clone").await;
    assert_eq!(clone.rev("HEAD").await, tip);
    assert_eq!(host.asked()[0].header("git-protocol"), "version=2");
    assert_eq!(host.requests(), host.asked().len());
    host.behave(Behaviour::VersionZero);
    let refs = work.home().ls_remote(&host.url("project")).await;
    assert_eq!(refs["refs/heads/main"], tip);
}

#[tokio::test]
async fn plain_git_fails_where_a_host_has_a_fault() {
    let (host, work, _) = held().await;
    let elsewhere = Behaviour::redirect("http://127.0.0.1:1/");
    for fault in [
        Behaviour::CorruptPack,
        Behaviour::BreaksAfter(100),
        Behaviour::WrongType,
        Behaviour::status(401),
        elsewhere,
        Behaviour::Raw(b"no HTTP".to_vec()),
    ] {
        host.behave(fault.clone());
        let url = host.url("project");
        let cloned = work.home().try_run(work.path(), ["clone", &url, "x"]).await;
        assert!(!cloned.status.success(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_silent_host_counts_who_waits_and_speaks_when_it_is_told_to() {
    let (host, _work, _) = held().await;
    host.behave(Behaviour::Silent);
    let mut waiting = HttpConnection::connect(&host.authority).await;
    let target = "/project.git/info/refs?service=git-upload-pack";
    waiting.send_head("GET", target, &[]).await;
    eventually("the request runs", async || host.running() == 1).await;
    host.behave(Behaviour::Faithful);
    let answer = waiting.response("GET").await;
    assert_eq!((answer.status, host.running_most()), (200, 1));
    assert!(answer.text().contains("refs/heads/main"));
}
