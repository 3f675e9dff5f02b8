//! Merges of two levels of guards at the same time: the claims of `lsm/busy.rs`, which is the library's
//! own file, beside writers of level 0, merges of guards, moves and gets, in random interleavings. The
//! guards and the steps of `lsm/merge.rs` and `flsm/shape.rs` are small doubles (`models/merges.rs`).
//! The second model (`models/dropped/mod.rs`) has range deletes, which the merges note as dropped ranges of
//! deeper runs, by the library's own file `run/dropped_ranges.rs`.
//! For each mechanism a test that leaves it out shows that the model would notice.
#![expect(dead_code, reason = "the modules under test serve a library, not this crate")]

/// The bugs of the modules under test. Shuttle runs all threads of a model on the one that checks
/// it, so that each test plants its own.
macro_rules! canary {
    ($bug:ident => let $name:ident = $wrong:expr) => {
        let $name = if $crate::planted::is_planted(stringify!($bug)) { $wrong } else { $name };
    };
}

#[path = "models/dropped/mod.rs"]
mod dropped;
#[path = "../src/lsm"]
mod lsm {
    pub mod busy;
}
#[path = "models/merges.rs"]
mod merges;
#[path = "models/planted.rs"]
mod planted;
#[path = "../src/run"]
mod run {
    pub mod dropped_ranges;
}
#[path = "models/schedules.rs"]
mod schedules;
mod sync {
    pub use std::sync::Arc;

    pub mod std_lock {
        pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
    }
}

#[path = "../src/types"]
mod types {
    pub mod bounds;
    pub mod order;
    pub mod span;
}

use merges::{Done, Fault, everything};
use schedules::{few_switches, random};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const SCHEDULES: usize = 10_000;

fn sound(least: usize, check: impl Fn(Box<dyn Fn() + Send + Sync>)) {
    let done = Arc::new(Done::default());
    let model = {
        let done = done.clone();
        move || everything(Fault::None, &done)
    };
    check(Box::new(model));
    println!("{done:?}");
    for count in [&done.merges_down, &done.merges_within, &done.at_once, &done.sunk, &done.awaited] {
        assert!(count.load(Relaxed) >= least, "the model skips what it is to try");
    }
}

#[test]
fn merges_of_guards_beside_merges_of_logs_in_random_schedules() {
    sound(SCHEDULES / 10, |model| random(SCHEDULES, model));
}

#[test]
fn merges_of_guards_beside_merges_of_logs_with_a_few_switches_in_the_worst_places() {
    sound(1, |model| few_switches(4, SCHEDULES, model));
}

/// Found by one scheduler or the other, after some schedules.
fn found(fault: Fault) {
    random(SCHEDULES, move || everything(fault, &Arc::default()));
    few_switches(4, 4 * SCHEDULES, move || everything(fault, &Arc::default()));
}

#[test]
#[should_panic(expected = "broken: ")]
fn merges_of_one_guard_at_the_same_time() {
    planted::plant("CLAIMS_IGNORED");
    found(Fault::None);
}

#[test]
#[should_panic(expected = "broken: ")]
fn runs_to_take_that_are_counted_from_the_newest() {
    found(Fault::CountsFromTheNewest);
}

#[test]
#[should_panic(expected = "broken: ")]
fn a_move_out_of_a_guard_that_a_merge_takes_from() {
    found(Fault::SinksWhatIsTaken);
}

#[test]
#[should_panic(expected = "broken: ")]
fn a_merge_that_installs_over_the_files_of_its_start() {
    found(Fault::InstallsOverItsStart);
}

/// A model of dropped runs, and what it is to try.
type Dropped = fn(dropped::Fault, &Arc<dropped::Done>);
type Tried = fn(&dropped::Done) -> Vec<&AtomicUsize>;

fn sound_dropped(model: Dropped, tried: Tried, least: usize, check: impl Fn(Box<dyn Fn() + Send + Sync>)) {
    let done = Arc::new(dropped::Done::default());
    let model = {
        let done = done.clone();
        move || model(dropped::Fault::None, &done)
    };
    check(Box::new(model));
    println!("{done:?}");
    for count in tried(&done) {
        assert!(count.load(Relaxed) >= least, "the model skips what it is to try");
    }
}

