//! The directory as a whole: which files belong to the store.

use super::batch::decode_batch;
use super::file::SourceFile;
use super::lane::{Lane, lanes};
use super::lock::{SourceLock, lock};
use super::log::{LogReader, Step};
use super::manifest::{TableFile, current, read_manifest};
use super::reading::{Progress, Reading};
use super::run::Run;
use super::sorter::Sorter;
use crate::error::{Damage, Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A store to import. Nobody else can open it while this value lives.
#[derive(Debug)]
pub(crate) struct Source {
    dir: PathBuf,
    _lock: SourceLock,
    tables: Vec<TableFile>,
    /// By number, which is their order, and their bytes.
    logs: BTreeMap<u64, u64>,
    /// The log that the manifest names.
    log_number: u64,
}

/// The file of a table, which older versions called `.sst`; where it should be if it is missing.
pub(crate) fn open_table(dir: &Path, number: u64) -> Result<Result<SourceFile, PathBuf>> {
    for extension in ["ldb", "sst"] {
        if let Some(file) = SourceFile::open(&dir.join(format!("{number:06}.{extension}")))? {
            return Ok(Ok(file));
        }
    }
    Ok(Err(dir.join(format!("{number:06}.ldb"))))
}

fn log_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.log"))
}

/// True for the name of a manifest of Cantle: LevelDB writes six digits until it has made a million
/// files, and always CURRENT.
fn is_cantle_manifest(name: &str) -> bool {
    name.strip_prefix("MANIFEST-")
        .is_some_and(|digits| digits.len() == 12 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Source {
    pub fn open(dir: &Path, reading: &mut Reading, progress: &mut Progress<'_>) -> Result<Self> {
        let names = list(dir)?;
        let not_ours = |what: &str| Error::NotLevelDb { path: dir.to_path_buf(), what: what.into() };
        let has = |start: &str| names.iter().any(|name| name.starts_with(start));
        if !has("CURRENT") && names.iter().any(|name| is_cantle_manifest(name)) {
            return Err(not_ours(
                "it is a Cantle store already, which needs no import: open it as it is, or copy it with `cantle backup`",
            ));
        }
        if !has("CURRENT") && !has("MANIFEST-") {
            return Err(not_ours(
                "it has neither CURRENT nor a manifest: give the directory that LevelDB was opened with",
            ));
        }
        if has("OPTIONS-") || has("IDENTITY") {
            return Err(not_ours(
                "RocksDB wrote it: pipe `ldb --db=DIR --hex dump` into an import of a RocksDB dump (--rocksdb)",
            ));
        }
        let lock = lock(dir)?;
        let path = current(dir)?;
        let Some(file) = SourceFile::open(&path)? else {
            let damage = Damage::new(path, 0, "the manifest that CURRENT names is missing");
            return Err(Error::Unreadable(Box::new(damage)));
        };
        let version = read_manifest(dir, file, reading, progress)?;
        let (log_number, previous) = (version.log_number, version.previous_log);
        let mut logs = BTreeMap::new();
        // Listed again under the lock: files that were made after the first look must not be
        // missing.
        for name in list(dir)? {
            let number = name.strip_suffix(".log").and_then(|digits| digits.parse::<u64>().ok());
            let Some(number) = number.filter(|&number| number >= log_number || number == previous) else {
                continue;
            };
            let path = dir.join(&name);
            let metadata = std::fs::metadata(&path).map_err(|error| Error::io("look at", &path, error))?;
            if path == log_path(dir, number) {
                logs.insert(number, metadata.len());
            }
        }
        Ok(Self { dir: dir.to_path_buf(), _lock: lock, tables: version.into_tables(), logs, log_number })
    }

    /// Tables, logs, and the bytes of both.
    pub fn extent(&self) -> (u64, u64, u64) {
        let tables: u64 = self.tables.iter().map(|table| table.bytes).fold(0, u64::saturating_add);
        let logs: u64 = self.logs.values().sum();
        (self.tables.len() as u64, self.logs.len() as u64, tables.saturating_add(logs))
    }

    /// The tables, of which none is opened yet.
    pub fn lanes(&mut self) -> Vec<Lane> {
        lanes(&self.dir, std::mem::take(&mut self.tables))
    }

    /// The writes of the logs, sorted in `memory_bytes` of memory, and in files in `scratch` if
    /// there are more.
    pub fn runs(
        &self,
        scratch: &Path,
        memory_bytes: usize,
        reading: &mut Reading,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<Run>> {
        let mut sorter = Sorter::new(scratch, memory_bytes);
        // Made before the manifest names it, and removed only when a later edit names another.
        if self.log_number != 0 && !self.logs.contains_key(&self.log_number) {
            let path = log_path(&self.dir, self.log_number);
            reading.damage(Damage::new(path, 0, "the log is missing, and the manifest names it"))?;
        }
        let newest = self.logs.keys().next_back();
        for number in self.logs.keys() {
            let path = log_path(&self.dir, *number);
            let Some(file) = SourceFile::open(&path)? else {
                reading.damage(Damage::new(path, 0, "the log was removed meanwhile"))?;
                continue;
            };
            let mut log = LogReader::new(file);
            loop {
                progress(reading)?;
                let record = match log.step(reading)? {
                    Step::Record(record) => record,
                    Step::More => continue,
                    Step::End => break,
                };
                match decode_batch(&record.bytes) {
                    Ok(entries) => entries
                        .into_iter()
                        .try_for_each(|entry| sorter.push(entry, &mut || progress(reading)))?,
                    Err(what) => reading.damage(log.damage(record.offset, what))?,
                }
            }
            let Some(offset) = log.torn() else { continue };
            let torn = log.damage(offset, "the last record was not written to its end");
            // Its writer died; but a log that another follows had all its records once.
            if Some(number) == newest { reading.torn.push(torn) } else { reading.damage(torn)? }
        }
        Ok(sorter.finish())
    }
}

fn list(dir: &Path) -> Result<Vec<String>> {
    let failed = |error| Error::io("list", dir, error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        // A name that is no text is none of LevelDB's.
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    Ok(names)
}
