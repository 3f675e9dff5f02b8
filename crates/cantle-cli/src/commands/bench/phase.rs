//! One measured phase: threads that run a workload on the store, and one that watches them.
//!
//! Workers share nothing but the store, the population and one progress counter; each has its own
//! random stream, histograms and timeline, which are added up when all have ended. The calling
//! thread samples space and shows progress while it waits.

use super::figures::Figures;
use super::session::Session;
use super::tally::Tally;
use crate::failure::{Failure, Outcome};
use crate::measure::device::Probe;
use crate::measure::disk::{self, Space, SpaceSampler};
use crate::measure::failed;
use crate::measure::latency::Latencies;
use crate::measure::process::{self, DeviceBytes};
use crate::progress::Progress;
use cantle_workloads::generator::{Chooser, Permutation, Random};
use cantle_workloads::records::{self, RECORD_BYTES, VALUE_BYTES};
use cantle_workloads::workload::{Operation, Workload};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Interval at which the waiting thread looks at progress and space.
const TICK: Duration = Duration::from_millis(20);

/// Operations between two reports of a worker to the shared counter: rare enough to cost nothing.
const REPORT_EVERY: u64 = 64;

/// The work of a phase.
pub(crate) struct Phase<'a> {
    pub(crate) session: &'a Session,
    pub(crate) workload: Workload,
    /// Chooses records; cloned for each thread. `None` for the workloads that only insert.
    pub(crate) chooser: Option<Chooser>,
    /// The order in which new records are inserted, if it is not key order.
    pub(crate) insert_order: Option<Permutation>,
    /// Operations altogether, at most.
    pub(crate) operations: u64,
    /// When to end before that; bare appends are measured beside it then.
    pub(crate) duration: Option<Duration>,
    pub(crate) threads: u64,
    /// Seed of this phase's random streams.
    pub(crate) seed: u64,
}

/// Everything that a phase measured.
#[derive(Serialize)]
pub(crate) struct Measured {
    /// All threads' operations.
    #[serde(flatten)]
    pub(crate) tally: Tally,
    /// Appends without a store, beside a phase that has a duration.
    #[serde(skip)]
    pub(crate) bare_append: Option<Latencies>,
    /// Bytes that the kernel counted, those of the final sync included.
    pub(crate) device: Option<DeviceBytes>,
    pub(crate) peak_resident_bytes: Option<u64>,
    /// True if that peak is this phase's alone.
    pub(crate) peak_resident_is_of_phase: bool,
    /// The last sample is taken after the final sync.
    pub(crate) space: Space,
    pub(crate) final_sync_s: f64,
    pub(crate) stats: Figures,
}

/// State that the workers of a phase share.
struct Shared {
    start: Instant,
    /// Records before the phase.
    first_insert: u64,
    /// Operations finished.
    done: AtomicU64,
    any_failed: AtomicBool,
}

