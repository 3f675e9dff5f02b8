//! Reading journals back.

use super::file::OldJournal;
use super::record::JournalRecord;
use crate::files::Files;
use crate::format::header::{FileHeader, FileKind};
use crate::records::RecordFile;
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::OpenMode;

/// Reads the journal files `ids` in their order. The first bad record of a file ends it, unless a
/// later record proves that the bad one was durable once: this is corruption. If the page cache
/// `outlived` the process of an epoch, any later record proves it in the files of that epoch.
pub fn read_journals(
    files: &Files,
    mut ids: Vec<u64>,
    outlived: Option<u64>,
) -> Result<(Vec<OldJournal>, Vec<JournalRecord>)> {
    ids.sort_unstable();
    let mut old = Vec::new();
    let mut all = Vec::new();
    for id in ids {
        let path = files.path(FileKind::Journal, id);
        let file = files.vfs.open(&path, OpenMode::Read).map_err(|e| Error::io(Attempt::Open, &path, e))?;
        let file_bytes = file.len().map_err(|e| Error::io(Attempt::Measure, &path, e))?;
        let header = FileHeader::read(&*file, &path, FileKind::Journal)?;
        if header.store != files.store || header.file != id {
            return Err(Error::corruption(
                &path,
                16,
                "the file belongs to another store or has another's name",
            ));
        }
        let outlived = outlived == Some(header.epoch);
        let records = RecordFile { file, path: path.clone(), header };
        let mut scan = records.scan(0, file_bytes);
        let (mut max_version, mut max_batch) = (0, 0);
        loop {
            let offset = scan.offset();
            match scan.next() {
                Ok(Some(record)) => {
                    let record = JournalRecord::decode(record.payload).map_err(|what| {
                        Error::corruption(&path, offset, format!("a journal record {}", what.0))
                    })?;
                    max_version = max_version.max(record.version());
                    max_batch = max_batch.max(record.batch());
                    all.push(record);
                }
                Ok(None) => break,
                Err(error) if error.is_corruption() => {
                    let was_durable = |head: &[u8]| {
                        outlived || JournalRecord::durable_bytes(head).is_some_and(|bytes| bytes > offset)
                    };
                    let may_begin = JournalRecord::may_begin;
                    if records.head_after(offset + 1, file_bytes, may_begin, was_durable)?.is_some() {
                        return Err(error);
                    }
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        old.push(OldJournal { id, path, max_version, max_batch: 0 });
    }
    Ok((old, all))
}
