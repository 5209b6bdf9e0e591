//! What decisions are shown.

use std::collections::BTreeSet;

use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::{Change, Stage, Standing, UploadRecord};
use grasp_core::name::{Coordinate, Identifier, RepoAddress};
use grasp_core::oid::Oid;
use grasp_core::related::References;
use nostr::key::PublicKey;

use super::commit;
use super::events::{at, event, insert, insert_until, key};
use crate::gather::History;
use crate::store::Store;

fn x() -> Identifier {
    "x".parse().expect("valid")
}

fn address(owner: PublicKey) -> String {
    Coordinate::new(owner, x()).address()
}

/// MNT-10
pub async fn a_view_holds_whom_listing_connects_and_no_stranger(store: &Store) {
    let announce = |owner: u8, listed: &[u8], at: u64| {
        let mut tag = vec!["maintainers".to_owned()];
        tag.extend(listed.iter().map(|number| key(*number).to_hex()));
        let tag: Vec<&str> = tag.iter().map(String::as_str).collect();
        event(key(owner), 30617, at, &[&["d", "x"], &tag])
    };
    let state = |author: u8, at: u64| event(key(author), 30618, at, &[&["d", "x"]]);
    let batch = vec![
        insert(&announce(1, &[2], 1), Stage::Served),
        insert(&announce(2, &[3], 2), Stage::Waiting),
        insert(&announce(3, &[], 3), Stage::Parked),
        insert(&announce(3, &[9], 2), Stage::Superseded),
        insert(&announce(4, &[], 3), Stage::Served),
        insert(&state(3, 5), Stage::Served),
        insert(&state(3, 4), Stage::Superseded),
        insert(&state(4, 5), Stage::Served),
        insert(&event(key(1), 30617, 9, &[&["d", "y"]]), Stage::Served),
    ];
    commit(store, batch).await.expect("commits");
    let snapshot = store.snapshot().expect("a snapshot");
    for seed in [1, 2, 3] {
        let view = snapshot
            .view()
            .repo_view(&x(), &[key(seed)], History::Current)
            .expect("gathers");
        let owners: Vec<_> = view.announcements.keys().copied().collect();
        assert_eq!(owners, [key(1), key(2), key(3)], "from {seed}");
        assert_eq!(
            view.announcements[&key(3)].len(),
            2,
            "announcements are there in every stage"
        );
        assert_eq!(view.states.len(), 1);
        assert_eq!(view.states[&key(3)].len(), 1);
    }
    let whole = snapshot
        .view()
        .repo_view(&x(), &[key(3)], History::WithSuperseded)
        .expect("gathers");
    let times: Vec<_> = whole.states[&key(3)]
        .iter()
        .map(|it| it.item.version().created_at.as_secs())
        .collect();
    assert_eq!(times, [5, 4], "newest first");
    let stranger = snapshot
        .view()
        .repo_view(&x(), &[key(4)], History::Current)
        .expect("gathers");
    assert_eq!(stranger.announcements.len(), 1);
}

