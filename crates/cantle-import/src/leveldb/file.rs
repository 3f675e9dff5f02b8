//! A file of the source: opened for reading, read by offset, never written.

use crate::error::{Error, Result};
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file, opened for reading, and its length; none if there is none. A path that is no file is
/// refused: opening a FIFO waits for whoever writes to it.
pub(crate) fn open_file(path: &Path) -> Result<Option<(File, u64)>> {
    let no_wait = OFlags::NONBLOCK.bits() as i32;
    let file = match File::options().read(true).custom_flags(no_wait).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| Error::io("open", path, error))?,
    };
    let metadata = file.metadata().map_err(|error| Error::io("look at", path, error))?;
    if !metadata.is_file() {
        let what = io::Error::new(io::ErrorKind::InvalidInput, "it is not a file");
        return Err(Error::io("read", path, what));
    }
    Ok(Some((file, metadata.len())))
}

/// The place of the bytes.
#[derive(Debug)]
enum Bytes {
    File(File),
    /// In a file that is opened for each read.
    Closed,
    /// Bytes of tests and of the fuzzer.
    Memory(Vec<u8>),
}

#[derive(Debug)]
pub(crate) struct SourceFile {
    pub path: PathBuf,
    bytes: Bytes,
    pub length: u64,
}

impl SourceFile {
    /// None if there is no such file.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let Some((file, length)) = open_file(path)? else { return Ok(None) };
        Ok(Some(Self { path: path.to_path_buf(), bytes: Bytes::File(file), length }))
    }

    /// Closes the file while it is not read.
    pub fn close(&mut self) {
        if let Bytes::File(_) = self.bytes {
            self.bytes = Bytes::Closed;
        }
    }

    pub fn in_memory(name: &str, bytes: Vec<u8>) -> Self {
        Self { path: PathBuf::from(name), length: bytes.len() as u64, bytes: Bytes::Memory(bytes) }
    }

    /// Fills `buffer` from `offset`, or as much of it as there is; returns how much.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        if let Bytes::Closed = self.bytes {
            let gone = || Error::io("open", &self.path, io::ErrorKind::NotFound.into());
            let (file, length) = open_file(&self.path)?.ok_or_else(gone)?;
            let opened = Self { path: self.path.clone(), bytes: Bytes::File(file), length };
            return opened.read_at(buffer, offset);
        }
        let mut filled = 0;
        while filled < buffer.len() {
            let (rest, at) = (&mut buffer[filled..], offset + filled as u64);
            let read = match &self.bytes {
                Bytes::File(file) => file.read_at(rest, at),
                Bytes::Closed => Ok(0),
                Bytes::Memory(bytes) => {
                    let from = bytes.get(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or_default();
                    let count = from.len().min(rest.len());
                    rest[..count].copy_from_slice(&from[..count]);
                    Ok(count)
                }
            };
            match read {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("read", &self.path, error)),
            }
        }
        Ok(filled)
    }
}
