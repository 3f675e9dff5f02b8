//! How much memory a store asks for, so that what a damaged file claims cannot decide that.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, watched. A binary that wants to know makes it its global one.
pub struct Watched;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);
static LARGEST_BYTES: AtomicUsize = AtomicUsize::new(0);

fn took(bytes: usize) {
    let live = LIVE_BYTES.fetch_add(bytes, Relaxed) + bytes;
    PEAK_BYTES.fetch_max(live, Relaxed);
    LARGEST_BYTES.fetch_max(bytes, Relaxed);
}

// SAFETY: hands every call on to the system's allocator as it came; counting allocates nothing.
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

/// The most that was ever asked for at once since the last call; 0 if nobody watches.
pub fn take_largest() -> usize {
    LARGEST_BYTES.swap(0, Relaxed)
}

/// What is in use.
pub fn live() -> usize {
    LIVE_BYTES.load(Relaxed)
}

/// The most that was ever in use.
pub fn peak() -> usize {
    PEAK_BYTES.load(Relaxed)
}
