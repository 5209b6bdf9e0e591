//! Every value that a label can have.

use grasp_core::admission::{PurgatoryBound, Rejection};
use grasp_core::event::kind;
use grasp_git::IngestError;
use grasp_metrics::labels;

labels! {
    /// The `kind` of an event: by number if this server knows what to do with it.
    pub(crate) Kind {
        /// Profiles.
        Profile = "0",
        /// Deletion requests.
        Deletion = "5",
        /// Requests to vanish.
        Vanish = "62",
        /// Comments.
        Comment = "1111",
        /// Patches.
        Patch = "1617",
        /// Pull requests.
        PullRequest = "1618",
        /// Their updates.
        PullRequestUpdate = "1619",
        /// Issues.
        Issue = "1621",
        /// Status: open.
        Open = "1630",
        /// Status: applied.
        Applied = "1631",
        /// Status: closed.
        Closed = "1632",
        /// Status: draft.
        Draft = "1633",
        /// Relay lists.
        RelayList = "10002",
        /// Lists of GRASP servers.
        GraspList = "10317",
        /// Announcements.
        Announcement = "30617",
        /// States.
        State = "30618",
        /// All others.
        Other = "other",
    }
}

impl Kind {
    /// The label of a kind.
    pub(crate) fn of(kind: u16) -> Self {
        match kind {
            kind::PROFILE => Self::Profile,
            kind::DELETION => Self::Deletion,
            kind::VANISH => Self::Vanish,
            1111 => Self::Comment,
            kind::PATCH => Self::Patch,
            kind::PULL_REQUEST => Self::PullRequest,
            kind::PULL_REQUEST_UPDATE => Self::PullRequestUpdate,
            kind::ISSUE => Self::Issue,
            1630 => Self::Open,
            1631 => Self::Applied,
            1632 => Self::Closed,
            1633 => Self::Draft,
            kind::RELAY_LIST => Self::RelayList,
            kind::GRASP_LIST => Self::GraspList,
            kind::ANNOUNCEMENT => Self::Announcement,
            kind::STATE => Self::State,
            _ => Self::Other,
        }
    }
}

labels! {
    /// The `reason` why an event was not taken.
    pub(crate) Reason {
        /// Wrong id or signature.
        Forged = "forged",
        /// Not what its kind promises.
        Malformed = "malformed",
        /// Dated too far ahead.
        Future = "future",
        /// NIP-40.
        Expired = "expired",
        /// Of a sort that is never taken.
        Blocked = "blocked",
        /// Deleted by its author.
        Deleted = "deleted",
        /// Its author vanished.
        Vanished = "vanished",
        /// Waited in vain before.
        ExpiredFromPurgatory = "expired_from_purgatory",
        /// A state of a repository that nobody announced.
        Unannounced = "unannounced",
        /// A state by somebody who is no maintainer.
        Unauthorised = "unauthorised",
        /// Belongs to nothing that is hosted here.
        Unrelated = "unrelated",
        /// Its conversation is full.
        OverBudget = "over_budget",
        /// An announcement of a private repository.
        Private = "private",
        /// An announcement that does not name this service.
        ServiceNotListed = "service_not_listed",
        /// Refused by a list of the operator.
        Curated = "curated",
        /// A deletion request that asks for too much.
        Deletion = "deletion",
        /// No room to wait.
        PurgatoryFull = "purgatory_full",
        /// Below the disk floor.
        DiskFull = "disk_full",
        /// A fault of this server.
        Fault = "fault",
    }
}

