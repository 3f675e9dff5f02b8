//! One import: its options, how far it is, and what came of it.

use crate::destination::Destination;
use crate::dump::Dump;
use crate::error::{Damage, Error, Result};
use crate::leveldb::{Entry, Merge, Reading, Source};
use cantle::{KeyspaceOptions, Options};
use std::io::BufRead;
use std::ops::ControlFlow;
use std::path::Path;

/// Pairs, or entries that were read, from one word on the progress to the next.
const PROGRESS_PAIRS: u64 = 4096;
/// Default memory in which logs are sorted before files are used: sixteen of LevelDB's write
/// buffers.
const LOG_MEMORY_BYTES: usize = 64 << 20;
/// With less there would be a file for every few writes.
const LOG_MEMORY_BYTES_MIN: usize = 1 << 20;

/// An import to be made.
#[derive(Clone)]
pub struct Import {
    pub(crate) options: Options,
    pub(crate) keyspace: String,
    /// None for those of the store's default keyspace.
    pub(crate) keyspace_options: Option<KeyspaceOptions>,
    skip_damaged: bool,
    log_memory_bytes: usize,
}

impl Default for Import {
    fn default() -> Self {
        Self {
            options: Options::new(),
            keyspace: "default".into(),
            keyspace_options: None,
            skip_damaged: false,
            log_memory_bytes: LOG_MEMORY_BYTES,
        }
    }
}

impl std::fmt::Debug for Import {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Import").field("keyspace", &self.keyspace).finish_non_exhaustive()
    }
}

/// The progress of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes of the source that were read.
    pub bytes: u64,
    /// Bytes of the source, where that is known.
    pub total_bytes: Option<u64>,
    /// Pairs that were written.
    pub pairs: u64,
}

/// The results of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Pairs in the new keyspace.
    pub pairs: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// LevelDB: tables that belonged to the store.
    pub tables: u64,
    /// LevelDB: logs that were not in tables yet.
    pub logs: u64,
    /// Bytes of the source that were read.
    pub read_bytes: u64,
    /// LevelDB: the log and the manifest whose last record was not written to its end, as its
    /// writer died. No damage.
    pub torn: Vec<Damage>,
    /// LevelDB: places that were left out, up to a thousand. Older values of the keys that these
    /// may concern may show, and deleted ones be back.
    pub lost: Vec<Damage>,
    /// Number of further places.
    pub lost_untold: u64,
    /// RocksDB: whether the dump ended with its count, which then was right. Without one nobody
    /// knows whether it was cut.
    pub counted: bool,
}

impl Report {
    /// True if everything was imported.
    pub fn is_ok(&self) -> bool {
        self.lost.is_empty()
    }
}

impl Import {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Options of the new store, among them those of its default keyspace. Default: the store's
    /// own.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The keyspace to write to, and its options, which replace those of [`options`](Self::options)
    /// if it is the default one. Default: the default one. Its order must be bytewise.
    pub fn keyspace(mut self, name: &str, options: KeyspaceOptions) -> Self {
        (self.keyspace, self.keyspace_options) = (name.to_owned(), Some(options));
        self
    }

    /// LevelDB: whether damaged blocks of tables and logs, and missing files, are left out and told
    /// in [`Report::lost`], instead of ending the import. Default: no.
    pub fn skip_damaged(mut self, on: bool) -> Self {
        self.skip_damaged = on;
        self
    }

    /// LevelDB: in how much memory the writes are sorted that are not in tables yet, in bytes.
    /// Default: 64 MiB; at least 1 MiB is taken. Writes beyond it take as much space on the
    /// destination's file system, meanwhile.
    pub fn log_memory(mut self, bytes: usize) -> Self {
        self.log_memory_bytes = bytes;
        self
    }

