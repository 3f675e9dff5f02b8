//! Generations (`lsm/generation.rs`), their rotation, seal, index and flush (`lsm/rotation.rs`) and the
//! locks of keys (`mvcc/key_locks.rs`) beside puts, batches, gets, snapshots and merges of sealed
//! logs, in random interleavings; sequentially consistent, as shuttle is. The files are the
//! library's own, as are versions and the rule for the entries that a merge keeps. Logs, tables and
//! the view are small doubles, and the steps of `lsm/write.rs`, `lsm/rotate.rs`, `lsm/flush.rs` and
//! `lsm/merge.rs` are those of the sources (`models/generation`). For each mechanism a test that leaves it out
//! shows that the model would notice.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library, not this crate")]

/// The bugs of the modules under test. Shuttle runs all threads of a model on the one that checks
/// it, so that each test plants its own.
macro_rules! canary {
    ($bug:ident => let $name:ident = $wrong:expr) => {
        let $name = if $crate::planted::is_planted(stringify!($bug)) { $wrong } else { $name };
    };
    ($bug:ident => $wrong:expr) => {
        if $crate::planted::is_planted(stringify!($bug)) {
            $wrong;
        }
    };
}

#[path = "../src/filter"]
mod filter {
    pub mod bloom;
}
#[path = "../src/types"]
mod types {
    pub mod bounds;
    pub mod error;
    pub mod order;
    pub mod span;
}
#[path = "../src/mvcc"]
mod mvcc {
    mod clock;
    mod commit;
    mod keep;
    pub mod key_locks;
    mod pending;

    pub use clock::Mvcc;
    pub use commit::CommitCell;
    pub use keep::Keep;
    pub use pending::KeySpan;
}
#[path = "../src/lsm"]
mod lsm {
    pub mod generation;
    #[path = "../../tests/models/generation/mod.rs"]
    pub mod model;
    pub mod rotation;
}
#[path = "models/planted.rs"]
mod planted;
#[path = "models/schedules.rs"]
mod schedules;
#[path = "models/shuttle_sync.rs"]
mod sync;

use lsm::model::{
    Done, Fault, a_put_and_a_drop, a_put_and_a_merge, a_put_and_a_seal, everything,
    puts_of_one_key_and_a_rotation,
};
use schedules::{few_switches, random};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const SCHEDULES: usize = 10_000;

fn join<T>(handle: sync::thread::JoinHandle<T>) -> T {
    handle.join().unwrap_or_else(|_| panic!("a thread of the model failed"))
}

fn everything_with(fault: Fault, done: &Arc<Done>) -> impl Fn() + Send + Sync + use<> {
    let done = done.clone();
    move || everything(fault, &done)
}

fn sound(check: impl Fn(Box<dyn Fn() + Send + Sync>)) {
    let done = Arc::new(Done::default());
    check(Box::new(everything_with(Fault::None, &done)));
    println!("{done:?}");
    for count in [&done.rotations, &done.merges, &done.indexed, &done.flushed] {
        assert!(count.load(Relaxed) >= SCHEDULES / 10, "the model skips what it is to try");
    }
}

#[test]
fn writes_while_generations_rotate_in_random_schedules() {
    sound(|model| random(SCHEDULES, model));
}

#[test]
fn writes_while_generations_rotate_with_a_few_switches_in_the_worst_places() {
    sound(|model| few_switches(4, SCHEDULES, model));
}

#[test]
fn puts_of_one_key_enter_generations_in_their_order() {
    random(SCHEDULES, || puts_of_one_key_and_a_rotation(Fault::None));
    few_switches(4, SCHEDULES, || puts_of_one_key_and_a_rotation(Fault::None));
}

#[test]
fn a_merge_keeps_what_a_snapshot_reads() {
    random(SCHEDULES, || a_put_and_a_merge(Fault::None));
    few_switches(4, SCHEDULES, || a_put_and_a_merge(Fault::None));
}

#[test]
fn nothing_is_put_into_a_keyspace_that_was_dropped() {
    random(SCHEDULES, a_put_and_a_drop);
    few_switches(4, SCHEDULES, a_put_and_a_drop);
}

#[test]
fn a_generation_that_was_waited_for_is_indexed() {
    random(SCHEDULES, a_put_and_a_seal);
    few_switches(4, SCHEDULES, a_put_and_a_seal);
}

/// Found by one scheduler or the other, after some schedules.
fn found(model: impl Fn() + Send + Sync + Clone + 'static) {
    random(SCHEDULES, model.clone());
    few_switches(4, 4 * SCHEDULES, model);
}

#[test]
#[should_panic(expected = "broken: ")]
fn an_index_of_a_sealed_generation_with_a_writer() {
    planted::plant("INDEXED_UNDER_WRITERS");
    found(|| everything(Fault::None, &Arc::default()));
}

/// Harmless: until the successor is there, writers that are turned away look again and again. The
/// library seals later only so that they need not.
#[test]
fn a_generation_that_is_sealed_before_its_successor_is_there() {
    random(SCHEDULES / 4, everything_with(Fault::SealsFirst, &Arc::default()));
}

#[test]
#[should_panic(expected = "broken: ")]
fn a_write_that_looks_for_its_generation_before_it_has_its_locks() {
    found(|| puts_of_one_key_and_a_rotation(Fault::LooksBeforeTheLocks));
}

#[test]
#[should_panic(expected = "broken: ")]
fn a_write_without_locks() {
    found(|| puts_of_one_key_and_a_rotation(Fault::LocksNothing));
}

#[test]
#[should_panic(expected = "broken: the manifest has two logs in another order")]
fn logs_that_are_created_at_once() {
    found(|| everything(Fault::CreatesAtOnce, &Arc::default()));
}

#[test]
#[should_panic(expected = "broken: what a snapshot reads changed")]
fn a_merge_that_asks_for_snapshots_before_its_input_is_sealed() {
    found(|| a_put_and_a_merge(Fault::AsksBeforeSealing));
}

#[test]
#[should_panic(expected = "broken: ")]
fn a_table_that_is_flushed_above_newer_logs() {
    found(|| everything(Fault::FlushesOnTop, &Arc::default()));
}

#[test]
#[should_panic(expected = "broken: a log that is flushed is gone")]
fn two_flushes_of_a_log_at_once() {
    found(|| everything(Fault::FlushesUnlocked, &Arc::default()));
}

#[test]
#[should_panic(expected = "broken: ")]
fn a_get_of_two_views() {
    found(|| everything(Fault::ReadsTwoViews, &Arc::default()));
}
