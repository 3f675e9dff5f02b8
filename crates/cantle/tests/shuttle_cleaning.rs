//! Early cleaning of merged sub-trees in random interleavings: the claims of `lsm/busy.rs`, which is the library's own
//! file. The trees and the steps of `forest/step.rs`, `forest/changing.rs` and `lsm/merge.rs`, the manifest and the files
//! are small doubles (`models/cleaning.rs`). For each mechanism a test that leaves it out shows that the model would
//! notice.
#![expect(dead_code, reason = "the modules under test serve a library, not this crate")]

/// The bugs of the modules under test. Shuttle runs all threads of a model on the one that checks
/// it, so that each test plants its own.
macro_rules! canary {
    ($bug:ident => let $name:ident = $wrong:expr) => {
        let $name = if $crate::planted::is_planted(stringify!($bug)) { $wrong } else { $name };
    };
}

#[path = "models/cleaning.rs"]
mod cleaning;
#[path = "../src/lsm"]
mod lsm {
    pub mod busy;
}
#[path = "models/planted.rs"]
mod planted;
#[path = "models/schedules.rs"]
mod schedules;
mod sync {
    pub mod std_lock {
        pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
    }
}

use cleaning::{Done, Fault, everything};
use schedules::{few_switches, random};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const SCHEDULES: usize = 4_000;

fn sound(least: usize, check: impl Fn(Box<dyn Fn() + Send + Sync>)) {
    let done = Arc::new(Done::default());
    let model = {
        let done = done.clone();
        move || everything(Fault::None, &done)
    };
    check(Box::new(model));
    println!("{done:?}");
    let counts = [&done.steps, &done.narrowed, &done.cleaned_early, &done.held, &done.moved, &done.crashes];
    for count in counts {
        assert!(count.load(Relaxed) >= least, "the model skips what it is to try");
    }
}

#[test]
fn a_merge_that_cleans_early_in_random_schedules() {
    sound(SCHEDULES / 10, |model| random(SCHEDULES, model));
}

#[test]
fn a_merge_that_cleans_early_with_a_few_switches_in_the_worst_places() {
    sound(SCHEDULES / 100, |model| few_switches(4, SCHEDULES, model));
}

/// Found by one scheduler or the other, after some schedules.
fn found(fault: Fault) {
    random(SCHEDULES, move || everything(fault, &Arc::default()));
    few_switches(4, 4 * SCHEDULES, move || everything(fault, &Arc::default()));
}

#[test]
#[should_panic(expected = "broken: ")]
fn two_steps_of_one_merge_at_the_same_time() {
    planted::plant("CLAIMS_IGNORED");
    found(Fault::None);
}

#[test]
#[should_panic(expected = "broken: ")]
fn files_that_go_before_the_edit_that_does_without_them() {
    found(Fault::CleansBeforeItsEdit);
}

#[test]
#[should_panic(expected = "broken: ")]
fn files_that_go_before_that_edit_is_durable() {
    found(Fault::CleansBeforeDurable);
}

#[test]
#[should_panic(expected = "broken: ")]
fn files_that_go_under_a_parked_iterator() {
    found(Fault::CleansWhatIsRead);
}

#[test]
#[should_panic(expected = "broken: ")]
fn a_sub_tree_that_goes_although_a_part_of_it_is_not_merged() {
    found(Fault::ForgetsTheRest);
}

#[test]
#[should_panic(expected = "broken: ")]
fn a_sub_tree_of_which_a_merged_part_stays_above_the_output() {
    found(Fault::LeavesTheMerged);
}

#[test]
#[should_panic(expected = "broken: ")]
fn a_step_that_is_installed_over_the_trees_of_its_start() {
    found(Fault::InstallsOverItsStart);
}

#[test]
#[should_panic(expected = "broken: ")]
fn a_step_that_drops_what_a_snapshot_sees() {
    found(Fault::ForgetsSnapshots);
}
