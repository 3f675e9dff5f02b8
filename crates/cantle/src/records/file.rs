//! A file of records: reading one at a known offset, and finding the intact ones.

use super::frame::{Framed, parse};
use super::scan::{SCAN_BYTES, Scan};
use super::search::{HEADED_BYTES_MAX, MayBegin, find_head};
use crate::format::header::{FileHeader, HEADER_BYTES};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::VfsFile;
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const BODY_DAMAGED: &str = "a record is damaged: the checksum of its body does not match";

/// Checks the record of `len` bytes that stands at `offset` and cuts out its payload.
pub fn record_payload(
    header: &FileHeader,
    path: &Path,
    offset: u64,
    bytes: Bytes,
    len: usize,
) -> Result<Bytes> {
    match parse(header, offset, &bytes) {
        Framed::Record { skip, total } if total == len => Ok(bytes.slice(skip..total)),
        Framed::Record { .. } => {
            Err(Error::corruption(path, offset, "a record has another length than its index says"))
        }
        Framed::Head { complete: true, .. } => Err(Error::corruption(path, offset, BODY_DAMAGED)),
        Framed::Short(_) | Framed::Head { .. } => {
            Err(Error::corruption(path, offset, "a record is cut short"))
        }
        Framed::Bad(what) => Err(Error::corruption(path, offset, format!("a record is damaged: {what}"))),
    }
}

/// The intact head of the record at the beginning of `bytes`, which stands at `offset` and is there
/// to its end, and the length of the record. Its body is not checked.
pub fn record_head<'a>(
    header: &FileHeader,
    path: &Path,
    offset: u64,
    bytes: &'a [u8],
) -> Result<(&'a [u8], usize)> {
    let framed = parse(header, offset, bytes);
    let whole = framed.head(bytes).filter(|(_, total)| *total <= bytes.len());
    whole.ok_or_else(|| {
        Error::corruption(
            path,
            offset,
            match framed {
                Framed::Bad(what) => format!("a record is damaged: {what}"),
                _ => "a record is cut short".into(),
            },
        )
    })
}

/// A file of records, open for reading.
#[derive(Clone, Debug)]
pub struct RecordFile {
    pub file: Arc<dyn VfsFile>,
    pub path: PathBuf,
    pub header: FileHeader,
}

impl RecordFile {
    /// The payload of the record of `len` bytes at `offset`, which is known to be there.
    pub fn read(&self, offset: u64, len: usize) -> Result<Bytes> {
        record_payload(&self.header, &self.path, offset, self.read_bytes(offset, len)?, len)
    }

    /// The `len` bytes from `offset` on, or fewer at the end of the file.
    pub fn read_bytes(&self, offset: u64, len: usize) -> Result<Bytes> {
        let mut bytes = vec![0; len];
        let read =
            self.file.read_at(&mut bytes, offset).map_err(|e| Error::io(Attempt::Read, &self.path, e))?;
        Ok(Bytes::from(bytes).slice(..read))
    }

    /// Scans records from `from` up to `end`.
    pub fn scan(&self, from: u64, end: u64) -> Scan<'_> {
        Scan {
            records: self,
            offset: from.max(HEADER_BYTES),
            end,
            buffer: Vec::new(),
            buffer_offset: 0,
            skip: 0,
        }
    }

    /// The intact beginning of the record at `offset`, if at least its head is intact.
    pub fn head_at(&self, offset: u64, end: u64) -> Result<Option<Head>> {
        let mut bytes = vec![
            0;
            usize::try_from(end.saturating_sub(offset))
                .map_or(HEADED_BYTES_MAX, |left| left.min(HEADED_BYTES_MAX))
        ];
        let read =
            self.file.read_at(&mut bytes, offset).map_err(|e| Error::io(Attempt::Read, &self.path, e))?;
        let framed = parse(&self.header, offset, &bytes[..read]);
        Ok(framed.head(&bytes).map(|(head, total)| Head { payload: head.to_vec(), total: total as u64 }))
    }

    /// The first place in `from..end` with the head of a record that `is` accepts. Such a place
    /// proves that records were written there: the bytes before it are damage and not the torn end
    /// of the file. Reads the file in steps, so the distance is not limited. `is` gets the head, or
    /// all of a short payload.
    pub fn head_after(
        &self,
        from: u64,
        end: u64,
        may_begin: MayBegin,
        mut is: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<u64>> {
        canary!(LOOK_AHEAD_SHORT => let end = end.min(from.saturating_add(64 << 10)));
        let (mut at, mut bytes) = (from.max(HEADER_BYTES), Vec::new());
        while at < end {
            let wanted = (SCAN_BYTES + HEADED_BYTES_MAX).min(usize::try_from(end - at).unwrap_or(usize::MAX));
            bytes.resize(wanted, 0);
            let read =
                self.file.read_at(&mut bytes, at).map_err(|e| Error::io(Attempt::Read, &self.path, e))?;
            bytes.truncate(read);
            let is_last = read < wanted || at + read as u64 == end;
            let limit = if is_last { read } else { SCAN_BYTES };
            let mut start = 0;
            while let Some((found, framed)) = find_head(&self.header, at, &bytes, (start, limit), may_begin) {
                if framed.head(&bytes[found..]).is_some_and(|(head, _)| is(head)) {
                    return Ok(Some(at + found as u64));
                }
                start = found + 1;
            }
            if is_last {
                break;
            }
            at += SCAN_BYTES as u64;
        }
        Ok(None)
    }
}

/// The intact beginning of a record.
pub struct Head {
    /// The first bytes of the payload, or all of it.
    pub payload: Vec<u8>,
    /// Bytes of the whole record, which may go beyond the end of the file.
    pub total: u64,
}
