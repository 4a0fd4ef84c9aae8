//! What every store must do, stated once and run on each of them.
//!
//! Facts are generic over where the database is; `sqlite_file` holds what only SQLite has.

#![cfg(feature = "sqlite")]
#![allow(
    clippy::unwrap_used,
    reason = "what cannot be unwrapped is a failed test"
)]

use std::future::Future;

#[cfg(feature = "postgres")]
use chatcron::store::postgres::{Address, PostgresStore};
use chatcron::store::{
    Store,
    sqlite::{OpenMode, SqliteStore},
};

#[cfg(feature = "postgres")]
use sqlx::{Connection, PgConnection};

#[cfg(feature = "postgres")]
#[path = "support/cluster.rs"]
mod cluster;

#[path = "store/bench.rs"]
mod bench;
#[path = "store/fixture.rs"]
mod fixture;

#[path = "store/begin.rs"]
mod begin;
#[path = "store/concurrency.rs"]
mod concurrency;
#[path = "store/delivery.rs"]
mod delivery;
#[path = "store/effects.rs"]
mod effects;
#[path = "store/evidence.rs"]
mod evidence;
#[path = "store/hygiene.rs"]
mod hygiene;
#[path = "store/inbound.rs"]
mod inbound;
#[path = "store/incidents.rs"]
mod incidents;
#[path = "store/lanes.rs"]
mod lanes;
#[cfg(feature = "postgres")]
#[path = "store/leases.rs"]
mod leases;
#[path = "store/ledger.rs"]
mod ledger;
#[path = "store/old_database.rs"]
mod old_database;
#[path = "store/own.rs"]
mod own;
#[path = "store/pages.rs"]
mod pages;
#[path = "store/parts.rs"]
mod parts;
#[path = "store/people.rs"]
mod people;
#[cfg(feature = "postgres")]
#[path = "store/postgres_server.rs"]
mod postgres_server;
#[path = "store/pruning.rs"]
mod pruning;
#[path = "store/sessions.rs"]
mod sessions;
#[path = "store/sqlite_file.rs"]
mod sqlite_file;
#[path = "store/turns.rs"]
mod turns;
#[path = "store/workers.rs"]
mod workers;

/// One empty database, which can be opened any number of times.
pub(crate) trait Database: Send + Sync {
    /// The store under test.
    type Store: Store;

    /// Whether several workers may share it.
    const IS_SHARED: bool;

    /// Another handle on the same database.
    fn open(&self) -> impl Future<Output = Self::Store> + Send;

    /// As if all workers had died, and been silent since: where they hold leases these are over.
    fn end_leases(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// A temporary file.
pub(crate) struct SqliteFile {
    directory: tempfile::TempDir,
}

impl SqliteFile {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("chatcron.db")
    }
}

impl Database for SqliteFile {
    type Store = SqliteStore;

    const IS_SHARED: bool = false;

    async fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.path(), OpenMode::CreateIfMissing)
            .await
            .unwrap()
    }
}

/// A database of a temporary server.
#[cfg(feature = "postgres")]
pub(crate) struct PostgresDatabase {
    pub(crate) url: String,
}

#[cfg(feature = "postgres")]
impl PostgresDatabase {
    pub(crate) async fn on(server: &cluster::Cluster) -> Self {
        Self {
            url: server.new_database().await,
        }
    }

    pub(crate) fn address(&self) -> Address {
        self.url.parse().unwrap()
    }
}

#[cfg(feature = "postgres")]
impl Database for PostgresDatabase {
    type Store = PostgresStore;

    const IS_SHARED: bool = true;

    async fn open(&self) -> PostgresStore {
        PostgresStore::open(&self.address(), OpenMode::CreateIfMissing)
            .await
            .unwrap()
    }

    async fn end_leases(&self) {
        let mut conn = PgConnection::connect(&self.url).await.unwrap();
        let end = "UPDATE workers SET lease_until = 0";
        sqlx::query(end).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }
}

