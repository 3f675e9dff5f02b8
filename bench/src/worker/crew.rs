//! The threads that run one measured step, and the samples taken during it.

use super::appends::Appends;
use super::filled::Filled;
use super::meter::Meter;
use super::settle;
use super::source::{
    FromDelete, FromFile, FromFill, FromGetMany, FromSeek, FromTrace, FromWorkload, Next, Source,
};
use super::tally::{Kind, Tally};
use super::work::{Mix, Work};
use crate::engine::Engine;
use crate::failure::{Failure, Result, on};
use crate::job::{Job, Step};
use crate::measure::cycles::Cycles;
use crate::measure::space::{Sampler, TableSizes};
use crate::record::Measured;
use cantle_workloads::generator::{Chooser, Random};
use cantle_workloads::records::Values;
use cantle_workloads::trace::Reader;
use std::fs::File;
use std::io::BufReader;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Interval at which the waiting thread samples the disk space.
const TICK: Duration = Duration::from_millis(20);

/// Number of operations after which a thread checks the state of the others.
const LOOK_EVERY: u64 = 64;

/// A store and the threads that use it.
pub struct Crew<'a> {
    pub job: &'a Job,
    pub engine: &'a dyn Engine,
    pub values: &'a Values,
    /// The records that a fill before the step left; `None` if there was none.
    pub filled: Option<&'a Filled>,
}

