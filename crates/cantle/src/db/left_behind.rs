//! How much an opening leaves behind that returns to the last checkpoint.
//!
//! A process may have died on a machine that lost nothing, and yet nobody can tell: the volume was unmounted and mounted
//! again since, or its file system has no identity of a mount. Then what was written since the checkpoint does not count,
//! though it may be there, byte for byte. It is counted, so that whoever opens the store hears of it; `repair` reads the
//! same files.
//!
//! The opening notes only where to look. A background thread counts, and no file that it looks at goes until it has, or the store closes.

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

/// Bytes of logs that are read to count: a fraction of a second of the disk. What is behind is estimated by its length.
const READ_BYTES_MAX: u64 = 64 << 20;

/// Logs that no checkpoint knows wait to be counted: as many as the checkpoint has files, and these. Without a bound those of many processes
/// that were killed too soon would pile up.
const ORPHANS_MAX: usize = 64;

/// Intact records of the last epoch that do not count, as no checkpoint covers them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LeftBehind {
    pub records: u64,
    /// What these records take in their logs, and in the write buffer.
    pub bytes: u64,
}

/// The place of these records. While it lives, no file of the store is removed.
pub(super) struct Uncounted {
    files: Arc<Files>,
    /// The epoch of the last checkpoint, and that of the process that wrote last. It made no checkpoint if they differ.
    epoch: u64,
    writer: u64,
    /// The version that the checkpoint covers.
    checkpointed: u64,
    /// Logs, and how much of each the checkpoint covers.
    logs: Vec<(u64, u64)>,
    /// Those of the logs that the checkpoint does not know.
    orphans: HashSet<u64>,
    /// What was buffered. The file's name goes before anybody counts.
    write_buffer: Option<Arc<dyn VfsFile>>,
}

impl Drop for Uncounted {
    fn drop(&mut self) {
        self.files.unpin();
    }
}

impl Uncounted {
    /// Of a store with this durable state, to which the process of epoch `writer` wrote last, before anything of it is changed.
    /// `strays`: the numbers and epochs of logs that the state does not name.
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
            tracing::debug!(%error, "what was buffered cannot be counted");
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

    /// True if a log that nothing refers to waits to be counted.
    pub fn has_orphan(&self, id: u64) -> bool {
        self.orphans.contains(&id)
    }

    /// All such logs.
    pub fn orphans(&self) -> impl Iterator<Item = PathBuf> {
        self.orphans.iter().map(|&id| self.files.path(FileKind::Log, id))
    }

    /// Counts; `None` if that is abandoned. Damage is no error: it may be what a loss of power left.
    fn count(&self, is_abandoned: &dyn Fn() -> bool) -> Option<LeftBehind> {
        let Files { vfs, dir, store, .. } = &*self.files;
        // What was buffered goes to its logs in memory.
        let overlay: Arc<dyn Vfs> = Arc::new(OverlayVfs::new(vfs.clone()));
        if let Some(write_buffer) = &self.write_buffer {
            let header_of = |file: &dyn VfsFile, path: &Path| FileHeader::read(file, path, FileKind::Log);
            let mut ignored =
                |error: Error| tracing::debug!(%error, "some of what was buffered cannot be counted");
            let named = (*store, self.writer);
            if let Err(error) =
                write_buffer::recover_open(&**write_buffer, &*overlay, dir, named, &header_of, &mut ignored)
            {
                tracing::debug!(%error, "what was buffered cannot be counted");
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
                    tracing::debug!(%error, "what is behind a log's recorded end cannot be counted")
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
        // What an earlier epoch left behind was left by an earlier opening.
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
        // Of what is too long to be read, as much as of what was.
        let factor = match until < end && until > recorded {
            true => (end - recorded) as f64 / (until - recorded) as f64,
            false => 1.0,
        };
        let (records, bytes) = ((f64::from(counted) * factor) as u64, (bytes as f64 * factor) as u64);
        Ok(LeftBehind { records, bytes })
    }
}

impl Store {
    /// Counts what this opening left behind, unless that was done or the store closes.
    pub(super) fn count_left_behind(&self) {
        let Some(uncounted) = self.uncounted.lock().take() else { return };
        let counted = uncounted.count(&|| self.substrate.health.is_closing());
        let Some(LeftBehind { records, bytes }) = counted else { return };
        *self.left_behind.lock() = counted;
        if records > 0 {
            tracing::warn!(path = %self.path.display(), records, bytes, "returned to the last checkpoint: nothing proves that all that was written since reached the disk, so it does not count");
        }
    }
}
