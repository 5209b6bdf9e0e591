//! What speaks against a mark of something that expired (PUR-14).

use super::group::Group;
use super::sources;
use crate::clone_url::CloneUrl;
use crate::lifecycle::Stage;
use crate::policy::Policy;
use crate::state::StateEvent;
use crate::view::RepoView;

const COUNTING: [Stage; 3] = [Stage::Served, Stage::Waiting, Stage::Parked];

pub(super) fn sources(state: &StateEvent, view: &RepoView, policy: &Policy) -> Vec<CloneUrl> {
    if state.is_empty() || !state.unsatisfiable().is_empty() {
        return Vec::new();
    }
    let groups = Group::known(view, policy).into_iter();
    let concerned = groups.filter(|group| group.members.contains(&state.author()));
    let leading = concerned.filter(|group| {
        let newest = group.states(&COUNTING).into_iter().next();
        newest.is_none_or(|newest| newest.version() < state.version())
    });
    leading
        .flat_map(|group| sources::of_maintainers(&group, &[state.author()], policy))
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::hunt::evidence;
    use crate::lifecycle::Stage::{self, Parked, Served, Superseded, Waiting};
    use crate::state::StateEvent;
    use crate::testing::project::{ViewBuilder, announcement, state, tag, view};
    use crate::testing::{key, oid, policy};

    fn main_at(author: u8, at: u64) -> StateEvent {
        let commit = oid(1).to_string();
        state(key(author), at, &[("refs/heads/main", &commit)])
    }

    fn project(stage: Stage) -> ViewBuilder {
        let place = tag(["clone", "https://there.example/x.git"].map(str::to_owned));
        view().announced(announcement(key(1), 1, vec![place]), stage)
    }

    fn asked(state: &StateEvent, view: ViewBuilder) -> Vec<String> {
        let sources = evidence(state, &view.build(), &policy());
        sources.iter().map(ToString::to_string).collect()
    }

    /// PUR-14: also where the repository is gone for now.
    #[test]
    fn the_newest_state_that_counts_is_looked_for_where_its_maintainers_say() {
        for stage in [Served, Waiting, Parked] {
            let sources = asked(&main_at(1, 10), project(stage));
            assert_eq!(sources, ["https://there.example/x.git"], "{stage:?}");
        }
    }

    /// PUR-14
    #[test]
    fn nobody_is_asked_about_what_would_not_be_taken_anyway() {
        let nobody: [String; 0] = [];
        assert_eq!(asked(&main_at(2, 10), project(Parked)), nobody, "no say");
        assert_eq!(asked(&main_at(1, 10), project(Superseded)), nobody);
        for stage in [Served, Waiting, Parked] {
            let newer = project(Served).stated(main_at(1, 11), stage);
            assert_eq!(asked(&main_at(1, 10), newer), nobody, "{stage:?}");
        }
        let empty = state(key(1), 10, &[]);
        assert_eq!(asked(&empty, project(Served)), nobody);
    }
}