impl Reason {
    /// The label of a rejection.
    pub(crate) fn of(rejection: &Rejection) -> Self {
        match rejection {
            Rejection::Forged(_) => Self::Forged,
            Rejection::Announcement(_) | Rejection::State(_) | Rejection::Proposal(_) => {
                Self::Malformed
            }
            Rejection::TooFarAhead { .. } => Self::Future,
            Rejection::Expired => Self::Expired,
            Rejection::RepostOfProtected
            | Rejection::GiftWrapRecipients
            | Rejection::Authentication
            | Rejection::AuthRequired
            | Rejection::NotByItsAuthor
            | Rejection::EphemeralBySync => Self::Blocked,
            Rejection::Deleted => Self::Deleted,
            Rejection::Vanished => Self::Vanished,
            Rejection::PreviouslyExpired => Self::ExpiredFromPurgatory,
            Rejection::NoAnnouncement => Self::Unannounced,
            Rejection::NotAuthorised => Self::Unauthorised,
            Rejection::Unrelated | Rejection::NotParticipant => Self::Unrelated,
            Rejection::OverBudget { .. } => Self::OverBudget,
            Rejection::Private => Self::Private,
            Rejection::ServiceNotListed => Self::ServiceNotListed,
            Rejection::Blacklisted(_)
            | Rejection::NotWhitelisted
            | Rejection::AuthorBlacklisted => Self::Curated,
            Rejection::ForeignDeletion
            | Rejection::TooManyTargets
            | Rejection::TooManyRequests { .. } => Self::Deletion,
            Rejection::PurgatoryFull(_) => Self::PurgatoryFull,
        }
    }
}

labels! {
    /// The `limit` that said no, of those that the relay does not count (BND-1).
    pub(crate) Bound {
        /// Waiting events.
        PurgatoryEvents = "purgatory_events",
        /// Their bytes.
        PurgatoryBytes = "purgatory_bytes",
        /// Waiting announcements of one author.
        PurgatoryAuthorAnnouncements = "purgatory_author_announcements",
        /// Waiting states and proposals of one author.
        PurgatoryAuthorEvents = "purgatory_author_events",
        /// How far ahead of the clock an event is dated.
        CreatedAhead = "created_at_ahead",
        /// Targets of one deletion request.
        DeletionTargets = "deletion_targets",
        /// Indirect replies of one conversation.
        Related = "related",
        /// Requests of one author that were of no use yet.
        DeletionsPerAuthor = "deletions_per_author",
        /// Bytes of one pack.
        PackBytes = "pack_bytes",
        /// Objects of one pack.
        PackObjects = "pack_objects",
        /// Bytes of one object.
        ObjectBytes = "pack_object_bytes",
        /// Bytes of all objects of one pack, also as compared with the pack.
        InflatedBytes = "pack_inflated_bytes",
        /// Deltas upon deltas.
        DeltaDepth = "pack_delta_depth",
        /// Bytes of a commit, tree or tag, which are read whole.
        StructureBytes = "pack_structure_bytes",
        /// Computing time of the index of a pack.
        PackTime = "pack_cpu_time",
        /// Bytes of all packs being received.
        Quarantine = "quarantine",
        /// Commands of one push.
        PushCommands = "push_commands",
        /// Bytes of one upload without an event.
        UploadBytes = "upload_bytes",
        /// Uploads without an event that wait in one repository.
        UploadsPerRepository = "uploads_per_repository",
        /// Disk space of all uploads without an event.
        UploadsDisk = "uploads_disk",
        /// Fetches that wait.
        FetchesQueued = "fetches_queued",
        /// Bytes of one fetch request, inflated.
        RequestBytes = "request_bytes",
        /// How slowly the body of a request may come.
        BodyPace = "request_body_pace",
        /// Bytes of the head of a request.
        HeadBytes = "request_head_bytes",
        /// How long the head of a request may take.
        HeadTime = "request_head_time",
        /// Free space on the disk.
        DiskFloor = "disk_floor",
    }
}

impl Bound {
    /// The bound that a rejection speaks of, if it speaks of one.
    pub(super) fn of_rejection(rejection: &Rejection) -> Option<Self> {
        Some(match rejection {
            Rejection::OverBudget { .. } => Self::Related,
            Rejection::TooManyRequests { .. } => Self::DeletionsPerAuthor,
            Rejection::TooFarAhead { .. } => Self::CreatedAhead,
            Rejection::TooManyTargets => Self::DeletionTargets,
            Rejection::PurgatoryFull(bound) => match bound {
                PurgatoryBound::Events => Self::PurgatoryEvents,
                PurgatoryBound::Bytes => Self::PurgatoryBytes,
                PurgatoryBound::AuthorAnnouncements => Self::PurgatoryAuthorAnnouncements,
                PurgatoryBound::AuthorEvents => Self::PurgatoryAuthorEvents,
            },
            _ => return None,
        })
    }

