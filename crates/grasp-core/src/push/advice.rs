//! What the person at the terminal is told (GIT-5, PUSH-10, PUSH-14): which ref, what the signed state
//! says about it, and what to do next.

use std::fmt;

use nostr::event::EventId;

use super::authorize::ATOMIC;
use super::{Command, Difference, Mismatch, Obstacle, PushPlan, Refusal, Verdict};
use crate::name::npub;
use crate::oid::Oid;
use crate::refname::RefName;
use crate::state::StateEvent;

/// At most so many refused refs are listed; of the others the number.
const LINES_MAX: usize = 20;
/// At most so many characters of a name that is no legal ref name are repeated.
const NAME_MAX: usize = 120;
/// A suggested command is at most so long.
const COMMAND_MAX: usize = 4000;
/// What a maintainer can always do.
const PUBLISH: &str = "publish a state (kind 30618) that declares what you push, then push again";

/// The words for a push none of whose commands is accepted (GIT-5): what is waiting, what the signed
/// state says, what to do next. For a push that is accepted in part they speak of the refused rest.
pub fn refusal(plan: &PushPlan, commands: &[Command]) -> Refusal {
    let refused: Vec<(&Command, &str)> = commands
        .iter()
        .zip(&plan.verdicts)
        .filter_map(|(command, verdict)| match verdict {
            Verdict::Refuse(reason) => Some((command, reason.as_str())),
            Verdict::Accept { .. } => None,
        })
        .collect();
    let line = |(command, reason): &(&Command, &str)| format!("{}: {reason}", plain(&command.name));
    let causes = refused.iter().filter(|(_, reason)| *reason != ATOMIC);
    let mut advice: Vec<String> = causes.clone().take(LINES_MAX).map(line).collect();
    let more = causes.clone().count().saturating_sub(LINES_MAX);
    if more > 0 {
        advice.push(format!("and {more} more"));
    }
    let first = causes.clone().chain(&refused).next();
    let obstacle = plan.obstacle.as_deref();
    let summary = match obstacle {
        Some(obstacle) => obstacle.to_string(),
        None => first.map_or_else(|| "nothing was refused".to_owned(), line),
    };
    match obstacle {
        Some(obstacle) => advice.extend(next_steps(obstacle)),
        None if causes.clone().any(|(command, _)| is_signed(&command.name)) => {
            advice.push(PUBLISH.to_owned());
        }
        None => {}
    }
    Refusal { summary, advice }
}

/// The reason for one ref when no state can be compared with; `new` is zero for a deletion.
pub(super) fn reason(obstacle: &Obstacle, new: Oid) -> String {
    match obstacle {
        Obstacle::NoneWaiting { .. } | Obstacle::NoneAuthorized { .. } if new.is_zero() => {
            format!(
                "{}: publish a state (kind 30618) without it first",
                Brief(obstacle)
            )
        }
        Obstacle::NoneWaiting { .. } | Obstacle::NoneAuthorized { .. } => {
            format!("{}: publish a state (kind 30618) first", Brief(obstacle))
        }
        _ => Brief(obstacle).to_string(),
    }
}

/// Why `state` does not let this ref move so.
pub(super) fn disagreement(state: &StateEvent, name: &RefName, new: Oid) -> String {
    let id = short(&state.id());
    match (state.refs().get(name), new.is_zero()) {
        (Some(declared), false) => {
            let (pushed, declared) = (new.short(), declared.short());
            format!("would be at {pushed} but state declares {declared} (state {id})")
        }
        (Some(declared), true) => {
            format!("state {id} still declares it at {}", declared.short())
        }
        (None, _) => format!("not declared (state {id})"),
    }
}

/// Why a ref that agrees with a state is refused all the same: the state is applied as a whole.
pub(super) fn incomplete(mismatch: &Mismatch) -> String {
    let (id, lines) = (short(&mismatch.state), Lines(mismatch));
    format!("the push does not complete state {id}: {lines}")
}

fn next_steps(obstacle: &Obstacle) -> Vec<String> {
    match obstacle {
        Obstacle::NoAnnouncement | Obstacle::NotSelected => vec![
            "publish a repository announcement (kind 30617) that lists this server in 'clone' and \
             'relays', then a state (kind 30618)"
                .to_owned(),
        ],
        Obstacle::NoMaintainers => vec![
            "the announcements of this repository confirm no maintainer: publish one (kind 30617) \
             that names an active lead or maintainer"
                .to_owned(),
        ],
        Obstacle::NoneWaiting { served } | Obstacle::NoneAuthorized { served, .. } => {
            let served = served.iter().flat_map(differences);
            served.chain([PUBLISH.to_owned()]).collect()
        }
        Obstacle::NoneNewer { served, .. } => differences(served)
            .chain([format!("fetch first; then {PUBLISH}")])
            .collect(),
        Obstacle::NoneMatches { newest, .. } => differences(newest)
            .chain(git_push(newest))
            .chain([format!("or {PUBLISH}")])
            .collect(),
        Obstacle::Losing { .. } => {
            vec!["git fetch, merge or rebase, then sign a new state (kind 30618)".to_owned()]
        }
    }
}

