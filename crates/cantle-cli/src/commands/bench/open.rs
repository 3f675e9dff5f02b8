//! `cantle bench --open`: opening a store whose writer was killed (`kill -9`) in the midst of its work.
//!
//! The child is this program with the same arguments and a hidden one more. It writes, says so on its standard
//! output and waits; the parent kills it, opens the store and reads. The child also ends when its standard
//! input does, so that it never outlives its parent.

use super::Workplace;
use super::args::Args;
use super::phase;
use super::records::{self, VALUE_BYTES, Values};
use crate::failure::{Failure, Outcome};
use crate::measure::disk;
use crate::measure::display;
use crate::measure::failed;
use crate::measure::generator::{Permutation, Random};
use crate::progress::Progress;
use crate::tuning::Survives;
use cantle::Db;
use serde::Serialize;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long chunks are read at random after the first get of each: some are loaded into memory meanwhile.
const READ_ON: Duration = Duration::from_secs(2);

/// What the child says when everything is written.
const WRITTEN: &str = "written";

#[derive(Debug, Serialize)]
struct Opening {
    records: u64,
    overwritten: u64,
    disk_bytes: u64,
    log_bytes: u64,
    table_bytes: u64,
    chunks: u64,
    open_ms: f64,
    /// Whether the kernel was made to forget the files before.
    cold: bool,
    first_gets: u64,
    first_get_mean_ms: f64,
    first_get_max_ms: f64,
    later_gets: u64,
    later_get_mean_ms: f64,
    later_get_max_ms: f64,
    /// Chunks loaded into memory by then.
    munk_loads: u64,
    missing: u64,
    wrong: u64,
    durability: &'static str,
    seed: u64,
    cantle_version: &'static str,
}

