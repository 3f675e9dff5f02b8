//! Runs: entries in the order of tables, in memory or in a file without a name, which is gone with
//! the process.

use super::entry::Entry;
use crate::error::{Error, Result};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 32 << 10;

/// Sorted entries.
#[derive(Debug)]
pub(crate) enum Run {
    Memory(std::vec::IntoIter<Entry>),
    File { scratch: PathBuf, file: BufReader<File> },
}

impl Run {
    /// Writes entries, which are in order, to a file in directory `scratch`.
    pub fn write(scratch: &Path, entries: impl Iterator<Item = Result<Entry>>) -> Result<Self> {
        let failed = |error| Error::io("write a sorted part of the logs to", scratch, error);
        let file = tempfile::tempfile_in(scratch).map_err(failed)?;
        let mut run = BufWriter::with_capacity(BUFFER_BYTES, file);
        for entry in entries {
            write_entry(&mut run, &entry?).map_err(failed)?;
        }
        let mut file = run.into_inner().map_err(|error| failed(error.into_error()))?;
        file.rewind().map_err(failed)?;
        Ok(Self::File { scratch: scratch.to_path_buf(), file: BufReader::with_capacity(BUFFER_BYTES, file) })
    }

    pub fn next(&mut self) -> Result<Option<Entry>> {
        match self {
            Self::Memory(entries) => Ok(entries.next()),
            Self::File { scratch, file } => read_entry(file)
                .map_err(|error| Error::io("read a sorted part of the logs in", &*scratch, error)),
        }
    }
}

fn write_entry(run: &mut impl Write, Entry { key, sequence, value }: &Entry) -> io::Result<()> {
    run.write_all(&(key.len() as u64).to_le_bytes())?;
    run.write_all(&value.as_ref().map_or(u64::MAX, |value| value.len() as u64).to_le_bytes())?;
    run.write_all(&sequence.to_le_bytes())?;
    run.write_all(key)?;
    run.write_all(value.as_deref().unwrap_or_default())
}

fn read_entry(file: &mut impl Read) -> io::Result<Option<Entry>> {
    let mut header = [[0; 8]; 3];
    match file.read_exact(&mut header[0][..1]) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    file.read_exact(&mut header[0][1..])?;
    file.read_exact(header[1..].as_flattened_mut())?;
    let [key_length, value_length, sequence] = header.map(u64::from_le_bytes);
    // Written by this process, so lengths are what they were.
    let mut bytes = |length: u64| {
        let mut bytes = vec![0; length as usize];
        file.read_exact(&mut bytes).map(|()| bytes)
    };
    let key = bytes(key_length)?;
    let value = if value_length == u64::MAX { None } else { Some(bytes(value_length)?) };
    Ok(Some(Entry { key, sequence, value }))
}
