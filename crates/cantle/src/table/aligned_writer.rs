//! Writes a new file front to back, in aligned blocks of one length (LDS, as SifrDB §5.2 uses it).
//!
//! The space of a file whose length is known about can be allocated before it is written: then the file system chooses
//! its place once, and not for each piece that is written out. The rest of it is returned at the end of the file.
//!
//! *Direct* writes go past the operating system's page cache: what a merge writes drives nothing out of it. The last
//! block is not full, and goes through the page cache. A file system that refuses direct writes is told so once
//! ([`is_direct_refused`](AlignedWriter::is_direct_refused)); the bytes are written the other way.

use crate::sync::Arc;
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{DIRECT_BYTES, VfsFile};
use std::io;
use std::path::{Path, PathBuf};

/// Length in bytes of a block, so that each system call moves enough to be cheap.
const BLOCK_BYTES: usize = 256 << 10;
const _: () = assert!(BLOCK_BYTES.is_multiple_of(DIRECT_BYTES));
/// Bytes after each of which the kernel is asked to begin writing out, so that the sync at the end
/// has little left to wait for, and the device gets large pieces.
const WRITE_BACK_BYTES: u64 = 1 << 20;
/// Length of a page: only full pages are written out early, since a partial one would be written
/// twice.
const PAGE_BYTES: u64 = 4096;

/// The way in which bytes get into a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Storing {
    /// Bytes that are allocated before the first one is written. 0 allocates none.
    pub(crate) allocated_bytes: u64,
    /// True for writes past the page cache.
    pub(crate) is_direct: bool,
}

/// Collects small writes to one file.
pub(super) struct AlignedWriter {
    file: Arc<dyn VfsFile>,
    path: PathBuf,
    /// The present block, from `start` on, which is aligned in memory for direct writes. It never grows.
    buffer: Vec<u8>,
    start: usize,
    flushed_bytes: u64,
    /// Bytes of the file that the kernel was asked to write out so far.
    begun_bytes: u64,
    allocated_bytes: u64,
    /// True while writes go past the page cache.
    is_direct: bool,
    is_direct_refused: bool,
    direct_bytes: u64,
}

/// True for the error of a file system that has no direct writes of this kind.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

