//! Puts beside bare appends of the same records, and what the device allows.
//!
//! A turn ends with its last put; the sync and the background work that it left are waited for before the other
//! side has its turn, since they would slow that down. They are not forgotten: a second figure counts them in.

use super::super::records::{KEY_BYTES, RECORD_BYTES, VALUE_BYTES};
use super::super::report::{grown, per};
use super::super::workload::Workload;
use super::comparison::{Common, Comparison};
use super::race::{self, Key, Keys, Length};
use super::{Race, quiet};
use crate::failure::Outcome;
use crate::measure::generator::Random;
use crate::measure::process::DeviceBytes;
use crate::measure::{device, display, failed};
use crate::progress::Progress;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Files that the bare appends go to, each for one range of keys: about as many as the store has logs.
const FILES: u64 = 100;

/// The file that measures the device, at most: long enough that its sync is not all there is.
const DEVICE_BYTES_MAX: u64 = 256 << 20;

/// The floors: of the bare appends, and of what the device could write, by the bytes that a put costs.
const FLOOR_APPENDS: f64 = 0.5;
const FLOOR_DEVICE: f64 = 0.8;

/// The files of the bare appends.
struct Appends(Vec<File>);

impl Appends {
    fn create(dir: &Path) -> Outcome<Self> {
        fs::create_dir(dir).map_err(failed("create", dir))?;
        let create = |number: u64| {
            let path = dir.join(format!("{number:02}"));
            File::options().append(true).create_new(true).open(&path).map_err(failed("create", &path))
        };
        Ok(Self((0..FILES).map(create).collect::<Outcome<_>>()?))
    }

    fn sync(&self) -> Outcome {
        Ok(self.0.iter().try_for_each(File::sync_data)?)
    }
}

/// The file for a key: its record's place in the range of all.
fn file_of(key: &Key, records: u64) -> u64 {
    let number = key[4..].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    number * FILES / records.max(1)
}

pub(super) fn compare(race: &Race<'_>, common: &Common, puts: u64, dir: &Path) -> Outcome<Comparison> {
    let appends_dir = dir.join("appends");
    let appends = Appends::create(&appends_dir)?;
    let rounds = race.rounds;
    let records = race.records;
    let value = |thread: usize, round: u64| {
        // The same values on both sides.
        let mut random = Random::stream(race.seed ^ round, thread as u64);
        let mut record = [0; KEY_BYTES + VALUE_BYTES];
        move |key: &Key| {
            let number = key[4..].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
            let (head, tail) = record.split_at_mut(KEY_BYTES);
            head.copy_from_slice(key);
            if let Ok(value) = tail.try_into() {
                race.values.fill(value, number, &mut random);
            }
            record
        }
    };
    let mut progress = Progress::new("puts", Some(rounds));
    let (mut put, mut put_all, mut append, mut append_all, mut device_rates) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut kernel, mut done, mut sync_longest) = (Some(0), 0, Duration::ZERO);
    let stats = race.db.stats();
    for round in 1..=rounds {
        let share = puts * round / rounds - puts * (round - 1) / rounds;
        let threads = race.threads as u64;
        let counts: Vec<u64> =
            (0..threads).map(|thread| share / threads + u64::from(thread < share % threads)).collect();
        let keys = Keys::draw(&race.chooser, records, &counts, race.seed, round);

        let before = DeviceBytes::now();
        let start = Instant::now();
        let turn = race::turn(&keys, Length::Once, |thread| {
            let mut value = value(thread, round);
            move |key, _| Ok(race.db.put(key, &value(key)[KEY_BYTES..])?)
        })?;
        let sync = Instant::now();
        race.db.sync()?;
        sync_longest = sync_longest.max(sync.elapsed());
        quiet(race.db);
        put.push(turn.operations_per_s());
        put_all.push(display::rate(share, start.elapsed()));
        let written = before.and_then(|before| Some(DeviceBytes::now()?.since(before).written_bytes));
        kernel = kernel.and_then(|sum: u64| Some(sum + written?));

        let start = Instant::now();
        let turn = race::turn(&keys, Length::Once, |thread| {
            let mut value = value(thread, round);
            let appends = &appends;
            move |key, _| {
                let mut file = &appends.0[file_of(key, records) as usize];
                Ok(file.write_all(&value(key))?)
            }
        })?;
        appends.sync()?;
        append.push(turn.operations_per_s());
        append_all.push(display::rate(share, start.elapsed()));

        let path = dir.join("device");
        let bytes = DEVICE_BYTES_MAX.min(share * RECORD_BYTES).max(1);
        device_rates.push(device::sequential_rate(&path, bytes).map_err(failed("write", &path))?);
        done += share;
        progress.set(done, round);
    }
    drop(progress);
    drop(appends);
    fs::remove_dir_all(&appends_dir).map_err(failed("remove", &appends_dir))?;

    let stats = (stats, race.db.stats());
    let user_bytes = done * RECORD_BYTES;
    let by_store = grown(&stats, |keyspace| keyspace.log_bytes_written + keyspace.table_bytes_written);
    // Where the kernel does not count (or the files lie in memory), the store does.
    let counted = kernel.filter(|&bytes| bytes >= user_bytes);
    let amplification = display::ratio(counted.unwrap_or(by_store), user_bytes).max(1.0);
    let limit = |rate: &f64| rate / amplification / RECORD_BYTES as f64;
    let turn = format!("{} puts in each, the same records on every side", display::count(puts / rounds));
    let device_limit = device_rates.iter().map(limit).collect();
    let mut comparison = Comparison::new(
        "puts",
        Workload::P,
        common,
        turn,
        [
            ("put", put),
            ("append", append),
            ("device ÷ written", device_limit),
            ("put, sync, quiet", put_all),
            ("append, sync", append_all),
        ],
    );
    comparison.ratio(0, 1, Some(FLOOR_APPENDS));
    comparison.ratio(0, 2, Some(FLOOR_DEVICE));
    comparison.ratio(3, 4, None);
    comparison.lower_counts();
    let device_rate = device_rates.iter().sum::<f64>() / rounds as f64;
    comparison.facts.push((
        "device",
        format!("{} a second written to one file and synced, on average", display::bytes(device_rate as u64)),
    ));
    comparison.facts.push((
        "written",
        format!(
            "{amplification:.2} bytes per user byte by the {}, {:.2} by the store",
            if counted.is_some() { "kernel" } else { "store" },
            display::ratio(by_store, user_bytes),
        ),
    ));
    comparison.facts.push((
        "stalls",
        format!(
            "longest sync after a turn {}; since opening longest put {}, checkpoint {}",
            display::duration(sync_longest),
            display::duration(stats.1.write_longest),
            display::duration(stats.1.checkpoint_longest),
        ),
    ));
    let more = [
        ("puts", Value::from(done)),
        ("device_bytes_per_s", Value::from(device_rates)),
        ("write_amplification", Value::from(amplification)),
        ("write_amplification_by_store", Value::from(per(by_store, user_bytes))),
        ("sync_longest_s", Value::from(sync_longest.as_secs_f64())),
    ];
    comparison.more.extend(more.map(|(name, value)| (name.to_owned(), value)));
    Ok(comparison)
}

#[cfg(test)]
mod tests {
    use super::super::super::records;
    use super::*;

    #[test]
    fn neighbours_share_a_file_and_every_file_has_keys() {
        assert_eq!([0, 9, 10, 999].map(|record| file_of(&records::key(record), 1000)), [0, 0, 1, 99]);
        assert_eq!([0, 6].map(|record| file_of(&records::key(record), 7)), [0, 85]);
    }
}