/// PR-2, PR-4, REF-6
pub async fn a_view_holds_proposals_uploads_and_placements(store: &Store) {
    let oid = "1".repeat(40);
    let proposal = event(key(5), 1618, 7, &[&["a", &address(key(1))], &["c", &oid]]);
    let foreign = event(key(5), 1618, 8, &[&["a", &address(key(7))], &["c", &oid]]);
    let prs = RepoAddress::Proposals(Coordinate::new(key(5), x()));
    let upload = |event, repository| UploadRecord {
        event,
        commit: Oid::from_bytes([1; 20]),
        repository,
        bytes: 9,
        deadline: at(90),
    };
    let early = event(key(6), 1618, 9, &[]).id();
    let own = RepoAddress::Announced(Coordinate::new(key(1), x()));
    let batch = vec![
        insert(&event(key(1), 30617, 1, &[&["d", "x"]]), Stage::Served),
        insert_until(&proposal, Stage::Waiting, 77),
        insert(&foreign, Stage::Served),
        Change::Upload(upload(early, own.clone())),
        Change::Upload(upload(proposal.id(), prs.clone())),
        Change::Place {
            event: proposal.id(),
            repository: prs.clone(),
        },
    ];
    commit(store, batch).await.expect("commits");
    let snapshot = store.snapshot().expect("a snapshot");
    let view = snapshot
        .view()
        .repo_view(&x(), &[key(1)], History::Current)
        .expect("gathers");
    assert_eq!(view.proposals.len(), 1);
    let entry = &view.proposals[&proposal.id()];
    assert_eq!(
        (entry.stage, entry.deadline),
        (Stage::Waiting, Some(at(77)))
    );
    assert_eq!(entry.commit, oid.parse().ok());
    assert_eq!(entry.named, BTreeSet::from([key(1)]));
    let repositories: BTreeSet<_> = view
        .uploads
        .iter()
        .map(|it| it.repository.clone())
        .collect();
    assert_eq!(repositories, BTreeSet::from([own, prs.clone()]));
    assert_eq!(
        view.placements[&proposal.id()],
        BTreeSet::from([prs.clone()])
    );
    let prs_view = snapshot.view().prs_view(prs.coordinate()).expect("gathers");
    assert_eq!(prs_view.proposals.keys().len(), 2);
    assert_eq!(prs_view.proposals[&proposal.id()], *entry);
    assert_eq!(prs_view.uploads.len(), 1);
    assert_eq!(snapshot.view().uploads_of(&early).expect("reads").len(), 1);
    let drop = Change::DropUpload {
        event: proposal.id(),
        repository: prs.clone(),
    };
    commit(
        store,
        vec![
            drop,
            Change::Remove {
                event: proposal.id(),
            },
        ],
    )
    .await
    .expect("commits");
    let snapshot = store.snapshot().expect("a snapshot");
    let prs_view = snapshot.view().prs_view(prs.coordinate()).expect("gathers");
    assert!(prs_view.uploads.is_empty() && prs_view.placements.is_empty());
    assert!(snapshot.view().due(at(1000), 10).expect("reads").len() == 1);
}

/// EV-1, ST-1, KIND-5
pub async fn known_names_the_newest_served_version(store: &Store) {
    let versions: Vec<_> = (0..6)
        .map(|n: u64| {
            event(
                key(1),
                30618,
                10 + n / 2,
                &[&["d", "x"], &["n", &n.to_string()]],
            )
        })
        .collect();
    let batch = versions
        .iter()
        .enumerate()
        .map(|(n, it)| insert(it, if n < 4 { Stage::Served } else { Stage::Waiting }))
        .collect();
    commit(store, batch).await.expect("commits");
    let view = |event| {
        let snapshot = store.snapshot().expect("a snapshot");
        snapshot.view().known(event, at(0)).expect("reads")
    };
    let newest = versions[..4].iter().map(VerifiedEvent::version).max();
    let unknown = event(key(1), 30618, 99, &[&["d", "x"]]);
    let known = view(&unknown);
    assert_eq!(
        (known.stage, known.served_version, known.announced),
        (None, newest, false)
    );
    assert_eq!(view(&versions[5]).stage, Some(Stage::Waiting));
    let stranger = event(key(9), 30617, 1, &[&["d", "x"]]);
    commit(store, vec![insert(&stranger, Stage::Parked)])
        .await
        .expect("commits");
    assert!(view(&unknown).announced);
    let profile = event(key(3), 0, 5, &[&["d", "ignored"]]);
    commit(store, vec![insert(&profile, Stage::Served)])
        .await
        .expect("commits");
    let other = event(key(3), 0, 6, &[&["d", "other"]]);
    assert_eq!(view(&other).served_version, Some(profile.version()));
    assert_eq!(view(&event(key(3), 1621, 6, &[])).served_version, None);
}

