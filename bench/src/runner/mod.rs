//! Runs a suite. For each data set, each engine loads it once. For each of its cells there are
//! rounds in which every engine has its turn, A B A B, each on a fresh copy, with cold caches, in a
//! process and a control group of its own.

mod child;
mod copy;
mod device;
mod machine;
mod results;
mod shrink;
mod tight;
mod time;

pub use machine::{describe, revision};
pub use results::{Results, read as read_results};

use crate::engine::{self, Durability, Settings, Spec};
use crate::failure::{Failure, Result, on};
use crate::job::{Job, Step};
use crate::measure::group;
use crate::record::{Outcome, Plan, Trial};
use crate::suite::{Cell, PageCache, Suite};
use cantle_workloads::generator::Distribution;
use cantle_workloads::workload::Workload;
use child::{Child, Ended};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::fs::{FlockOperation, flock};
use shrink::Shrink;
use std::collections::{HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tight::TightDisk;
use time::TimeOf;

/// The step that is measured after a store was killed and opened again.
pub const FIRST_GETS: &str = "first-gets";

/// Gets of that step: in a large store each is the first of its chunk.
const FIRST_GETS_COUNT: u64 = 100;

/// Bytes that a map in memory uses per record beside the record: two allocations, its share of a node.
const MAP_BYTES_PER_RECORD: u64 = 90;

/// Seconds without background work after which a store is settled.
const QUIET_SECONDS: f64 = 5.0;

/// The recorded result of a turn that this kind of engine cannot have; not a failure.
pub const LEFT_OUT: &str = "left out";

/// The longest that any child may take, loading included.
const CHILD_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

/// Locks a directory for one run, until the result is dropped: two runs would disturb each other's
/// measurements, and remove each other's stores.
fn claim(work: &Path) -> Result<File> {
    let path = work.join("in-use");
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(on("open", &path))?;
    let claimed = flock(&file, FlockOperation::NonBlockingLockExclusive);
    claimed.map_err(|_| {
        Failure(format!("another run has its stores in {}: wait for its end", work.display()))
    })?;
    Ok(file)
}

/// A run in progress.
pub struct Runner<'a> {
    plan: &'a Plan,
    suite: &'a Suite,
    /// The directory of the stores.
    work: PathBuf,
    results: Results,
    limit: bool,
    bar: ProgressBar,
    /// True if figures do not matter; then caches are not dropped.
    is_smoke: bool,
    /// Locked during each turn.
    lock: Option<File>,
}

