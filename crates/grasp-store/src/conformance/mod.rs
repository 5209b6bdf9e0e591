//! What every engine behind [`Store`](crate::Store) must do, as one suite.
//!
//! A second engine (design: several nodes over `PostgreSQL`) runs the same functions; only how an
//! empty store is opened differs.

#![expect(
    clippy::missing_panics_doc,
    reason = "each function is a test: it panics when its rule is broken"
)]

pub mod events;
pub mod followed;
pub mod gathering;
pub mod hunts;
pub mod idle;
pub mod lifecycle;
pub mod queries;
pub mod removal;
pub mod requests;

use grasp_core::lifecycle::Batch;

use crate::error::CommitError;
use crate::store::{Committed, Store};

/// Commits a fixed batch.
pub async fn commit(store: &Store, batch: Batch) -> Result<Committed<()>, CommitError> {
    store.commit(move |_| Ok((batch.clone(), ()))).await
}

/// Makes one test of each rule of the suite. `$open` yields an empty store, and before it whatever
/// must live as long.
#[macro_export]
macro_rules! conformance_suite {
    ($open:expr) => {
        $crate::conformance_suite! { $open;
            queries:
                answers_come_newest_first_and_lower_id_first_within_a_second,
                ids_that_nearly_agree_are_told_apart,
                a_limit_is_each_filters_own_and_repeats_count_once,
                a_tag_value_of_any_length_is_found,
                an_empty_list_matches_nothing,
                expired_events_are_not_shown,
                values_are_compared_whole,
                negentropy_items_rise_by_time_and_id,
                a_scan_over_several_snapshots_loses_nothing;
            lifecycle:
                only_served_events_are_visible,
                a_promotion_makes_an_event_visible_with_its_commit,
                an_event_has_one_home,
                what_is_removed_leaves_nothing_behind,
                a_change_of_an_unknown_event_fails_the_commit,
                deadlines_come_due_in_order,
                an_extension_moves_the_deadline,
                what_waits_tells_its_deadlines,
                counters_follow_the_stages,
                budgets_count_served_replies,
                marks_are_remembered,
                an_archive_is_remembered_until_it_is_dropped;
            hunts:
                a_hunt_may_only_move_earlier,
                attempts_are_remembered_until_there_is_news,
                a_hunt_is_over_only_if_nothing_was_asked_for_since,
                hunts_are_told_by_name,
                the_feed_tells_what_is_hunted;
            gathering:
                a_view_holds_whom_listing_connects_and_no_stranger,
                a_view_holds_proposals_uploads_and_placements,
                known_names_the_newest_served_version,
                deletion_facts_hold_targets_and_versions,
                related_facts_hold_the_served_around_an_event;
            removal:
                a_plan_lasts_until_its_last_step_is_done,
                a_plan_that_comes_twice_is_one_with_its_steps,
                the_graph_shows_served_events_and_waiting_proposals,
                the_graph_knows_placed_proposals,
                everything_of_an_author_is_found_in_every_stage,
                others_who_name_a_repository_are_noticed,
                what_carries_nothing_any_more_counts_against_no_root;
            followed:
                cursors_are_remembered_until_they_are_forgotten,
                the_feed_tells_what_changed_its_stage,
                pending_proposals_are_told_with_what_they_name,
                living_announcements_are_told_newest_first,
                all_served_roots_are_told_with_their_repositories,
                what_is_unseen_is_here_and_what_is_marked_is_not;
            idle:
                idle_events_leave_unused_first_and_in_their_order,
                participants_events_are_not_idle,
                what_takes_anothers_place_needs_no_room;
            requests:
                a_deletion_request_gates_its_author_s_events_and_versions,
                a_request_to_vanish_gates_its_author_up_to_its_time,
                a_request_is_never_deleted,
                the_gates_of_a_request_go_with_it_and_no_others,
                a_gate_tells_since_when_it_is_there_and_its_last_use,
                unused_requests_are_counted_by_author,
                with_its_use_an_idle_request_goes_after_the_unused,
                of_many_requests_for_one_event_some_are_told,
                all_that_a_request_names_is_looked_at;
        }
    };
    ($open:expr; $($room:ident: $($rule:ident),+;)+) => {
        $(mod $room {
            $(#[tokio::test]
            async fn $rule() {
                let (_kept, store) = $open;
                $crate::conformance::$room::$rule(&store).await;
            })+
        })+
    };
}