/// DEL-1
pub async fn deletion_facts_hold_targets_and_versions(store: &Store) {
    let state = event(key(1), 30618, 5, &[&["d", "x"]]);
    let older = event(key(1), 30618, 4, &[&["d", "x"]]);
    let foreign = event(key(2), 1621, 5, &[]);
    let foreign_state = event(key(2), 30618, 5, &[&["d", "x"]]);
    let batch = vec![
        insert(&state, Stage::Served),
        insert(&older, Stage::Superseded),
        insert(&foreign, Stage::Served),
        insert(&foreign_state, Stage::Served),
    ];
    commit(store, batch).await.expect("commits");
    let own_address = state.address().expect("is addressable");
    let foreign_address = foreign_state.address().expect("is addressable");
    let (known, unknown) = (foreign.id().to_hex(), "9".repeat(64));
    let request = event(
        key(1),
        5,
        9,
        &[
            &["e", &known],
            &["e", &unknown],
            &["e", ""],
            &["a", &own_address],
            &["a", &foreign_address],
        ],
    );
    let snapshot = store.snapshot().expect("a snapshot");
    let facts = snapshot.view().deletion_facts(&request).expect("gathers");
    assert_eq!(facts.events.len(), 1);
    assert_eq!(facts.events[&foreign.id()].author, key(2));
    let versions: Vec<_> = facts
        .versions
        .iter()
        .map(|it| (it.event, it.stage))
        .collect();
    assert_eq!(
        versions,
        [(state.id(), Stage::Served), (older.id(), Stage::Superseded)]
    );
    assert_eq!(facts.views.len(), 1);
    assert_eq!(facts.views[0].states[&key(1)].len(), 2);
}

/// REL-2, REL-4, REL-6
pub async fn related_facts_hold_the_served_around_an_event(store: &Store) {
    let announcement = event(
        key(1),
        30617,
        1,
        &[&["d", "x"], &["maintainers", &key(2).to_hex()]],
    );
    let issue = event(key(3), 1621, 2, &[&["a", &address(key(1))]]);
    let waiting = event(key(1), 30617, 1, &[&["d", "y"]]);
    let reply = event(key(4), 1111, 3, &[&["e", &issue.id().to_hex()]]);
    let counted = Change::Insert {
        event: reply.clone(),
        stage: Stage::Served,
        deadline: None,
        standing: Standing::Reply {
            root: issue.id(),
            counted: true,
        },
    };
    let batch = vec![
        insert(&announcement, Stage::Served),
        insert(&issue, Stage::Served),
        insert(&waiting, Stage::Waiting),
        counted,
    ];
    commit(store, batch).await.expect("commits");
    let snapshot = store.snapshot().expect("a snapshot");
    let view = snapshot.view();
    let answer = event(key(5), 1111, 4, &[&["e", &reply.id().to_hex()]]);
    let references = References {
        events: vec![reply.id(), issue.id(), issue.id()],
        addresses: vec![address(key(1)), waiting.address().expect("is addressable")],
    };
    let facts = view.related_facts(&answer, &references).expect("gathers");
    let targets: Vec<_> = facts.targets.iter().map(|it| it.event).collect();
    assert_eq!(targets, [reply.id(), issue.id(), announcement.id()]);
    assert_eq!(facts.budgets[&issue.id()].0, 1);
    let references = References {
        events: vec![reply.id()],
        addresses: Vec::new(),
    };
    let facts = view.related_facts(&answer, &references).expect("gathers");
    assert_eq!(facts.exempt, BTreeSet::from([key(1), key(2)]));
    let list = event(key(1), 10317, 9, &[]);
    let bare = list.address().expect("is replaceable");
    let bare = bare.trim_end_matches(':');
    let naming = event(
        key(6),
        1111,
        9,
        &[&["a", bare], &["E", &answer.id().to_hex()]],
    );
    commit(store, vec![insert(&naming, Stage::Served)])
        .await
        .expect("commits");
    let snapshot = store.snapshot().expect("a snapshot");
    let view = snapshot.view();
    for named in [&list, &answer] {
        let facts = view
            .related_facts(named, &References::default())
            .expect("gathers");
        let by: Vec<_> = facts.mentioned_by.iter().map(|it| it.event).collect();
        assert_eq!(by, [naming.id()]);
    }
    for (who, takes_part) in [
        (1, true),
        (2, true),
        (3, true),
        (4, true),
        (5, false),
        (6, true),
    ] {
        assert_eq!(
            view.participates(&key(who)).expect("reads"),
            takes_part,
            "{who}"
        );
    }
}