impl AlignedWriter {
    /// For an empty file, which `path` names in errors.
    pub(super) fn new(file: Arc<dyn VfsFile>, path: PathBuf, storing: Storing) -> Result<Self> {
        let failed = |source| Error::io(Attempt::Write, &path, source);
        let mut buffer: Vec<u8> = Vec::with_capacity(BLOCK_BYTES + DIRECT_BYTES);
        let start =
            if storing.is_direct { buffer.as_ptr().align_offset(DIRECT_BYTES).min(DIRECT_BYTES) } else { 0 };
        buffer.resize(start, 0);
        let mut allocated_bytes = storing.allocated_bytes;
        if allocated_bytes > 0 && file.allocate(allocated_bytes).is_err() {
            // The writes find their space themselves, or tell that there is none. A part may have been allocated.
            file.set_len(0).map_err(failed)?;
            allocated_bytes = 0;
        }
        let is_direct = storing.is_direct && file.set_direct(true).is_ok();
        Ok(Self {
            file,
            path,
            buffer,
            start,
            flushed_bytes: 0,
            begun_bytes: 0,
            allocated_bytes,
            is_direct,
            is_direct_refused: storing.is_direct && !is_direct,
            direct_bytes: 0,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Offset in the file of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.flushed_bytes + self.block_bytes() as u64
    }

    /// Bytes for which the file has space.
    pub(super) fn occupied_bytes(&self) -> u64 {
        self.flushed_bytes.max(self.allocated_bytes)
    }

    /// True if space was allocated before the first write.
    pub(super) fn is_allocated(&self) -> bool {
        self.allocated_bytes > 0
    }

    /// Bytes that were written past the page cache.
    pub(super) fn direct_bytes(&self) -> u64 {
        self.direct_bytes
    }

    /// True if the file system has refused direct writes.
    pub(super) fn is_direct_refused(&self) -> bool {
        self.is_direct_refused
    }

    fn block_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    pub(super) fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while self.block_bytes() + bytes.len() >= BLOCK_BYTES {
            let (first, rest) = bytes.split_at(BLOCK_BYTES - self.block_bytes());
            self.buffer.extend_from_slice(first);
            self.flush()?;
            bytes = rest;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the last block, and returns the space that was allocated beyond it.
    pub(super) fn end(&mut self) -> Result<()> {
        if self.is_direct {
            self.is_direct = false;
            self.file.set_direct(false).map_err(|source| self.failed(source))?;
        }
        self.flush()?;
        canary!(ALLOCATION_LEFT => return Ok(()));
        if self.allocated_bytes > self.flushed_bytes {
            self.file.set_len(self.flushed_bytes).map_err(|source| self.failed(source))?;
        }
        Ok(())
    }

    /// Makes the bytes durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|source| Error::sync_unreferenced(&self.path, source))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::io(Attempt::Write, &self.path, source)
    }

    fn flush(&mut self) -> Result<()> {
        let block = &self.buffer[self.start..];
        if block.is_empty() {
            return Ok(());
        }
        let mut written = self.file.write_at(block, self.flushed_bytes);
        if self.is_direct && written.as_ref().is_err_and(is_refusal) {
            // A later block that was written in part, as the file system is full, goes on without alignment.
            self.is_direct_refused = self.direct_bytes == 0;
            self.is_direct = false;
            self.file.set_direct(false).map_err(|source| self.failed(source))?;
            written = self.file.write_at(block, self.flushed_bytes);
        }
        written.map_err(|source| self.failed(source))?;
        let bytes = block.len() as u64;
        self.flushed_bytes += bytes;
        self.buffer.truncate(self.start);
        if self.is_direct {
            self.direct_bytes += bytes;
            self.begun_bytes = self.flushed_bytes;
        }
        let full_bytes = self.flushed_bytes - self.flushed_bytes % PAGE_BYTES;
        if full_bytes - self.begun_bytes >= WRITE_BACK_BYTES { self.begin_to(full_bytes) } else { Ok(()) }
    }

    /// Asks the kernel to begin writing out all bytes, so that a later sync has little left to wait for.
    pub(super) fn start_writeback(&mut self) -> Result<()> {
        if self.begun_bytes < self.flushed_bytes { self.begin_to(self.flushed_bytes) } else { Ok(()) }
    }

    fn begin_to(&mut self, end: u64) -> Result<()> {
        // A failure counts as a failed sync: the pages may be lost, and no later sync would
        // report it.
        let begun = self.file.start_writeback(self.begun_bytes, end - self.begun_bytes);
        begun.map_err(|source| Error::sync_unreferenced(&self.path, source))?;
        self.begun_bytes = end;
        Ok(())
    }

    pub(super) fn file(&self) -> &Arc<dyn VfsFile> {
        &self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Mutex;
    use crate::vfs::{Failure, FaultVfs, MemVfs, OpenMode, Operation, StdVfs, Verdict, Vfs};

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|number| (number / 7) as u8).collect()
    }

    /// Writes a file in pieces of different lengths.
    fn write(vfs: &dyn Vfs, path: &Path, all: &[u8], storing: Storing) -> Result<AlignedWriter> {
        let file = vfs.open(path, OpenMode::CreateNew).unwrap();
        let mut writer = AlignedWriter::new(file, path.to_path_buf(), storing)?;
        let (mut rest, mut len) = (all, 1);
        while !rest.is_empty() {
            let (piece, others) = rest.split_at(rest.len().min(len));
            writer.append(piece)?;
            (rest, len) = (others, len * 3);
        }
        assert_eq!(writer.position(), all.len() as u64);
        writer.end()?;
        writer.sync()?;
        Ok(writer)
    }

    fn read(vfs: &dyn Vfs, path: &Path) -> Vec<u8> {
        let file = vfs.open(path, OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    const LENGTHS: [usize; 7] =
        [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 4 * BLOCK_BYTES, 5 * BLOCK_BYTES - 4095];

    #[test]
    fn every_way_gives_the_same_file() {
        let dir = tempfile::tempdir().unwrap();
        let ways = [(0, false), (1 << 20, false), (0, true), (1 << 20, true), (300_000, true)];
        for (number, (len, (allocated_bytes, is_direct))) in
            LENGTHS.into_iter().flat_map(|len| ways.map(|way| (len, way))).enumerate()
        {
            let (all, storing) = (bytes(len), Storing { allocated_bytes, is_direct });
            let in_memory = PathBuf::from(number.to_string());
            let (memory, on_disk) = (MemVfs::new(), dir.path().join(&in_memory));
            for (vfs, path) in [(&memory as &dyn Vfs, &in_memory), (&StdVfs, &on_disk)] {
                let writer = write(vfs, path, &all, storing).unwrap();
                assert!(read(vfs, path) == all, "{len} bytes, {storing:?}");
                let direct = if writer.is_direct_refused() { 0 } else { len - len % BLOCK_BYTES };
                assert_eq!(writer.direct_bytes(), if is_direct { direct as u64 } else { 0 });
            }
            assert_eq!(memory.allocated_bytes(), (len as u64).next_multiple_of(4096));
            let occupied_bytes = rustix::fs::stat(&on_disk).unwrap().st_blocks as u64 * 512;
            assert!(occupied_bytes <= len as u64 + (64 << 10), "{len} bytes take {occupied_bytes}");
        }
    }

    #[test]
    fn blocks_have_one_length_and_are_allocated_before() {
        let vfs = FaultVfs::new(Arc::new(MemVfs::new()));
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = calls.clone();
        vfs.set_rule(move |call| {
            seen.lock().push((call.operation, call.offset, call.len));
            Verdict::Pass
        });
        let storing = Storing { allocated_bytes: 1 << 20, is_direct: true };
        write(&vfs, Path::new("1"), &bytes(2 * BLOCK_BYTES + 5), storing).unwrap();
        let block = BLOCK_BYTES as u64;
        let expected = [
            (Operation::Allocate, 0, 1 << 20),
            (Operation::SetDirect, 0, 1),
            (Operation::WriteAt, 0, block),
            (Operation::WriteAt, block, block),
            (Operation::SetDirect, 0, 0),
            (Operation::WriteAt, 2 * block, 5),
            (Operation::SetLen, 0, 2 * block + 5),
            (Operation::SyncData, 0, 0),
        ];
        let calls = calls.lock();
        assert_eq!(calls[calls.len() - expected.len()..], expected);
    }

    #[test]
    fn what_a_file_system_refuses_is_done_the_other_way() {
        for (operation, number) in [
            (Operation::Allocate, 0),
            (Operation::SetDirect, 0),
            (Operation::WriteAt, 0),
            (Operation::WriteAt, 1),
        ] {
            let vfs = FaultVfs::new(Arc::new(MemVfs::new()));
            let count = Mutex::new(0);
            vfs.set_rule(move |call| {
                let mut count = count.lock();
                *count += usize::from(call.operation == operation);
                let fails = call.operation == operation && *count == number + 1;
                // A part that was allocated is returned.
                let verdict =
                    if operation == Operation::Allocate { Verdict::FailDone } else { Verdict::Fail };
                if fails { verdict(Failure::Kind(io::ErrorKind::InvalidInput)) } else { Verdict::Pass }
            });
            let all = bytes(3 * BLOCK_BYTES);
            let storing = Storing { allocated_bytes: 1 << 20, is_direct: true };
            let writer = write(&vfs, Path::new("1"), &all, storing).unwrap();
            assert!(read(&vfs, Path::new("1")) == all);
            let is_refused =
                operation == Operation::SetDirect || (operation, number) == (Operation::WriteAt, 0);
            assert_eq!(writer.is_direct_refused(), is_refused, "{operation:?}");
            let direct = match operation {
                Operation::Allocate => 3,
                Operation::WriteAt => number,
                _ => 0,
            };
            assert_eq!(writer.direct_bytes(), (direct * BLOCK_BYTES) as u64);
        }
    }

    #[test]
    fn a_full_file_system_is_an_error_in_every_way() {
        let storing = [(0, false), (1 << 20, false), (1 << 20, true)];
        for (allocated_bytes, is_direct) in storing {
            let vfs = MemVfs::new();
            vfs.set_capacity_bytes(Some(100 << 12));
            let written =
                write(&vfs, Path::new("1"), &bytes(1 << 20), Storing { allocated_bytes, is_direct });
            assert!(written.is_err_and(|error| error.is_no_space()));
        }
    }
}
