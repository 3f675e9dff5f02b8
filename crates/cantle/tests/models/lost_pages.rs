//! In the place of the library's mapped memory: what is freed is overwritten at once, and used again only much later, so
//! that whoever goes on reading it sees that it is gone.
#![expect(unsafe_code, reason = "memory of any length")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr::NonNull;

pub const HUGE_BYTES: usize = 2 << 20;
/// So many blocks that were freed last stay as they are.
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
        // SAFETY: allocated with this layout, and nobody else's.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Every length is one of few.
pub fn of_few_sizes(bytes: usize) -> usize {
    bytes
}

pub fn asked_for(bytes: usize) -> usize {
    bytes
}

pub struct Pages(Option<Freed>);

// SAFETY: it is only memory.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    pub fn new(layout: Layout) -> Self {
        // SAFETY: its callers ask for a byte at least.
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
        // SAFETY: the block is as long, and nobody should read it.
        unsafe { block.start.write_bytes(GONE, block.layout.size()) };
        // While the thread ends, it just goes.
        let _ = FREED.try_with(|freed| {
            let mut freed = freed.borrow_mut();
            freed.push_back(block);
            if freed.len() > FREED_MAX { freed.pop_front() } else { None }
        });
    }
}

/// A value where it lies, for whoever may or may not hold it.
pub struct Seen {
    start: *const u8,
    len: usize,
}

impl Seen {
    pub fn of(value: &[u8]) -> Self {
        Self { start: value.as_ptr(), len: value.len() }
    }

    /// What is there now.
    pub fn now(&self) -> Vec<u8> {
        // SAFETY: memory of `Pages`, which is there for a while even if it was freed, and written to by no other thread
        // at this moment, as a model has one that runs.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }.to_vec()
    }
}
