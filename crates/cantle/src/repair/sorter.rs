//! Sorts the entries of logs by key in bounded memory. Entries beyond the bound go to temporary
//! files, which are removed once they are read.
//!
//! Only the newest entry of each key matters: a range delete that hides it hides the older ones as
//! well.

use super::merge::{Newness, Source};
use crate::format::codec::{Decoder, put_bytes, put_varint};
use crate::sync::Arc;
use crate::types::entry::Kind;
use crate::types::error::{Attempt, Error, Result};
use crate::types::order::KeyOrder;
use crate::vfs::{OpenMode, Vfs, VfsFile};
use bytes::Bytes;
use std::path::{Path, PathBuf};

const PIECE_BYTES: usize = 128 << 10;
/// Memory that an entry takes besides its key and value, in bytes.
const ENTRY_BYTES: usize = size_of::<Entry>();

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub key: Bytes,
    pub newness: Newness,
    pub kind: Kind,
    pub value: Bytes,
}

/// Accepts entries in any order.
pub(super) struct Sorter<'a> {
    order: KeyOrder,
    entries: Vec<Entry>,
    bytes: usize,
    bytes_max: usize,
    runs: Vec<Run>,
    vfs: &'a Arc<dyn Vfs>,
    dir: &'a Path,
}

impl<'a> Sorter<'a> {
    /// Holds about `bytes_max` bytes in memory; files are created in `dir`.
    pub fn new(order: KeyOrder, bytes_max: usize, vfs: &'a Arc<dyn Vfs>, dir: &'a Path) -> Self {
        Self { order, entries: Vec::new(), bytes: 0, bytes_max, runs: Vec::new(), vfs, dir }
    }

    pub fn push(&mut self, entry: Entry) -> Result<()> {
        self.bytes += ENTRY_BYTES + entry.key.len() + entry.value.len();
        self.entries.push(entry);
        if self.bytes > self.bytes_max { self.spill() } else { Ok(()) }
    }

    fn sort(&mut self) {
        let order = &self.order;
        order
            .sort_by(&mut self.entries, |a, b| order.compare(&a.key, &b.key).then(b.newness.cmp(&a.newness)));
        self.entries.dedup_by(|later, first| order.compare(&later.key, &first.key).is_eq());
    }

    fn spill(&mut self) -> Result<()> {
        self.sort();
        let run = Run::create(self.vfs, self.dir, self.runs.len())?;
        let mut bytes = Vec::with_capacity(PIECE_BYTES);
        let mut offset = 0;
        let write = |bytes: &mut Vec<u8>, offset: &mut u64| -> Result<()> {
            run.file.write_at(bytes, *offset).map_err(|e| Error::io(Attempt::Write, &run.path, e))?;
            *offset += bytes.len() as u64;
            bytes.clear();
            Ok(())
        };
        for Entry { key, newness, kind, value } in self.entries.drain(..) {
            newness.0.iter().for_each(|&number| put_varint(&mut bytes, number));
            bytes.push(kind as u8);
            put_bytes(&mut bytes, &key);
            put_bytes(&mut bytes, &value);
            if bytes.len() >= PIECE_BYTES {
                write(&mut bytes, &mut offset)?;
            }
        }
        write(&mut bytes, &mut offset)?;
        self.bytes = 0;
        self.runs.push(run);
        Ok(())
    }

    /// All entries, as sources in key order.
    pub fn finish(mut self) -> Result<Vec<Box<dyn Source>>> {
        self.sort();
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for run in self.runs {
            let mut reader = RunReader { run, offset: 0, bytes: Vec::new(), at: 0, current: None };
            reader.advance()?;
            sources.push(Box::new(reader));
        }
        let mut entries = self.entries.into_iter();
        let current = entries.next();
        sources.push(Box::new(InMemory { entries, current }));
        Ok(sources)
    }
}

struct InMemory {
    entries: std::vec::IntoIter<Entry>,
    current: Option<Entry>,
}

impl Source for InMemory {
    fn head(&self) -> Option<(&[u8], Newness, Kind)> {
        self.current.as_ref().map(|entry| (&entry.key[..], entry.newness, entry.kind))
    }

    fn value(&mut self) -> Result<Bytes> {
        Ok(self.current.as_ref().map(|entry| entry.value.clone()).unwrap_or_default())
    }

    fn advance(&mut self) -> Result<()> {
        self.current = self.entries.next();
        Ok(())
    }
}

