//! A log with a lost stretch, after which the records buffered for it follow.

use super::area::AreaFile;
use crate::format::header::HEADER_BYTES;
use crate::sync::Arc;
use crate::vfs::VfsFile;
use bytes::Bytes;
use std::io;
use std::ops::Range;

/// The rest of the log's file, and the buffered records at their place; nothing in between is read.
#[derive(Debug)]
pub(super) struct TornLog {
    there: Option<Arc<dyn VfsFile>>,
    there_bytes: u64,
    base: u64,
    buffered: Bytes,
}

impl TornLog {
    /// The log, and its lost stretch; `None` if nothing is left of either.
    pub fn join(there: Option<Arc<dyn VfsFile>>, file: &AreaFile) -> Option<(Arc<dyn VfsFile>, Range<u64>)> {
        let Some(fragment) = &file.buffered else { return Some((there?, 0..0)) };
        let gap = file.bytes.max(HEADER_BYTES)..fragment.base;
        let (base, buffered) = (fragment.base, fragment.bytes.clone());
        Some((Arc::new(Self { there, there_bytes: file.bytes, base, buffered }), gap))
    }
}

impl VfsFile for TornLog {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(there) = self.there.as_ref().filter(|_| offset < self.there_bytes) {
            let bytes = buffer.len().min((self.there_bytes - offset) as usize);
            return there.read_at(&mut buffer[..bytes], offset);
        }
        let Some(at) = offset.checked_sub(self.base) else { return Ok(0) };
        let buffered = usize::try_from(at).ok().and_then(|at| self.buffered.get(at..)).unwrap_or_default();
        let bytes = buffer.len().min(buffered.len());
        buffer[..bytes].copy_from_slice(&buffered[..bytes]);
        Ok(bytes)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.base + self.buffered.len() as u64)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::survey::LogFragment;
    use super::*;
    use crate::format::documented::example_header;
    use crate::format::header::FileKind;
    use crate::log::salvage::{Extent, LogFound, salvage_log};
    use crate::records::{RecordFile, encode_record};
    use crate::types::entry::Kind;
    use crate::types::span::Span;
    use crate::vfs::{MemVfs, OpenMode, Vfs};
    use std::path::Path;

    /// A put of this key, as a log contains it at `offset`.
    fn put(offset: u64, key: &[u8]) -> Vec<u8> {
        let header = example_header(FileKind::Log, 3, 8, 0);
        let mut bytes = Vec::new();
        // The version counts from the header's.
        let payload = [&[Kind::Put as u8, 1, 0, 0, 0, 0, key.len() as u8][..], key, b"value"].concat();
        encode_record(&header, offset, (0, payload.len()), &mut bytes, |out| out.extend_from_slice(&payload));
        bytes
    }

    /// This test would not end if the stretch were searched.
    #[test]
    fn a_stretch_of_any_length_costs_nothing() {
        let header = example_header(FileKind::Log, 3, 8, 0);
        let path = Path::new("log");
        let file = MemVfs::new().open(path, OpenMode::CreateNew).unwrap();
        let there = [&header.encode()[..], &put(HEADER_BYTES, b"first"), b"torn"].concat();
        file.write_at(&there, 0).unwrap();
        for (there, bytes) in [(Some(file), there.len() as u64), (None, 0)] {
            let is_there = there.is_some();
            let base = 1 << 60;
            let buffered = Some(LogFragment { header, base, bytes: put(base, b"buffered").into() });
            let (span, extent) = (Span::default(), Extent::OpenEnded { durable: 64, gapless: true });
            let standing = Default::default();
            let log = AreaFile { header, path: path.into(), bytes, span, extent, buffered, standing };
            let (file, gap) = TornLog::join(there, &log).unwrap();
            let records = RecordFile { file, path: path.into(), header };
            let (mut keys, mut damages) = (Vec::new(), 0);
            salvage_log(&records, extent, gap, &mut |found| {
                match found {
                    LogFound::Op { key, .. } => keys.push(key.to_vec()),
                    LogFound::RangeDelete { .. } | LogFound::Lost { .. } => unreachable!(),
                    LogFound::Damage(_) => damages += 1,
                }
                Ok(true)
            })
            .unwrap();
            let expected: &[&[u8]] = if is_there { &[b"first", b"buffered"] } else { &[b"buffered"] };
            assert!(keys == expected && damages == 1, "{keys:?}, {damages} damages");
        }
    }
}
