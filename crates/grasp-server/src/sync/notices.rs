//! What the store says of what is to be followed: at the start all of it, later what a commit touched.
//!
//! A notice is read from a snapshot, never worked out from a change: so it does not matter how many commits lie between,
//! or in which order they are heard of.

use std::collections::BTreeSet;

use grasp_core::EventId;
use grasp_core::announcement::{ADDRESSES_MAX, Announcement};
use grasp_core::event::kind;
use grasp_core::lifecycle::Stage;
use grasp_core::name::Coordinate;
use grasp_store::{FollowedRoot, Store, StoreError, View};
use grasp_sync::engine::{Cursor, Notice, SyncLevel};
use grasp_sync::relay_url::RelayUrl;

use super::cursor;

/// The roots, and the updates of pull requests (§15.2).
const ROOTS: [u16; 4] = [
    kind::PATCH,
    kind::PULL_REQUEST,
    kind::PULL_REQUEST_UPDATE,
    kind::ISSUE,
];

/// Whether events of this kind are followed when they are served.
pub(super) fn is_followed(kind: u16) -> bool {
    ROOTS.contains(&kind)
}

/// What is remembered of relays.
type Cursors = Vec<(RelayUrl, Cursor)>;

/// Everything that is followed, and what is remembered of relays.
pub(super) fn load(store: &Store) -> Result<(Vec<Notice>, Cursors), StoreError> {
    let stored = store.snapshot()?.view().cursors()?;
    let cursors = stored
        .into_iter()
        .filter_map(|(relay, bytes)| Some((relay.parse().ok()?, cursor::read(&bytes)?)));
    Ok((everything(store)?, cursors.collect()))
}

