//! How much an opening leaves behind that returns to the last checkpoint.
//!
//! A process may have died on a machine that lost nothing, and yet nobody can tell: the volume was unmounted and mounted
//! again since, or its file system has no identity of a mount. Then what was written since the checkpoint does not count,
//! though it may be there, byte for byte. It is counted, so that whoever opens the store hears of it; `repair` reads the
//! same files.

use crate::chunk::log_record::LogRecord;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::log::RecordFile;
use crate::manifest::State;
use crate::substrate::stage;
use crate::sync::Arc;
use crate::vfs::{OpenMode, OverlayVfs, Vfs, VfsFile};
use std::path::Path;

/// Bytes of logs that an opening reads to count: a fraction of a second. What is behind is estimated by its length.
const READ_BYTES_MAX: u64 = 64 << 20;

/// Intact records of the last epoch that do not count, as no checkpoint covers them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LeftBehind {
    pub records: u64,
    /// What these records take in their logs, and in the stage.
    pub bytes: u64,
}

impl LeftBehind {
    /// Of a store with this durable state, before anything of it is changed. Damage is no error: it may be what a loss of
    /// power left.
    pub fn measure(reading: &Files, state: &State, listed: &[(FileKind, u64)]) -> Self {
        let overlay: Arc<dyn Vfs> = Arc::new(OverlayVfs::new(reading.vfs.clone()));
        let header_of = |file: &dyn VfsFile, path: &Path| FileHeader::read(file, path, FileKind::Log);
        let mut ignored = |error: Error| tracing::debug!(%error, "what was staged cannot be counted");
        let named = (reading.store, state.start.epoch);
        let dir = reading.path(FileKind::Log, 0);
        let dir = dir.parent().unwrap_or(Path::new(""));
        if let Err(error) = stage::recover(&*overlay, dir, named, &header_of, &mut ignored) {
            tracing::debug!(%error, "what was staged cannot be counted");
        }
        let mut found = Self::default();
        let mut read_bytes = 0;
        for &(_, id) in listed.iter().filter(|(kind, _)| *kind == FileKind::Log) {
            let recorded =
                state.segments.get(&id).map_or(HEADER_BYTES, |segment| segment.len.max(HEADER_BYTES));
            let path = reading.path(FileKind::Log, id);
            if let Err(error) = found.add_log(&*overlay, &path, (named, recorded), state, &mut read_bytes) {
                tracing::debug!(%error, "what is behind a log's recorded end cannot be counted");
            }
        }
        found
    }

    fn add_log(
        &mut self,
        vfs: &dyn Vfs,
        path: &Path,
        ((store, epoch), recorded): ((u128, u64), u64),
        state: &State,
        read_bytes: &mut u64,
    ) -> Result<()> {
        let end = vfs.metadata(path).map_err(|e| Error::io("measure", path, e))?.map_or(0, |found| found.len);
        if end <= recorded {
            return Ok(());
        }
        let file = vfs.open(path, OpenMode::Read).map_err(|e| Error::io("open", path, e))?;
        let header = FileHeader::read(&*file, path, FileKind::Log)?;
        // What an earlier epoch left behind was left by an earlier opening.
        if header.store != store || header.epoch != epoch {
            return Ok(());
        }
        let room = READ_BYTES_MAX.saturating_sub(*read_bytes);
        let until = end.min(recorded.saturating_add(room));
        *read_bytes += until.saturating_sub(recorded);
        let records = RecordFile { file, path: path.to_path_buf(), header };
        let mut scan = records.scan(recorded, until);
        let (mut counted, mut bytes) = (0_u32, 0);
        while let Some(record) = scan.next()? {
            if let Ok(LogRecord::Op(op)) = LogRecord::decode(record.payload, header.base_version)
                && op.version > state.checkpoint.version
            {
                counted += 1;
                bytes += record.len as u64;
            }
        }
        // Of what is too long to be read, as much as of what was.
        let factor = match until < end && until > recorded {
            true => (end - recorded) as f64 / (until - recorded) as f64,
            false => 1.0,
        };
        self.records += (f64::from(counted) * factor) as u64;
        self.bytes += (bytes as f64 * factor) as u64;
        Ok(())
    }
}