macro_rules! facts {
    ($($module:ident: $($fact:ident),+ $(,)?;)+) => {
        mod on_sqlite {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $fact() {
                    crate::$module::$fact(&crate::SqliteFile::new()).await;
                })+
            })+
        }

        #[cfg(feature = "postgres")]
        mod on_postgres {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $fact() {
                    let Some(server) = crate::cluster::Cluster::shared() else {
                        return;
                    };
                    let database = crate::PostgresDatabase::on(server).await;
                    crate::$module::$fact(&database).await;
                })+
            })+
        }
    };
}

facts! {
    ledger:
        a_job_comes_back_as_it_was_committed,
        a_stale_version_fails_its_own_item_and_nobody_elses,
        the_second_item_for_a_job_in_one_batch_is_stale,
        a_removed_id_that_is_created_again_is_another_incarnation,
        a_redefinition_leaves_what_was_planned_with_the_old_definition,
        a_waiting_slot_keeps_its_route_and_definition_when_it_starts,
        a_slot_is_accounted_once,
        a_slot_inside_a_skipped_range_is_accounted,
        a_range_that_meets_a_row_or_a_range_is_refused,
        an_occurrence_ends_once,
        a_slot_may_wait_and_start_in_one_decision,
        due_jobs_come_in_order_of_wake_up_and_id,
        requests_are_told_apart_by_their_ids,
        the_chats_of_the_jobs_file_are_replaced_as_a_whole;
    lanes:
        a_run_is_claimed_once_and_only_when_due,
        a_due_run_waits_until_it_is_claimed,
        two_claims_of_one_lane_in_a_batch_give_one_holder,
        a_retry_is_a_new_attempt_under_a_new_epoch,
        a_late_attempt_end_is_refused_and_writes_nothing,
        an_attempt_end_without_a_decision_is_refused,
        a_cancelled_run_frees_its_lane_and_fences_its_attempt,
        a_lane_shows_its_head_turn_and_run,
        a_part_that_is_not_the_head_waits,
        the_next_instant_is_the_first_that_comes_due,
        the_oldest_lanes_are_listed_first,
        lanes_that_can_only_wait_hide_none_that_can_go_on,
        the_first_snapshot_of_a_run_is_kept;
    begin:
        a_run_begins_with_its_start_where_its_lane_is_free,
        nothing_begins_beside_what_has_its_lane_or_waits_for_it,
        of_two_starts_in_one_lane_neither_begins,
        a_catch_up_or_a_later_run_waits,
        a_lane_that_its_commit_gives_back_is_left_to_the_policy;
    effects:
        the_first_report_of_an_attempt_stays,
        a_report_is_fenced_by_its_attempt,
        a_message_of_a_tool_is_an_effect_and_a_result_is_none;
    delivery:
        a_confirmed_result_is_one_visible_row_of_the_chat,
        a_reply_is_pending_until_it_is_confirmed,
        a_message_whose_key_is_known_is_not_enqueued_again,
        a_webhook_gets_no_row,
        a_native_part_without_text_is_confirmed_without_a_row,
        another_agents_words_are_shown_without_a_row,
        a_second_row_by_one_message_id_has_none;
    parts:
        a_refused_part_backs_off_and_keeps_its_first_attempt,
        a_failed_part_cancels_the_rest_and_may_stop_the_address,
        a_confirmation_lifts_the_stop_of_its_address,
        a_chat_that_moved_is_sent_to_at_once,
        an_unknown_part_is_not_visible_and_the_rest_goes_on,
        a_removed_jobs_parts_are_cancelled_unless_begun,
        a_message_that_was_begun_goes_first;
    evidence:
        a_settled_part_stays_as_it_is,
        a_late_receipt_of_an_unknown_part_is_written_at_a_turn_boundary,
        a_receipt_waits_while_somebody_else_has_the_lane,
        a_stale_refusal_says_nothing_of_the_attempt_under_way,
        a_receipt_that_comes_after_a_reset_joins_the_new_generation;
    turns:
        the_same_message_is_the_same_turn,
        a_users_row_takes_its_place_when_its_turn_begins,
        an_older_turn_goes_first,
        a_finished_turn_is_fenced_by_its_epoch,
        a_requeued_turn_has_used_no_attempt,
        a_failed_turn_leaves_the_users_row;
    inbound:
        messages_and_the_position_behind_them_are_one_commit,
        a_source_has_one_reader_until_that_is_gone,
        a_message_whose_id_another_row_has_is_kept,
        a_chat_that_moved_is_known_to_both_sides;
    sessions:
        recall_is_the_visible_and_interior_rows_of_the_newest_generation,
        the_last_texts_are_oldest_first,
        job_memory_holds_committed_attempts_only,
        rows_keep_their_blocks,
        words_come_back_exactly_as_they_were,
        a_reset_raises_the_generation_and_cancels_what_its_turn_had_not_sent,
        what_was_waiting_at_a_reset_goes_on_in_the_new_generation;
    hygiene:
        framing_is_taken_off_and_kept_beside_the_words,
        of_blocks_the_first_text_is_cleaned_and_the_rest_stays,
        a_connectors_own_form_is_the_framed_message,
        broken_framing_is_kept_as_words;
    people:
        only_an_unknown_part_can_be_resolved_and_a_pending_one_sent_now,
        a_part_that_was_shown_joins_the_end_of_history,
        a_part_that_was_not_shown_can_be_sent_again_under_its_key,
        a_persons_word_waits_for_the_lane,
        a_part_between_two_tries_can_be_resolved_and_one_that_is_being_sent_cannot,
        a_word_about_a_part_waits_for_the_lane_and_nobody_sends_it_meanwhile,
        an_id_of_a_message_that_is_none_is_refused,
        a_retry_brings_back_the_rest_of_the_message,
        a_cancelled_part_takes_the_rest_with_it,
        the_open_outbox_lists_what_needs_something;
    own:
        a_key_of_a_program_is_one_message,
        a_request_from_before_the_last_pruning_is_refused,
        what_a_program_has_shown_is_never_forgotten,
        a_lent_turn_keeps_the_token_of_its_program,
        a_reply_that_a_program_has_shown_is_history_at_once;
    pages:
        runs_come_in_pages_without_a_gap,
        jobs_come_in_pages_in_the_order_of_their_bytes,
        skipped_stretches_come_in_pages_without_a_gap,
        a_transcript_is_read_from_its_end_in_pages,
        the_outbox_comes_in_pages_and_is_counted;
    workers:
        a_new_worker_finds_what_was_under_way,
        other_zone_data_makes_every_job_look_again,
        a_new_worker_finds_it_again_if_nobody_decided,
        a_turn_that_was_interrupted_twice_has_failed,
        a_turn_that_had_effects_is_not_tried_again,
        a_part_between_two_tries_was_not_in_flight;
    incidents:
        what_works_is_reported_only_where_something_failed,
        a_signal_is_decided_on_once,
        of_incidents_that_are_over_the_last_alert_is_remembered,
        an_alert_that_was_not_shown_is_withdrawn_and_no_recovery_follows,
        a_recovery_follows_an_alert_that_was_or_may_have_been_shown,
        the_incidents_of_a_removed_job_are_over,
        incidents_that_are_over_and_old_go;
    pruning:
        old_runs_go_and_what_a_chat_showed_stays,
        a_one_shot_that_ran_is_removed_in_the_end;
    concurrency:
        many_callers_share_a_transaction,
        what_was_answered_is_there_after_reopening,
        two_handles_on_one_database_take_turns,
        readers_go_on_beside_a_busy_writer,
        a_commit_of_another_handle_changes_the_token,
        whoever_waits_is_told_what_another_handle_commits;
}
