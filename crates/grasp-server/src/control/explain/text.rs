//! An explanation for a person.

use std::collections::BTreeSet;

use grasp_core::event::kind;
use grasp_core::explain::{
    AnnouncementWhy, Condition, Explanation, Membership, NoRoot, Outside, ProposalWhy, RefsSeen,
    StateWhy,
};
use grasp_core::lifecycle::{Archive, Stage};
use grasp_core::name::{RepoAddress, npub};
use grasp_core::oid::Oid;
use grasp_core::refname::RefName;
use grasp_core::{EventId, PublicKey, Timestamp};

use crate::control::hunt;
use crate::control::text::{Rows, from_now};
use crate::hunt::Page;
use crate::service::{Explained, Refusal, Refused};
use crate::words::counted;

/// Of a long list so many are told; of the others the number.
const TOLD_MAX: usize = 10;

/// The whole explanation, as of `now`.
pub(in crate::control) fn text(
    explained: &Explained,
    hunted: Option<&Page>,
    now: Timestamp,
) -> String {
    let it = &explained.explanation;
    let mut rows = Rows::default();
    rows.heading(&it.repo.to_string());
    repository(&mut rows, explained, now);
    people(&mut rows, it);
    announcements(&mut rows, it, now);
    states(&mut rows, it, now);
    proposals(&mut rows, it, now);
    if let Some(page) = hunted {
        rows.heading("git data that is looked for on other servers");
        hunt::tell(&mut rows, page, now);
    }
    if it.is_cut {
        rows.heading("(some lists are longer; the versions that count are shown first)");
    }
    if !explained.refusals.is_empty() {
        rows.heading("refused since the start, the latest first");
        for refusal in &explained.refusals {
            refused(&mut rows, refusal, now);
        }
    }
    rows.text()
}

fn repository(rows: &mut Rows, explained: &Explained, now: Timestamp) {
    let it = &explained.explanation;
    let refs = &it.refs;
    rows.row(
        "directory",
        match (refs.exists, refs.wanted) {
            (true, true) => "there",
            (false, false) => "none, and no event here asks for one",
            (true, false) => "there, although no event here asks for it",
            (false, true) => "MISSING, although an event here asks for it",
        },
    );
    if let Some(archive) = &it.archive {
        rows.row("archive", archived(archive, now));
    }
    match &refs.condition {
        Condition::Absent => {}
        Condition::Decided { by } => rows.row("decided by", format!("state {}", short(by))),
        Condition::Empty => rows.row("decided by", "nothing yet: no state is served"),
        Condition::Frozen => rows.row(
            "FROZEN",
            "no state of a maintainer is served any more; refs stay as they were last",
        ),
    }
    if let Some(head) = &refs.head {
        let count = refs.shown;
        rows.row("refs", format!("{count} on the disk, HEAD names {head}"));
    }
    conditions(rows, refs, explained.is_dirty);
    if let Err(reason) = &it.root {
        rows.row("NO MAINTAINER", no_root(reason));
    }
}

fn conditions(rows: &mut Rows, refs: &RefsSeen, is_dirty: bool) {
    if !refs.missing.is_empty() {
        rows.row(
            "DEGRADED",
            "objects of refs are gone; push the signed state again to bring them back",
        );
        oids(rows, &refs.missing);
    }
    if is_dirty {
        rows.row(
            "NOT IN LINE",
            "it is about to be brought in line with its events",
        );
    }
    if !refs.differences.is_empty() {
        rows.row("DIFFERS", "refs are not what events say");
        for one in refs.differences.iter().take(TOLD_MAX) {
            let side = |at: &Option<String>| at.clone().unwrap_or_else(|| "absent".to_owned());
            let (is, should) = (side(&one.is), side(&one.should));
            rows.row("", format!("{}: {is}, should be {should}", one.name));
        }
        more(rows, refs.differences.len());
    }
}

fn archived(archive: &Archive, now: Timestamp) -> String {
    let (since, until) = (from_now(archive.since, now), from_now(archive.until, now));
    if archive.returns {
        format!("what left {since} is being taken back")
    } else {
        format!("left {since}, kept until {until}")
    }
}

fn no_root(reason: &NoRoot) -> String {
    match reason {
        NoRoot::NotAnnounced => "the owner's announcement is not here".to_owned(),
        NoRoot::OwnerLeft => "the owner's announcement says that the owner left".to_owned(),
        NoRoot::LeadNotAnnounced { lead } => {
            format!("the lead {} has no announcement here", who(lead))
        }
        NoRoot::LeadDoesNotLead { lead } => {
            format!(
                "the lead {} does not say so in their announcement",
                who(lead)
            )
        }
        NoRoot::SeveralLeads { of } => {
            format!("the announcement of {} names several leads", who(of))
        }
        NoRoot::Circle => "the leads name each other in a circle".to_owned(),
    }
}

