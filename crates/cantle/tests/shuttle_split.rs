//! Split of a chunk's end (`chunk/rebalance/split_tail.rs`), the replacement of a chunk by others
//! (`replace.rs`) and the check of the edit (`chunk/geometry.rs`) beside inserts at the end of the
//! chunk, gets, scans of snapshots, checkpoints and crashes, in random interleavings; sequentially
//! consistent, as shuttle is. The files are the library's own, as is the index of chunks; chunks,
//! logs and the manifest are small doubles (`models/split`). For each mechanism a test that leaves
//! it out shows that the model would notice. Steps of `replace.rs` were changed by hand once, and
//! the model failed each time: the old chunk not retired; the index changed before the manifest; the
//! lock released between the read of the files and the change of the index.
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

#[path = "models/planted.rs"]
mod planted;
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
    mod pending;
    pub mod range_index;

    mod fetch {
        pub struct Directly;
    }

    pub use clock::Mvcc;
    pub use pending::KeySpan;
}

mod fetch {
    pub struct Directly;
}
#[path = "../src/chunk"]
mod chunk {
    #[expect(clippy::module_inception, reason = "as in the library")]
    #[path = "../../tests/models/split/chunk.rs"]
    pub mod chunk;
    pub mod geometry;
    pub mod edit {
        pub use super::chunk::{ChunkEdit, ChunkRecord};
    }
    pub mod munk {
        pub use super::chunk::room_for;
    }
    pub mod policy {
        pub use super::chunk::is_end_split;
    }
    pub mod residency {
        pub mod popularity {
            pub use crate::chunk::chunk::live;
        }
    }
    pub mod rebalance {
        pub mod replace;
        mod split_tail;
        #[expect(clippy::module_inception, reason = "as in the library")]
        pub mod rebalance {
            pub use crate::chunk::chunk::{Input, table_ref};
        }
    }

    pub use chunk::Chunks;
}
#[path = "models/split/log.rs"]
mod log;
#[path = "../src/run"]
mod run {
    pub mod cut;
    #[expect(clippy::module_inception, reason = "as in the library")]
    pub mod run {
        pub use crate::log::run::{Run, Source};
    }
    pub mod stack {
        pub use crate::log::run::{RunStack, StackSizes};
    }
    pub mod writer {
        pub use crate::log::run::OutputTable;
    }
}
#[path = "../src/substrate"]
mod substrate {
    mod health;
}
#[path = "models/split/mod.rs"]
mod model;
#[path = "models/schedules.rs"]
mod schedules;
#[path = "models/shuttle_sync.rs"]
mod sync;

use model::{Done, Fault, everything};
use schedules::{few_switches, random};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const SCHEDULES: usize = 3_000;

fn join<T>(handle: sync::thread::JoinHandle<T>) -> T {
    handle.join().unwrap_or_else(|_| panic!("a thread of the model failed"))
}

fn model(fault: Fault, done: &Arc<Done>) -> impl Fn() + Send + Sync + use<> {
    let done = done.clone();
    move || everything(fault, &done)
}

fn sound(check: impl Fn(Box<dyn Fn() + Send + Sync>)) {
    let done = Arc::new(Done::default());
    check(Box::new(model(Fault::None, &done)));
    println!("{done:?}");
    for count in [&done.splits, &done.refused, &done.checkpoints] {
        assert!(count.load(Relaxed) >= SCHEDULES / 10, "the model skips what it is to try");
    }
}

#[test]
fn inserts_and_splits_of_the_end_in_random_schedules() {
    sound(|model| random(SCHEDULES, model));
}

#[test]
fn inserts_and_splits_of_the_end_with_a_few_switches_in_the_worst_places() {
    sound(|model| few_switches(4, SCHEDULES, model));
}

/// Found by one scheduler or the other, after some schedules.
fn with(bug: &'static str, fault: Fault) {
    planted::plant(bug);
    random(SCHEDULES, model(fault, &Arc::default()));
    few_switches(4, 4 * SCHEDULES, model(fault, &Arc::default()));
}

#[test]
#[should_panic(expected = "broken: ")]
fn a_split_at_a_key_of_a_shared_log() {
    with("SPLIT_OUTSIDE", Fault::None);
}

macro_rules! faults {
    ($($name:ident: $fault:ident => $what:literal;)*) => {
        $(
            #[test]
            #[should_panic(expected = $what)]
            fn $name() {
                with("", Fault::$fault);
            }
        )*
    };
}

faults! {
    an_insert_into_a_chunk_that_was_replaced: PutsIntoRetired => "broken: ";
    a_manifest_that_is_told_after_the_index: TellsTheManifestLate => "broken: ";
    an_end_without_the_log_of_its_keys: ForgetsTheNewestPart => "broken: ";
    a_scan_that_does_not_wait: SkipsPendingWait => "broken: ";
    a_checkpoint_that_records_its_version_before_it_waits: RecordsBeforeWaiting => "broken: ";
    files_that_go_before_the_manifest_is_told: RemovesEarly => "broken: ";
}
