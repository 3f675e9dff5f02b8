//! The progress of running merges, for statistics.
//!
//! A merge registers itself when it begins to read, and counts the bytes that it has read. The list has
//! a lock of its own, held for a moment: the lock of the claims may be held while a disk hangs, and
//! statistics never wait for a disk.
//!
//! Thread safety: everything may be called from any thread.

use crate::layout::stats::RunningMerge;
use crate::read_ahead::BytesRead;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::{Arc, Mutex};

/// The merges of a keyspace that run now.
#[derive(Default)]
pub struct Running(Mutex<Vec<Arc<Progress>>>);

struct Progress {
    /// The merge as it began.
    merge: RunningMerge,
    /// Bytes read of the pieces so far. More than there are if blocks were read twice.
    read: BytesRead,
}

/// A merge that runs; leaves the list when it is dropped.
#[must_use]
pub struct Registered<'a> {
    running: &'a Running,
    progress: Arc<Progress>,
}

impl Running {
    /// Registers a merge, of which nothing has been read.
    pub fn register(&self, merge: RunningMerge) -> Registered<'_> {
        let progress = Arc::new(Progress { merge, read: BytesRead::default() });
        self.0.lock().push(progress.clone());
        Registered { running: self, progress }
    }

    /// The merges that run now, the one that began first before the others.
    pub fn list(&self) -> Vec<RunningMerge> {
        let now = |progress: &Arc<Progress>| RunningMerge {
            bytes_read: progress.read.load(Relaxed).min(progress.merge.bytes),
            ..progress.merge.clone()
        };
        self.0.lock().iter().map(now).collect()
    }
}

impl Registered<'_> {
    /// The counter of bytes read.
    pub fn read(&self) -> &BytesRead {
        &self.progress.read
    }

    /// Notes that the pieces so far, of this many bytes in all, are merged. Older versions and the
    /// indexes of files are skipped, so the bytes read may be fewer.
    pub fn reached(&self, bytes: u64) {
        self.progress.read.fetch_max(bytes, Relaxed);
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.running.0.lock().retain(|other| !Arc::ptr_eq(other, &self.progress));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(bytes: u64) -> RunningMerge {
        RunningMerge { bytes, ..RunningMerge::default() }
    }

    #[test]
    fn progress_never_goes_back_nor_beyond_the_end() {
        let running = Running::default();
        let read = || running.list()[0].bytes_read;
        let merge = running.register(merge(100));
        assert_eq!(read(), 0);
        merge.read().fetch_add(30, Relaxed);
        assert_eq!(read(), 30);
        merge.reached(50);
        assert_eq!(read(), 50);
        merge.reached(40);
        assert_eq!(read(), 50);
        merge.read().fetch_add(70, Relaxed);
        assert_eq!(read(), 100);
    }

    #[test]
    fn a_merge_is_listed_while_it_runs() {
        let running = Running::default();
        let (first, second) = (running.register(merge(1)), running.register(merge(2)));
        let listed = || running.list().iter().map(|merge| merge.bytes).collect::<Vec<_>>();
        assert_eq!(listed(), [1, 2]);
        drop(first);
        assert_eq!(listed(), [2]);
        drop(second);
        assert_eq!(listed(), [0; 0]);
    }
}
