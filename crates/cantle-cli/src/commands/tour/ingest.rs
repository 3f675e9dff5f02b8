//! The first step: flights in time order, which is not the order of their keys.

use super::flights::{Columns, Reader, Stored};
use super::narrate::Narrator;
use super::questions::Expected;
use crate::failure::Outcome;
use crate::measure::disk;
use crate::measure::display::{bytes, count, duration, rate, ratio};
use crate::measure::failed;
use crate::measure::process::{self, DeviceBytes};
use crate::progress::Progress;
use cantle::Db;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Rows of the flights that the program carries: the length of the progress bar.
const BUNDLED_ROWS: u64 = 336_776;

/// Malformed rows that are told one by one.
const TOLD_MAX: u64 = 3;

/// A summary of pairs that does not depend on their order: compares a scan with the pairs that were
/// loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    sum: u64,
}

impl Digest {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut hasher = DefaultHasher::new();
        (key, value).hash(&mut hasher);
        self.rows += 1;
        self.bytes += (key.len() + value.len()) as u64;
        // A sum does not depend on the order and, unlike exclusive or, notices what is there twice.
        self.sum = self.sum.wrapping_add(hasher.finish());
    }

    /// The digest of the whole default keyspace, and true if its keys ascend.
    pub(crate) fn of(db: &Db) -> Outcome<(Self, bool)> {
        let (mut digest, mut ascending) = (Self::default(), true);
        let mut last: Option<cantle::Key> = None;
        for pair in db.range(..) {
            let (key, value) = pair?;
            ascending &= last.is_none_or(|last| last < key);
            digest.add(&key, &value);
            last = Some(key);
        }
        Ok((digest, ascending))
    }
}

/// The results of the step, for the others.
pub(crate) struct Loaded {
    pub(crate) columns: Columns,
    pub(crate) digest: Digest,
    pub(crate) expected: Expected,
    pub(crate) took: Duration,
    /// Bytes written per user byte, by the kernel's count.
    pub(crate) device_amplification: Option<f64>,
    pub(crate) peak_resident_bytes: Option<u64>,
}

/// Loads up to `rows_max` flights of the file `data`, or of those that the program carries.
pub(crate) fn load(
    narrator: &mut Narrator,
    db: &Db,
    dir: &Path,
    data: Option<&Path>,
    rows_max: Option<u64>,
    mut expected: Expected,
) -> Outcome<Loaded> {
    let mut reader = Reader::open(data)?;
    let columns = reader.columns().clone();
    db.keyspace("default")?.set_metadata(&columns.schema().to_metadata()?)?;
    let mut digest = Digest::default();
    let mut malformed = 0;
    process::reset_peak_resident();
    let device_before = DeviceBytes::now();
    let started = Instant::now();
    let mut progress = Progress::new("loading", Some(rows_max.unwrap_or(BUNDLED_ROWS)));
    while rows_max.is_none_or(|max| digest.rows < max) {
        match reader.next()? {
            None => break,
            Some(Ok(Stored { key, value })) => {
                db.put(&key, &value)?;
                digest.add(&key, &value);
                expected.see(&columns, &key, &value)?;
            }
            Some(Err(what)) => {
                malformed += 1;
                if malformed <= TOLD_MAX {
                    writeln!(std::io::stderr(), "passed over {what}")?;
                }
            }
        }
        if digest.rows % 256 == 0 {
            progress.at(digest.rows);
        }
    }
    drop(progress);
    let took = started.elapsed();
    db.sync()?;
    let device = device_before.and_then(|before| Some(DeviceBytes::now()?.since(before)));
    let device_amplification = device.map(|device| ratio(device.written_bytes, digest.bytes));
    let peak_resident_bytes = process::peak_resident_bytes();

    narrator.say("")?;
    narrator.say(&format!(
        "{} flights, {} of keys and values, in {}: {} per second, parsing included",
        count(digest.rows),
        bytes(digest.bytes),
        duration(took),
        count(rate(digest.rows, took) as u64)
    ))?;
    if malformed > 0 {
        narrator.say(&format!("{} malformed rows were passed over", count(malformed)))?;
    }
    let stats = db.stats();
    let written =
        |size: fn(&cantle::stats::KeyspaceStats) -> u64| stats.keyspaces.iter().map(size).sum::<u64>();
    let (log, tables) = (written(|k| k.log_bytes_written), written(|k| k.table_bytes_written));
    let by_kernel = device_amplification.map_or("no figure".into(), |ratio| format!("{ratio:.2}"));
    narrator.say(&format!(
        "written per byte of them: {by_kernel} by the kernel's count, {:.2} by the store's (log {:.2}, tables {:.2})",
        ratio(log + tables, digest.bytes),
        ratio(log, digest.bytes),
        ratio(tables, digest.bytes)
    ))?;
    let on_disk = disk::allocated_bytes(dir).map_err(failed("list", dir))?;
    narrator.say(&format!(
        "on disk: {} in {} {}, {:.2} bytes per live byte",
        bytes(on_disk),
        count(stats.keyspaces.iter().map(|k| k.regions).sum()),
        db.layout().regions(),
        ratio(on_disk, digest.bytes)
    ))?;
    let resident =
        peak_resident_bytes.map_or(String::new(), |peak| format!("; {} resident at most", bytes(peak)));
    narrator.say(&format!(
        "memory: {} of the store's budget of {}{resident}",
        bytes(stats.memory_used),
        bytes(stats.memory_budget)
    ))?;
    let (found, ascending) = Digest::of(db)?;
    narrator.check(
        ascending && found == digest,
        &format!("a scan returns {} rows in key order, byte for byte what was loaded", count(found.rows)),
    )?;
    Ok(Loaded { columns, digest, expected, took, device_amplification, peak_resident_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_ignore_order_and_see_every_difference() {
        let of = |pairs: &[(&str, &str)]| {
            let mut digest = Digest::default();
            pairs.iter().for_each(|(key, value)| digest.add(key.as_bytes(), value.as_bytes()));
            digest
        };
        let pairs = of(&[("a", "1"), ("b", "2")]);
        assert_eq!(pairs, of(&[("b", "2"), ("a", "1")]));
        for other in [
            &[("a", "1"), ("b", "3")][..],
            &[("a", "1")],
            &[("a", "2"), ("b", "1")],
            &[("a1", ""), ("b", "2")],
        ] {
            assert_ne!(pairs, of(other));
        }
        assert_ne!(of(&[("a", "1"), ("a", "1")]), of(&[("b", "2"), ("b", "2")]));
    }
}