impl Crew<'_> {
    /// Runs a step to its end or until `longest` is over, syncs, and reports. After a fill it also returns
    /// the records that exist.
    pub fn run(
        &self,
        step: &Step,
        longest: Duration,
        cycles: &mut Cycles,
    ) -> Result<(Measured, Option<Filled>)> {
        if let Step::Settle { .. } = step {
            return Ok((self.settle(longest, cycles)?, None));
        }
        let mut work = Work::new(self.job, step, self.filled, longest)?;
        if let (Step::Run { warmup, .. }, Mix::Workload { chooser: Some(chooser), filled, .. }) =
            (step, &work.mix)
        {
            let begun = Instant::now();
            self.warm_up(
                chooser,
                filled,
                *warmup,
                work.population.existing(),
                self.longest_warm_up(longest),
            )?;
            if self.job.seconds_total.is_some() {
                work.longest = longest.saturating_sub(begun.elapsed());
            }
        }
        let dir = &self.job.settings.dir;
        let before_population = work.population.existing();
        let (failed, left) = (AtomicBool::new(false), AtomicU64::new(work.operations));
        let meter = Meter::start(self.engine, dir, cycles);
        let start = Instant::now();
        let mut sampler = Sampler::new(start);
        let done = || work.operations - left.load(Ordering::Relaxed);
        let live_bytes = || work.existing(done()) * work.record_bytes;
        let unmerged_bytes = || self.engine.unmerged_bytes();

        let appends = match step {
            Step::Run { with_appends: true, .. } => Some(Appends::beside(dir)?),
            _ => None,
        };
        let tallies = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.job.threads)
                .map(|thread| {
                    let (work, failed, left) = (&work, &failed, &left);
                    scope.spawn(move || {
                        let tally = self.work(work, thread, before_population, start, left, failed);
                        if tally.is_err() {
                            failed.store(true, Ordering::Relaxed);
                        }
                        tally
                    })
                })
                .collect();
            while !threads.iter().all(|thread| thread.is_finished()) {
                std::thread::sleep(TICK);
                sampler.look(dir, live_bytes(), &unmerged_bytes);
            }
            let panicked = |_| Err(Failure::new("a thread panicked"));
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(panicked))
                .collect::<Result<Vec<Tally>>>()
        })?;

        let append_longest_ns = appends.map(Appends::stop).transpose()?;
        let measured = meter.stop(self.engine, dir, cycles)?;
        let mut sum = Tally::new()?;
        tallies.iter().try_for_each(|tally| sum.add(tally))?;
        let measured = Measured {
            operations: sum.operations,
            seconds: sum.took.as_secs_f64(),
            is_cut: left.load(Ordering::Relaxed) > 0 && !matches!(work.mix, Mix::Replay(_)),
            first_ns: sum.first.and_then(|first| u64::try_from(first.as_nanos()).ok()),
            append_longest_ns,
            latency: sum.percentiles()?,
            timeline: sum.timeline.timeline(),
            user_bytes_written: sum.written,
            user_bytes_read: sum.read,
            gets: sum.gets,
            rows: sum.rows,
            missing: sum.missing,
            wrong: sum.wrong,
            space: sampler.finish(dir, live_bytes()),
            ..measured
        };
        Ok((measured, work.filled(sum.operations)))
    }

    /// Waits until the store is settled.
    fn settle(&self, longest: Duration, cycles: &mut Cycles) -> Result<Measured> {
        let quiet = Duration::from_secs_f64(self.job.quiet_s);
        let dir = &self.job.settings.dir;
        let live_bytes = self.filled.map_or(0, |filled| filled.records) * self.job.sizes.record_bytes();
        let meter = Meter::start(self.engine, dir, cycles);
        let mut sampler = Sampler::new(Instant::now());
        let unmerged_bytes = || self.engine.unmerged_bytes();
        let mut look = || sampler.look(dir, live_bytes, &unmerged_bytes);
        let settled = settle::wait(self.engine, quiet, longest, &mut look)?;
        let measured = meter.stop(self.engine, dir, cycles)?;
        Ok(Measured {
            seconds: settled.after.as_secs_f64(),
            is_cut: !settled.is_settled,
            space: sampler.finish(dir, live_bytes),
            table_sizes: TableSizes::of(dir),
            ..measured
        })
    }

    /// The longest time of a warm-up. It is a part of the step's time if the steps share a limit.
    fn longest_warm_up(&self, longest: Duration) -> Duration {
        match self.job.seconds_total {
            Some(_) => longest / 4,
            None => Duration::from_secs_f64(self.job.seconds_max),
        }
    }

    fn warm_up(
        &self,
        chooser: &Chooser,
        filled: &Filled,
        gets: u64,
        newest: u64,
        longest: Duration,
    ) -> Result {
        let (mut chooser, mut random) = (chooser.clone(), Random::stream(self.job.seed, u64::MAX - 2));
        let until = Instant::now() + longest;
        let mut key = Vec::new();
        for _ in 0..gets {
            if Instant::now() > until {
                break;
            }
            self.job.sizes.key(filled.record(chooser.next(&mut random, newest)), &mut key);
            self.engine.get(&key, &mut |_| ())?;
        }
        Ok(())
    }

    fn source<'b>(&'b self, work: &'b Work, thread: u64, existing: u64) -> Result<Source<'b>> {
        let random = Random::stream(work.seed, thread);
        let from_trace =
            |trace, random| FromTrace { trace, events: &work.population, random, filler: &work.filler };
        Ok(match &work.mix {
            Mix::Workload { workload, chooser, insert_order, filled } => {
                Source::Workload(Box::new(FromWorkload {
                    workload: *workload,
                    chooser: chooser.clone(),
                    random,
                    population: &work.population,
                    first_insert: existing,
                    insert_order: insert_order.clone(),
                    filled,
                    values: self.values,
                    sizes: self.job.sizes,
                }))
            }
            Mix::Fill { filled, order, is_first } => Source::Fill(Box::new(FromFill {
                filled,
                order: order.as_ref(),
                is_first: *is_first,
                random,
                values: self.values,
                sizes: self.job.sizes,
            })),
            Mix::Delete { filled, order } => {
                Source::Delete(FromDelete { filled, order: order.as_ref(), sizes: self.job.sizes })
            }
            Mix::Seek { chooser, rows, filled } => Source::Seek(Box::new(FromSeek {
                chooser: chooser.clone(),
                rows: *rows,
                filled,
                random,
                sizes: self.job.sizes,
            })),
            Mix::GetMany { chooser, at_once, filled } => Source::GetMany(Box::new(FromGetMany {
                chooser: chooser.clone(),
                at_once: *at_once,
                filled,
                random,
                sizes: self.job.sizes,
            })),
            Mix::Ingest(trace) => Source::Ingest(from_trace(trace, random)),
            Mix::Analyse(trace) => Source::Analyse(from_trace(trace, random)),
            Mix::Replay(file) => {
                let input = BufReader::new(File::open(file).map_err(on("open", file))?);
                let reader = Reader::new(input).map_err(on("read", file))?;
                let (threads, filler) = (self.job.threads, &work.filler);
                Source::Replay(Box::new(FromFile { reader, thread, threads, filler }))
            }
        })
    }

    fn work(
        &self,
        work: &Work,
        thread: u64,
        existing: u64,
        start: Instant,
        left: &AtomicU64,
        failed: &AtomicBool,
    ) -> Result<Tally> {
        let mut tally = Tally::new()?;
        let mut source = self.source(work, thread, existing)?;
        let mut next = Next::default();
        // A thread takes a few operations at a time, so that all threads end together.
        let take = |left: u64| (left > 0).then(|| left - left.min(LOOK_EVERY));
        'work: while let Ok(before) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            let taken = before.min(LOOK_EVERY);
            for number in 0..taken {
                if !source.next(work.operations - before + number, &mut next)? {
                    break 'work;
                }
                let Some(kind) = next.kind else { break 'work };
                let begun = Instant::now();
                self.perform(kind, &next, &mut tally)?;
                let ended = Instant::now();
                if let Some(number) = next.claimed {
                    work.population.written(number);
                }
                tally.record(kind, ended - begun, ended - start);
            }
            if tally.took >= work.longest || failed.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(tally)
    }

    fn perform(&self, kind: Kind, next: &Next, tally: &mut Tally) -> Result {
        match kind {
            Kind::Put | Kind::Insert => self.put(next, tally),
            Kind::Get => self.get(next, tally),
            Kind::ReadModifyWrite => {
                self.get(next, tally)?;
                self.put(next, tally)
            }
            Kind::Delete => self.engine.delete(&next.key),
            Kind::Scan => self.scan(next, tally),
            Kind::GetMany => self.get_many(next, tally),
        }
    }

    fn put(&self, next: &Next, tally: &mut Tally) -> Result {
        self.engine.put(&next.key, &next.value)?;
        tally.written += (next.key.len() + next.value.len()) as u64;
        Ok(())
    }

    fn get(&self, next: &Next, tally: &mut Tally) -> Result {
        let (mut bytes, mut belongs) = (0, true);
        let found = self.engine.get(&next.key, &mut |value| {
            bytes = value.len();
            belongs = !next.is_checkable || belong(&next.key, value);
        })?;
        tally.gets += 1;
        tally.read += (next.key.len() + bytes) as u64;
        tally.missing += u64::from(!found && next.must_exist);
        tally.wrong += u64::from(!belongs);
        Ok(())
    }

    fn get_many(&self, next: &Next, tally: &mut Tally) -> Result {
        let (mut found, mut bytes, mut wrong) = (0u64, 0, 0);
        self.engine.get_many(&next.keys, &mut |number, value| {
            let belongs = next.keys.get(number).is_some_and(|key| belong(key, value));
            (found, bytes, wrong) = (found + 1, bytes + value.len(), wrong + u64::from(!belongs));
        })?;
        let keys = next.keys.len() as u64;
        tally.gets += keys;
        tally.read += (next.keys.iter().map(Vec::len).sum::<usize>() + bytes) as u64;
        tally.missing += keys.saturating_sub(found);
        tally.wrong += wrong;
        Ok(())
    }

    fn scan(&self, next: &Next, tally: &mut Tally) -> Result {
        let (mut rows, mut bytes, mut wrong) = (0u64, 0, 0);
        // The order of rows is checked by their keys' first 32 bytes, which is the whole key in the
        // workloads.
        let mut last = [0; 32];
        self.engine.scan(&next.key, next.to.as_deref(), next.rows, &mut |key, value| {
            let prefix = prefix(key);
            let is_right = !next.is_checkable || (belong(key, value) && (rows == 0 || prefix > last));
            wrong += u64::from(!is_right);
            (rows, bytes, last) = (rows + 1, bytes + key.len() + value.len(), prefix);
        })?;
        tally.rows += rows;
        tally.read += bytes as u64;
        tally.wrong += wrong;
        tally.missing += u64::from(rows == 0 && next.must_exist);
        Ok(())
    }
}

/// True if the value was written for the key: it begins with it, or is the beginning of it.
fn belong(key: &[u8], value: &[u8]) -> bool {
    let len = key.len().min(value.len());
    key[..len] == value[..len]
}

fn prefix(key: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    let len = key.len().min(bytes.len());
    bytes[..len].copy_from_slice(&key[..len]);
    bytes
}
