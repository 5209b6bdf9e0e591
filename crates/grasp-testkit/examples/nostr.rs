//! The smallest Nostr client that can announce a repository and sign its state, to try a server without any other
//! tool. The README walks through it.
//!
//! ```sh
//! nostr npub FILE                                makes the key in FILE if it is not there, and shows its npub
//! nostr publish FILE RELAY KIND NAME=VALUE...    signs an event with these tags and publishes it
//! nostr query RELAY FILTER                       prints the events that a filter (JSON) finds
//! ```

#![allow(clippy::print_stdout, reason = "this is what it is for")]

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use grasp_testkit::{Person, relay};
use nostr::types::Timestamp;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["npub", file] => println!("{}", key(file)?.npub()),
        ["publish", file, url, kind, tags @ ..] => publish(file, url, kind, tags).await?,
        ["query", url, filter] => {
            for event in relay::query(url, &[serde_json::from_str(filter)?]).await {
                println!("{}", serde_json::to_string(&event)?);
            }
        }
        _ => {
            return Err(
                "npub FILE | publish FILE RELAY KIND NAME=VALUE... | query RELAY FILTER".into(),
            );
        }
    }
    Ok(())
}

async fn publish(file: &str, url: &str, kind: &str, tags: &[&str]) -> Result<(), Box<dyn Error>> {
    let person = key(file)?;
    let mut draft = person.draft(kind.parse()?).at(Timestamp::now().as_secs());
    for tag in tags {
        let (name, value) = tag.split_once('=').ok_or("a tag is NAME=VALUE")?;
        draft = draft.tag([name, value]);
    }
    let answer = relay::publish(url, &draft.sign()).await;
    println!("{} {}", answer.accepted, answer.message);
    Ok(())
}

fn key(file: &str) -> Result<Person, Box<dyn Error>> {
    if !std::fs::exists(file)? {
        let mut random = [0_u8; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        let secret = random
            .iter()
            .fold(String::new(), |all, byte| format!("{all}{byte:02x}"));
        let mut new = std::fs::OpenOptions::new();
        let mut out = new.write(true).create_new(true).mode(0o600).open(file)?;
        writeln!(out, "{secret}")?;
    }
    Person::holding(&std::fs::read_to_string(file)?)
        .ok_or_else(|| format!("{file} holds no key").into())
}
