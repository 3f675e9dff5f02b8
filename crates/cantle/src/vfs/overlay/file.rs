//! Files of an overlay: read in place, and copied into memory when they are first written.

use super::OverlayVfs;
use crate::sync::{Arc, RwLock};
use crate::vfs::VfsFile;
use crate::vfs::longer::LongerFile;
use std::io;

/// Bytes copied at a time when a file is first written.
const COPY_BYTES: usize = 1 << 20;

/// A file, independent of its names.
#[derive(Debug)]
pub(super) struct Node {
    pub source: RwLock<Source>,
}

/// The place of a file's content.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Lower(Arc<dyn VfsFile>),
    /// The lower file, and the bytes written after its end.
    Longer(Arc<dyn VfsFile>),
    Upper(Arc<dyn VfsFile>),
}

impl Source {
    pub fn file(&self) -> &Arc<dyn VfsFile> {
        match self {
            Self::Lower(file) | Self::Longer(file) | Self::Upper(file) => file,
        }
    }
}

/// An open file.
#[derive(Debug)]
pub(super) struct OverlayFile {
    pub overlay: OverlayVfs,
    pub node: Arc<Node>,
    pub writable: bool,
}

impl OverlayFile {
    /// The file to write to, in memory from the first write on. `kept_bytes` of its content are
    /// needed.
    fn writable(&self, kept_bytes: u64) -> io::Result<Arc<dyn VfsFile>> {
        if !self.writable {
            return Err(rustix::io::Errno::BADF.into());
        }
        if let Source::Upper(file) = &*self.node.source.read() {
            return Ok(Arc::clone(file));
        }
        let state = &mut *self.overlay.state.lock();
        let source = &mut *self.node.source.write();
        let lower = match source {
            Source::Upper(file) => return Ok(Arc::clone(file)),
            Source::Lower(file) | Source::Longer(file) => Arc::clone(file),
        };
        let upper = self.overlay.create_upper(state)?;
        let len = lower.len()?.min(kept_bytes);
        let mut buffer = vec![0; len.min(COPY_BYTES as u64) as usize];
        let mut offset = 0;
        while offset < len {
            let wanted = (len - offset).min(buffer.len() as u64) as usize;
            lower.read_exact_at(&mut buffer[..wanted], offset)?;
            upper.write_at(&buffer[..wanted], offset)?;
            offset += wanted as u64;
        }
        *source = Source::Upper(Arc::clone(&upper));
        Ok(upper)
    }

    /// The file to append to; the existing content stays in place. `None` if `offset` lies before
    /// its end.
    fn appendable(&self, offset: u64) -> io::Result<Option<Arc<dyn VfsFile>>> {
        if !self.writable {
            return Ok(None);
        }
        let state = &mut *self.overlay.state.lock();
        let source = &mut *self.node.source.write();
        let lower = match source {
            Source::Longer(file) => return Ok((offset >= file.len()?).then(|| Arc::clone(file))),
            Source::Lower(file) if offset >= file.len()? => Arc::clone(file),
            _ => return Ok(None),
        };
        let longer = Arc::new(LongerFile::new(lower, self.overlay.create_upper(state)?)?);
        *source = Source::Longer(longer.clone());
        Ok(Some(longer))
    }
}

impl VfsFile for OverlayFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let source = self.node.source.read().clone();
        source.file().read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.appendable(offset)? {
            Some(file) => file.write_at(bytes, offset),
            None => self.writable(u64::MAX)?.write_at(bytes, offset),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.writable(len)?.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.writable(u64::MAX)?.allocate(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.node.source.read().file().len()
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn prefetch(&self, offset: u64, len: u64) {
        let source = self.node.source.read().clone();
        source.file().prefetch(offset, len);
    }
}
