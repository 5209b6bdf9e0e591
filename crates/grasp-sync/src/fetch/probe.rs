//! Whether a host is a GRASP server: what it says of itself (NIP-11) where its relay is.

use grasp_core::clone_url::CloneUrl;
use http::header::ACCEPT;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::Progress;
use super::http::Site;
use crate::dial::{Dialler, PROBE_BYTES_MAX, PROBE_TIME_MAX};

/// What it has to list.
const NEEDED: [&str; 2] = ["GRASP-01", "GRASP-02"];

/// Asks, and takes no answer for a no.
pub(super) async fn is_grasp(dialler: &Dialler, at: &CloneUrl) -> bool {
    let document = timeout(PROBE_TIME_MAX, ask(dialler, at)).await;
    document
        .ok()
        .flatten()
        .is_some_and(|text| names_itself(&text))
}

async fn ask(dialler: &Dialler, at: &CloneUrl) -> Option<Vec<u8>> {
    let site = Site::find(dialler, at.as_str(), Progress::new())
        .await
        .ok()?;
    let accept = (ACCEPT, "application/nostr+json");
    let answer = site.get(root(site.path()), accept).await.ok()?;
    let mut document = Vec::new();
    let body = answer.body().take(PROBE_BYTES_MAX as u64);
    { body }.read_to_end(&mut document).await.ok()?;
    Some(document)
}

/// Where the relay of a GRASP server is: what stands before `/<npub>/<identifier>.git` (G1-1).
fn root(path: &str) -> &str {
    let mut parts = path.rsplitn(3, '/');
    let (_, owner, base) = (parts.next(), parts.next(), parts.next());
    match (owner, base) {
        (Some(owner), Some(base)) if owner.starts_with("npub1") && !base.is_empty() => base,
        _ => "/",
    }
}

fn names_itself(document: &[u8]) -> bool {
    let document: Option<Value> = serde_json::from_slice(document).ok();
    let listed = document.as_ref().and_then(|it| it.get("supported_grasps"));
    let listed = listed.and_then(Value::as_array);
    listed.is_some_and(|listed| {
        let is_listed = |name: &&str| listed.iter().any(|it| it.as_str() == Some(name));
        NEEDED.iter().all(is_listed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HUNT-14
    #[test]
    fn a_host_is_a_grasp_server_if_it_lists_both() {
        for (document, is_one) in [
            (r#"{"supported_grasps":["GRASP-01","GRASP-02"]}"#, true),
            (
                r#"{"supported_grasps":["GRASP-05","GRASP-02","GRASP-01"]}"#,
                true,
            ),
            (r#"{"supported_grasps":["GRASP-01"]}"#, false),
            (r#"{"supported_grasps":"GRASP-01 GRASP-02"}"#, false),
            (r#"{"supported_grasps":[1,{}]}"#, false),
            ("[]", false),
            ("", false),
        ] {
            assert_eq!(names_itself(document.as_bytes()), is_one, "{document}");
        }
    }

    #[test]
    fn the_relay_is_where_the_repositories_are() {
        for (path, at) in [
            ("/npub1xyz/project.git", "/"),
            ("/grasp/npub1xyz/project.git", "/grasp"),
            ("/a/b/npub1xyz/project.git", "/a/b"),
            ("/team/project.git", "/"),
            ("/project.git", "/"),
            ("", "/"),
        ] {
            assert_eq!(root(path), at, "{path}");
        }
    }
}
