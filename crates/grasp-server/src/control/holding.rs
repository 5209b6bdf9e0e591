//! What operators do with repositories that left (DEL-5, DEL-6).

use grasp_core::PublicKey;
use grasp_core::name::{Coordinate, npub, parse_npub};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::desk::Failure;
use super::text::{Rows, from_now, tell};
use super::{Desk, Reply, Scope};
use crate::service::{HeldScope, Restored};
use crate::words::counted;

impl Desk {
    pub(super) async fn holding_list(
        &self,
        json: bool,
        replies: &mpsc::Sender<Reply>,
    ) -> Result<u64, Failure> {
        let held = self.service().holding_list().await?;
        if json {
            for one in &held {
                if !tell(replies, Reply::Value(value(one))).await {
                    break;
                }
            }
            return Ok(0);
        }
        let now = self.service().clock.now();
        let mut rows = Rows::default();
        if held.is_empty() {
            rows.heading("nothing is held");
        }
        for one in &held {
            rows.heading(&one.scope.to_string());
            let until = one.until.map(|until| from_now(until, now));
            rows.row("gone for good", until.as_deref().unwrap_or("never"));
            let archive = one.archive.map(|it| from_now(it.until, now));
            rows.row("git data until", archive.as_deref().unwrap_or("none"));
            rows.row(
                "comes back",
                if one.requested {
                    "only if its owner announces it again: it was deleted by request"
                } else {
                    "if its owner announces it again, or by `holding restore`"
                },
            );
        }
        tell(replies, Reply::Text(rows.text())).await;
        Ok(0)
    }

    pub(super) async fn holding_restore(
        &self,
        scope: &Scope,
        replies: &mpsc::Sender<Reply>,
    ) -> Result<u64, Failure> {
        let scope = named(scope)?;
        let said = match self.service().holding_restore(&scope).await? {
            Restored::Served => format!("{scope} is back\n"),
            Restored::Waits => {
                format!("{scope} waits for git data: what it had is not complete any more\n")
            }
            Restored::Live => format!("{scope} is here already\n"),
            Restored::Gone => return Err(Failure::NotFound(format!("nothing is held of {scope}"))),
            Restored::Requested => {
                return Err(Failure::Refused(format!(
                    "{scope} was deleted by its owner's request: only a new announcement brings it back"
                )));
            }
            Restored::Refused(rejection) => {
                return Err(Failure::Refused(format!(
                    "{scope} may not come back: {rejection}"
                )));
            }
        };
        tell(replies, Reply::Text(said)).await;
        Ok(0)
    }

    pub(super) async fn holding_eject(
        &self,
        scope: &Scope,
        json: bool,
        replies: &mpsc::Sender<Reply>,
    ) -> Result<u64, Failure> {
        let scope = named(scope)?;
        let ejected = self.service().holding_eject(&scope).await?;
        if ejected.events == 0 && !ejected.archive {
            return Err(Failure::NotFound(format!("nothing is held of {scope}")));
        }
        let reply = if json {
            Reply::Value(json!({"events": ejected.events, "archive": ejected.archive}))
        } else {
            let events = counted(ejected.events, "held event", "held events");
            let git = if ejected.archive {
                " with its git data"
            } else {
                ""
            };
            Reply::Text(format!("gone for good: {events} of {scope}{git}\n"))
        };
        tell(replies, reply).await;
        Ok(0)
    }
}

fn value(one: &HeldScope) -> Value {
    json!({
        "owner": npub(&one.scope.owner),
        "identifier": one.scope.identifier.as_str(),
        "until": one.until.map(|until| until.as_secs()),
        "archived_since": one.archive.map(|archive| archive.since.as_secs()),
        "archived_until": one.archive.map(|archive| archive.until.as_secs()),
        "requested": one.requested,
    })
}

/// `npub` or hex (CLI-1).
fn named(scope: &Scope) -> Result<Coordinate, Failure> {
    let owner = parse_npub(&scope.owner).or_else(|| PublicKey::from_hex(&scope.owner).ok());
    let owner = owner.ok_or_else(|| {
        Failure::Misnamed(format!("{} is neither an npub nor a hex key", scope.owner))
    })?;
    let identifier = scope.identifier.parse();
    let identifier = identifier
        .map_err(|error: grasp_core::name::IdentifierError| Failure::Misnamed(error.to_string()))?;
    Ok(Coordinate::new(owner, identifier))
}
