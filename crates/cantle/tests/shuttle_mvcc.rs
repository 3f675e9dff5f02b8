//! The models of `models/`, larger than in `loom_mvcc.rs`, in 10,000 random interleavings each;
//! sequentially consistent, as shuttle is. If a mechanism is left out, the models fail here as
//! well.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library, not this crate")]

#[macro_use]
#[path = "../src/canary.rs"]
mod canary;
#[path = "../src/types"]
mod types {
    pub mod order;
}
#[path = "../src/mvcc/clock.rs"]
mod clock;
#[path = "../src/mvcc/commit.rs"]
mod commit;
mod models;
#[path = "models/munk_life.rs"]
mod munk_life;
#[path = "../src/mvcc/pending.rs"]
mod pending;
#[path = "../src/mvcc/range_index.rs"]
mod range_index;
#[path = "models/rebalance.rs"]
mod rebalance;
#[path = "models/schedules.rs"]
mod schedules;

#[path = "models/shuttle_sync.rs"]
mod sync;

use pending::KeySpan;
use rebalance::{Fault, puts_snapshots_and_rebalances};
use schedules::{few_switches, random};

const SCHEDULES: usize = 10_000;

#[test]
fn many_puts_and_many_snapshots() {
    random(SCHEDULES, || models::puts_and_snapshots(4, &[3, 2, 2], &[2, 2, 1], KeySpan::ALL));
}

#[test]
fn more_writers_than_slots() {
    random(SCHEDULES, || models::puts_and_snapshots(2, &[2, 2, 2, 2], &[2], KeySpan::ALL));
}

#[test]
fn puts_and_snapshots_with_few_switches_in_the_worst_places() {
    few_switches(3, SCHEDULES, || models::puts_and_snapshots(4, &[2, 2], &[2, 2], KeySpan::ALL));
}

#[test]
#[should_panic(expected = "what a snapshot sees changed")]
fn snapshots_that_do_not_wait_miss_a_put() {
    random(SCHEDULES, || models::puts_and_snapshots(4, &[3, 2, 2], &[2, 2, 1], KeySpan::EMPTY));
}

#[test]
fn a_merge_keeps_what_any_snapshot_reads() {
    random(SCHEDULES, || models::merge_and_snapshots(4, true));
}

#[test]
#[should_panic(expected = "a merge dropped what a snapshot reads")]
fn a_merge_that_asks_nobody_drops_what_a_snapshot_reads() {
    random(SCHEDULES, || models::merge_and_snapshots(4, false));
}

#[test]
fn a_batch_is_seen_whole_or_not_at_all() {
    random(SCHEDULES, || models::batch_and_readers(true));
}

#[test]
fn puts_find_their_chunk_across_a_split() {
    random(SCHEDULES, || models::split_and_puts(&[b"a", b"b", b"m", b"z"], true));
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_put_into_a_retired_chunk_is_lost() {
    random(SCHEDULES, || models::split_and_puts(&[b"a", b"b", b"m", b"z"], false));
}

#[test]
fn rebalances_and_splits_lose_no_put_and_disturb_no_snapshot() {
    random(SCHEDULES, || puts_snapshots_and_rebalances(3, 3, Fault::None));
}

#[test]
fn rebalances_and_splits_with_few_switches_in_the_worst_places() {
    few_switches(4, SCHEDULES, || puts_snapshots_and_rebalances(3, 3, Fault::None));
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_flip_of_a_log_that_was_not_sealed_loses_puts() {
    random(SCHEDULES, || puts_snapshots_and_rebalances(3, 0, Fault::FlipsUnsealed));
}

#[test]
#[should_panic(expected = "a snapshot")]
fn asking_for_snapshots_before_the_log_is_sealed_drops_what_one_reads() {
    random(SCHEDULES, || puts_snapshots_and_rebalances(3, 3, Fault::AsksBeforeSealing));
}

#[test]
#[should_panic(expected = "a put was lost")]
fn puts_that_were_diverted_must_not_be_forgotten() {
    random(SCHEDULES, || puts_snapshots_and_rebalances(3, 0, Fault::ForgetsDiverted));
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_chunk_that_is_split_and_not_retired_loses_puts() {
    random(SCHEDULES, || puts_snapshots_and_rebalances(3, 0, Fault::DoesNotRetire));
}

fn munks(fault: munk_life::Fault) {
    // Without snapshots, so that the failure is the one that the fault is named for.
    let snapshots = if fault == munk_life::Fault::None { 2 } else { 0 };
    random(SCHEDULES, move || munk_life::puts_gets_and_munks(3, snapshots, fault));
}

#[test]
fn munks_and_rows_come_and_go_beside_puts_gets_and_snapshots() {
    munks(munk_life::Fault::None);
}

#[test]
fn munks_and_rows_with_few_switches_in_the_worst_places() {
    few_switches(4, SCHEDULES, || munk_life::puts_gets_and_munks(3, 2, munk_life::Fault::None));
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_load_that_does_not_catch_up_loses_puts() {
    munks(munk_life::Fault::DoesNotCatchUp);
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_load_at_a_snapshot_from_before_the_lock_loses_puts() {
    munks(munk_life::Fault::LoadsAtAnEarlierSnapshot);
}

#[test]
#[should_panic(expected = "a put was lost")]
fn an_eviction_that_leaves_notes_behind_loses_puts() {
    munks(munk_life::Fault::EvictsUnsettled);
}

#[test]
#[should_panic(expected = "a flush lacks what only the old files have")]
fn a_flush_without_a_snapshot_lacks_what_is_overwritten_meanwhile() {
    munks(munk_life::Fault::FlushesWithoutSnapshot);
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_row_without_a_stamp_is_stale() {
    munks(munk_life::Fault::IgnoresStamps);
}

#[test]
#[should_panic(expected = "a put was lost")]
fn a_row_that_is_stamped_late_is_stale() {
    munks(munk_life::Fault::StampsLate);
}