impl Phase<'_> {
    /// Runs the workload to its end, then syncs the store.
    pub(crate) fn run(&self) -> Outcome<Measured> {
        let Session { db, population, .. } = self.session;
        let dir = self.session.dir();
        let before = db.stats();
        let probe = match (self.duration, dir.parent()) {
            (Some(_), Some(parent)) => Some(Probe::start(parent, RECORD_BYTES as usize)?),
            _ => None,
        };
        let peak_resident_is_of_phase = process::reset_peak_resident();
        let device_before = DeviceBytes::now();
        let shared = Shared {
            start: Instant::now(),
            first_insert: population.existing(),
            done: AtomicU64::new(0),
            any_failed: AtomicBool::new(false),
        };
        let mut space = SpaceSampler::new(shared.start);
        let mut tally = Tally::new()?;
        std::thread::scope(|scope| {
            let worker = |thread| {
                let shared = &shared;
                scope.spawn(move || {
                    let result = self.work(thread, shared);
                    shared.any_failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    result
                })
            };
            let workers: Vec<_> = (0..self.threads).map(worker).collect();
            self.watch(&workers, &shared, &mut space);
            for worker in workers {
                let panicked = |_| Err(Failure::Failed("a worker thread panicked".into()));
                tally.add(&worker.join().unwrap_or_else(panicked)?)?;
            }
            Outcome::Ok(())
        })?;
        let bare_append = probe.map(Probe::finish).transpose()?;
        let sync_started = Instant::now();
        db.sync()?;
        let final_sync_s = sync_started.elapsed().as_secs_f64();
        let device = device_before.and_then(|before| Some(DeviceBytes::now()?.since(before)));
        let disk_bytes = disk::allocated_bytes(dir).map_err(failed("list", dir))?;
        space.sample(Instant::now(), disk_bytes, population.existing() * RECORD_BYTES);
        Ok(Measured {
            tally,
            bare_append,
            device,
            peak_resident_bytes: process::peak_resident_bytes(),
            peak_resident_is_of_phase,
            space: space.summary(),
            final_sync_s,
            stats: Figures { before, after: db.stats() },
        })
    }

    /// Shows progress and samples space until all workers have ended.
    fn watch<T>(&self, workers: &[ScopedJoinHandle<'_, T>], shared: &Shared, space: &mut SpaceSampler) {
        let total = self.duration.map_or(self.operations, |duration| duration.as_millis() as u64);
        let mut progress = Progress::new(self.workload.name(), Some(total));
        while !workers.iter().all(|worker| worker.is_finished()) {
            std::thread::sleep(TICK);
            let now = Instant::now();
            let operations = shared.done.load(Ordering::Relaxed);
            match self.duration {
                Some(_) => progress.set(operations, ((now - shared.start).as_millis() as u64).min(total)),
                None => progress.at(operations),
            }
            // A listing that fails while files come and go is repeated at the next tick.
            if space.is_due(now)
                && let Ok(bytes) = disk::allocated_bytes(self.session.dir())
            {
                space.sample(now, bytes, self.session.population.existing() * RECORD_BYTES);
            }
        }
    }

    /// One worker's share of the operations.
    fn work(&self, thread: u64, shared: &Shared) -> Outcome<Tally> {
        let Session { population, values, .. } = self.session;
        let mut tally = Tally::new()?;
        let mut random = Random::stream(self.seed, thread);
        let mut chooser = self.chooser.clone();
        let mut value = [0; VALUE_BYTES];
        let share = self.operations / self.threads + u64::from(thread < self.operations % self.threads);
        for number in 1..=share {
            let operation = self.workload.next(&mut random);
            let record = match (operation, chooser.as_mut()) {
                (Operation::Insert, _) => population.claim(),
                (_, Some(chooser)) => chooser.next(&mut random, population.existing()),
                (_, None) => {
                    return Err(Failure::Failed("this workload has no records to choose from".into()));
                }
            };
            let target = match &self.insert_order {
                Some(order) if operation == Operation::Insert => {
                    shared.first_insert + order.apply(record - shared.first_insert)
                }
                _ => record,
            };
            let key = records::key(target);
            if !matches!(operation, Operation::Get | Operation::Scan(_)) {
                values.fill(&mut value, target, &mut random);
            }
            let begun = Instant::now();
            self.perform(operation, &key, &value, &mut tally)?;
            let ended = Instant::now();
            if operation == Operation::Insert {
                population.written(record);
            }
            tally.record(operation, ended - begun, ended - shared.start);
            if number % REPORT_EVERY == 0 || number == share {
                shared.done.fetch_add((number - 1) % REPORT_EVERY + 1, Ordering::Relaxed);
                if shared.any_failed.load(Ordering::Relaxed) {
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
            Operation::Scan(rows) => self.scan(key, rows, tally),
        }
    }

    fn put(&self, key: &[u8], value: &[u8; VALUE_BYTES], tally: &mut Tally) -> cantle::Result<()> {
        self.session.db.put(key, value)?;
        tally.user_bytes_written += RECORD_BYTES;
        Ok(())
    }

    fn get(&self, key: &[u8], tally: &mut Tally) -> cantle::Result<()> {
        let read = |value: &[u8]| (value.len(), records::belongs(key, value));
        match self.session.db.get_with(key, read)? {
            Some((bytes, belongs)) => {
                tally.user_bytes_read += (key.len() + bytes) as u64;
                tally.wrong += u64::from(!belongs);
            }
            None => tally.missing += 1,
        }
        Ok(())
    }

    fn scan(&self, from: &[u8], rows: u64, tally: &mut Tally) -> cantle::Result<()> {
        let mut last: Option<cantle::Key> = None;
        for pair in self.session.db.range(from..).take(rows as usize) {
            let (key, value) = pair?;
            let in_order = last.is_none_or(|last| last < key);
            tally.wrong += u64::from(!in_order || !records::belongs(&key, &value));
            tally.user_bytes_read += (key.len() + value.len()) as u64;
            tally.rows_scanned += 1;
            last = Some(key);
        }
        // The first row is there: it was chosen among the records that exist.
        tally.missing += u64::from(last.is_none());
        Ok(())
    }
}
