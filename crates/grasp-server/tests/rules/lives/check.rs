//! What must hold after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use grasp_core::filter::Filter;
use grasp_core::lifecycle::Stage;
use grasp_core::name::RepoAddress;
use grasp_core::oid::Oid;
use grasp_core::{Event, EventId};
use grasp_testkit::json;

use super::life::Life;
use super::step::PRS;
use crate::history;
use crate::world::{git, refs_at};

impl Life {
    /// Nothing is left to do, and relay, lifecycle and git are as the rules say.
    pub(super) async fn check(&mut self) {
        let dirty = self.world.service().store().dirty().list();
        assert!(dirty.is_empty(), "not in line: {dirty:?}");
        self.look_for_objects().await;
        self.check_relay();
        for event in &self.sent {
            self.check_event(event);
        }
        for number in 0..=PRS {
            self.check_repository(number).await;
        }
    }

    /// PUR-12: what subscribers can find by query, count and negentropy is what is served.
    fn check_relay(&self) {
        let everything = Filter::parse(&json!({})).expect("a filter");
        let found: BTreeSet<EventId> = self.world.query(&everything).into_iter().collect();
        assert_eq!(
            self.names(&found),
            self.names(&self.naive.served()),
            "served"
        );
        let (store, now) = (self.world.service().store(), self.world.now());
        let counted = store
            .count(std::slice::from_ref(&everything), now)
            .expect("readable");
        assert_eq!(counted, found.len() as u64, "REQ and COUNT agree");
        let items = store
            .negentropy_items(&everything, now, 1000)
            .expect("readable")
            .expect("few");
        assert_eq!(items.len(), found.len(), "REQ and NEG agree");
    }

    /// Events as a person names them: how many ago, and what they are.
    fn names(&self, events: &BTreeSet<EventId>) -> BTreeSet<String> {
        let sent = self.sent.iter().rev().enumerate();
        let known = sent.filter(|(_, event)| events.contains(&event.id));
        known
            .map(|(back, event)| format!("-{back}: kind {}", event.kind.as_u16()))
            .collect()
    }

    /// Where it is in its life, and until when.
    fn check_event(&self, event: &Event) {
        let (found, until) = self.world.kept(event);
        let expected = self.naive.stage(&event.id);
        // DEL-3: what it withdrew may keep it longer than anything else would.
        let withdrew = self.naive.withdrew(&event.id);
        if withdrew && matches!((found, expected), (Some(Stage::Held), None)) {
            return;
        }
        let names = self.names(&BTreeSet::from([event.id]));
        assert_eq!(found, expected, "stage of {names:?}: {}", event.as_json());
        if !withdrew {
            let expected = self.naive.until(&event.id);
            assert_eq!(until, expected, "end of {names:?}: {}", event.as_json());
        }
    }

    /// REF-*: directory, refs and HEAD, by plain git and by our advertisement.
    async fn check_repository(&self, number: usize) {
        let repository = self.place(number);
        let path = self.world.service().repositories().path(&repository);
        let Some(expected) = self.naive.face(&repository) else {
            assert!(!path.exists(), "{repository} should not be there");
            return;
        };
        assert!(path.exists(), "{repository} should be there");
        let settled = |mut refs: BTreeMap<String, String>| {
            refs.retain(|name, _| !expected.open.contains(name));
            refs
        };
        let refs = settled(refs_at(&path));
        assert_eq!(refs, expected.refs, "refs of {repository}");
        let head = git(&path, &["symbolic-ref", "HEAD"]);
        assert_eq!(head.trim(), expected.head, "HEAD of {repository}");
        if let Some(owner) = self.people.get(number) {
            let advertised = self.world.advertised(owner).await.map(settled);
            assert_eq!(advertised.as_ref(), Some(&expected.refs), "{repository}");
        }
    }

    /// Every directory holds what it should. More it may only have from a relative: packs are shared whole.
    async fn look_for_objects(&mut self) {
        let commits: Vec<String> = history::closures().await.into_keys().collect();
        let places: Vec<RepoAddress> = (0..=PRS).map(|number| self.place(number)).collect();
        let anywhere: BTreeSet<Oid> = places
            .iter()
            .flat_map(|place| self.naive.objects(place))
            .chain(self.naive.left())
            .collect();
        for place in places {
            let path = self.world.service().repositories().path(&place);
            if !path.exists() {
                continue;
            }
            let found = objects_at(&path, &commits);
            let expected = self.naive.objects(&place);
            assert!(expected.is_subset(&found), "{place} lacks objects");
            assert!(found.is_subset(&anywhere), "{place} has objects of nobody");
            if found != expected {
                self.naive.found(&place, found);
            }
        }
    }

    /// Nothing in git lacks what it needs.
    pub(super) fn check_objects(&self) {
        for number in 0..=PRS {
            let path = self
                .world
                .service()
                .repositories()
                .path(&self.place(number));
            if path.exists() {
                git(&path, &["fsck", "--connectivity-only"]);
            }
        }
    }
}

/// Which of these are there.
fn objects_at(path: &Path, wanted: &[String]) -> BTreeSet<Oid> {
    let mut child = Command::new("git")
        .arg("--git-dir")
        .arg(path)
        .args(["cat-file", "--batch-check=%(objectname) %(objecttype)"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git is installed");
    let mut input = child.stdin.take().expect("piped");
    input
        .write_all((wanted.join("\n") + "\n").as_bytes())
        .expect("git reads");
    drop(input);
    let output = child.wait_with_output().expect("git ends");
    String::from_utf8(output.stdout)
        .expect("names are text here")
        .lines()
        .filter_map(|line| line.strip_suffix(" commit"))
        .map(|oid| oid.parse().expect("git made it"))
        .collect()
}
