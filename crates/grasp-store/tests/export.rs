//! What is exported comes back the same; nothing else comes in.

use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::{Change, Stage, Standing};
use grasp_core::request::{Uses, gates};
use grasp_store::{ImportError, Store, StoreConfig};
use nostr::event::{Kind, Tag, Tags, UnsignedEvent};
use nostr::key::Keys;
use nostr::types::Timestamp;

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = StoreConfig {
        map_size: 1 << 30,
        disk_floor: 0,
        ..StoreConfig::default()
    };
    let store = Store::open(folder.path(), config).expect("opens");
    (folder, store)
}

fn signed(content: &str) -> VerifiedEvent {
    let tag = ["t", "emoji 🚀 \u{2028} \"quoted\""];
    signed_as(1621, &[&tag], content)
}

fn signed_as(kind: u16, tags: &[&[&str]], content: &str) -> VerifiedEvent {
    let keys = Keys::parse(&"1".repeat(64)).expect("a key");
    let tag = |tag: &&[&str]| Tag::parse(tag.iter().copied()).expect("a tag");
    let unsigned = UnsignedEvent::new(
        keys.public_key(),
        Timestamp::from_secs(5),
        Kind::from_u16(kind),
        Tags::from_list(tags.iter().map(tag).collect()),
        content,
    );
    let id = unsigned.compute_id();
    let secp = secp256k1::Secp256k1::new();
    let signature = keys.sign_schnorr_with_aux_rand(&secp, id.as_bytes(), &[0; 32]);
    let event = unsigned.add_signature(signature).expect("is right");
    VerifiedEvent::verify(event).expect("is right")
}

fn filled() -> (tempfile::TempDir, Store, Vec<VerifiedEvent>) {
    let (folder, store) = store();
    let events: Vec<_> = ["a", "b\n\u{8}\u{7f}", "c"].map(signed).into();
    let root = events[0].id();
    let places = [
        (Stage::Served, None, Standing::Anchor),
        (
            Stage::Waiting,
            Some(Timestamp::from_secs(77)),
            Standing::Reply {
                root,
                counted: true,
            },
        ),
        (Stage::Held, None, Standing::Bare),
    ];
    let inserts = events
        .iter()
        .zip(places)
        .map(|(event, (stage, deadline, standing))| Change::Insert {
            event: event.clone(),
            stage,
            deadline,
            standing,
        });
    let batch: Vec<_> = inserts.collect();
    store
        .commit_blocking(move |_| Ok((batch.clone(), ())))
        .expect("commits");
    (folder, store, events)
}

#[test]
fn an_export_comes_back_whole() {
    let (_folder, from, events) = filled();
    let mut file = Vec::new();
    assert_eq!(from.export(&mut file).expect("exports"), 3);
    let (_other, to) = store();
    for _ in 0..2 {
        assert_eq!(to.import(&mut file.as_slice()).expect("imports"), 3);
    }
    let (before, after) = (
        from.snapshot().expect("a snapshot"),
        to.snapshot().expect("a snapshot"),
    );
    for event in &events {
        let [a, b] = [&before, &after].map(|it| {
            it.view()
                .event(&event.id())
                .expect("reads")
                .expect("is there")
        });
        assert_eq!(
            (&a.json, a.stage, a.deadline, a.standing),
            (&b.json, b.stage, b.deadline, b.standing)
        );
    }
    assert_eq!(after.view().stats().expect("reads").events(), 3);
}

#[test]
fn a_forged_or_damaged_line_is_refused_by_number() {
    let (_folder, from, _) = filled();
    let mut file = Vec::new();
    from.export(&mut file).expect("exports");
    let text = String::from_utf8(file).expect("is text");
    let (_other, to) = store();
    let forged = text.replacen(r#""content":"c""#, r#""content":"C""#, 1);
    let refused = to.import(&mut forged.as_bytes()).expect_err("is refused");
    assert!(
        matches!(refused, ImportError::Event { line: 3, .. }),
        "{refused}"
    );
    let damaged = text.replacen("waiting", "wanting", 1);
    let refused = to.import(&mut damaged.as_bytes()).expect_err("is refused");
    assert!(
        matches!(refused, ImportError::Line { line: 2 }),
        "{refused}"
    );
    let cut = &text[..text.len() - 9];
    let refused = to.import(&mut cut.as_bytes()).expect_err("is refused");
    assert!(
        matches!(refused, ImportError::Line { line: 3 }),
        "{refused}"
    );
}

/// DEL-9
#[test]
fn requests_come_back_with_their_times_and_in_force() {
    let (_folder, from) = store();
    let gated = signed("gone");
    let e: &[&str] = &["e", &gated.id().to_hex()];
    let address = format!("30618:{}:x", gated.author().to_hex());
    let a: &[&str] = &["a", &address];
    let requests = [
        signed_as(5, &[e], "by id"),
        signed_as(5, &[a], "by address"),
        signed_as(62, &[], "vanish"),
        signed_as(5, &[e], "not respected"),
    ];
    let mut batch = Vec::new();
    for (number, request) in (1..).zip(&requests) {
        batch.push(Change::Insert {
            event: request.clone(),
            stage: if number == 1 {
                Stage::Held
            } else {
                Stage::Served
            },
            deadline: Some(Timestamp::from_secs(900)),
            standing: Standing::Bare,
        });
        batch.push(Change::KeepRequest {
            request: request.id(),
            uses: Uses {
                first_seen: Timestamp::from_secs(number),
                last: (number == 2).then(|| Timestamp::from_secs(77)),
            },
        });
        if number < 4 {
            batch.extend(gates(request));
        }
    }
    from.commit_blocking(move |_| Ok((batch.clone(), ())))
        .expect("commits");
    let mut file = Vec::new();
    from.export(&mut file).expect("exports");
    let (_other, to) = store();
    for _ in 0..2 {
        to.import(&mut file.as_slice()).expect("imports");
        let [before, after] = [&from, &to].map(|store| {
            let snapshot = store.snapshot().expect("a snapshot");
            let view = snapshot.view();
            let now = Timestamp::from_secs(9);
            let state = signed_as(30618, &[&["d", "x"]], "");
            let known = [&gated, &state].map(|event| view.known(event, now).expect("reads").gates);
            let uses = requests
                .each_ref()
                .map(|request| view.request_uses(&request.id()).expect("reads"));
            let unused = view.unused_requests(&gated.author()).expect("reads");
            (known, uses, unused)
        });
        assert_eq!(before, after);
        assert_eq!(
            before.0.each_ref().map(Vec::len),
            [2, 2],
            "one by name, one by author"
        );
        assert_eq!(before.2, 3);
        // A later use is not undone by reading the file again.
        let used = |request| {
            let at = Timestamp::from_secs(88);
            vec![Change::UseRequest { request, at }]
        };
        for store in [&from, &to] {
            let batch = used(requests[1].id());
            store
                .commit_blocking(move |_| Ok((batch.clone(), ())))
                .expect("commits");
        }
    }
}

/// DEL-9: or it would never go.
#[test]
fn a_request_without_its_times_is_no_exported_line() {
    let (_folder, store) = store();
    let request = signed_as(5, &[], "").event().as_json();
    let place = r#""stage":"served","deadline":null,"standing":"bare""#;
    let text = format!("{{{place},\"request\":null,\"event\":{request}}}\n");
    let refused = store.import(&mut text.as_bytes()).expect_err("is refused");
    assert!(
        matches!(refused, ImportError::Line { line: 1 }),
        "{refused}"
    );
}
