//! How a life reads when it is told.

use std::fmt;

use super::step::{Declared, PEOPLE, Step};

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Announce {
                who,
                lists,
                lead,
                here,
                lasts,
            } => {
                let (place, listed) = (place(*here), names(*lists));
                write!(out, "{} announces {place}, lists {listed:?}", name(*who))?;
                if let Some(lead) = lead {
                    write!(out, ", follows {}", name(*lead))?;
                }
                expiring(out, *lasts)
            }
            Self::State {
                who,
                declared,
                age,
                lasts,
            } => {
                write!(out, "{} signs {declared}, {age} s ago", name(*who))?;
                expiring(out, *lasts)
            }
            Self::Advance { .. }
            | Self::PushState { .. }
            | Self::PushMain { .. }
            | Self::Propose { .. }
            | Self::UploadFirst { .. }
            | Self::SendDraft
            | Self::Update { .. }
            | Self::PushProposal { .. }
            | Self::Upload { .. } => tell_of_git(self, out),
            _ => tell_of_the_rest(self, out),
        }
    }
}

/// Which of the people are in a set.
fn names(set: u8) -> Vec<&'static str> {
    let listed = (0..PEOPLE.len()).filter(|who| set & (1 << who) != 0);
    listed.map(|who| PEOPLE[who]).collect()
}

fn name(who: usize) -> &'static str {
    PEOPLE.get(who).copied().unwrap_or("/prs/")
}

/// Pushes, and what asks for them.
fn tell_of_git(step: &Step, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match step {
        Step::Advance {
            who,
            to,
            declared,
            age,
        } => write!(
            out,
            "{} signs {declared}, {age} s ago, and pushes it to {}",
            name(*who),
            name(*to)
        ),
        Step::PushState { to, of, form } => write!(
            out,
            "the newest state of {} is pushed to {}: {form:?}",
            name(*of),
            name(*to)
        ),
        Step::PushMain { to, at } => write!(out, "main at {at} is pushed to {}", name(*to)),
        Step::Propose { to, at, own } => {
            let from = if *own { " from /prs/" } else { "" };
            write!(out, "dave asks {} to pull {at}{from}", name(*to))
        }
        Step::UploadFirst {
            to,
            place,
            at,
            right,
        } => {
            let what = if *right { "it" } else { "something else" };
            write!(
                out,
                "dave will ask {} to pull {at} and pushes {what} to {}",
                name(*to),
                name(*place)
            )
        }
        Step::SendDraft => write!(out, "dave sends the pull request whose commit came first"),
        Step::Update { at } => write!(out, "dave updates the last pull request to {at}"),
        Step::PushProposal { to, right } => {
            let what = if *right {
                "its commit"
            } else {
                "another commit"
            };
            write!(
                out,
                "for the last pull request {what} is pushed to {}",
                name(*to)
            )
        }
        Step::Upload { to, at } => {
            write!(out, "{at} is pushed to {} for an unknown event", name(*to))
        }
        _ => Ok(()),
    }
}

fn place(here: bool) -> &'static str {
    if here { "here" } else { "elsewhere" }
}

/// Conversation, deletion, time.
fn tell_of_the_rest(step: &Step, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match step {
        Step::Issue { to, also, patch } => {
            let what = if *patch { "a patch" } else { "an issue" };
            write!(out, "dave sends {} and {} {what}", name(*to), name(*also))
        }
        Step::Comment { back } => write!(out, "carol comments on event -{back}"),
        Step::Delete { back, by_address } => {
            let how = if *by_address { "its address" } else { "its id" };
            write!(out, "the author deletes event -{back} by {how}")
        }
        Step::DeleteNewest { who, state } => {
            let what = if *state { "state" } else { "announcement" };
            write!(out, "{} deletes the newest {what} by its id", name(*who))
        }
        Step::DeleteForeign { back, who } => {
            write!(out, "{} wants event -{back} deleted", name(*who))
        }
        Step::DeleteScope { who } => write!(out, "{} deletes the whole project", name(*who)),
        Step::DeleteFirst { who, at } => write!(
            out,
            "{} deletes a state with main at {at}, and then it comes",
            name(*who)
        ),
        Step::SendAgain { back, synced } => {
            let how = if *synced { "synced" } else { "sent" };
            write!(out, "event -{back} is {how} again")
        }
        Step::Forge { to } => {
            write!(out, "an issue for {} comes forged, then real", name(*to))
        }
        Step::Vanish { who, here } => {
            let who = PEOPLE.get(*who).unwrap_or(&"dave");
            write!(out, "{who} vanishes from {}", place(*here))
        }
        Step::Test(step) => write!(out, "by a test: {step}"),
        Step::CleanUp => write!(out, "what tests left is cleaned up"),
        Step::Restore { who } => write!(out, "the operator brings {} back", name(*who)),
        Step::Relist {
            black,
            white,
            restores,
        } => write!(
            out,
            "the server starts with the blacklist {:?}, the whitelist {:?}, restores: {restores}",
            names(*black),
            white.map(names)
        ),
        Step::Pass { secs } => write!(out, "{secs} s pass"),
        Step::Restart => write!(out, "the server restarts"),
        Step::Kill => write!(out, "the server is killed and started"),
        _ => Ok(()),
    }
}

impl fmt::Display for Declared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "[")?;
        for (name, at) in [("main", self.main), ("dev", self.dev), ("v1", self.tag)] {
            if let Some(at) = at {
                write!(out, "{name} at {at}, ")?;
            }
        }
        write!(out, "HEAD {:?}]", self.head)
    }
}

fn expiring(out: &mut fmt::Formatter<'_>, lasts: Option<u64>) -> fmt::Result {
    match lasts {
        Some(secs) => write!(out, ", for {secs} s"),
        None => Ok(()),
    }
}
