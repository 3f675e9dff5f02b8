//! One measured phase: threads that run a workload against a store, and what was seen meanwhile.
//!
//! Workers share nothing but the store, the population and one progress counter; each has its own random
//! stream, histograms and timeline, which are added up when all have ended. The calling thread samples space
//! and shows progress while it waits.

use super::population::Population;
use super::records::{self, RECORD_BYTES, VALUE_BYTES, Values};
use super::workload::{Operation, Workload};
use crate::failure::{Failure, Outcome as Fallible};
use crate::measure::device::Probe;
use crate::measure::disk::{self, SpaceSampler};
use crate::measure::failed;
use crate::measure::generator::{Chooser, Permutation, Random};
use crate::measure::latency::Latencies;
use crate::measure::process::{self, DeviceBytes};
use crate::measure::timeline::Timeline;
use crate::progress::Progress;
use cantle::{Db, Stats};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the waiting thread looks at progress and space.
const TICK: Duration = Duration::from_millis(20);

/// Operations between two reports of a worker to the shared counter: rare enough to cost nothing.
const REPORT_EVERY: u64 = 64;

/// What to run, and over what.
pub(crate) struct Phase<'a> {
    /// The store.
    pub(crate) db: &'a Db,
    /// Its directory.
    pub(crate) dir: &'a Path,
    /// The workload.
    pub(crate) workload: Workload,
    /// Chooses records; cloned for each thread. `None` for the workloads that only insert.
    pub(crate) chooser: Option<Chooser>,
    /// The order in which new records are inserted, if it is not key order.
    pub(crate) insert_order: Option<Permutation>,
    /// The records there are.
    pub(crate) population: &'a Population,
    /// Makes values.
    pub(crate) values: &'a Values,
    /// Operations altogether, at most.
    pub(crate) operations: u64,
    /// When to end before that; bare appends are measured beside it then.
    pub(crate) duration: Option<Duration>,
    /// Threads.
    pub(crate) threads: usize,
    /// Seed of this phase's random streams.
    pub(crate) seed: u64,
    /// What the progress bar says.
    pub(crate) title: String,
}

/// What a phase measured.
pub(crate) struct Outcome {
    /// From the first operation to the end of the last.
    pub(crate) took: Duration,
    /// Operations finished.
    pub(crate) operations: u64,
    /// Latencies in the order of [`Operation::NAMES`].
    pub(crate) latencies: Vec<Latencies>,
    /// How long the longest operation took, and when it ended.
    pub(crate) longest: (Duration, Duration),
    /// Appends without a store, beside a phase that has a duration.
    pub(crate) bare_append: Option<Latencies>,
    /// All threads' operations over time.
    pub(crate) timeline: Timeline,
    /// Bytes of keys and values written.
    pub(crate) user_bytes_written: u64,
    /// Bytes of keys and values that gets and scans returned.
    pub(crate) user_bytes_read: u64,
    /// Rows that scans returned.
    pub(crate) rows_scanned: u64,
    /// Gets that found nothing although the record exists: each is an error of the store.
    pub(crate) missing: u64,
    /// Values that belong to another key, and rows out of order: each is an error of the store.
    pub(crate) wrong: u64,
    /// What the kernel counted, the final sync included.
    pub(crate) device: Option<DeviceBytes>,
    /// Peak resident memory, and whether it is this phase's alone.
    pub(crate) peak_resident_bytes: Option<u64>,
    /// See `peak_resident_bytes`.
    pub(crate) peak_is_of_phase: bool,
    /// Bytes on disk per live byte: the most, the mean, after the final sync.
    pub(crate) space: (f64, f64, f64),
    /// Bytes on disk after the final sync.
    pub(crate) disk_bytes: u64,
    /// Bytes of keys and values that exist at the end.
    pub(crate) live_bytes: u64,
    /// The store's figures before and after.
    pub(crate) stats: (Stats, Stats),
    /// How long the final sync took.
    pub(crate) sync_took: Duration,
}

/// What one worker counted.
struct Tally {
    latencies: Vec<Latencies>,
    longest: (Duration, Duration),
    timeline: Timeline,
    /// From the phase's start to the end of this worker's last operation.
    took: Duration,
    operations: u64,
    written: u64,
    read: u64,
    rows_scanned: u64,
    missing: u64,
    wrong: u64,
}

impl Tally {
    fn new() -> Fallible<Self> {
        let latencies = Operation::NAMES.iter().map(|_| Latencies::new()).collect::<Result<_, _>>();
        Ok(Self {
            latencies: latencies.map_err(|error| Failure::Failed(error.to_string()))?,
            longest: (Duration::ZERO, Duration::ZERO),
            timeline: Timeline::default(),
            took: Duration::ZERO,
            operations: 0,
            written: 0,
            read: 0,
            rows_scanned: 0,
            missing: 0,
            wrong: 0,
        })
    }

