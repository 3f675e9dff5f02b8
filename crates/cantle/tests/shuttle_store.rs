//! The model of `models/store`: puts, batches, scans, rebalances, splits, merges, checkpoints and
//! crashes together, in 100,000 schedules; sequentially consistent, as shuttle is. For each
//! mechanism a test that leaves it out shows that the model would notice.
//!
//! `CANTLE_TEST_FACTOR=10` runs ten times as many.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library, not this crate")]

#[macro_use]
#[path = "../src/canary.rs"]
mod canary;
#[path = "../src/types"]
mod types {
    pub mod bounds;
    pub mod error;
    pub mod order;
    pub mod span;
}
#[path = "../src/files"]
mod files {
    mod claims;
    #[expect(clippy::module_inception, reason = "as in the library")]
    mod files;
    #[path = "../../tests/models/no_handles.rs"]
    mod handles;
    mod unsynced;

    pub use files::{Files, StoreFile, parse_file_name};
}
#[path = "../src/format"]
mod format {
    pub mod codec;
    pub mod header;
}
#[path = "../src/mvcc/range_index.rs"]
mod range_index;
#[path = "../src/log"]
mod log {
    mod dirty;
    pub use dirty::DirtyLog;
}
#[path = "../src/mvcc"]
mod mvcc {
    mod batches;
    mod clock;
    mod commit;
    mod keep;
    mod pending;
    pub mod recovery_table;

    pub use batches::Batches;
    pub use clock::{Mvcc, SnapshotGuard};
    pub use commit::CommitCell;
    pub use keep::Keep;
    pub use pending::KeySpan;
}
#[path = "models/schedules.rs"]
mod schedules;
#[path = "models/store/mod.rs"]
mod store;
#[path = "../src/substrate"]
mod substrate {
    pub mod checkpoint;
    pub mod parts;
    mod tickets;

    use crate::store::Substrate;
}
#[path = "models/shuttle_sync.rs"]
mod sync;
#[path = "models/small_vfs.rs"]
mod vfs;

/// The contents of a checkpoint's edit.
mod manifest {
    #[derive(Debug, Clone, Copy)]
    pub struct SegmentEdit {
        pub file: u64,
        pub len: u64,
    }

    #[derive(Debug, Clone, Default)]
    pub struct CheckpointEdit {
        pub version: u64,
        pub ceiling: u64,
        pub next_file: u64,
        pub next_keyspace: u32,
        pub next_batch: u64,
        pub first_journal: u64,
        pub durable_bytes: u64,
        pub segments: Vec<SegmentEdit>,
        pub parts: Vec<(u32, Vec<u8>)>,
    }
}

use schedules::{evenly, few_switches, random};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use store::{Done, Fault, everything};

/// Used four times: 100,000 in all.
const SCHEDULES: usize = 25_000;

fn join<T>(handle: sync::thread::JoinHandle<T>) -> T {
    handle.join().unwrap_or_else(|_| panic!("a thread of the model failed"))
}

fn model(fault: Fault, done: &Arc<Done>) -> impl Fn() + Send + Sync + use<> {
    let done = done.clone();
    move || everything(3, 2, 2, fault, &done)
}

fn sound(check: impl Fn(Box<dyn Fn() + Send + Sync>)) {
    let done = Arc::new(Done::default());
    check(Box::new(model(Fault::None, &done)));
    println!("{done:?}");
    for done in [&done.rebalances, &done.splits, &done.merges, &done.checkpoints] {
        assert!(done.load(Relaxed) >= SCHEDULES / 2, "the model skips what it is to try");
    }
}

#[test]
fn all_together_in_random_schedules() {
    sound(|model| random(SCHEDULES, model));
}

#[test]
fn all_together_in_schedules_drawn_evenly() {
    sound(|model| evenly(SCHEDULES, model));
}

#[test]
fn all_together_with_a_few_switches_in_the_worst_places() {
    sound(|model| few_switches(3, SCHEDULES, model));
}

#[test]
fn all_together_with_some_switches_in_the_worst_places() {
    sound(|model| few_switches(6, SCHEDULES, model));
}

/// Found by one scheduler or another, after some schedules.
fn with(fault: Fault) {
    random(SCHEDULES / 5, model(fault, &Arc::default()));
    few_switches(4, 2 * SCHEDULES, model(fault, &Arc::default()));
}

macro_rules! faults {
    ($($name:ident: $fault:ident => $what:literal;)*) => {
        $(
            #[test]
            #[should_panic(expected = $what)]
            fn $name() {
                with(Fault::$fault);
            }
        )*
    };
}

// The model has several ways to notice most of them; the first one depends on the schedule.
faults! {
    a_scan_that_does_not_wait: SkipsPendingWait => "broken: ";
    a_rebalance_that_does_not_ask_for_open_versions: AsksNobody => "broken: ";
    a_rebalance_that_asks_for_open_versions_before_it_seals: AsksBeforeSealing => "broken: ";
    a_put_into_a_chunk_that_was_replaced: PutsIntoRetired => "broken: ";
    a_split_that_does_not_retire_the_chunk: DoesNotRetire => "broken: ";
    a_split_that_flips_the_index_before_the_files: FlipsIndexBeforeFiles => "broken: ";
    a_split_that_flips_the_index_before_the_manifest: TellsTheManifestLast => "broken: ";
    a_rebalance_that_releases_files_before_the_manifest_is_told: ReleasesBeforeTelling => "broken: ";
    a_merge_that_locks_neighbours_in_the_wrong_order: LocksTheRightOneFirst => "deadlock";
    a_merge_that_locks_one_neighbour: DoesNotLockTheRightOne => "broken: ";
    a_merge_whose_files_speak_for_all_keys: JoinsUnderOneSpan => "broken: ";
    a_checkpoint_that_records_its_version_before_it_waits: RecordsBeforeWaiting => "broken: ";
    a_checkpoint_that_is_no_snapshot: CheckpointIsNoSnapshot => "broken: what is recovered is no prefix";
    a_checkpoint_that_is_believed_before_it_is_synced: DoesNotSyncTheRecord => "broken: ";
    a_put_whose_log_is_marked_late: MarksDirtyLate => "broken: ";
    a_batch_that_is_numbered_before_it_is_announced: NumbersBatchesEarly => "broken: ";
}
