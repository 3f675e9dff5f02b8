//! Reading and checking all files, and releasing all files.

use super::Chunks;
use crate::layout::stats::Report;
use crate::log::op::record::{LogRecord, may_begin};
use crate::log::segment::Segment;
use crate::run::run::Source;
use crate::run::stack::StackSizes;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Release;
use crate::types::error::{Error, Result};
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
                report.files += 1;
                report.bytes += file.file().bytes();
                let verified = match &file.source {
                    Source::Table(handle) => {
                        // From the file, not through a table that is open already.
                        let open = || {
                            crate::table::Table::open(
                                handle.file.handle()?,
                                handle.file.path.clone(),
                                (context.files.store, handle.file.id),
                                context.order.clone(),
                                context.cache.clone(),
                            )
                        };
                        open().and_then(|table| table.verify(&mut |damage| report.damage.push(damage)))
                    }
                    Source::Log(segment) => {
                        self.verify_log(segment, &mut |damage| report.damage.push(damage))
                    }
                };
                match verified {
                    Ok(entries) => report.entries += entries,
                    Err(error) => report.damage.push(error),
                }
            }
        }
    }

    /// Reads a log from end to end, then through its index.
    fn verify_log(&self, segment: &Arc<Segment>, damaged: &mut dyn FnMut(Error)) -> Result<u64> {
        let context = &self.context;
        let parts = segment.parts(context)?;
        // The length is read first: later records are not checked, and may not be in the file yet.
        let len = segment.len();
        segment.flush()?;
        let records = crate::records::RecordFile {
            file: segment.file.handle()?,
            path: segment.file.path.clone(),
            header: parts.header,
        };
        if len <= crate::format::header::HEADER_BYTES {
            return Ok(0);
        }
        crate::format::header::FileHeader::read(
            &*records.file,
            &records.path,
            crate::format::header::FileKind::Log,
        )?;
        let mut scan = records.scan(0, len);
        let mut entries = 0;
        loop {
            let offset = scan.offset();
            let record = match scan.next() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) if error.is_corruption() => {
                    damaged(error);
                    let head = records.head_at(offset, len)?.filter(|head| head.total <= len - offset);
                    let next = match head {
                        // There may be more damage directly after it.
                        Some(head) => offset + head.total,
                        None => records.head_after(offset + 1, len, may_begin, |_| true)?.unwrap_or(len),
                    };
                    scan = records.scan(next, len);
                    continue;
                }
                Err(error) => return Err(error),
            };
            match LogRecord::decode(record.payload, parts.header.base_version) {
                Ok(decoded) => entries += u64::from(matches!(decoded, LogRecord::Op(_))),
                Err(what) => {
                    let what = format!("a log record {}", what.0);
                    damaged(Error::corruption(&records.path, offset, what));
                }
            }
        }
        if scan.offset() != len {
            return Err(Error::corruption(&records.path, scan.offset(), "the log ends too early"));
        }
        Ok(entries)
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
