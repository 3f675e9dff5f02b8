//! Counts the memory that a store allocates, so that lengths in a damaged file cannot cause huge
//! allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with counters. A binary that needs the counts makes it the global
/// allocator.
pub struct Watched;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);
static LARGEST_BYTES: AtomicUsize = AtomicUsize::new(0);

fn took(bytes: usize) {
    let live = LIVE_BYTES.fetch_add(bytes, Relaxed) + bytes;
    PEAK_BYTES.fetch_max(live, Relaxed);
    LARGEST_BYTES.fetch_max(bytes, Relaxed);
}

// SAFETY: forwards every call unchanged to the system's allocator; counting allocates nothing.
#[expect(unsafe_code, reason = "an allocator has no safe interface")]
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        took(bytes);
        LIVE_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Size of the largest allocation since the last call; 0 if `Watched` is not the allocator.
pub fn take_largest() -> usize {
    LARGEST_BYTES.swap(0, Relaxed)
}

/// Bytes in use.
pub fn live() -> usize {
    LIVE_BYTES.load(Relaxed)
}

/// Maximum of the bytes in use.
pub fn peak() -> usize {
    PEAK_BYTES.load(Relaxed)
}