impl<'a> Runner<'a> {
    /// A run into `results`, with its stores below `work`.
    pub fn new(plan: &'a Plan, suite: &'a Suite, work: PathBuf, results: Results, is_smoke: bool) -> Self {
        let limit = group::probe().is_ok();
        let target = if is_smoke { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style =
            ProgressStyle::with_template("{bar:30} {percent:>3} %  {elapsed} gone, {eta} left  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { plan, suite, work, results, limit, bar, is_smoke, lock: None }
    }

    /// The same run, with a file that is locked during each turn.
    pub fn locking(mut self, lock: Option<&Path>) -> Result<Self> {
        let open =
            |path: &Path| OpenOptions::new().create(true).append(true).open(path).map_err(on("open", path));
        self.lock = lock.map(open).transpose()?;
        Ok(self)
    }

    /// Runs everything that has no result yet. Returns the number of failed trials.
    pub fn run(mut self) -> Result<u64> {
        fs::create_dir_all(&self.work).map_err(on("create", &self.work))?;
        let _claimed = claim(&self.work)?;
        let done: HashSet<(String, String, u64)> = self.results.done();
        let cells: Vec<&Cell> = self.suite.cells.iter().collect();
        let is_left = |cell: &Cell, engine: &Spec, round: u64| {
            !done.contains(&(cell.id.clone(), engine.to_string(), round))
        };
        let turns = |cell: &Cell| -> Vec<(u64, Spec)> {
            let engines = cell.engines_of(&self.plan.engines);
            let rounds = (0..self.plan.rounds.min(cell.rounds_max))
                .flat_map(|round| engines.iter().map(move |e| (round, e.clone())));
            rounds.filter(|(round, engine)| is_left(cell, engine, *round)).collect()
        };
        let schedule: Vec<(&Cell, Vec<(u64, Spec)>)> =
            cells.into_iter().map(|cell| (cell, turns(cell))).collect();
        let cost = |cell: &Cell| 1_000_000 + cell.data_bytes() / 100;
        self.bar.set_length(schedule.iter().map(|(cell, turns)| cost(cell) * turns.len() as u64).sum());
        self.bar.enable_steady_tick(Duration::from_secs(1));

        let mut failures = 0;
        let begun = Instant::now();
        for (at, (cell, turns)) in schedule.iter().enumerate() {
            let left = schedule[at..].iter().filter(|(_, turns)| !turns.is_empty());
            let weights = left.map(|(cell, _)| cell.weight()).sum::<u32>().max(1);
            let share = f64::from(cell.weight()) / f64::from(weights);
            let mut time = TimeOf::cell(self.plan, begun.elapsed(), share);
            let mut shrink = Shrink::new(cell);
            let mut queue = VecDeque::from(shrink.order(turns.clone()));
            let (mut is_again, spare) = (false, shrink.spare(queue.len()));
            let usual = time.of_turn(queue.len() + spare);
            loop {
                if queue.is_empty() && !is_again {
                    is_again = true;
                    queue.extend(time.fitting(shrink.too_large(), usual));
                }
                let Some(turn) = queue.pop_front() else { break };
                let (round, engine) = &turn;
                self.bar.set_message(format!("{} · {engine} · round {}", cell.id, round + 1));
                let turns_left =
                    1 + queue.len() + if is_again { 0 } else { spare.max(shrink.too_large().len()) };
                let outcome = self.turn(cell, engine, &mut time, turns_left, shrink.records_max());
                let outcome = outcome.map_err(|failure| failure.0);
                if let Ok(outcome) = &outcome {
                    if is_again && shrink.falls_short(outcome) {
                        continue;
                    }
                    shrink.add(&turn, outcome);
                }
                if let Err(what) = &outcome {
                    failures += u64::from(!what.starts_with(LEFT_OUT));
                    self.say(&format!("{} · {engine}: {what}", cell.id));
                }
                let ended_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
                self.results.add(Trial {
                    cell: cell.id.clone(),
                    engine: engine.clone(),
                    round: *round,
                    ended_at,
                    outcome,
                })?;
                self.bar.inc(if is_again { 0 } else { cost(cell) });
            }
            let is_last = schedule.get(at + 1).is_none_or(|(next, _)| next.data_set() != cell.data_set());
            if is_last {
                remove(&self.data_sets())?;
            }
        }
        self.bar.finish_and_clear();
        remove(&self.work)?;
        Ok(failures)
    }

    fn say(&self, text: &str) {
        if !self.is_smoke {
            self.bar.suspend(|| eprintln!("{text}"));
        }
    }

    fn data_sets(&self) -> PathBuf {
        self.work.join("data-sets")
    }

    fn settings(&self, cell: &Cell, dir: PathBuf) -> Settings {
        Settings {
            dir,
            budget_bytes: self.plan.budget_at(cell),
            durability: cell.durability.unwrap_or(self.plan.durability),
            background_threads: self.plan.background_threads,
        }
    }

    fn job(&self, cell: &Cell, engine: &Spec, dir: PathBuf, steps: Vec<Step>) -> Job {
        Job {
            engine: engine.clone(),
            settings: self.settings(cell, dir),
            steps,
            sizes: cell.sizes,
            threads: cell.threads,
            seconds_max: self.plan.seconds_max,
            writing_seconds_max: self.plan.writing_seconds_max,
            seconds_total: None,
            records_max: None,
            quiet_s: if self.is_smoke { 0.1 } else { QUIET_SECONDS },
            seed: self.plan.seed,
            hold: false,
        }
    }

    /// One engine's turn, as soon as the machine's lock is free.
    fn turn(
        &self,
        cell: &Cell,
        engine: &Spec,
        time: &mut TimeOf,
        turns_left: usize,
        records_max: Option<u64>,
    ) -> Result<Outcome> {
        let lock = |operation| self.lock.as_ref().map_or(Ok(()), |file| flock(file, operation));
        lock(FlockOperation::LockExclusive)?;
        let outcome = self.trial(cell, engine, time, turns_left, records_max);
        lock(FlockOperation::Unlock)?;
        outcome
    }

    fn trial(
        &self,
        cell: &Cell,
        engine: &Spec,
        time: &mut TimeOf,
        turns_left: usize,
        records_max: Option<u64>,
    ) -> Result<Outcome> {
        let mut dir = self.work.join("trial");
        TightDisk::unmount_left(&dir);
        remove(&dir)?;
        let mut steps = cell.steps.clone();
        if engine.is_volatile() {
            if cell.reopen.is_some()
                || steps.iter().any(|step| matches!(step, Step::Replay { .. })) && cell.records > 0
            {
                return Err(Failure(format!("{LEFT_OUT}: it keeps nothing")));
            }
            let bytes =
                cell.data_bytes() + cell.data_bytes() / cell.sizes.record_bytes() * MAP_BYTES_PER_RECORD;
            if self.limit && bytes > self.plan.memory_at(cell) {
                return Err(Failure(format!("{LEFT_OUT}: the data does not fit into the memory")));
            }
            if cell.records > 0 {
                steps.insert(0, Step::Load { records: cell.records, is_scattered: cell.is_scattered });
            }
        }
        let _tight = match cell.disk {
            Some(times) => {
                let most = records_max.map_or(u64::MAX, |most| most * cell.sizes.record_bytes());
                let disk = TightDisk::mount(&dir, (times * cell.data_bytes().min(most) as f64) as u64)?;
                dir.push("store");
                Some(disk)
            }
            None => None,
        };
        fs::create_dir_all(&dir).map_err(on("create", &dir))?;
        let shared = if engine.is_volatile() || cell.records == 0 {
            copy::Shared::default()
        } else {
            let loading = Instant::now();
            let loaded = self.data_set(cell, engine)?;
            time.grant(loading.elapsed());
            copy::tree(&loaded, &dir, &|file| engine::is_written_once(engine, file))?
        };
        let mut device_reads = None;
        if !self.is_smoke {
            copy::drop_caches(&dir)?;
            device_reads = device::reads_per_second(&dir, self.plan.threads, self.plan.seed)?;
            copy::drop_caches(&dir)?;
        }
        let mut job = self.job(cell, engine, dir.clone(), steps);
        job.seconds_total = time.of_turn(turns_left);
        job.records_max = records_max;
        let outcome = match cell.reopen {
            Some(page_cache) => self.reopen(job, cell, page_cache),
            None => self.child(&job, cell)?.end(),
        };
        let outcome = outcome.map(|outcome| Outcome { device_reads, ..outcome });
        remove(&dir)?;
        if let Err(failure) = shared.check() {
            // The data sets are loaded again.
            remove(&self.data_sets())?;
            return Err(failure);
        }
        outcome
    }

    /// Runs the steps, kills the process with SIGKILL, and measures the next opening.
    fn reopen(&self, mut job: Job, cell: &Cell, page_cache: PageCache) -> Result<Outcome> {
        job.hold = true;
        let mut child = self.child(&job, cell)?;
        let before = child.outcome()?;
        child.kill()?;
        if page_cache == PageCache::Dropped && !self.is_smoke {
            copy::drop_caches(&job.settings.dir)?;
        }
        job.hold = false;
        job.steps = vec![Step::Run {
            name: FIRST_GETS.into(),
            workload: Workload::C,
            distribution: Some(Distribution::Uniform),
            theta: 0.0,
            records: cell.records,
            warmup: 0,
            operations: FIRST_GETS_COUNT,
            with_appends: false,
        }];
        let mut outcome = self.child(&job, cell)?.end()?;
        outcome.steps.extend(before.steps);
        Ok(outcome)
    }

    fn child(&self, job: &Job, cell: &Cell) -> Result<Child> {
        let limit = self.limit.then(|| self.plan.memory_at(cell));
        Child::start(job, limit, CHILD_TIMEOUT)
    }

    /// The store with the cell's records, loaded on first use.
    fn data_set(&self, cell: &Cell, engine: &Spec) -> Result<PathBuf> {
        let name = format!("{}-{}", engine.file_name(), cell.data_set());
        let dir = self.data_sets().join(&name);
        let mark = self.data_sets().join(name + ".loaded");
        if mark.exists() {
            return Ok(dir);
        }
        remove(&dir)?;
        fs::create_dir_all(&dir).map_err(on("create", &dir))?;
        let load = Step::Load { records: cell.records, is_scattered: cell.is_scattered };
        let mut job = self.job(cell, engine, dir.clone(), vec![load]);
        // Loading is not measured, and a sync for each record would take hours.
        job.settings.durability = Durability::Process;
        job.threads = 1;
        self.bar.set_message(format!("loading {} records · {engine}", cell.records));
        self.child(&job, cell)?.end().map_err(|failure| Failure(format!("loading: {failure}")))?;
        fs::write(&mark, "").map_err(on("write", &mark))?;
        Ok(dir)
    }
}

/// Removes a directory, if it exists.
fn remove(dir: &Path) -> Result {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(on("remove", dir)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_of_one_run_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let claimed = claim(dir.path()).unwrap();
        let refused = claim(dir.path()).unwrap_err().0;
        assert!(
            refused.contains("another run") && refused.contains(dir.path().to_str().unwrap()),
            "{refused}"
        );
        drop(claimed);
        claim(dir.path()).unwrap();
    }
}
