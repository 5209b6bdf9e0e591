//! What proposals lack that no repository here shows but their author's own below `/prs/` (G6-4, G2-3).

use std::collections::{BTreeMap, BTreeSet};

use nostr::event::EventId;
use nostr::key::PublicKey;

use super::group::Group;
use super::owed::Wants;
use super::sources;
use super::{GroupKey, GroupOwed, ProposalUrls};
use crate::lifecycle::Stage;
use crate::policy::Policy;
use crate::view::{ObjectFacts, ProposalEntry, RepoView};

/// Proposals that want a commit for which no group of maintainers looks.
pub(super) fn proposals<'v>(
    view: &'v RepoView,
    policy: &Policy,
) -> impl Iterator<Item = &'v ProposalEntry> {
    let groups = Group::all(view, policy);
    let shown: BTreeSet<EventId> = groups
        .iter()
        .flat_map(Group::proposals)
        .map(|entry| entry.event)
        .collect();
    let hosted = policy.proposals_hosted;
    view.proposals.values().filter(move |entry| {
        let pending = matches!(entry.stage, Stage::Waiting | Stage::Parked);
        hosted && pending && entry.commit.is_some() && !shown.contains(&entry.event)
    })
}

/// Of them, by author, those that say that their commit is in the author's own repository here, and it is not.
pub(super) fn owed(
    view: &RepoView,
    facts: &ObjectFacts,
    urls: &ProposalUrls,
    policy: &Policy,
) -> Vec<GroupOwed> {
    let mut authors: BTreeMap<PublicKey, Vec<&ProposalEntry>> = BTreeMap::new();
    for entry in proposals(view, policy) {
        let named = urls.named(&entry.event);
        let is_hosted = policy.hosts_submission(&entry.author, &view.identifier, named);
        let own = view.submissions(entry.author);
        let is_there = entry
            .commit
            .is_some_and(|commit| facts.holds(&own, &commit));
        if is_hosted && !is_there {
            authors.entry(entry.author).or_default().push(entry);
        }
    }
    let owed = authors.into_iter().filter_map(|(author, entries)| {
        let mut wants = Wants::default();
        for entry in &entries {
            wants.add(entry);
        }
        let urls = entries.iter().map(|entry| urls.counting(&entry.event));
        let sources = sources::of_proposals(urls, policy);
        let into = view.submissions(author);
        wants.owed(GroupKey::Submitter(author), into, false, sources)
    });
    owed.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::clone_url::CloneUrl;
    use crate::hunt::{self, GroupKey, Owed, ProposalUrls, Sought};
    use crate::lifecycle::Stage::{self, Held, Parked, Served, Superseded, Waiting};
    use crate::name::npub;
    use crate::oid::Oid;
    use crate::policy::Policy;
    use crate::proposal::Proposal;
    use crate::testing::project::{ViewBuilder, announcement, prs_repo, repo, view};
    use crate::testing::{HOST, REPO, key, oid, policy, pull_request};
    use crate::view::ObjectFacts;

    const ALICE: u8 = 1;
    const ERIN: u8 = 5;
    const ELSEWHERE: &str = "https://erin.example/x.git";

    /// Erin asks Alice to take commit `n`.
    fn asked(n: u8) -> Proposal {
        pull_request(key(ERIN), key(ALICE), oid(n)).proposal()
    }

    fn own(submitter: u8, identifier: &str) -> String {
        format!(
            "https://{HOST}/prs/{}/{identifier}.git",
            npub(&key(submitter))
        )
    }

    fn naming(proposal: &Proposal, max: usize, urls: &[&str]) -> ProposalUrls {
        let mut all = ProposalUrls::new(max);
        all.add(proposal.id(), urls.iter().map(|url| (*url).to_owned()));
        all
    }

    fn look(view: ViewBuilder, facts: &ObjectFacts, urls: &ProposalUrls) -> Owed {
        hunt::owed(&view.build(), facts, urls, &policy())
    }

    /// G6-4, G2-3, G2-4, HUNT-6: for its author's own repository here, wherever else it says that its commit is.
    #[test]
    fn what_lives_in_its_author_s_own_repository_is_looked_for_where_it_says() {
        let (proposal, parked) = (asked(7), asked(8));
        let mut urls = naming(&proposal, 10, &[&own(ERIN, REPO), ELSEWHERE]);
        urls.add(parked.id(), [own(ERIN, REPO), own(ALICE, REPO)]);
        let view = view().proposed(&proposal, Waiting);
        let owed = look(view.proposed(&parked, Parked), &ObjectFacts::none(), &urls);
        let [group] = &owed.groups[..] else {
            panic!("one group, not {owed:?}");
        };
        assert_eq!(group.group, GroupKey::Submitter(key(ERIN)));
        assert_eq!(
            (&group.into, group.is_served),
            (&prs_repo(key(ERIN)), false)
        );
        assert_eq!(
            (&group.wants, &group.parked),
            (&vec![oid(7)], &vec![oid(8)])
        );
        let sources: Vec<&str> = group.sources.iter().map(CloneUrl::as_str).collect();
        assert_eq!(sources, [ELSEWHERE], "never ourselves");
    }

    /// ANN-8: a few of the addresses are asked, and our own may stand behind them.
    #[test]
    fn so_many_addresses_are_asked() {
        let proposal = asked(7);
        let urls = ["https://a.example/x", ELSEWHERE, &own(ERIN, REPO)];
        let sources = |max| {
            let view = view().proposed(&proposal, Waiting);
            let owed = look(view, &ObjectFacts::none(), &naming(&proposal, max, &urls));
            owed.groups.first().map_or(0, |group| group.sources.len())
        };
        assert_eq!([0, 1, 2, 3].map(sources), [0, 1, 2, 2]);
    }

    /// G6-5, HUNT-4
    #[test]
    fn nothing_is_owed_to_what_does_not_live_here_or_lacks_nothing() {
        let owes = |proposal: &Proposal, stage: Stage, own: &str, facts: &ObjectFacts| {
            let urls = naming(proposal, 10, &[own, ELSEWHERE]);
            !look(view().proposed(proposal, stage), facts, &urls).is_empty()
        };
        let (proposal, here, nowhere) = (asked(7), own(ERIN, REPO), ObjectFacts::none());
        for stage in [Waiting, Parked, Served, Superseded, Held] {
            let is_pending = matches!(stage, Waiting | Parked);
            assert_eq!(
                owes(&proposal, stage, &here, &nowhere),
                is_pending,
                "{stage:?}"
            );
        }
        for other in [
            &own(ALICE, REPO),
            &own(ERIN, "other"),
            "https://a.example/x",
        ] {
            assert!(!owes(&proposal, Waiting, other, &nowhere), "{other}");
        }
        for (place, still_owed) in [(prs_repo(key(ERIN)), false), (repo(key(ALICE)), true)] {
            let mut facts = ObjectFacts::none();
            facts.add(place, oid(7));
            assert_eq!(owes(&proposal, Waiting, &here, &facts), still_owed);
        }
        let nameless = pull_request(key(ERIN), key(ALICE), Oid::ZERO).proposal();
        assert!(!owes(&nameless, Waiting, &here, &nowhere), "KIND-3");
    }

    /// PR-2, G6-6
    #[test]
    fn what_a_repository_here_shows_is_looked_for_by_its_maintainers() {
        let proposal = asked(7);
        let urls = naming(&proposal, 10, &[&own(ERIN, REPO), ELSEWHERE]);
        let groups = |stage| {
            let view = view().announced(announcement(key(ALICE), 1, vec![]), stage);
            let owed = look(
                view.proposed(&proposal, Waiting),
                &ObjectFacts::none(),
                &urls,
            );
            owed.groups.iter().map(|it| it.group).collect::<Vec<_>>()
        };
        let (to, author) = (key(ALICE), key(ERIN));
        assert_eq!(groups(Served), [GroupKey::Proposer { to, author }]);
        assert_eq!(groups(Waiting), [GroupKey::Submitter(author)], "PR-1");
        let off = Policy {
            proposals_hosted: false,
            ..policy()
        };
        let view = view().proposed(&proposal, Waiting).build();
        assert_eq!(hunt::sought(&view, &off), Sought::default());
        assert!(hunt::owed(&view, &ObjectFacts::none(), &urls, &off).is_empty());
    }

    /// HUNT-5
    #[test]
    fn what_has_to_be_measured_is_in_the_author_s_repository_too() {
        let [waiting, parked, served] = [11, 12, 13].map(asked);
        let view = view()
            .proposed(&waiting, Waiting)
            .proposed(&parked, Parked)
            .proposed(&served, Served);
        let expected = Sought {
            commits: [11, 12].map(oid).into(),
            proposals: [waiting.id(), parked.id()].into(),
            submitters: BTreeSet::from([prs_repo(key(ERIN))]),
            ..Sought::default()
        };
        assert_eq!(hunt::sought(&view.build(), &policy()), expected);
    }
}