/// Everything that is followed, over as many snapshots as it takes.
pub(super) fn everything(store: &Store) -> Result<Vec<Notice>, StoreError> {
    let mut notices = Vec::new();
    let mut after = None;
    loop {
        let snapshot = store.snapshot()?;
        let view = snapshot.view();
        let (announced, next) = view.announced(None, after.as_ref())?;
        for coordinate in announced {
            let notice = of_repository(&view, coordinate)?;
            notices.extend(Some(notice).filter(is_there));
        }
        after = next;
        if after.is_none() {
            break;
        }
    }
    for kind in ROOTS {
        let mut after = None;
        loop {
            let (roots, next) = store
                .snapshot()?
                .view()
                .followed_roots(kind, after.as_ref())?;
            notices.extend(roots.into_iter().map(root).filter(is_there));
            after = next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(notices)
}

fn is_there(notice: &Notice) -> bool {
    matches!(notice, Notice::Repository { .. } | Notice::Root { .. })
}

/// What is to be followed of this repository now.
pub(super) fn of_repository(view: &View<'_>, coordinate: Coordinate) -> Result<Notice, StoreError> {
    let living = view.living_announcements(&coordinate)?;
    Ok(match followed(&living) {
        Some((level, relays)) => Notice::Repository {
            coordinate,
            relays,
            level,
        },
        None => Notice::RepositoryGone { coordinate },
    })
}

/// SYNC-2, SYNC-10, SYNC-34: what is served decides. A replacement that waits beside it counts too, since the states
/// that could release it may be where it points; while nothing is served the newest that waits or is parked counts.
fn followed(living: &[(Stage, Announcement)]) -> Option<(SyncLevel, Vec<RelayUrl>)> {
    let is_served = living.iter().any(|(stage, _)| *stage == Stage::Served);
    if is_served {
        let counts = |stage| matches!(stage, Stage::Served | Stage::Waiting);
        let counted = living.iter().filter(|(stage, _)| counts(*stage));
        let relays: BTreeSet<_> = counted.flat_map(|(_, it)| relays(it)).collect();
        return Some((SyncLevel::Full, relays.into_iter().collect()));
    }
    let (_, newest) = living.first()?;
    Some((SyncLevel::StateOnly, relays(newest).collect()))
}

/// ANN-8. What is no relay's address is nobody's.
fn relays(announcement: &Announcement) -> impl Iterator<Item = RelayUrl> {
    let listed = announcement.relays().into_iter().take(ADDRESSES_MAX);
    listed.filter_map(|text| text.parse().ok())
}

/// What is to be followed of this root now.
pub(super) fn of_root(view: &View<'_>, id: EventId) -> Result<Notice, StoreError> {
    let found = view.followed_root(&id)?;
    Ok(found.map_or(Notice::RootGone { id }, root))
}

/// A root that names no repository hangs on none that could be followed.
fn root(FollowedRoot { id, repositories }: FollowedRoot) -> Notice {
    if repositories.is_empty() {
        return Notice::RootGone { id };
    }
    let repositories = repositories.into_iter().collect();
    Notice::Root { id, repositories }
}

#[cfg(test)]
mod tests {
    use grasp_core::event::VerifiedEvent;
    use grasp_core::lifecycle::{Batch, Change, Standing};
    use grasp_store::StoreConfig;
    use grasp_sync::engine::{SetDigest, Time};
    use grasp_testkit::{Event, Person, TempDir};

    use super::*;

    async fn commit(store: &Store, batch: Batch) {
        let done = store.commit(move |_| Ok((batch.clone(), ()))).await;
        done.expect("commits");
    }

    fn insert(event: &Event, stage: Stage) -> Change {
        Change::Insert {
            event: VerifiedEvent::verify(event.clone()).expect("signed"),
            stage,
            deadline: None,
            standing: Standing::Anchor,
        }
    }

    fn moved(event: &Event, stage: Stage) -> Change {
        Change::Move {
            event: event.id,
            stage,
            deadline: None,
        }
    }

    fn announcement(relays: &[&str]) -> Event {
        let relays = ["relays"].iter().chain(relays);
        let alice = Person::named("alice");
        alice.draft(30617).tag(["d", "x"]).tag(relays).sign()
    }

    fn scope() -> Coordinate {
        let owner = Person::named("alice").key();
        Coordinate::new(owner, "x".parse().expect("an identifier"))
    }

    fn followed_at(store: &Store) -> Option<(SyncLevel, Vec<String>)> {
        let snapshot = store.snapshot().expect("a snapshot");
        let notice = of_repository(&snapshot.view(), scope()).expect("reads");
        match notice {
            Notice::Repository { relays, level, .. } => {
                let relays = relays.iter().map(ToString::to_string).collect();
                Some((level, relays))
            }
            _ => None,
        }
    }

    /// SYNC-2, SYNC-10, SYNC-34, PUR-4: each stage of an announcement's life.
    #[tokio::test]
    async fn an_announcement_is_followed_by_its_stage() {
        let dir = TempDir::new().expect("a directory");
        let store = Store::open(dir.path(), StoreConfig::default()).expect("opens");
        assert_eq!(followed_at(&store), None);
        let (a, b) = ("wss://a.example.com", "wss://b.example.com");
        let first = announcement(&[a, "https://no.relay", "nonsense"]);
        commit(&store, vec![insert(&first, Stage::Waiting)]).await;
        assert_eq!(
            followed_at(&store),
            Some((SyncLevel::StateOnly, vec![a.into()]))
        );
        commit(&store, vec![moved(&first, Stage::Parked)]).await;
        let soft_expired = Some((SyncLevel::StateOnly, vec![a.into()]));
        assert_eq!(followed_at(&store), soft_expired);
        commit(&store, vec![moved(&first, Stage::Served)]).await;
        assert_eq!(followed_at(&store), Some((SyncLevel::Full, vec![a.into()])));
        let second = announcement(&[b]);
        commit(&store, vec![insert(&second, Stage::Waiting)]).await;
        let both = vec![a.into(), b.into()];
        assert_eq!(followed_at(&store), Some((SyncLevel::Full, both)));
        let replaced = vec![
            moved(&first, Stage::Superseded),
            moved(&second, Stage::Served),
        ];
        commit(&store, replaced).await;
        assert_eq!(followed_at(&store), Some((SyncLevel::Full, vec![b.into()])));
        commit(&store, vec![moved(&second, Stage::Held)]).await;
        assert_eq!(followed_at(&store), None);
    }

    /// SYNC-11: a start reads all that is followed, and only that.
    #[tokio::test]
    async fn a_start_reads_what_is_followed() {
        let dir = TempDir::new().expect("a directory");
        let store = Store::open(dir.path(), StoreConfig::default()).expect("opens");
        let announced = announcement(&["wss://a.example.com"]);
        let bob = Person::named("bob");
        let issue = bob.issue(&scope().address()).sign();
        let homeless = bob.draft(1621).sign();
        let comment = bob.comment(&issue).sign();
        let waiting = bob.pull_request(&scope().address(), &"1".repeat(40)).sign();
        let mut batch: Batch = [&announced, &issue, &homeless, &comment]
            .map(|event| insert(event, Stage::Served))
            .into();
        batch.push(insert(&waiting, Stage::Waiting));
        let remembered = Cursor {
            filter_version: 1,
            confirmed: SetDigest(7),
            last_connected: Time::from_secs(1_800_000_000),
            disconnected_at: Time::from_secs(1_800_000_100),
            announcements_synced: true,
            daily_at: None,
        };
        batch.push(Change::KeepCursor {
            relay: "wss://b.example.com".to_owned(),
            cursor: Some(cursor::write(&remembered)),
        });
        batch.push(Change::KeepCursor {
            relay: "wss://a.example.com".to_owned(),
            cursor: Some(vec![0]),
        });
        commit(&store, batch).await;
        let (notices, cursors) = load(&store).expect("reads");
        let root = Notice::Root {
            id: issue.id,
            repositories: vec![scope()],
        };
        assert_eq!(notices.len(), 2, "{notices:?}");
        assert!(notices.contains(&root));
        let (relay, read) = &cursors[0];
        assert_eq!(cursors.len(), 1, "one that cannot be read is none");
        assert_eq!((relay.as_str(), read), ("wss://b.example.com", &remembered));
        let snapshot = store.snapshot().expect("a snapshot");
        let view = snapshot.view();
        let gone = |id| Notice::RootGone { id };
        assert_eq!(of_root(&view, waiting.id).expect("reads"), gone(waiting.id));
        assert_eq!(
            of_root(&view, homeless.id).expect("reads"),
            gone(homeless.id)
        );
        assert_eq!(of_root(&view, issue.id).expect("reads"), root);
    }
}
