//! Lets closing wait for the calls that may write to a store's files.
//!
//! A store that is closed releases its lock while handles to it are left. A write that is still
//! under way could then change the files after another process has opened the store. Reads are not
//! counted: they find their data in memory or in files that are open, and no file is opened by its
//! name after `Files::end`.
//!
//! Thread safety: everything may be called from any thread, `close` not from within a call. Calls
//! are counted in cells, so that threads do not wait for one cache line. A call adds to its cell
//! and then reads `closed`; `close` sets `closed` and then reads the cells. All four accesses are
//! sequentially consistent, so either the call is refused or `close` waits for it.

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use crate::sync::counter::cell_of_thread;
use crate::sync::{Condvar, Mutex};
use crossbeam_utils::CachePadded;

/// Threads beyond this number share cells.
const CELLS: usize = 8;

/// Counts calls under way. After `close`, no call begins.
#[derive(Default)]
pub struct Calls {
    cells: [CachePadded<AtomicUsize>; CELLS],
    closed: AtomicBool,
    /// Held by a thread in `close` while it checks the cells, and by the last call when it wakes
    /// that thread.
    waiting: Mutex<()>,
    over: Condvar,
}

/// A call under way, until it is dropped.
#[must_use]
pub struct Call<'a> {
    calls: &'a Calls,
    cell: usize,
}

impl Calls {
    /// Begins a call; `None` once the calls are closed.
    #[inline]
    pub fn begin(&self) -> Option<Call<'_>> {
        let cell = cell_of_thread() % CELLS;
        self.cells[cell].fetch_add(1, SeqCst);
        let call = Call { calls: self, cell };
        // Dropping the call wakes a thread in `close` that may have counted it.
        (!self.closed.load(SeqCst)).then_some(call)
    }

    /// Lets no further call begin, and waits until all are over.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
        let mut waiting = self.waiting.lock();
        while self.cells.iter().any(|cell| cell.load(SeqCst) > 0) {
            self.over.wait(&mut waiting);
        }
    }
}

impl Drop for Call<'_> {
    #[inline]
    fn drop(&mut self) {
        self.calls.cells[self.cell].fetch_sub(1, SeqCst);
        if self.calls.closed.load(SeqCst) {
            // A closing thread either has not checked the cells yet, or waits by the time we have
            // the lock.
            drop(self.calls.waiting.lock());
            self.calls.over.notify_all();
        }
    }
}