    /// The bound that a pack ran into, if it ran into one.
    pub(super) fn of_pack(error: &IngestError) -> Option<Self> {
        Some(match error {
            IngestError::TooLarge { .. } => Self::PackBytes,
            IngestError::TooManyObjects { .. } => Self::PackObjects,
            IngestError::ObjectTooLarge { .. } => Self::ObjectBytes,
            IngestError::InflatedTooLarge { .. } | IngestError::TooDense { .. } => {
                Self::InflatedBytes
            }
            IngestError::DeltaTooDeep { .. } => Self::DeltaDepth,
            IngestError::StructureTooLarge { .. } => Self::StructureBytes,
            IngestError::TooSlow { .. } => Self::PackTime,
            IngestError::QuarantineFull { .. } => Self::Quarantine,
            _ => return None,
        })
    }
}

labels! {
    /// What git did.
    pub(crate) Operation {
        /// Asked for objects and had none.
        Clone = "clone",
        /// Asked for objects and had some.
        Fetch = "fetch",
        /// Brought objects, or asked to move refs.
        Push = "push",
    }
}

labels! {
    /// How it ended.
    pub(crate) Status {
        /// As asked.
        Success = "success",
        /// Refused, broken off, or failed.
        Error = "error",
    }
}

labels! {
    /// As seen from the server.
    pub(crate) Direction {
        /// From a client.
        In = "in",
        /// To a client.
        Out = "out",
    }
}

labels! {
    /// What signed events say of a push.
    pub(crate) Authorization {
        /// At least one of its refs may move so.
        Allowed = "allowed",
        /// None of them may.
        Denied = "denied",
        /// Denied after it was allowed: a newer event came before the commit, or a tip is no commit.
        Overtaken = "overtaken",
        /// It could not be decided.
        Error = "error",
    }
}

labels! {
    /// What an event in purgatory is.
    pub(super) Waiting {
        /// An announcement.
        Announcement = "announcement",
        /// A state.
        State = "state",
        /// A pull request or its update.
        Proposal = "proposal",
    }
}

#[cfg(test)]
mod tests {
    use grasp_metrics::Label as _;

    use super::*;

    /// BND-1
    #[test]
    fn each_limit_of_a_pack_has_its_series() {
        let oid = "1".repeat(40).parse().expect("an oid");
        for (error, bound) in [
            (IngestError::TooLarge { limit: 1 }, Bound::PackBytes),
            (
                IngestError::TooManyObjects {
                    objects: 2,
                    limit: 1,
                },
                Bound::PackObjects,
            ),
            (
                IngestError::ObjectTooLarge { bytes: 2, limit: 1 },
                Bound::ObjectBytes,
            ),
            (
                IngestError::InflatedTooLarge { limit: 1 },
                Bound::InflatedBytes,
            ),
            (IngestError::TooDense { limit: 1 }, Bound::InflatedBytes),
            (IngestError::DeltaTooDeep { limit: 1 }, Bound::DeltaDepth),
            (
                IngestError::StructureTooLarge { oid, limit: 1 },
                Bound::StructureBytes,
            ),
            (IngestError::TooSlow { limit: 1 }, Bound::PackTime),
            (IngestError::QuarantineFull { limit: 1 }, Bound::Quarantine),
        ] {
            assert_eq!(Bound::of_pack(&error), Some(bound), "{error}");
        }
        assert_eq!(Bound::of_pack(&IngestError::Truncated), None);
    }

    /// §20
    #[test]
    fn a_kind_has_its_number_or_is_other() {
        for kind in 0..=u16::MAX {
            let label = Kind::of(kind);
            assert!(label == Kind::Other || label.name() == kind.to_string());
        }
        for label in Kind::ALL {
            let number = label.name().parse().ok();
            assert!(number.map_or(*label == Kind::Other, |kind| Kind::of(kind) == *label));
        }
    }
}