/// A file of sorted entries; dropping it removes the file.
struct Run {
    vfs: Arc<dyn Vfs>,
    file: Arc<dyn VfsFile>,
    path: PathBuf,
}

impl Run {
    fn create(vfs: &Arc<dyn Vfs>, dir: &Path, number: usize) -> Result<Self> {
        // The next opening removes files with such a name, in case this process dies.
        let path = dir.join(format!("repair-{number}.tmp"));
        let file = vfs.open(&path, OpenMode::CreateNew).map_err(|e| Error::io(Attempt::Create, &path, e))?;
        Ok(Self { vfs: vfs.clone(), file, path })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Err(error) = self.vfs.remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a temporary file");
        }
    }
}

struct RunReader {
    run: Run,
    /// Offset after the bytes that were read.
    offset: u64,
    bytes: Vec<u8>,
    at: usize,
    current: Option<Entry>,
}

impl RunReader {
    fn decode(&self) -> Option<(Entry, usize)> {
        let rest = &self.bytes[self.at..];
        let mut decoder = Decoder::new(rest);
        let newness = Newness([decoder.varint().ok()?, decoder.varint().ok()?, decoder.varint().ok()?]);
        let kind = Kind::from_u8(decoder.u8().ok()?)?;
        let key = Bytes::copy_from_slice(decoder.bytes().ok()?);
        let value = Bytes::copy_from_slice(decoder.bytes().ok()?);
        Some((Entry { key, newness, kind, value }, self.at + rest.len() - decoder.rest().len()))
    }
}

impl Source for RunReader {
    fn head(&self) -> Option<(&[u8], Newness, Kind)> {
        self.current.as_ref().map(|entry| (&entry.key[..], entry.newness, entry.kind))
    }

    fn value(&mut self) -> Result<Bytes> {
        Ok(self.current.as_ref().map(|entry| entry.value.clone()).unwrap_or_default())
    }

    fn advance(&mut self) -> Result<()> {
        loop {
            if let Some((entry, end)) = self.decode() {
                self.at = end;
                self.current = Some(entry);
                return Ok(());
            }
            self.bytes.drain(..self.at);
            self.at = 0;
            let have = self.bytes.len();
            // The buffer doubles until it has a whole entry.
            self.bytes.resize(have + PIECE_BYTES.max(have), 0);
            let read = self.run.file.read_at(&mut self.bytes[have..], self.offset);
            let read = read.map_err(|e| Error::io(Attempt::Read, &self.run.path, e))?;
            self.bytes.truncate(have + read);
            self.offset += read as u64;
            if read == 0 {
                self.current = None;
                return if have == 0 {
                    Ok(())
                } else {
                    Err(Error::corruption(&self.run.path, self.offset, "a temporary file ends too early"))
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repair::merge::Merge;
    use crate::vfs::MemVfs;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_newest_of_each_key_comes_out_in_order_however_little_memory_there_is(
            entries in proptest::collection::vec((0u8..40, 0u64..1000, 0usize..400), 0..300),
            bytes_max in 1usize..100_000,
        ) {
            let memory = MemVfs::new();
            let vfs: Arc<dyn Vfs> = Arc::new(memory.clone());
            let mut sorter = Sorter::new(KeyOrder::Bytewise, bytes_max, &vfs, Path::new(""));
            let mut model: BTreeMap<Vec<u8>, (u64, usize)> = BTreeMap::new();
            for (place, (key, version, len)) in entries.into_iter().enumerate() {
                let key = vec![key; 3];
                let version = version * 1000 + place as u64;
                let newest = model.entry(key.clone()).or_default();
                *newest = (*newest).max((version, len));
                let value = Bytes::from(vec![1; len]);
                sorter.push(Entry { key: key.into(), newness: Newness([version, 0, 0]), kind: Kind::Put, value }).unwrap();
            }
            let mut merge = Merge::new(KeyOrder::Bytewise, sorter.finish().unwrap(), Vec::new());
            let mut found = Vec::new();
            while let Some((key, value)) = merge.next().unwrap() {
                found.push((key, value.len()));
            }
            let expected: Vec<_> = model.into_iter().map(|(key, (_, len))| (key, len)).collect();
            prop_assert_eq!(found, expected);
            drop(merge);
            prop_assert!(vfs.list(Path::new("")).unwrap().is_empty());
        }
    }
}
