//! Counts the writes that an opening leaves behind when it returns to the last checkpoint.
//!
//! A process may have died on a machine that lost nothing, without a proof of that: the volume was
//! unmounted and mounted again since, or the file system has no identity of a mount. Then writes
//! since the checkpoint take no effect, even if every byte of them is there. They are counted and
//! reported, so that a user who opens the store learns of them. `repair` reads the same files.
//!
//! The opening records only where the writes are. A background thread counts them. None of the
//! files is removed until it has finished, or the store closes.

use super::store::Store;
use crate::files::Files;
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::log::op::record::LogRecord;
use crate::log::tail::write_buffer;
use crate::manifest::State;
use crate::records::RecordFile;
use crate::sync::Arc;
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{OpenMode, OverlayVfs, Vfs, VfsFile};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Maximum number of bytes of logs that are read for counting: a fraction of a second of disk time.
/// The number of records in the rest is estimated by its length.
const READ_BYTES_MAX: u64 = 64 << 20;

/// Maximum number of logs unknown to the checkpoint that are kept until they are counted, or the
/// number of the checkpoint's files if that is greater. Without a bound, the logs of many processes
/// that were killed early would pile up.
const ORPHANS_MAX: usize = 64;

/// Intact records of the last epoch that take no effect, because no checkpoint covers them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LeftBehind {
    pub records: u64,
    /// Bytes of these records in their logs and in the write buffer.
    pub bytes: u64,
}

/// The files with these records. No file of the store is removed while this exists.
pub(super) struct Uncounted {
    files: Arc<Files>,
    /// The epoch of the last checkpoint, and the epoch of the process that wrote last. If they
    /// differ, this process made no checkpoint.
    epoch: u64,
    writer: u64,
    /// The version that the checkpoint covers.
    checkpointed: u64,
    /// Numbers of logs, each with the length up to which the checkpoint covers it.
    logs: Vec<(u64, u64)>,
    /// The logs among these that the checkpoint does not know.
    orphans: HashSet<u64>,
    /// The open file of the write buffer. Its name is removed before the counting begins.
    write_buffer: Option<Arc<dyn VfsFile>>,
}

impl Drop for Uncounted {
    fn drop(&mut self) {
        self.files.unpin();
    }
}

impl Uncounted {
    /// For a store with this durable state, before anything in the store is changed. `writer` is
    /// the epoch of the process that wrote last. `strays` are the numbers and epochs of logs that
    /// the state does not name.
    pub fn new(
        files: &Arc<Files>,
        state: &State,
        writer: u64,
        listed: &[(FileKind, u64)],
        strays: &[(u64, u64)],
    ) -> Self {
        files.pin();
        let is_of_last = |&&(_, epoch): &&(u64, u64)| epoch >= state.start.epoch;
        let mut orphans: Vec<u64> = strays.iter().filter(is_of_last).map(|&(id, _)| id).collect();
        orphans.sort_unstable_by_key(|&id| std::cmp::Reverse(id));
        orphans.truncate((listed.len() - strays.len()).max(ORPHANS_MAX));
        let logs = listed.iter().filter(|(kind, _)| *kind == FileKind::Log).map(|&(_, id)| {
            (id, state.segments.get(&id).map_or(HEADER_BYTES, |segment| segment.len.max(HEADER_BYTES)))
        });
        let write_buffer = write_buffer::open(&*files.vfs, &files.dir).unwrap_or_else(|error| {
            tracing::debug!(%error, "cannot count the records in the write buffer");
            None
        });
        Self {
            files: files.clone(),
            epoch: state.start.epoch,
            writer: writer.max(state.start.epoch),
            checkpointed: state.checkpoint.version,
            logs: logs.collect(),
            orphans: orphans.into_iter().collect(),
            write_buffer,
        }
    }

    /// True if this log, to which nothing refers, is kept until it is counted.
    pub fn has_orphan(&self, id: u64) -> bool {
        self.orphans.contains(&id)
    }

    /// The paths of all such logs.
    pub fn orphans(&self) -> impl Iterator<Item = PathBuf> {
        self.orphans.iter().map(|&id| self.files.path(FileKind::Log, id))
    }

