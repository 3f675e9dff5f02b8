//! The commit of writes (`db/commit.rs`) beside snapshots, gets, checkpoints, failures and crashes,
//! in random interleavings; sequentially consistent, as shuttle is. For each mechanism a test that
//! leaves it out shows that the model would notice: by a bug planted in the file itself
//! (`canary!`), or by an error of the code around it (`Fault`).
//!
//! Steps of `db/commit.rs` that neither can change were moved or removed by hand once, and the model
//! failed each time: the number of a batch taken before the announcement; the cell committed before
//! the writes are published, or after the announcement ended; no cell for a batch in one log; the
//! health of the store checked before the announcement; a failed write revoked after the
//! announcement ended; the second check if all is journaled left out; an unjournaled write that does
//! not mark its version; a batch over several logs that is journaled like a single write.
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
    ($bug:ident else $right:expr) => {
        if $crate::planted::is_planted(stringify!($bug)) { Ok(()) } else { $right }
    };
}

#[path = "models/planted.rs"]
mod planted;
#[path = "../src/types"]
mod types {
    pub mod bounds;
    pub mod durability;
    pub mod entry;
    pub mod error;
    pub mod order;
}
#[path = "../src/format"]
mod format {
    pub mod bounds;
    pub mod codec;
    pub mod limits;
}
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
    mod pending;
    mod recovery;
    mod recovery_table;
    mod unjournaled;

    pub use batches::Batches;
    pub use clock::{Announced, Mvcc};
    pub use commit::CommitCell;
    pub use pending::KeySpan;
    pub use recovery::Recovery;
    pub use recovery_table::{DeadBatches, EpochBatches, RecoveryTable};
    pub use unjournaled::Unjournaled;
}
#[path = "../src/substrate"]
mod substrate {
    pub mod checkpoint;
    pub mod health;
    pub mod parts;
    mod tickets;

    pub use crate::model::substrate::Substrate;
    pub use checkpoint::VERSIONS_PER_CHECKPOINT;
}
#[path = "../src/db"]
mod db {
    mod commit;
    pub mod recovery_plan;
    #[path = "../../tests/models/commit/store.rs"]
    pub mod store;
}
#[path = "models/commit/journal.rs"]
mod journal;
#[path = "models/commit/layout.rs"]
mod layout;
#[path = "models/commit/manifest.rs"]
mod manifest;
#[path = "models/commit/mod.rs"]
mod model;
#[path = "models/schedules.rs"]
mod schedules;
#[path = "models/shuttle_sync.rs"]
mod sync;

use model::{Done, Fault, everything};
use schedules::{few_switches, random};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use types::durability::Durability;

const SCHEDULES: usize = 4_000;

fn join<T>(handle: sync::thread::JoinHandle<T>) -> T {
    handle.join().unwrap_or_else(|_| panic!("a thread of the model failed"))
}

fn model(durability: Durability, fault: Fault, done: &Arc<Done>) -> impl Fn() + Send + Sync + use<> {
    let done = done.clone();
    move || everything(durability, fault, &done)
}

fn sound(durability: Durability, check: impl Fn(Box<dyn Fn() + Send + Sync>)) {
    let done = Arc::new(Done::default());
    check(Box::new(model(durability, Fault::None, &done)));
    println!("{done:?}");
    let Done { committed, journaled, spanning, failed, doubtful, checkpoints, closings } = &*done;
    for (count, least) in [
        (committed, SCHEDULES),
        (journaled, SCHEDULES / 20),
        (spanning, SCHEDULES / 2),
        (failed, SCHEDULES / 10),
        (doubtful, SCHEDULES / 50),
        (checkpoints, SCHEDULES / 2),
        (closings, SCHEDULES / 20),
    ] {
        assert!(count.load(Relaxed) >= least, "the model skips what it is to try");
    }
}

#[test]
fn commits_in_random_schedules() {
    sound(Durability::Process, |model| random(SCHEDULES, model));
}

#[test]
fn commits_with_a_few_switches_in_the_worst_places() {
    sound(Durability::Process, |model| few_switches(4, SCHEDULES, model));
}

#[test]
fn commits_of_a_sync_store_in_random_schedules() {
    sound(Durability::Sync, |model| random(SCHEDULES, model));
}

#[test]
fn commits_of_a_sync_store_with_a_few_switches_in_the_worst_places() {
    sound(Durability::Sync, |model| few_switches(4, SCHEDULES, model));
}

/// Found by one scheduler or the other, after some schedules.
fn with(durability: Durability, bug: &'static str, fault: Fault) {
    planted::plant(bug);
    random(SCHEDULES, model(durability, fault, &Arc::default()));
    few_switches(4, 4 * SCHEDULES, model(durability, fault, &Arc::default()));
}

macro_rules! canaries {
    ($($name:ident: $bug:ident in $durability:ident => $what:literal;)*) => {
        $(
            #[test]
            #[should_panic(expected = $what)]
            fn $name() {
                with(Durability::$durability, stringify!($bug), Fault::None);
            }
        )*
    };
}

macro_rules! faults {
    ($($name:ident: $fault:ident in $durability:ident => $what:literal;)*) => {
        $(
            #[test]
            #[should_panic(expected = $what)]
            fn $name() {
                with(Durability::$durability, "", Fault::$fault);
            }
        )*
    };
}

// The model has several ways to notice most of them; the first one depends on the schedule.
canaries! {
    a_batch_without_a_cell: BATCH_SEEN_IN_HALF in Process => "broken: ";
    a_batch_without_its_commit_record: COMMIT_LEFT_OUT in Process => "broken: a crash lost";
    a_durable_write_after_one_that_is_not: DURABLE_WITH_A_GAP in Process => "broken: ";
    a_store_that_goes_on_after_a_failed_sync: NOT_READ_ONLY in Process => "broken: a crash lost";
}

faults! {
    a_failed_write_that_is_not_revoked: DoesNotRevoke in Process => "broken: ";
    a_failed_write_of_a_sync_store_that_is_not_revoked: DoesNotRevoke in Sync => "broken: ";
    a_write_that_shows_when_it_is_appended: ShowsAtAppend in Process => "broken: ";
    a_write_that_shows_after_its_announcement: ShowsLate in Process => "broken: ";
    a_write_that_is_announced_for_fewer_keys: SpansTooLittle in Process => "broken: ";
    a_log_that_is_marked_late: MarksDirtyLate in Process => "broken: ";
    a_batch_in_doubt_that_is_not_reported: ForgetsTheDoubt in Process => "broken: locks";
    a_batch_in_doubt_that_is_written_over: WritesAfterTheDoubt in Process => "broken: ";
    a_checkpoint_that_settles_a_later_batch: SettlesTooMany in Process => "broken: ";
    a_write_that_does_not_wait_for_its_sync: DoesNotWait in Sync => "broken: a crash lost";
    a_write_that_does_not_wait_for_the_sync_it_asked_for: DoesNotWait in Process => "broken: a crash lost";
    a_checkpoint_that_is_believed_before_it_is_synced: DoesNotSyncTheRecord in Process => "broken: ";
    records_in_another_order_than_their_writes: SwapsRecords in Sync => "broken: ";
}
