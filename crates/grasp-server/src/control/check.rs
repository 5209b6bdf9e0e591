//! `integrity-check` and `cleanup-empty-repos`: one repository after the other, each told as soon as it is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use grasp_core::name::{Identifier, RepoAddress};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::desk::Failure;
use super::text::tell;
use super::{Desk, Reply};
use crate::service::{CheckError, Checked, Finding, Unwanted};
use crate::words::counted;

/// Where an answer goes, and in which form.
pub(super) struct Telling<'a> {
    pub(super) replies: &'a mpsc::Sender<Reply>,
    pub(super) json: bool,
}

impl Telling<'_> {
    /// One thing, in the form that was asked for; `false` if nobody listens any more.
    async fn tell(&self, text: impl FnOnce() -> String, value: impl FnOnce() -> Value) -> bool {
        let reply = if self.json {
            Reply::Value(value())
        } else {
            Reply::Text(text() + "\n")
        };
        tell(self.replies, reply).await
    }

    /// A sentence that only people need.
    async fn say(&self, text: String) -> bool {
        self.json || tell(self.replies, Reply::Text(text + "\n")).await
    }
}

impl Desk {
    /// Looks at every repository of an identifier, or at all. The number of findings that are left.
    pub(super) async fn integrity_check(
        &self,
        identifier: Option<Identifier>,
        repair: bool,
        out: &Telling<'_>,
    ) -> Result<u64, Failure> {
        let _alone = self.checking.try_acquire().map_err(|_| Failure::Checking)?;
        let places = self.service().places(identifier).await?;
        let (mut left, mut objects, mut looked_at) = (0, 0, 0_u64);
        for stray in &places.strays {
            left += 1;
            let path = stray.display().to_string();
            out.tell(
                || format!("{path}: no repository of this server; it is left alone"),
                || json!({"path": path, "finding": "stray"}),
            )
            .await;
        }
        for repository in &places.repositories {
            if out.replies.is_closed() {
                break;
            }
            looked_at += 1;
            let checked = self.check_one(repository, repair, out).await?;
            left += checked.findings.len() as u64;
            objects += checked.objects;
        }
        let end = match (repair, left) {
            (true, _) => " left",
            (false, 0) => "",
            (false, _) => "; --repair mends what can be mended",
        };
        let repositories = counted(looked_at, "repository", "repositories");
        let objects = counted(objects, "object", "objects");
        let findings = counted(left, "finding", "findings");
        out.say(format!(
            "{repositories} and {objects} looked at, {findings}{end}"
        ))
        .await;
        Ok(left)
    }

    /// Looks at one, and mends it if that is wanted. What is left.
    async fn check_one(
        &self,
        repository: &RepoAddress,
        repair: bool,
        out: &Telling<'_>,
    ) -> Result<Checked, Failure> {
        let given_up = Arc::new(AtomicBool::new(false));
        let work = async {
            let checked = self.service().check(repository, &given_up).await?;
            tell_findings(&checked, "", out).await;
            if !repair || !checked.findings.iter().any(Finding::is_repairable) {
                return Ok(checked);
            }
            let after = self.service().repair(&checked, &given_up).await?;
            if after.findings.is_empty() {
                out.tell(
                    || format!("{repository}: repaired"),
                    || json!({"repository": repository.to_string(), "repaired": true}),
                )
                .await;
            } else {
                tell_findings(&after, "after the repair: ", out).await;
                if after.findings.iter().any(Finding::is_of_objects) {
                    out.say(self.how_to_go_on(repository)).await;
                }
            }
            Ok::<_, CheckError>(after)
        };
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => Ok(done?),
            () = out.replies.closed() => {
                given_up.store(true, Ordering::Relaxed);
                Ok(work.await?)
            }
        }
    }

    /// What an operator can do where a repair could not.
    fn how_to_go_on(&self, repository: &RepoAddress) -> String {
        let packs = self.service().repositories().path(repository);
        let packs = packs.join("objects/pack");
        format!(
            "{repository}: no other repository here has these objects whole. Put a pack of them, from a backup or a \
             maintainer's clone, into {} and run this again; what is missing comes with a push of the signed state too",
            packs.display()
        )
    }

    /// Lists folders that no event asks for, and has them taken away if that is wanted: empty ones, with
    /// `purge_orphans` also those that hold objects.
    pub(super) async fn cleanup_empty(
        &self,
        execute: bool,
        purge_orphans: bool,
        out: &Telling<'_>,
    ) -> Result<u64, Failure> {
        let _alone = self.checking.try_acquire().map_err(|_| Failure::Checking)?;
        let places = self.service().places(None).await?;
        let (mut found, mut gone) = (0_u64, 0_u64);
        for repository in &places.repositories {
            let Some(unwanted) = self.service().orphaned(repository).await? else {
                continue;
            };
            if out.replies.is_closed() {
                break;
            }
            found += 1;
            let goes = unwanted.is_empty || purge_orphans;
            if execute && goes {
                self.service().clear_orphan(&unwanted).await?;
                gone += 1;
            }
            let becomes = becomes(&unwanted, execute && goes, goes);
            out.tell(
                || format!("{repository}: {becomes}"),
                || {
                    json!({
                        "repository": repository.to_string(), "empty": unwanted.is_empty,
                        "removed": execute && goes,
                    })
                },
            )
            .await;
        }
        let found_words = counted(found, "folder", "folders");
        let end = match (execute, found) {
            (true, _) => format!(", {gone} removed"),
            (false, 0) => String::new(),
            (false, _) => "; --execute removes".to_owned(),
        };
        out.say(format!("{found_words} that no event here asks for{end}"))
            .await;
        Ok(0)
    }
}

fn becomes(unwanted: &Unwanted, is_gone: bool, goes: bool) -> &'static str {
    match (unwanted.is_empty, is_gone, goes) {
        (true, true, _) => "empty, removed",
        (false, true, _) => "with objects, removed",
        (true, false, _) => "empty, to be removed",
        (false, false, true) => "with objects, to be removed",
        (false, false, false) => "with objects, kept; --purge-orphans removes it too",
    }
}

async fn tell_findings(checked: &Checked, when: &str, out: &Telling<'_>) {
    let repository = checked.repository.to_string();
    for finding in &checked.findings {
        out.tell(
            || format!("{repository}: {when}{finding}"),
            || value(&repository, finding, when.is_empty()),
        )
        .await;
    }
}

fn value(repository: &str, finding: &Finding, first: bool) -> Value {
    let mut value = json!({
        "repository": repository, "finding": finding.name(), "says": finding.to_string(),
        "after_repair": !first,
    });
    if let Finding::Object { hole, needed_by } = finding {
        value["object"] = hole.oid.to_string().into();
        value["named_by"] = json!(hole.by.map(|by| by.to_string()));
        value["needed_by"] = needed_by.as_str().into();
    }
    value
}