fn people(rows: &mut Rows, it: &Explanation) {
    if it.people.is_empty() {
        return;
    }
    rows.heading("who counts");
    for person in &it.people {
        let says = match &person.membership {
            Membership::Root => "maintainer: the list of maintainers begins here".to_owned(),
            Membership::Member { listed_by, lists } => {
                format!(
                    "maintainer: listed by {}, lists {}",
                    all(listed_by),
                    all(lists)
                )
            }
            Membership::Listed { by } => format!("maintainer: listed by {}", all(by)),
            Membership::Invited { by, lacks } => {
                let lacks = match lacks {
                    Outside::NoAnnouncement => "but has announced no such repository here",
                    Outside::ListsNobodyBack => "but lists no maintainer back",
                    Outside::Left => "but left, as the own announcement says",
                };
                format!("invited by {}, {lacks}", all(by))
            }
            Membership::Ended { by } => {
                format!("has no say any more, as {} says", all(by))
            }
            Membership::Uninvited { lists } => {
                format!("lists {}, and no maintainer lists them", all(lists))
            }
            Membership::OwnerWithoutSay => "the owner, who leaves the say to a lead".to_owned(),
        };
        rows.row(&npub(&person.key), says);
    }
}

fn announcements(rows: &mut Rows, it: &Explanation, now: Timestamp) {
    if it.announcements.is_empty() {
        return;
    }
    rows.heading("announcements");
    for one in &it.announcements {
        let why = match one.why {
            AnnouncementWhy::Hosted => "hosted here",
            AnnouncementWhy::Elsewhere => {
                "names no repository here, it only tells who is a maintainer"
            }
            AnnouncementWhy::AwaitsPush => "waits for a first push that a signed state allows",
            AnnouncementWhy::SoftExpired => {
                "waited in vain: a state of a maintainer's, or sending it again, revives it"
            }
            AnnouncementWhy::WithdrawsAuthority => {
                "takes away what the served one gives; a push served makes it count"
            }
            AnnouncementWhy::Replaced => "replaced by a newer one",
            AnnouncementWhy::Deleted => "deleted, can be recovered",
        };
        let event = &one.event;
        let stage = staged(event.stage, event.deadline, now);
        let signed = signed(&event.author, event.created_at, now);
        rows.row(&short(&event.event), format!("{stage}; {signed}; {why}"));
    }
}

fn states(rows: &mut Rows, it: &Explanation, now: Timestamp) {
    if it.states.is_empty() {
        return;
    }
    rows.heading("states");
    for one in &it.states {
        let event = &one.event;
        let stage = staged(event.stage, event.deadline, now);
        let signed = signed(&event.author, event.created_at, now);
        let refs = counted(one.refs, "ref", "refs");
        let says = format!("{stage}; {signed}; {refs}; {}", state_why(&one.why));
        rows.row(&short(&event.event), says);
        if let StateWhy::Lacks { missing, .. } = &one.why {
            oids(rows, missing);
        }
    }
}

fn state_why(why: &StateWhy) -> String {
    match why {
        StateWhy::Wins => "WINS: refs are what it says".to_owned(),
        StateWhy::Loses => "loses: the winner is newer".to_owned(),
        StateWhy::NoSay => "does not count: its author is no maintainer here".to_owned(),
        StateWhy::Unsatisfiable { refs } => {
            let refs: Vec<&str> = refs.iter().map(RefName::as_str).collect();
            format!(
                "can never be met: no object can be called what it wants {} at",
                refs.join(", ")
            )
        }
        StateWhy::Lacks {
            missing,
            of,
            would_win,
            at,
        } => {
            let count = missing.len();
            let end = if *would_win {
                "a push that brings them makes it win"
            } else {
                "it loses to the winner even with them"
            };
            let lacks = match of {
                1 => "its one object".to_owned(),
                of => format!("{count} of its {of} objects"),
            };
            format!("{} lacks {lacks}; {end}", place(at))
        }
        StateWhy::EmptyBeforeFirstPush => {
            "declares no refs, and the repository had no push yet".to_owned()
        }
        StateWhy::Complete => "nothing is missing: it is about to be served".to_owned(),
        StateWhy::Replaced => "replaced by a newer one of its author's".to_owned(),
        StateWhy::Deleted => "deleted, can be recovered".to_owned(),
    }
}