    /// Counts the records; `None` if this was abandoned. Damage is not an error: a power failure
    /// may have left it.
    fn count(&self, is_abandoned: &dyn Fn() -> bool) -> Option<LeftBehind> {
        let Files { vfs, dir, store, .. } = &*self.files;
        // Buffered records are moved to their logs, in memory.
        let overlay: Arc<dyn Vfs> = Arc::new(OverlayVfs::new(vfs.clone()));
        if let Some(write_buffer) = &self.write_buffer {
            let header_of = |file: &dyn VfsFile, path: &Path| FileHeader::read(file, path, FileKind::Log);
            let mut ignored =
                |error: Error| tracing::debug!(%error, "cannot count some records in the write buffer");
            let named = (*store, self.writer);
            if let Err(error) =
                write_buffer::recover_open(&**write_buffer, &*overlay, dir, named, &header_of, &mut ignored)
            {
                tracing::debug!(%error, "cannot count the records in the write buffer");
            }
        }
        let mut found = LeftBehind::default();
        let mut read_bytes = 0;
        for &(id, recorded) in &self.logs {
            let path = self.files.path(FileKind::Log, id);
            match self.count_log(&*overlay, &path, recorded, &mut read_bytes, is_abandoned) {
                Ok(more) => {
                    found.records += more.records;
                    found.bytes += more.bytes;
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot count the records after a log's recorded end")
                }
            }
            if is_abandoned() {
                return None;
            }
        }
        Some(found)
    }

    fn count_log(
        &self,
        vfs: &dyn Vfs,
        path: &Path,
        recorded: u64,
        read_bytes: &mut u64,
        is_abandoned: &dyn Fn() -> bool,
    ) -> Result<LeftBehind> {
        let end = vfs
            .metadata(path)
            .map_err(|e| Error::io(Attempt::Measure, path, e))?
            .map_or(0, |found| found.len);
        if end <= recorded {
            return Ok(LeftBehind::default());
        }
        let file = vfs.open(path, OpenMode::Read).map_err(|e| Error::io(Attempt::Open, path, e))?;
        let header = FileHeader::read(&*file, path, FileKind::Log)?;
        // A log of an earlier epoch was left behind by an earlier opening.
        if header.store != self.files.store || header.epoch < self.epoch {
            return Ok(LeftBehind::default());
        }
        let room = READ_BYTES_MAX.saturating_sub(*read_bytes);
        let until = end.min(recorded.saturating_add(room));
        *read_bytes += until.saturating_sub(recorded);
        let records = RecordFile { file, path: path.to_path_buf(), header };
        let mut scan = records.scan(recorded, until);
        let (mut counted, mut bytes) = (0_u32, 0);
        while let Some(record) = scan.next()? {
            if let Ok(LogRecord::Op(op)) = LogRecord::decode(record.payload, header.base_version)
                && op.version > self.checkpointed
            {
                counted += 1;
                bytes += record.len as u64;
            }
            if is_abandoned() {
                break;
            }
        }
        // The unread part is assumed to have as many records per byte as the part that was read.
        let factor = match until < end && until > recorded {
            true => (end - recorded) as f64 / (until - recorded) as f64,
            false => 1.0,
        };
        let (records, bytes) = ((f64::from(counted) * factor) as u64, (bytes as f64 * factor) as u64);
        Ok(LeftBehind { records, bytes })
    }
}

impl Store {
    /// Counts the records that this opening left behind, unless they are counted already. Abandoned
    /// if the store closes.
    pub(super) fn count_left_behind(&self) {
        let Some(uncounted) = self.uncounted.lock().take() else { return };
        let counted = uncounted.count(&|| self.substrate.health.is_closing());
        let Some(LeftBehind { records, bytes }) = counted else { return };
        *self.left_behind.lock() = counted;
        if records > 0 {
            tracing::warn!(path = %self.path.display(), records, bytes, "returned to the last checkpoint: nothing proves that all later writes reached the disk, so they take no effect");
        }
    }
}
