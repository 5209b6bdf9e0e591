//! What is exported comes back the same; nothing else comes in.

use grasp_core::event::VerifiedEvent;
use grasp_core::lifecycle::{Change, Stage, Standing};
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
    let keys = Keys::parse(&"1".repeat(64)).expect("a key");
    let tag = Tag::parse(["t", "emoji 🚀 \u{2028} \"quoted\""]).expect("a tag");
    let kind = Kind::from_u16(1621);
    let at = Timestamp::from_secs(5);
    let unsigned = UnsignedEvent::new(
        keys.public_key(),
        at,
        kind,
        Tags::from_list(vec![tag]),
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
