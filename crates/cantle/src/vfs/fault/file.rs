//! Files of a file system that fails on purpose.

use super::Shared;
use super::rule::{Operation, Verdict};
use crate::sync::Arc;
use crate::vfs::{Backing, MappedPiece, MemFile, Reminder, VfsFile};
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A file whose calls a rule sees.
pub(super) struct FaultFile {
    pub shared: Arc<Shared>,
    pub path: PathBuf,
    pub inner: Arc<dyn VfsFile>,
    pub memory: Option<Arc<MemFile>>,
}

impl FaultFile {
    fn run<T>(
        &self,
        operation: Operation,
        (offset, len): (u64, u64),
        call: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.shared.run((operation, &self.path, offset, len), call)
    }

    /// A call that makes bytes durable, or begins to.
    fn sync(&self, verdict: Verdict, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match verdict {
            Verdict::Pass => call(),
            Verdict::FailDone(failure) => call().and(Err(failure.error())),
            Verdict::FailLost(failure) => {
                if let Some(memory) = &self.memory {
                    memory.lose_unsynced();
                }
                Err(failure.error())
            }
            Verdict::Fail(failure) | Verdict::ShortWrite { failure, .. } => Err(failure.error()),
        }
    }
}

impl VfsFile for FaultFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let range = (offset, buffer.len() as u64);
        self.run(Operation::ReadAt, range, || self.inner.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.shared.judge(Operation::WriteAt, &self.path, offset, bytes.len() as u64) {
            Verdict::Pass => self.inner.write_at(bytes, offset),
            Verdict::FailDone(failure) => self.inner.write_at(bytes, offset).and(Err(failure.error())),
            Verdict::ShortWrite { bytes: stored, failure } => {
                let prefix = &bytes[..stored.min(bytes.len())];
                self.inner.write_at(prefix, offset).and(Err(failure.error()))
            }
            Verdict::Fail(failure) | Verdict::FailLost(failure) => Err(failure.error()),
        }
    }

    fn set_direct(&self, is_direct: bool) -> io::Result<()> {
        self.run(Operation::SetDirect, (0, is_direct.into()), || self.inner.set_direct(is_direct))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.run(Operation::SetLen, (0, len), || self.inner.set_len(len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.run(Operation::Allocate, (0, len), || self.inner.allocate(len))
    }

    fn len(&self) -> io::Result<u64> {
        self.run(Operation::Len, (0, 0), || self.inner.len())
    }

    fn prefetch(&self, offset: u64, len: u64) {
        if self.shared.judge(Operation::Prefetch, &self.path, offset, len) == Verdict::Pass {
            self.inner.prefetch(offset, len);
        }
    }

    /// Unlike on the operating system, no later sync reports a failure of this call: a caller that
    /// ignores the error loses data.
    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        let start = || self.inner.start_writeback(offset, len);
        let verdict = self.shared.judge(Operation::StartWriteback, &self.path, offset, len);
        self.sync(verdict, start)
    }

    fn sync_data(&self) -> io::Result<()> {
        let verdict = self.shared.judge(Operation::SyncData, &self.path, 0, 0);
        self.sync(verdict, || self.inner.sync_data())
    }

    fn remember(&self) -> io::Result<Reminder> {
        self.run(Operation::Remember, (0, 0), || self.inner.remember())
    }

    fn map(&self, offset: u64, piece_bytes: usize, count: usize) -> io::Result<Vec<Box<dyn MappedPiece>>> {
        let range = (offset, (piece_bytes * count) as u64);
        let pieces = self.run(Operation::Map, range, || self.inner.map(offset, piece_bytes, count))?;
        let wrap = |(index, inner)| {
            let (shared, path) = (Arc::clone(&self.shared), self.path.clone());
            let offset = offset + (index * piece_bytes) as u64;
            Box::new(FaultPiece { shared, path, offset, inner }) as Box<dyn MappedPiece>
        };
        Ok(pieces.into_iter().enumerate().map(wrap).collect())
    }
}

/// A mapped piece whose stores a rule sees.
struct FaultPiece {
    shared: Arc<Shared>,
    path: PathBuf,
    offset: u64,
    inner: Box<dyn MappedPiece>,
}

impl FaultPiece {
    fn tell(&self, at: usize, len: usize) {
        self.shared.judge(Operation::Store, &self.path, self.offset + at as u64, len as u64);
    }
}

impl MappedPiece for FaultPiece {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.tell(at, bytes.len());
        self.inner.write(at, bytes);
    }

    fn set_word(&mut self, at: usize, word: u64) {
        self.tell(at, 8);
        self.inner.set_word(at, word);
    }

    fn read(&self, at: usize, len: usize) -> Cow<'_, [u8]> {
        self.inner.read(at, len)
    }

    fn backing(&self) -> Backing {
        self.inner.backing()
    }
}

impl fmt::Debug for FaultPiece {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FaultPiece").field("path", &self.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for FaultFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FaultFile").field("path", &self.path).finish_non_exhaustive()
    }
}