    fn add(&mut self, other: &Self) -> Fallible {
        for (sum, latencies) in self.latencies.iter_mut().zip(&other.latencies) {
            sum.add(latencies).map_err(|error| Failure::Failed(error.to_string()))?;
        }
        self.longest = self.longest.max(other.longest);
        self.timeline.add(&other.timeline);
        self.took = self.took.max(other.took);
        self.operations += other.operations;
        self.written += other.written;
        self.read += other.read;
        self.rows_scanned += other.rows_scanned;
        self.missing += other.missing;
        self.wrong += other.wrong;
        Ok(())
    }
}

impl Phase<'_> {
    /// Runs the workload to its end, then syncs the store, and reports.
    pub(crate) fn run(&self) -> Fallible<Outcome> {
        let (done, any_failed) = (AtomicU64::new(0), AtomicBool::new(false));
        let stats_before = self.db.stats();
        let total = self.duration.map_or(self.operations, |duration| duration.as_millis() as u64);
        let mut progress = Progress::new(&self.title, Some(total));
        let probe = match (self.duration, self.dir.parent()) {
            (Some(_), Some(parent)) => {
                let started = Probe::start(parent, RECORD_BYTES as usize);
                Some(started.map_err(failed("create a file in", parent))?)
            }
            _ => None,
        };
        let peak_is_of_phase = process::reset_peak_resident();
        let device_before = DeviceBytes::now();
        let first_insert = self.population.existing();
        let start = Instant::now();
        let mut space = SpaceSampler::new(start);

        let tallies = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads as u64)
                .map(|thread| {
                    let (done, any_failed) = (&done, &any_failed);
                    scope.spawn(move || {
                        let result = self.work(thread, first_insert, start, done, any_failed);
                        if result.is_err() {
                            any_failed.store(true, Ordering::Relaxed);
                        }
                        result
                    })
                })
                .collect();
            while !workers.iter().all(|worker| worker.is_finished()) {
                std::thread::sleep(TICK);
                let now = Instant::now();
                let operations = done.load(Ordering::Relaxed);
                match self.duration {
                    Some(_) => progress.set(operations, ((now - start).as_millis() as u64).min(total)),
                    None => progress.at(operations),
                }
                if space.is_due(now) {
                    // A listing that fails while files come and go is repeated at the next tick.
                    if let Ok(bytes) = disk::allocated_bytes(self.dir) {
                        space.sample(now, bytes, self.population.existing() * RECORD_BYTES);
                    }
                }
            }
            workers
                .into_iter()
                .map(|worker| {
                    worker.join().unwrap_or_else(|_| Err(Failure::Failed("a worker thread panicked".into())))
                })
                .collect::<Result<Vec<_>, _>>()
        })?;
        let bare_append =
            probe.map(Probe::finish).transpose().map_err(|error| Failure::Failed(error.to_string()))?;
        let sync_started = Instant::now();
        self.db.sync()?;
        let sync_took = sync_started.elapsed();
        let device = device_before.and_then(|before| Some(DeviceBytes::now()?.since(before)));

        let mut sum = Tally::new()?;
        for tally in &tallies {
            sum.add(tally)?;
        }
        let live_bytes = self.population.existing() * RECORD_BYTES;
        let disk_bytes = disk::allocated_bytes(self.dir).map_err(failed("list", self.dir))?;
        space.sample(Instant::now(), disk_bytes, live_bytes);
        Ok(Outcome {
            took: sum.took,
            operations: sum.operations,
            latencies: sum.latencies,
            longest: sum.longest,
            bare_append,
            timeline: sum.timeline,
            user_bytes_written: sum.written,
            user_bytes_read: sum.read,
            rows_scanned: sum.rows_scanned,
            missing: sum.missing,
            wrong: sum.wrong,
            device,
            peak_resident_bytes: process::peak_resident_bytes(),
            peak_is_of_phase,
            space: space.summary(),
            disk_bytes,
            live_bytes,
            stats: (stats_before, self.db.stats()),
            sync_took,
        })
    }

    fn work(
        &self,
        thread: u64,
        first_insert: u64,
        start: Instant,
        done: &AtomicU64,
        any_failed: &AtomicBool,
    ) -> Fallible<Tally> {
        let mut tally = Tally::new()?;
        let mut random = Random::stream(self.seed, thread);
        let mut chooser = self.chooser.clone();
        let mut value = [0; VALUE_BYTES];
        let threads = self.threads as u64;
        let share = self.operations / threads + u64::from(thread < self.operations % threads);
        for number in 1..=share {
            let operation = self.workload.next(&mut random);
            let record = match (operation, chooser.as_mut()) {
                (Operation::Insert, _) => self.population.claim(),
                (_, Some(chooser)) => chooser.next(&mut random, self.population.existing()),
                (_, None) => {
                    return Err(Failure::Failed("this workload has no records to choose from".into()));
                }
            };
            let target = match &self.insert_order {
                Some(order) if operation == Operation::Insert => {
                    first_insert + order.apply(record - first_insert)
                }
                _ => record,
            };
            let key = records::key(target);
            if !matches!(operation, Operation::Get | Operation::Scan(_)) {
                self.values.fill(&mut value, target, &mut random);
            }
            let begun = Instant::now();
            self.perform(operation, &key, &value, &mut tally)?;
            let ended = Instant::now();
            if operation == Operation::Insert {
                self.population.written(record);
            }
            tally.latencies[operation.index()].record(ended - begun);
            tally.took = ended - start;
            tally.longest = tally.longest.max((ended - begun, tally.took));
            tally.timeline.record(tally.took);
            tally.operations += 1;
            if number % REPORT_EVERY == 0 || number == share {
                done.fetch_add((number - 1) % REPORT_EVERY + 1, Ordering::Relaxed);
                if any_failed.load(Ordering::Relaxed) {
                    break;
                }
            }
            if self.duration.is_some_and(|duration| tally.took >= duration) {
                break;
            }
        }
        Ok(tally)
    }

    fn perform(
        &self,
        operation: Operation,
        key: &[u8],
        value: &[u8; VALUE_BYTES],
        tally: &mut Tally,
    ) -> cantle::Result<()> {
        match operation {
            Operation::Put | Operation::Insert => self.put(key, value, tally),
            Operation::Get => self.get(key, tally),
            Operation::ReadModifyWrite => {
                self.get(key, tally)?;
                self.put(key, value, tally)
            }
            Operation::Scan(rows) => {
                let mut last: Option<cantle::Key> = None;
                for pair in self.db.range(key..).take(rows as usize) {
                    let (key, value) = pair?;
                    let in_order = last.is_none_or(|last| last < key);
                    tally.wrong += u64::from(!in_order || !records::belongs(&key, &value));
                    tally.read += (key.len() + value.len()) as u64;
                    tally.rows_scanned += 1;
                    last = Some(key);
                }
                // The first row is there: it was chosen among what exists.
                tally.missing += u64::from(last.is_none());
                Ok(())
            }
        }
    }

    fn put(&self, key: &[u8], value: &[u8; VALUE_BYTES], tally: &mut Tally) -> cantle::Result<()> {
        self.db.put(key, value)?;
        tally.written += RECORD_BYTES;
        Ok(())
    }

    fn get(&self, key: &[u8], tally: &mut Tally) -> cantle::Result<()> {
        let read = self.db.get_with(key, |value| (value.len(), records::belongs(key, value)))?;
        match read {
            Some((bytes, belongs)) => {
                tally.read += (key.len() + bytes) as u64;
                tally.wrong += u64::from(!belongs);
            }
            None => tally.missing += 1,
        }
        Ok(())
    }
}

