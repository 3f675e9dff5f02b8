//! Replaces the library's mapped memory: freed memory is overwritten at once, and reused only much
//! later, so that a later read of it is noticed.
#![expect(unsafe_code, reason = "memory of any length")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr::NonNull;

pub const HUGE_BYTES: usize = 2 << 20;
/// Number of the most recently freed blocks that are not reused.
const FREED_MAX: usize = 64;
const GONE: u8 = 0xdd;

std::thread_local! {
    static FREED: RefCell<VecDeque<Freed>> = const { RefCell::new(VecDeque::new()) };
}

struct Freed {
    start: NonNull<u8>,
    layout: Layout,
}

impl Drop for Freed {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and not shared.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Returns the length unchanged; the original rounds to one of few lengths.
pub fn of_few_sizes(bytes: usize) -> usize {
    bytes
}

pub fn asked_for(bytes: usize) -> usize {
    bytes
}

pub struct Pages(Option<Freed>);

// SAFETY: it is plain memory.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    pub fn new(layout: Layout) -> Self {
        // SAFETY: the layouts of the callers have at least one byte.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        Self(Some(Freed { start, layout }))
    }

    pub fn mapped(layout: Layout) -> Self {
        Self::new(layout)
    }

    fn block(&self) -> &Freed {
        self.0.as_ref().unwrap_or_else(|| unreachable!("until it is dropped"))
    }

    pub fn start(&self) -> NonNull<u8> {
        self.block().start
    }

    pub fn len(&self) -> usize {
        self.block().layout.size()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let Some(block) = self.0.take() else { return };
        // SAFETY: the block has this length, and there must be no readers.
        unsafe { block.start.write_bytes(GONE, block.layout.size()) };
        // If the thread is ending, the block is freed.
        let _ = FREED.try_with(|freed| {
            let mut freed = freed.borrow_mut();
            freed.push_back(block);
            if freed.len() > FREED_MAX { freed.pop_front() } else { None }
        });
    }
}

/// The address of a value, for a reader that may or may not hold it.
pub struct Seen {
    start: *const u8,
    len: usize,
}

impl Seen {
    pub fn of(value: &[u8]) -> Self {
        Self { start: value.as_ptr(), len: value.len() }
    }

    /// The bytes at the address now.
    pub fn now(&self) -> Vec<u8> {
        // SAFETY: memory of `Pages`, which exists for a while even if it was freed; no other thread
        // writes to it at this moment, as only one thread of a model runs at a time.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }.to_vec()
    }
}