fn differences(mismatch: &Mismatch) -> impl Iterator<Item = String> {
    let more = (mismatch.more > 0).then(|| format!("and {} more", mismatch.more));
    mismatch
        .differences
        .iter()
        .map(Difference::to_string)
        .chain(more)
}

/// The command that completes a state, ready to be copied. None if it would be too long to copy.
fn git_push(mismatch: &Mismatch) -> Option<String> {
    if mismatch.completing.is_empty() {
        return None;
    }
    let mut command = "git push origin".to_owned();
    for (name, oid) in &mismatch.completing {
        let source = Some(oid).filter(|oid| !oid.is_zero());
        let source = source.map(ToString::to_string).unwrap_or_default();
        command = command + " " + &shell_word(&format!("{source}:{name}"))?;
    }
    let id = short(&mismatch.state);
    (command.len() <= COMMAND_MAX).then(|| format!("to complete state {id}: {command}"))
}

/// Ref names come from strangers and may hold `$`, `;` and quotes: what is offered for copying must
/// not do more than it says. None for what no terminal should be sent.
fn shell_word(word: &str) -> Option<String> {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "/_.:+-=@,".contains(c);
    if word.chars().all(harmless) {
        return Some(word.to_owned());
    }
    let quoted = || format!("'{}'", word.replace('\'', r"'\''"));
    (!word.contains(char::is_control)).then(quoted)
}

/// Text of a stranger as it may stand on a terminal.
fn plain(text: &str) -> String {
    let visible = |c: char| if c.is_control() { '?' } else { c };
    let mut shown: String = text.chars().take(NAME_MAX).map(visible).collect();
    if text.chars().count() > NAME_MAX {
        shown.push('…');
    }
    shown
}

/// Whether a signed state is what lets this ref move.
fn is_signed(name: &str) -> bool {
    name.starts_with("refs/heads/") || name.starts_with("refs/tags/")
}

fn short(event: &EventId) -> String {
    event.to_hex()[..8].to_owned()
}

/// The obstacle with the differences: what `ERR` says in one line.
impl fmt::Display for Obstacle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Brief(self).fmt(out)?;
        match self {
            Self::NoneWaiting { served } | Self::NoneAuthorized { served, .. } => {
                let Some(served) = served else { return Ok(()) };
                let id = short(&served.state);
                write!(
                    out,
                    "; served state {id} doesn't match push ({})",
                    Lines(served)
                )
            }
            Self::NoneNewer { served, .. } => {
                let id = short(&served.state);
                write!(
                    out,
                    "; served state {id} doesn't match push ({})",
                    Lines(served)
                )
            }
            Self::NoneMatches { newest, .. } => {
                let id = short(&newest.state);
                write!(
                    out,
                    "; newest, {id}, doesn't match push ({})",
                    Lines(newest)
                )
            }
            _ => Ok(()),
        }
    }
}

/// The obstacle alone.
struct Brief<'a>(&'a Obstacle);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Obstacle::NoAnnouncement => out.write_str("No repository announcement found"),
            Obstacle::NotSelected => {
                out.write_str("No repository announcement found for selected coordinate")
            }
            Obstacle::NoMaintainers => out.write_str("No authorized maintainers found"),
            Obstacle::NoneWaiting { .. } => out.write_str("No state events in purgatory"),
            Obstacle::NoneAuthorized { waiting, .. } => write!(
                out,
                "{waiting} state event(s) in purgatory but none by an authorised maintainer"
            ),
            Obstacle::NoneNewer { authorized, .. } => write!(
                out,
                "{authorized} authorised state event(s) in purgatory but none newer than the served one"
            ),
            Obstacle::NoneMatches { authorized, .. } => {
                write!(out, "{authorized} authorised state event(s) in purgatory")
            }
            Obstacle::Losing { winner, author } => write!(
                out,
                "a newer state {} by {} is served; fetch, then sign a new state",
                short(winner),
                npub(author)
            ),
        }
    }
}

/// A mismatch in one line.
struct Lines<'a>(&'a Mismatch);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = differences(self.0).collect();
        out.write_str(&lines.join("; "))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other {
                name,
                pushed,
                declared,
            } => {
                let (name, pushed, declared) =
                    (plain(name.as_str()), pushed.short(), declared.short());
                write!(
                    out,
                    "{name} would be at {pushed} but state declares {declared}"
                )
            }
            Self::Missing(name) => write!(out, "{} missing", plain(name.as_str())),
            Self::Undeclared(name) => write!(out, "{} not declared", plain(name.as_str())),
            Self::Unsatisfiable(name) => write!(
                out,
                "{} is declared with a value that no object can have",
                plain(name.as_str())
            ),
        }
    }
}
