//! Reading and checking all files, and releasing all files.

use super::Chunks;
use crate::layout::stats::Report;
use crate::layout::verify::verify;
use crate::run::stack::StackSizes;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Release;
use std::collections::HashSet;

impl Chunks {
    pub(super) fn verify_files(&self, report: &mut Report) {
        let context = &self.context;
        let mut seen = HashSet::new();
        for (_, chunk) in self.index.view().iter() {
            let funk = chunk.funk.load_full();
            for file in &funk.files {
                if !seen.insert(file.file().id) {
                    continue;
                }
                verify(context, file, report);
            }
        }
    }

    /// Retires every chunk for good: a thread that would write to one, or append an edit about it
    /// to the manifest, finds it retired.
    pub(super) fn retire_chunks(&self) {
        self.released.store(true, Release);
        loop {
            let view = self.index.view();
            for (_, chunk) in view.iter() {
                let mut writer = chunk.writer.lock();
                writer.active = None;
                writer.retired = true;
            }
            // A split or join that held its locks meanwhile has inserted new chunks.
            if Arc::ptr_eq(&view, &self.index.view()) {
                return;
            }
        }
    }

    /// Releases the files of a keyspace whose drop cannot be undone any more. Its chunks are
    /// retired, so no funk changes. A rebalance under way reads files that it holds, and its output
    /// is discarded.
    pub(super) fn release_files(&self) {
        self.tell_live_bytes(0);
        for (_, chunk) in self.index.view().iter() {
            let funk = chunk.funk.load_full();
            self.account(&funk.sizes(), &StackSizes::default());
            self.release(&funk.files, &[]);
            // A handle of the keyspace that is left must not use memory that others need.
            self.evict_munk(chunk);
        }
    }
}
