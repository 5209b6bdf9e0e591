//! An explanation for a program: keys and ids in hex, times in seconds since 1970.

use std::collections::BTreeSet;

use grasp_core::explain::{
    Announced, AnnouncementWhy, Condition, Difference, Membership, NoRoot, Outside, Person,
    ProposalWhy, Proposed, StateWhy, Stated, Versioned,
};
use grasp_core::lifecycle::{Archive, Stage, UploadRecord};
use grasp_core::oid::Oid;
use grasp_core::refname::RefName;
use grasp_core::{PublicKey, Timestamp};
use serde_json::{Value, json};

use crate::control::hunt;
use crate::hunt::Page;
use crate::service::{Explained, Refusal, Refused};

/// The whole explanation.
pub(in crate::control) fn value(explained: &Explained, hunted: Option<&Page>) -> Value {
    let it = &explained.explanation;
    let refs = &it.refs;
    let (condition, decided_by) = match &refs.condition {
        Condition::Absent => ("absent", None),
        Condition::Decided { by } => ("decided", Some(by.to_hex())),
        Condition::Empty => ("empty", None),
        Condition::Frozen => ("frozen", None),
    };
    json!({
        "repository": it.repo.address(),
        "root": it.root.as_ref().ok().map(PublicKey::to_hex),
        "no_root": it.root.as_ref().err().map(no_root),
        "people": it.people.iter().map(person).collect::<Vec<_>>(),
        "condition": condition,
        "decided_by": decided_by,
        "directory": {"wanted": refs.wanted, "exists": refs.exists},
        "dirty": explained.is_dirty,
        "degraded": !refs.missing.is_empty(),
        "missing": oids(&refs.missing),
        "head": refs.head.as_ref().map(ToString::to_string),
        "refs": refs.shown,
        "differences": refs.differences.iter().map(difference).collect::<Vec<_>>(),
        "archive": it.archive.as_ref().map(archive),
        "announcements": it.announcements.iter().map(announced).collect::<Vec<_>>(),
        "states": it.states.iter().map(stated).collect::<Vec<_>>(),
        "proposals": it.proposals.iter().map(proposed).collect::<Vec<_>>(),
        "uploads": it.uploads.iter().map(upload).collect::<Vec<_>>(),
        "looked_for": hunted.map(|page| hunt::value(&it.repo.identifier, page)),
        "cut": it.is_cut,
        "refusals": explained.refusals.iter().map(refusal).collect::<Vec<_>>(),
    })
}

fn no_root(reason: &NoRoot) -> Value {
    match reason {
        NoRoot::NotAnnounced => json!({"why": "not_announced"}),
        NoRoot::OwnerLeft => json!({"why": "owner_left"}),
        NoRoot::LeadNotAnnounced { lead } => {
            json!({"why": "lead_not_announced", "lead": lead.to_hex()})
        }
        NoRoot::LeadDoesNotLead { lead } => {
            json!({"why": "lead_does_not_lead", "lead": lead.to_hex()})
        }
        NoRoot::SeveralLeads { of } => json!({"why": "several_leads", "of": of.to_hex()}),
        NoRoot::Circle => json!({"why": "circle"}),
    }
}

fn person(person: &Person) -> Value {
    let mut value = match &person.membership {
        Membership::Root => json!({"why": "root"}),
        Membership::Member { listed_by, lists } => {
            json!({"why": "member", "listed_by": keys(listed_by), "lists": keys(lists)})
        }
        Membership::Listed { by } => json!({"why": "listed", "listed_by": keys(by)}),
        Membership::Invited { by, lacks } => {
            let lacks = match lacks {
                Outside::NoAnnouncement => "announcement",
                Outside::ListsNobodyBack => "listing_back",
                Outside::Left => "left",
            };
            json!({"why": "invited", "listed_by": keys(by), "lacks": lacks})
        }
        Membership::Ended { by } => json!({"why": "ended", "by": keys(by)}),
        Membership::Uninvited { lists } => json!({"why": "uninvited", "lists": keys(lists)}),
        Membership::OwnerWithoutSay => json!({"why": "owner_without_say"}),
    };
    value["key"] = person.key.to_hex().into();
    value["maintainer"] = person.membership.counts().into();
    value
}

fn difference(difference: &Difference) -> Value {
    json!({"ref": difference.name, "is": difference.is, "should": difference.should})
}