fn proposals(rows: &mut Rows, it: &Explanation, now: Timestamp) {
    if !it.proposals.is_empty() {
        rows.heading("pull requests");
    }
    for one in &it.proposals {
        let why = match &one.why {
            ProposalWhy::Shown => "its ref is here".to_owned(),
            ProposalWhy::ShownElsewhere => {
                "its ref is in another repository: it names no maintainer of this one".to_owned()
            }
            ProposalWhy::Lacks { commit } => format!("lacks its commit {commit}"),
            ProposalWhy::NoCommit => "names no commit that could exist".to_owned(),
            ProposalWhy::Complete => "its commit is here: it is about to be served".to_owned(),
            ProposalWhy::Deleted => "deleted, can be recovered".to_owned(),
        };
        let stage = staged(one.stage, one.deadline, now);
        let says = format!("{stage}; by {}; {why}", who(&one.author));
        rows.row(&short(&one.event), says);
    }
    if !it.uploads.is_empty() {
        rows.heading("pushed for pull requests that have not come");
    }
    for upload in &it.uploads {
        let end = from_now(upload.deadline, now);
        let says = format!("commit {}, goes {end}", upload.commit);
        rows.row(&short(&upload.event), says);
    }
}

fn refused(rows: &mut Rows, refusal: &Refusal, now: Timestamp) {
    let what = match &refusal.what {
        Refused::Event {
            event,
            kind,
            author,
        } => {
            let what = match *kind {
                kind::ANNOUNCEMENT => "announcement".to_owned(),
                kind::STATE => "state".to_owned(),
                kind::PULL_REQUEST => "pull request".to_owned(),
                kind => format!("event of kind {kind}"),
            };
            format!("{what} {} by {}", short(event), who(author))
        }
        Refused::Push { to_prs, refs } => {
            let to = if *to_prs { " to /prs/" } else { "" };
            format!("push{to} of {}", refs.join(", "))
        }
    };
    let times = match refusal.times {
        1 => String::new(),
        times => format!(" ({times} times)"),
    };
    let says = format!("{what}{times}: {}", refusal.reason);
    rows.row(&from_now(refusal.at, now), clean(&says));
}

fn staged(stage: Stage, deadline: Option<Timestamp>, now: Timestamp) -> String {
    let (stage, ends) = match stage {
        Stage::Served => ("served", "ends"),
        Stage::Waiting => ("WAITING", "expires"),
        Stage::Parked => ("parked", "goes"),
        Stage::Superseded => ("superseded", "goes"),
        Stage::Held => ("held", "goes"),
    };
    deadline.map_or_else(
        || stage.to_owned(),
        |at| format!("{stage}, {ends} {}", from_now(at, now)),
    )
}

fn signed(author: &PublicKey, at: Timestamp, now: Timestamp) -> String {
    format!("signed {} by {}", from_now(at, now), who(author))
}

fn oids(rows: &mut Rows, oids: &BTreeSet<Oid>) {
    for oid in oids.iter().take(TOLD_MAX) {
        rows.row("", format!("missing {oid}"));
    }
    more(rows, oids.len());
}

fn more(rows: &mut Rows, count: usize) {
    if count > TOLD_MAX {
        rows.row("", format!("and {} more", count - TOLD_MAX));
    }
}

/// The beginning of an id: enough to find it.
fn short(event: &EventId) -> String {
    event.to_hex().chars().take(16).collect()
}

/// Enough of a key to tell it from the others of the page, which has them whole.
fn who(key: &PublicKey) -> String {
    npub(key).chars().take(13).chain(['…']).collect()
}

/// A repository, its owner as [`who`] says it.
fn place(repository: &RepoAddress) -> String {
    let coordinate = repository.coordinate();
    let prs = match repository {
        RepoAddress::Announced(_) => "",
        RepoAddress::Proposals(_) => "prs/",
    };
    let owner = who(&coordinate.owner);
    format!("{prs}{owner}/{}", coordinate.identifier)
}

fn all(keys: &BTreeSet<PublicKey>) -> String {
    let shown = keys.iter().take(TOLD_MAX).map(who);
    let mut names: Vec<String> = shown.collect();
    if keys.len() > TOLD_MAX {
        names.push(format!("{} more", keys.len() - TOLD_MAX));
    }
    names.join(", ")
}

/// Without what a peer could use to write elsewhere on the terminal.
fn clean(text: &str) -> String {
    let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().map(shown).collect()
}
