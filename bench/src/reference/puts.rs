//! Compares puts with bare appends of the same records, and with the rate of the device.
//!
//! A turn ends with its last put. The sync and the background work that remain then are waited for
//! before the next side's turn, which they would slow down; a second ratio includes them.

use super::comparison::Comparison;
use super::race::{self, Key, Keys, Length};
use super::{Race, bar, device, grown, quiet};
use crate::failure::{Result, on};
use crate::measure::process::Counters;
use crate::report::number;
use cantle_workloads::generator::Random;
use cantle_workloads::records::{KEY_BYTES, RECORD_BYTES, VALUE_BYTES};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Number of files of the bare appends, each for one range of keys: about as many as the store has
/// logs.
const FILES: u64 = 100;

/// Largest size of the file that measures the device: long enough that its sync is a small part of
/// the time.
const DEVICE_BYTES_MAX: u64 = 256 << 20;

/// Minimum ratios: to the bare appends, and to the rate at which the device could write the bytes
/// that a put costs.
const FLOOR_APPENDS: f64 = 0.5;
const FLOOR_DEVICE: f64 = 0.8;

/// The files of the bare appends.
struct Appends(Vec<File>);

impl Appends {
    fn create(dir: &Path) -> Result<Self> {
        fs::create_dir(dir).map_err(on("create", dir))?;
        let create = |number: u64| {
            let path = dir.join(format!("{number:02}"));
            File::options().append(true).create_new(true).open(&path).map_err(on("create", &path))
        };
        Ok(Self((0..FILES).map(create).collect::<Result<_>>()?))
    }

    fn sync(&self) -> Result {
        Ok(self.0.iter().try_for_each(File::sync_data)?)
    }
}

/// The number of a key's record.
fn record_of(key: &Key) -> u64 {
    key[4..].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

/// The file for a key, by the place of its record in the range of all.
fn file_of(key: &Key, records: u64) -> u64 {
    record_of(key) * FILES / records.max(1)
}

/// The rates of one side's turns: of the operations alone, and with the work that follows.
#[derive(Default)]
struct Rates {
    alone: Vec<f64>,
    to_the_end: Vec<f64>,
}

/// Compares `puts` puts in all rounds, with the appends and the device's file in `dir`.
pub fn compare(race: &Race<'_>, puts: u64, dir: &Path) -> Result<Comparison> {
    let appends_dir = dir.join("appends");
    let appends = Appends::create(&appends_dir)?;
    let (rounds, records, threads) = (race.args.rounds, race.args.records, race.args.threads);
    let record = |thread: usize, round: u64| {
        // The same values on both sides.
        let mut random = Random::stream(race.args.seed ^ round, thread as u64);
        let mut record = [0; KEY_BYTES + VALUE_BYTES];
        move |key: &Key| {
            let (head, tail) = record.split_at_mut(KEY_BYTES);
            head.copy_from_slice(key);
            if let Ok(value) = tail.try_into() {
                race.values.fill(value, record_of(key), &mut random);
            }
            record
        }
    };
    let progress = bar("puts", rounds);
    let (mut put, mut append, mut device_rates) = (Rates::default(), Rates::default(), Vec::new());
    let (mut kernel, mut done, mut sync_longest) = (0, 0, Duration::ZERO);
    let stats = race.db.stats();
    for round in 1..=rounds {
        let share = puts * round / rounds - puts * (round - 1) / rounds;
        let counts: Vec<u64> =
            (0..threads).map(|thread| share / threads + u64::from(thread < share % threads)).collect();
        let keys = Keys::draw(&race.chooser, records, &counts, race.args.seed, round);

        let (before, start) = (Counters::now(), Instant::now());
        let turn = race::turn(&keys, Length::Once, |thread| {
            let mut record = record(thread, round);
            move |key, _| Ok(race.db.put(key, &record(key)[KEY_BYTES..])?)
        })?;
        let sync = Instant::now();
        race.db.sync()?;
        sync_longest = sync_longest.max(sync.elapsed());
        quiet(race.db);
        put.alone.push(turn.operations_per_s());
        put.to_the_end.push(share as f64 / start.elapsed().as_secs_f64());
        kernel += Counters::now().since(before).written_bytes;

        let start = Instant::now();
        let turn = race::turn(&keys, Length::Once, |thread| {
            let mut record = record(thread, round);
            let appends = &appends;
            move |key, _| {
                let mut file = &appends.0[file_of(key, records) as usize];
                Ok(file.write_all(&record(key))?)
            }
        })?;
        appends.sync()?;
        append.alone.push(turn.operations_per_s());
        append.to_the_end.push(share as f64 / start.elapsed().as_secs_f64());

        let path = dir.join("device");
        let bytes = DEVICE_BYTES_MAX.min(share * RECORD_BYTES).max(1);
        device_rates.push(device::sequential_rate(&path, bytes).map_err(on("write", &path))?);
        done += share;
        progress.inc(1);
    }
    drop(appends);
    fs::remove_dir_all(&appends_dir).map_err(on("remove", &appends_dir))?;

    let after = race.db.stats();
    let longest = (after.write_longest, after.checkpoint_longest);
    let user_bytes = done * RECORD_BYTES;
    let by_store =
        grown(&(stats, after), |keyspace| keyspace.log_bytes_written + keyspace.table_bytes_written);
    // If the kernel does not count (or the files are in memory), the store's counters are used.
    let is_counted = kernel >= user_bytes;
    let per_byte = |bytes: u64| bytes as f64 / user_bytes.max(1) as f64;
    let amplification = per_byte(if is_counted { kernel } else { by_store }).max(1.0);
    let device_limit = device_rates.iter().map(|rate| rate / amplification / RECORD_BYTES as f64).collect();
    let mut comparison = Comparison::new(
        "puts",
        format!("{} puts in each, the same records on every side", puts / rounds),
        vec![
            ("put", put.alone),
            ("append", append.alone),
            ("device ÷ written", device_limit),
            ("put, sync, quiet", put.to_the_end),
            ("append, sync", append.to_the_end),
        ],
    );
    comparison.ratio(0, 1, Some(FLOOR_APPENDS));
    comparison.ratio(0, 2, Some(FLOOR_DEVICE));
    comparison.ratio(3, 4, None);
    comparison.lower_counts();
    let device_rate = device_rates.iter().sum::<f64>() / rounds as f64;
    comparison.facts = vec![
        format!("{} MB a second written to one file and synced, on average", number(device_rate / 1e6)),
        format!(
            "{amplification:.2} bytes written per user byte by the {}, {:.2} by the store",
            if is_counted { "kernel" } else { "store" },
            per_byte(by_store),
        ),
        format!(
            "longest sync after a turn {sync_longest:.1?}; since opening longest put {:.1?}, checkpoint {:.1?}",
            longest.0, longest.1
        ),
    ];
    let more = [
        ("puts", Value::from(done)),
        ("device_bytes_per_s", Value::from(device_rates)),
        ("write_amplification", Value::from(amplification)),
        ("write_amplification_by_store", Value::from(per_byte(by_store))),
        ("sync_longest_s", Value::from(sync_longest.as_secs_f64())),
    ];
    comparison.more.extend(more.map(|(name, value)| (name.to_owned(), value)));
    Ok(comparison)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cantle_workloads::records;

    #[test]
    fn neighbours_share_a_file_and_every_file_has_keys() {
        assert_eq!([0, 9, 10, 999].map(|record| file_of(&records::key(record), 1000)), [0, 0, 1, 99]);
        assert_eq!([0, 6].map(|record| file_of(&records::key(record), 7)), [0, 85]);
    }
}
