//! Allocations of a put, counted by a global allocator in a process of its own.
#![expect(unsafe_code, reason = "an allocator has no safe interface")]

use cantle::{ChunkOptions, Db, Durability, KeyspaceOptions, Options};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

std::thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending does not count any more.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: forwards every call unchanged to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PUTS: u64 = 2_000;

/// The mean number of this thread's allocations per put, in hundredths.
fn hundredths_of_a_put(db: &Db) -> u64 {
    let put = |number: u64| db.put(format!("user{number:012}"), [number as u8; 128]).expect("there is room");
    (0..PUTS).for_each(|number| put(number * 7919 % 100_003));
    let keys: Vec<String> = (0..PUTS).map(|number| format!("user{:012}", number * 7907 % 100_003)).collect();
    let before = ALLOCATIONS.get();
    keys.iter().for_each(|key| db.put(key, [7; 128]).expect("there is room"));
    (ALLOCATIONS.get() - before) * 100 / PUTS
}

/// The layout's write is boxed. Key and value are copied once, to their final place.
#[test]
fn a_put_makes_one_allocation() {
    for (durability, most) in [(Durability::Process, 1), (Durability::Buffered, 1)] {
        for munks in [true, false] {
            let dir = tempfile::tempdir().expect("a directory");
            let options = Options::new().durability(durability);
            let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().munks(munks));
            let db = options.default_keyspace(keyspace).open(dir.path()).expect("a new store");
            let hundredths = hundredths_of_a_put(&db);
            println!("{durability:?}, munks {munks}: {hundredths} hundredths of an allocation");
            // Sometimes an index is written, memory grows, or a part begins.
            assert!(hundredths < most * 100 + 50, "{hundredths} hundredths of an allocation");
        }
    }
}
