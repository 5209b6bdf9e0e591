//! The system calls of a running server, in order.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::server::Server;
use crate::wait::eventually;

/// A trace that is being written.
#[derive(Debug)]
pub struct Trace {
    child: Child,
    file: PathBuf,
}

/// A system call that returned; the order is that of the returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// Its arguments as `strace -y` writes them, and what it returned.
    pub text: String,
}

impl Trace {
    /// Attaches to all threads of the server. `calls` are names for `-e trace=`.
    pub async fn of(server: &Server, calls: &str) -> Self {
        let file = server.dir().join("strace.txt");
        let pid = server.pid().to_string();
        let mut child = Command::new("strace")
            .args([
                "-f",
                "-y",
                "-s",
                "300",
                "-e",
                &format!("trace={calls}"),
                "-o",
            ])
            .arg(&file)
            .args(["-p", &pid])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("strace is installed");
        let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
        let first = said
            .next_line()
            .await
            .expect("readable")
            .unwrap_or_default();
        assert!(first.contains("attached"), "strace: {first}");
        // Whatever else it says must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = said.next_line().await {} });
        Self { child, file }
    }

    /// Waits until a call is in the trace: what strace has not written yet is not missed.
    pub async fn until(&self, what: &str, found: impl Fn(&Call) -> bool) {
        eventually(what, async || self.so_far().iter().any(&found)).await;
    }

    /// What has been traced so far.
    pub fn so_far(&self) -> Vec<Call> {
        parse(&std::fs::read_to_string(&self.file).unwrap_or_default())
    }

    /// Detaches and returns the whole trace.
    pub async fn end(mut self) -> Vec<Call> {
        // INT makes strace detach and flush; KILL would leave lines unwritten.
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) {
            let pid = rustix::process::Pid::from_raw(pid).expect("a process id");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
        let _ = self.child.wait().await;
        self.so_far()
    }
}

/// Joins `<unfinished ...>` calls with their ends.
fn parse(text: &str) -> Vec<Call> {
    let mut begun = std::collections::BTreeMap::<&str, &str>::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        let rest = rest.trim_start();
        if let Some(start) = rest.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, start);
        } else if rest.starts_with("<... ") {
            let end = rest.split_once("resumed>").map_or("", |(_, end)| end);
            if let Some(start) = begun.remove(thread) {
                calls.extend(call(&format!("{start}{end}")));
            }
        } else {
            calls.extend(call(rest));
        }
    }
    calls
}

fn call(text: &str) -> Option<Call> {
    let (name, arguments) = text.split_once('(')?;
    Some(Call {
        name: name.to_owned(),
        text: arguments.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_when_it_returns() {
        let trace = "7  fsync(3</a> <unfinished ...>\n8  rename(\"/b\", \"/c\") = 0\n\
                     7  <... fsync resumed>) = 0\n7  +++ exited with 0 +++\n";
        let calls: Vec<_> = parse(trace)
            .into_iter()
            .map(|c| c.name + "(" + &c.text)
            .collect();
        assert_eq!(calls, ["rename(\"/b\", \"/c\") = 0", "fsync(3</a>) = 0"]);
    }
}
