//! A file that continues in another: the second contains the bytes written after the end of the
//! first.

use super::VfsFile;
use std::io;
use std::sync::Arc;

/// `first`, which does not change, and `rest` after it.
#[derive(Debug)]
pub(super) struct LongerFile {
    first: Arc<dyn VfsFile>,
    first_bytes: u64,
    rest: Arc<dyn VfsFile>,
}

impl LongerFile {
    pub(super) fn new(first: Arc<dyn VfsFile>, rest: Arc<dyn VfsFile>) -> io::Result<Self> {
        Ok(Self { first_bytes: first.len()?, first, rest })
    }

    /// The offset in the rest; fails for an offset in the first file, which cannot be changed here.
    fn in_rest(&self, offset: u64) -> io::Result<u64> {
        offset.checked_sub(self.first_bytes).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}

impl VfsFile for LongerFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let before = self.first_bytes.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (before, behind) = buffer.split_at_mut(before);
        let read = if before.is_empty() { 0 } else { self.first.read_at(before, offset)? };
        if read < before.len() || behind.is_empty() {
            return Ok(read);
        }
        Ok(read + self.rest.read_at(behind, offset.saturating_sub(self.first_bytes))?)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.rest.write_at(bytes, self.in_rest(offset)?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.rest.set_len(self.in_rest(len)?)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.rest.allocate(len.saturating_sub(self.first_bytes))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.first_bytes + self.rest.len()?)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    /// The rest is in memory.
    fn prefetch(&self, offset: u64, len: u64) {
        let before = self.first_bytes.saturating_sub(offset).min(len);
        if before > 0 {
            self.first.prefetch(offset, before);
        }
    }
}