/// Puts the records `0..records` in key order by one thread, then syncs: the start of every YCSB experiment.
/// Returns how long it took.
pub(crate) fn load(db: &Db, values: &Values, records: u64, seed: u64) -> Fallible<Duration> {
    let start = Instant::now();
    each_record("load", values, records, seed, |key, value| Ok(db.put(key, value)?))?;
    db.sync()?;
    Ok(start.elapsed())
}

/// Hands the records `0..records` to `put`, in key order. The same seed gives the same values.
fn each_record(
    title: &str,
    values: &Values,
    records: u64,
    seed: u64,
    mut put: impl FnMut(&[u8], &[u8]) -> Fallible,
) -> Fallible {
    let mut progress = Progress::new(title, Some(records));
    let mut random = Random::stream(seed, u64::MAX - 1);
    let mut value = [0; VALUE_BYTES];
    for record in 0..records {
        values.fill(&mut value, record, &mut random);
        put(&records::key(record), &value)?;
        if record % 256 == 0 {
            progress.at(record);
        }
    }
    Ok(())
}

/// Reads `operations` records, to fill caches before something is measured.
pub(crate) fn warm_up(
    db: &Db,
    chooser: &Chooser,
    operations: u64,
    newest: u64,
    seed: u64,
) -> cantle::Result<()> {
    let mut progress = Progress::new("warm up", Some(operations));
    let (mut chooser, mut random) = (chooser.clone(), Random::stream(seed, u64::MAX - 2));
    for number in 0..operations {
        db.get_with(records::key(chooser.next(&mut random, newest)), |_| ())?;
        if number % 256 == 0 {
            progress.at(number);
        }
    }
    Ok(())
}