fn noted(done: &dropped::Done) -> Vec<&AtomicUsize> {
    let moved = [&done.noted, &done.marked, &done.outdated, &done.sunk, &done.early, &done.late];
    let read = [&done.left_out, &done.purged, &done.older_reads];
    moved.into_iter().chain(read).collect()
}

#[test]
fn merges_that_note_dropped_ranges_in_random_schedules() {
    sound_dropped(dropped::everything, noted, SCHEDULES / 20, |model| random(SCHEDULES, model));
}

#[test]
fn merges_that_note_dropped_ranges_with_a_few_switches_in_the_worst_places() {
    sound_dropped(dropped::everything, noted, 1, |model| few_switches(4, SCHEDULES, model));
}

/// Found by one scheduler or the other, after some schedules.
fn found_in(model: Dropped, fault: dropped::Fault) {
    random(2 * SCHEDULES, move || model(fault, &Arc::default()));
    few_switches(4, 4 * SCHEDULES, move || model(fault, &Arc::default()));
}

fn found_dropped(fault: dropped::Fault) {
    found_in(dropped::everything, fault);
}

#[test]
#[should_panic(expected = "broken: ")]
fn dropped_ranges_that_merges_of_one_guard_note_at_the_same_time() {
    planted::plant("CLAIMS_IGNORED");
    found_dropped(dropped::Fault::None);
}

#[test]
#[should_panic(expected = "broken: ")]
fn dropped_ranges_of_a_run_that_was_replaced_meanwhile() {
    found_dropped(dropped::Fault::NotesByPlace);
}

#[test]
#[should_panic(expected = "broken: ")]
fn dropped_ranges_that_are_joined_although_a_snapshot_distinguishes_them() {
    found_dropped(dropped::Fault::JoinsWhatASnapshotDistinguishes);
}

#[test]
#[should_panic(expected = "broken: ")]
fn dropped_ranges_whose_entries_go_although_a_snapshot_reads_them() {
    found_dropped(dropped::Fault::LeavesOutWhatASnapshotReads);
}

#[test]
#[should_panic(expected = "broken: ")]
fn a_dropped_range_that_goes_further_than_its_delete() {
    found_dropped(dropped::Fault::DropsTooFar);
}

#[test]
#[should_panic(expected = "broken: ")]
fn a_range_delete_that_ends_where_older_runs_have_it_noted() {
    found_dropped(dropped::Fault::EndsTheDelete);
}

#[test]
#[should_panic(expected = "broken: ")]
fn runs_that_came_meanwhile_and_are_marked_as_dropped() {
    found_dropped(dropped::Fault::MarksAbove);
}

#[test]
#[should_panic(expected = "broken: ")]
fn range_deletes_that_drop_what_was_merged_meanwhile() {
    found_dropped(dropped::Fault::DropsLate);
}

fn said(done: &dropped::Done) -> Vec<&AtomicUsize> {
    vec![&done.purged, &done.handed_on, &done.forgotten, &done.replaced]
}

#[test]
fn removals_that_hand_on_what_dropped_runs_say_in_random_schedules() {
    sound_dropped(dropped::removals, said, SCHEDULES / 20, |model| random(SCHEDULES, model));
}

#[test]
fn removals_that_hand_on_what_dropped_runs_say_with_a_few_switches_in_the_worst_places() {
    sound_dropped(dropped::removals, said, 1, |model| few_switches(4, SCHEDULES, model));
}

#[test]
#[should_panic(expected = "broken: repair")]
fn a_removal_of_dropped_runs_that_hands_nothing_on() {
    found_in(dropped::removals, dropped::Fault::PurgesSilently);
}

#[test]
#[should_panic(expected = "broken: ")]
fn a_removal_of_runs_that_were_dropped_after_it_was_planned() {
    found_in(dropped::removals, dropped::Fault::PurgesWhatIsDroppedSince);
}

#[test]
#[should_panic(expected = "broken: repair")]
fn tables_without_entries_that_go_before_what_they_replace() {
    found_in(dropped::removals, dropped::Fault::ForgetsEarly);
}
