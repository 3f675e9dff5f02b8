//! The memory of the list of a log's newest operations, counted by a global allocator in a process
//! of its own. Pages are not mapped here, so the allocator sees all of it.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library")]
#![expect(unsafe_code, reason = "an allocator has no safe interface")]

#[macro_use]
#[path = "../src/canary.rs"]
mod canary;
#[path = "../src/types"]
mod types {
    pub mod entry;
    pub mod order;
    /// The errors of entries.
    pub mod error {
        pub type Result<T> = std::result::Result<T, ()>;
    }
}
#[path = "models"]
mod memory {
    #[path = "lost_pages.rs"]
    pub mod pages;
}
#[path = "../src/log/index/memtable"]
mod memtable {
    mod arena;
    mod list;
    mod node;

    pub use list::SkipList;
    pub use node::Item;
}
#[path = "../src/log/index/record_ptr.rs"]
mod record_ptr;
#[path = "../src/mvcc"]
mod mvcc {
    mod commit;
    pub use commit::CommitCell;
}
mod log {
    pub mod index {
        pub(crate) use crate::record_ptr;
    }
}
/// The items of `cantle::sync` that the modules under test use.
#[path = "../src/sync"]
mod sync {
    pub mod random;
    mod time;

    pub use parking_lot::Mutex;
    pub use std::sync::{Arc, atomic};
}

use memtable::{Item, SkipList};
use record_ptr::RecordPtr;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use types::entry::Kind;
use types::order::KeyOrder;

struct Counting;

std::thread_local! {
    /// Bytes that this thread has allocated and not freed.
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
}

fn count(more: usize, less: usize) {
    // A thread that is ending does not count any more.
    let _ = LIVE_BYTES.try_with(|live| live.set(live.get().wrapping_add(more).wrapping_sub(less)));
}

// SAFETY: forwards every call unchanged to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes, layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of a list with this number of keys of 16 bytes, as allocated and as charged.
fn bytes_of(entries: u64, noted: bool, value: Option<&[u8]>) -> (usize, usize) {
    let charged: Arc<AtomicU64> = Arc::default();
    let before = LIVE_BYTES.get();
    let list = Box::new(SkipList::new(KeyOrder::Bytewise, 1, charged.clone()));
    for number in 0..entries {
        let key = format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (version, place) = (number, RecordPtr { offset: number * 150, len: 150 });
        let item = Item { key: key.as_bytes(), version, kind: Kind::Put, place, cell: None, value };
        let inserted = if noted { list.note(item) } else { list.insert(item) };
        inserted.expect("there is room");
    }
    let bytes = LIVE_BYTES.get() - before;
    assert_eq!(list.len() as u64, entries);
    let charged = charged.load(Relaxed) as usize;
    drop(list);
    (bytes, charged)
}

/// With `SkipMap`, boxed keys and a clone of the order in each, an entry took 96 bytes.
const SKIP_MAP_ENTRY_BYTES: usize = 96;

#[test]
fn an_entry_takes_half_of_what_one_of_a_skip_map_took() {
    for (entries, noted) in [(1_000, false), (10_000, false), (10_000, true), (32_768, false)] {
        let (bytes, charged) = bytes_of(entries, noted, None);
        let entry_bytes = bytes as f64 / entries as f64;
        println!(
            "{entries} entries, noted {noted}: {entry_bytes:.1} bytes each, {charged} charged of {bytes}"
        );
        assert!(entry_bytes <= SKIP_MAP_ENTRY_BYTES as f64 / 2.0, "{entry_bytes} bytes at {entries} entries");
        assert!(charged.abs_diff(bytes) < bytes / 50 + 1024, "{charged} charged of {bytes}");
    }
}

#[test]
fn a_list_of_one_entry_is_small() {
    assert!(bytes_of(0, false, None).0 < 512);
    let (one, charged) = bytes_of(1, false, None);
    println!("one entry: {one} bytes, {charged} charged");
    assert!(one <= 1024 && charged <= one);
    assert!(bytes_of(10, false, None).0 <= 1536);
}

#[test]
fn values_in_the_list_take_their_length() {
    let (bytes, _) = bytes_of(10_000, false, Some(&[7; 128]));
    assert!(bytes < 10_000 * (16 + 128 + 32) * 5 / 4, "{bytes}");
}
