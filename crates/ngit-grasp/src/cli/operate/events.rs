//! `event-integrity-check`: the event store itself, while no server uses it (CLI-1).

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use grasp_store::{EventFinding, EventsChecked, OpenError, Store};
use serde_json::{Value, json};

use super::{FINDINGS, configured};
use crate::cli::serve::opening;
use crate::compose::{self, Folders};
use crate::config::Config;
use crate::failure::Failure;

/// Looks at the store, and with `execute` mends it. Each finding is a line of JSON, the last line a summary.
pub(crate) fn check_events(
    flags: BTreeMap<String, String>,
    execute: bool,
) -> Result<ExitCode, Failure> {
    let (config, folders) = configured(flags)?;
    let store = open(&config, &folders)?;
    let found = look(&store, execute)?;
    let mut summary = json!({"events": found.events, "findings": found.findings});
    let mut left = found.findings;
    if execute && found.findings > 0 {
        // What is told now is what could not be mended.
        let after = look(&store, false)?;
        left = after.findings;
        summary["removed"] = found.unsound.into();
        summary["left"] = left.into();
    }
    store.close();
    line(&json!({ "summary": summary }))?;
    Ok(match left {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(FINDINGS),
    })
}

fn open(config: &Config, folders: &Folders) -> Result<Store, Failure> {
    if !Store::is_at(&folders.relay).map_err(|error| opening(error.into()))? {
        return Err(Failure::no_data(anyhow!(
            "{} holds no events of a server; --relay-data-path names another folder",
            folders.relay.display()
        )));
    }
    Store::open(&folders.relay, compose::store(config)).map_err(|error| match error {
        OpenError::Locked { .. } => Failure::try_again(
            anyhow::Error::new(error).context("the events are in use; stop the server first"),
        ),
        other => opening(other.into()),
    })
}

fn look(store: &Store, mend: bool) -> Result<EventsChecked, Failure> {
    let mut told = Ok(());
    let checked = store
        .check_events(mend, &mut |finding| {
            if told.is_ok() {
                told = line(&value(&finding));
            }
        })
        .context("the events cannot be read")?;
    told?;
    Ok(checked)
}

fn value(finding: &EventFinding) -> Value {
    let mut value = match finding {
        EventFinding::Unreadable { number } => json!({"number": number}),
        EventFinding::Forged {
            number,
            problem,
            json,
        } => json!({"number": number, "problem": problem, "text": json}),
        EventFinding::Header { event } => json!({"event": event.to_hex()}),
        EventFinding::Rows {
            table,
            missing,
            surplus,
        } => json!({"table": table, "missing": missing, "surplus": surplus}),
        EventFinding::Counters => json!({}),
    };
    value["finding"] = finding.name().into();
    value
}

/// Whoever stops reading has seen enough; the work goes on.
fn line(value: &Value) -> Result<(), Failure> {
    match io::stdout().write_all(format!("{value}\n").as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written.context("cannot write the answer")?),
    }
}