/// A child that is killed at the latest when this is dropped.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        // It may have ended already; there is nothing to do about a failure.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures; whether what was to survive is there.
pub(crate) fn run(args: &Args) -> Outcome<bool> {
    let workplace = Workplace::new(args)?;
    let program = std::env::current_exe().map_err(failed("find", Path::new("this program")))?;
    let mut command = Command::new(&program);
    command.args(std::env::args_os().skip(1)).arg("--open-child").arg(workplace.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut writer = Writer(command.spawn().map_err(failed("start", &program))?);
    let mut line = String::new();
    if let Some(output) = writer.0.stdout.take() {
        BufReader::new(output).read_line(&mut line).map_err(failed("read from", &program))?;
    }
    if line.trim_end() != WRITTEN {
        let what = "the writing process ended before it had written everything; see its message above";
        return Err(Failure::Failed(what.into()));
    }
    // SIGKILL: it gets no chance to flush or to close anything.
    writer.0.kill().and_then(|()| writer.0.wait()).map_err(failed("kill", &program))?;

    if args.cold {
        disk::evict(workplace.path()).map_err(failed("sync the files in", workplace.path()))?;
    }
    let begun = Instant::now();
    let db = args.store_options().create_if_missing(false).open(workplace.path())?;
    let open = begun.elapsed();
    let stats = db.stats();
    let total = |size: fn(&cantle::KeyspaceStats) -> u64| stats.keyspaces.iter().map(size).sum::<u64>();

    let mut random = Random::stream(args.seed, 1);
    let chunks = records_of_chunks(&db, args.records)?;
    let (mut first, mut later) = (Gets::default(), Gets::default());
    let order = Permutation::new(chunks.len() as u64, args.seed);
    for index in 0..chunks.len() as u64 {
        first.read_one(&db, &chunks[order.apply(index) as usize], &mut random)?;
    }
    let read_on = Instant::now();
    while read_on.elapsed() < READ_ON {
        later.read_one(&db, &chunks[random.below(chunks.len() as u64) as usize], &mut random)?;
    }
    let munk_loads = db.stats().keyspaces.iter().map(|keyspace| keyspace.munk_loads).sum();
    let (mut missing, mut wrong) = (first.missing + later.missing, first.wrong + later.wrong);
    // With the times taken, the rest: a sample of keys would miss a loss that a scan cannot.
    let mut scanned = 0;
    for pair in db.range(..) {
        let (key, value) = pair?;
        scanned += 1;
        wrong += u64::from(!records::belongs(&key, &value));
    }
    missing = missing.max(args.records.saturating_sub(scanned));
    let opening = Opening {
        records: args.records,
        overwritten: overwrites(args),
        disk_bytes: disk::allocated_bytes(workplace.path()).map_err(failed("list", workplace.path()))?,
        log_bytes: total(|keyspace| keyspace.log_bytes),
        table_bytes: total(|keyspace| keyspace.table_bytes),
        chunks: total(|keyspace| keyspace.chunks),
        open_ms: ms(open),
        cold: args.cold,
        first_gets: first.count,
        first_get_mean_ms: first.mean_ms(),
        first_get_max_ms: ms(first.longest),
        later_gets: later.count,
        later_get_mean_ms: later.mean_ms(),
        later_get_max_ms: ms(later.longest),
        munk_loads,
        missing,
        wrong,
        durability: args.tuning.durability.name(),
        seed: args.seed,
        cantle_version: env!("CARGO_PKG_VERSION"),
    };
    db.close()?;
    print(args, &opening)?;
    if let Workplace::Kept(dir) = &workplace {
        writeln!(std::io::stderr(), "the store is kept in {}", dir.display())?;
    }
    // A buffered store may lose what came after its last checkpoint.
    let may_lose = args.tuning.durability == Survives::Buffered;
    Ok(opening.wrong == 0 && (opening.missing == 0 || may_lose))
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Gets, and how long they took.
#[derive(Default)]
struct Gets {
    count: u64,
    sum: Duration,
    longest: Duration,
    missing: u64,
    wrong: u64,
}

impl Gets {
    /// Reads one of the records.
    fn read_one(&mut self, db: &Db, records: &Range<u64>, random: &mut Random) -> Outcome {
        let key = records::key(records.start + random.below(records.end - records.start));
        let begun = Instant::now();
        let value = db.get(key)?;
        let took = begun.elapsed();
        (self.longest, self.sum) = (self.longest.max(took), self.sum + took);
        self.count += 1;
        match value {
            None => self.missing += 1,
            Some(value) => self.wrong += u64::from(!records::belongs(&key, &value)),
        }
        Ok(())
    }

    fn mean_ms(&self) -> f64 {
        ms(self.sum) / self.count.max(1) as f64
    }
}

/// The numbers of the records that lie in each chunk, where any do.
fn records_of_chunks(db: &Db, records: u64) -> Outcome<Vec<Range<u64>>> {
    let first_from = |start: &[u8]| {
        let (mut low, mut high) = (0, records);
        while low < high {
            let middle = low + (high - low) / 2;
            if &records::key(middle)[..] < start { low = middle + 1 } else { high = middle }
        }
        low
    };
    let mut bounds: Vec<u64> = db.chunks()?.iter().map(|chunk| first_from(&chunk.start)).collect();
    bounds.push(records);
    Ok(bounds.windows(2).map(|pair| pair[0]..pair[1]).filter(|chunk| !chunk.is_empty()).collect())
}

fn print(args: &Args, opening: &Opening) -> Outcome {
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, opening)?;
        writeln!(out)?;
        return Ok(());
    }
    writeln!(
        out,
        "after SIGKILL{}: {} on disk in {} chunks, {} of it in logs\n  opened in {:.1} ms\n  first get of each \
         of {} chunks: {:.2} ms at most, {:.3} ms on average\n  {} gets of random chunks behind them: {:.2} ms at \
         most, {:.3} ms on average, while {} chunks were loaded\n  {} missing, {} wrong ({} durability)",
        if opening.cold { ", the page cache emptied" } else { "" },
        display::bytes(opening.disk_bytes),
        display::count(opening.chunks),
        display::bytes(opening.log_bytes),
        opening.open_ms,
        display::count(opening.first_gets),
        opening.first_get_max_ms,
        opening.first_get_mean_ms,
        display::count(opening.later_gets),
        opening.later_get_max_ms,
        opening.later_get_mean_ms,
        display::count(opening.munk_loads),
        opening.missing,
        opening.wrong,
        opening.durability,
    )?;
    Ok(())
}

/// Puts after the load, in random order: they are what fills logs.
fn overwrites(args: &Args) -> u64 {
    (args.records as f64 * args.overwrites.unwrap_or(0.25)).round() as u64
}

/// The writing process: loads, overwrites at random, says so and waits for its end.
pub(crate) fn child(args: &Args, dir: &Path) -> Outcome {
    let db = args.store_options().error_if_exists(true).open(dir)?;
    let values = Values::new(args.seed);
    phase::load(&db, &values, args.records, args.seed, None)?;
    let puts = overwrites(args);
    let mut progress = Progress::new("overwrite", Some(puts));
    let mut random = Random::stream(args.seed, 2);
    let order = Permutation::new(args.records, args.seed);
    let mut value = [0; VALUE_BYTES];
    for put in 0..puts {
        let record = order.apply(put % args.records);
        values.fill(&mut value, record, &mut random);
        db.put(records::key(record), value)?;
        if put % 256 == 0 {
            progress.at(put);
        }
    }
    drop(progress);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{WRITTEN}")?;
    out.flush()?;
    // Standard input ends when the parent does, if it has not killed this process by then.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