    /// Copies the store that LevelDB wrote to directory `source` into a new store in directory
    /// `destination`, where there must be nothing, or an empty directory. The newest value of each
    /// key is copied; deleted keys are not.
    ///
    /// `progress` is called now and then; what it breaks off ends with [`Error::Cancelled`].
    ///
    /// # Errors
    ///
    /// After every error there is no destination. [`Error::NotLevelDb`], [`Error::InUse`],
    /// [`Error::Comparator`], [`Error::DestinationExists`] and [`Error::UnderWay`] before anything
    /// is read; [`Error::Damaged`] unless damage is skipped; [`Error::Unreadable`] for CURRENT and
    /// the manifest even then.
    pub fn leveldb(
        &self,
        source: impl AsRef<Path>,
        destination: impl AsRef<Path>,
        mut progress: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Report> {
        let (source, destination) = (source.as_ref(), destination.as_ref());
        let mut reading = Reading::new(self.skip_damaged);
        let mut files = Source::open(source, &mut reading, &mut |_| {
            tell(&mut progress, Progress { bytes: 0, total_bytes: None, pairs: 0 })
        })?;
        let (tables, logs, total) = files.extent();
        let mut told = |reading: &Reading, pairs| {
            tell(&mut progress, Progress { bytes: reading.bytes.min(total), total_bytes: Some(total), pairs })
        };
        let mut filled = Destination::create(destination, Some(source), self)?;
        let memory_bytes = self.log_memory_bytes.max(LOG_MEMORY_BYTES_MIN);
        let mut told_before = |reading: &Reading| told(reading, 0);
        let runs = files.runs(filled.scratch(), memory_bytes, &mut reading, &mut told_before)?;
        let mut merge = Merge::new(files.lanes(), runs, &mut reading)?;
        let mut entries_told = 0;
        // Deleted keys and older versions are work, too, and there may be nothing else.
        while let Some(found) = merge.next(&mut reading)? {
            if merge.entries() >= entries_told + PROGRESS_PAIRS {
                entries_told = merge.entries();
                told(&reading, filled.pairs)?;
            }
            let Some(Entry { key, value: Some(value), .. }) = found else { continue };
            match filled.put(&key, &value) {
                Err(Error::TooLarge { what, .. }) if self.skip_damaged => {
                    let damage = Damage::new(source, 0, what).of_keys(key.clone(), key);
                    reading.damage(damage)?;
                }
                put => put?,
            }
        }
        told(&reading, filled.pairs)?;
        let (pairs, bytes) = filled.finish()?;
        let Reading { lost, lost_untold, torn, bytes: read_bytes, .. } = reading;
        Ok(Report { pairs, bytes, tables, logs, read_bytes, torn, lost, lost_untold, counted: false })
    }

    /// Copies the pairs of a dump in the form of [`dump`](crate::dump) into a new store in
    /// directory `destination`, where there must be nothing, or an empty directory. `name` is what
    /// errors call the dump. A later pair of the same key replaces an earlier one.
    ///
    /// # Errors
    ///
    /// After every error there is no destination. [`Error::Line`] for a line of another form, or a
    /// count that is wrong.
    pub fn rocksdb_dump(
        &self,
        dump: impl BufRead,
        name: &str,
        destination: impl AsRef<Path>,
        mut progress: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Report> {
        let mut dump = Dump::new(dump, name);
        let mut filled = Destination::create(destination.as_ref(), None, self)?;
        while let Some((key, value)) = dump.next()? {
            filled.put(&key, &value).map_err(|error| match error {
                Error::TooLarge { what, .. } => dump.wrong(what),
                other => other,
            })?;
            if filled.pairs.is_multiple_of(PROGRESS_PAIRS) {
                tell(
                    &mut progress,
                    Progress { bytes: dump.bytes(), total_bytes: None, pairs: filled.pairs },
                )?;
            }
        }
        let (pairs, bytes) = filled.finish()?;
        Ok(Report { pairs, bytes, read_bytes: dump.bytes(), counted: dump.counted(), ..Report::default() })
    }
}

fn tell(progress: &mut impl FnMut(&Progress) -> ControlFlow<()>, at: Progress) -> Result<()> {
    match progress(&at) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Cancelled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leveldb::{encode_batch, write_log};

    #[test]
    fn a_store_of_nothing_but_deletes_can_be_stopped() {
        const DELETES: u32 = 100_000;
        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("leveldb");
        std::fs::create_dir(&source).unwrap();
        for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/leveldb")).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, source.join(path.file_name().unwrap())).unwrap();
        }
        let deletes: Vec<_> = (0..DELETES).map(|key| (key.to_be_bytes().to_vec(), None)).collect();
        let log = write_log(&[encode_batch(1 << 40, &deletes)]);
        let blocks = log.len() as u64 / (32 << 10) + 2;
        std::fs::write(source.join("000008.log"), log).unwrap();
        let mut told = 0;
        Import::new()
            .leveldb(&source, place.path().join("new"), |_| {
                told += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(told > blocks + u64::from(DELETES) / PROGRESS_PAIRS, "told {told} times in {blocks} blocks");
    }
}