fn archive(archive: &Archive) -> Value {
    json!({
        "since": archive.since.as_secs(), "until": archive.until.as_secs(), "returns": archive.returns,
    })
}

fn announced(announced: &Announced) -> Value {
    let why = match announced.why {
        AnnouncementWhy::Hosted => "hosted",
        AnnouncementWhy::Elsewhere => "elsewhere",
        AnnouncementWhy::AwaitsPush => "awaits_push",
        AnnouncementWhy::SoftExpired => "soft_expired",
        AnnouncementWhy::WithdrawsAuthority => "withdraws_authority",
        AnnouncementWhy::Replaced => "replaced",
        AnnouncementWhy::Deleted => "deleted",
    };
    versioned(&announced.event, json!({"why": why}))
}

fn stated(stated: &Stated) -> Value {
    let mut value = match &stated.why {
        StateWhy::Wins => json!({"why": "wins"}),
        StateWhy::Loses => json!({"why": "loses"}),
        StateWhy::NoSay => json!({"why": "no_say"}),
        StateWhy::Unsatisfiable { refs } => {
            let refs: Vec<&str> = refs.iter().map(RefName::as_str).collect();
            json!({"why": "unsatisfiable", "of": refs})
        }
        StateWhy::Lacks {
            at,
            missing,
            of,
            would_win,
        } => json!({
            "why": "lacks", "missing": oids(missing), "of": of, "would_win": would_win,
            "at": at.coordinate().address(),
        }),
        StateWhy::EmptyBeforeFirstPush => json!({"why": "empty_before_first_push"}),
        StateWhy::Complete => json!({"why": "complete"}),
        StateWhy::Replaced => json!({"why": "replaced"}),
        StateWhy::Deleted => json!({"why": "deleted"}),
    };
    value["refs"] = stated.refs.into();
    versioned(&stated.event, value)
}

fn proposed(proposed: &Proposed) -> Value {
    let (why, lacks) = match &proposed.why {
        ProposalWhy::Shown => ("shown", None),
        ProposalWhy::ShownElsewhere => ("shown_elsewhere", None),
        ProposalWhy::Lacks { commit } => ("lacks", Some(commit.to_string())),
        ProposalWhy::NoCommit => ("no_commit", None),
        ProposalWhy::Complete => ("complete", None),
        ProposalWhy::Deleted => ("deleted", None),
    };
    json!({
        "event": proposed.event.to_hex(), "author": proposed.author.to_hex(),
        "stage": stage(proposed.stage), "deadline": seconds(proposed.deadline),
        "why": why, "missing": lacks,
    })
}

fn versioned(event: &Versioned, mut value: Value) -> Value {
    value["event"] = event.event.to_hex().into();
    value["author"] = event.author.to_hex().into();
    value["created_at"] = event.created_at.as_secs().into();
    value["stage"] = stage(event.stage).into();
    value["deadline"] = json!(seconds(event.deadline));
    value
}

fn upload(upload: &UploadRecord) -> Value {
    json!({
        "event": upload.event.to_hex(), "commit": upload.commit.to_string(),
        "deadline": upload.deadline.as_secs(), "bytes": upload.bytes,
    })
}

fn refusal(refusal: &Refusal) -> Value {
    let mut value = match &refusal.what {
        Refused::Event {
            event,
            kind,
            author,
        } => json!({"event": event.to_hex(), "kind": kind, "author": author.to_hex()}),
        Refused::Push { to_prs, refs } => json!({"refs": refs, "to_prs": to_prs}),
    };
    value["at"] = refusal.at.as_secs().into();
    value["times"] = refusal.times.into();
    value["reason"] = refusal.reason.as_str().into();
    value
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Served => "served",
        Stage::Waiting => "waiting",
        Stage::Parked => "parked",
        Stage::Superseded => "superseded",
        Stage::Held => "held",
    }
}

fn seconds(at: Option<Timestamp>) -> Option<u64> {
    at.map(|at| at.as_secs())
}

fn keys(keys: &BTreeSet<PublicKey>) -> Vec<String> {
    keys.iter().map(PublicKey::to_hex).collect()
}

fn oids(oids: &BTreeSet<Oid>) -> Vec<String> {
    oids.iter().map(ToString::to_string).collect()
}
