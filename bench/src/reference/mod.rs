//! `reference`: compares the store with maps in memory and bare appends, in one process and on the
//! same operations.
//!
//! A round gives each side one turn, and ratios are between turns of one round, since other work on
//! the machine then slows all sides alike. The store has its defaults, and all of its chunks are in
//! memory before the first round.

mod comparison;
mod device;
mod maps;
mod puts;
mod race;

use crate::failure::{Failure, Result};
use crate::runner;
use cantle::stats::KeyspaceStats;
use cantle::{Db, Options, Stats};
use cantle_workloads::generator::{Chooser, Distribution, Random};
use cantle_workloads::records::{self, RECORDS_MAX, VALUE_BYTES, Values};
use cantle_workloads::size::{parse_duration, parse_size};
use cantle_workloads::workload::Workload;
use comparison::Comparison;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use maps::Maps;
use race::{Key, Keys, Length, Touched, Turn};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Rows of a scan.
const SCAN_ROWS: usize = 100;

/// Minimum ratios: of gets to the B-tree, of `get` to `get_with`, and of scans.
const FLOOR_GETS: f64 = 1.2;
const FLOOR_OWNED: f64 = 0.85;
const FLOOR_SCANS: f64 = 1.0;

/// Maximum number of keys that each thread draws for a round: with more, reading the keys would
/// cost too much.
const KEYS_MAX: u64 = 1 << 20;

/// Warming ends when no other chunk was loaded for this time.
const WARMING_STALLS: Duration = Duration::from_secs(10);

/// The longest wait for background work.
const QUIET_TIMEOUT: Duration = Duration::from_secs(30);

/// The arguments. The floors are meant for the defaults.
#[derive(Debug, Clone, Serialize, clap::Args)]
pub struct Args {
    /// C compares gets, S100 scans of 100 rows, P puts; separated by commas
    #[serde(skip)]
    #[arg(long, value_delimiter = ',', default_value = "C,S100,P", value_parser = parse_workload)]
    workload: Vec<Workload>,

    /// Distribution of the records that operations touch
    #[arg(long, value_enum, default_value = "zipf-composite")]
    distribution: Distribution,

    /// Skew of the Zipf distributions
    #[arg(long, default_value_t = 0.99)]
    theta: f64,

    /// Records of the store and of the maps
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..RECORDS_MAX))]
    records: u64,

    /// Puts in all rounds together
    #[arg(long, default_value_t = 3_000_000)]
    puts: u64,

    /// Rounds; in each, every side has its turn
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,

    /// Length of a turn of gets or scans
    #[serde(skip)]
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    turn: Duration,

    /// Threads that run operations
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: u64,

    /// The store's memory budget
    #[serde(rename = "memory_bytes")]
    #[arg(long, value_name = "BYTES", default_value = "2GiB", value_parser = parse_size)]
    memory: u64,

    /// Seed of keys, values and order
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Directory in which the store and the appends get a new one of their own [default: the
    /// system's temporary directory]
    #[serde(skip)]
    #[arg(long)]
    dir: Option<PathBuf>,

    /// One JSON object per comparison and line
    #[serde(skip)]
    #[arg(long)]
    json: bool,
}

/// A line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    parameters: &'a Args,
    revision: String,
}

impl Args {
    /// All comparisons at a tiny size.
    pub fn tiny() -> Self {
        Self {
            workload: vec![Workload::C, Workload::S100, Workload::P],
            distribution: Distribution::ZipfComposite,
            theta: 0.99,
            records: 3_000,
            puts: 4_000,
            rounds: 2,
            turn: Duration::from_millis(10),
            threads: 2,
            memory: 64 << 20,
            seed: 1,
            dir: None,
            json: true,
        }
    }
}

fn parse_workload(text: &str) -> std::result::Result<Workload, String> {
    [Workload::C, Workload::S100, Workload::P]
        .into_iter()
        .find(|workload| workload.name().eq_ignore_ascii_case(text))
        .ok_or_else(|| format!("{text:?} is none of C, S100 and P"))
}

/// The store and the keys that all comparisons share.
struct Race<'a> {
    args: &'a Args,
    db: &'a Db,
    values: &'a Values,
    chooser: Chooser,
}

/// Runs the comparisons that the arguments name and prints each. Returns true if every record was
/// present and right.
pub fn run(args: &Args, out: &mut impl Write) -> Result<bool> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("cantle-lab-reference-");
    let dir = match &args.dir {
        Some(dir) => builder.tempdir_in(dir)?,
        None => builder.tempdir()?,
    };
    let db =
        Options::new().memory_budget(args.memory).error_if_exists(true).open(dir.path().join("store"))?;
    let values = Values::new(args.seed);
    each_record("loading the store", &values, args.records, args.seed, |key, value| Ok(db.put(key, value)?))?;
    db.sync()?;
    let chooser = Chooser::new(args.distribution, args.records, args.theta, args.seed);
    let race = Race { args, db: &db, values: &values, chooser };
    let (munks, chunks) = race.warm()?;
    if !args.json {
        let (records, memory) = (args.records, args.memory >> 20);
        let (threads, distribution) = (args.threads, args.distribution.name());
        writeln!(
            out,
            "{records} records, {distribution}, {threads} threads, memory {memory} MiB; {munks} of {chunks} chunks in memory",
        )?;
    }
    let asked = |workload: Workload| args.workload.contains(&workload);
    let mut comparisons = Vec::new();
    if asked(Workload::C) || asked(Workload::S100) {
        let maps = Maps::load(&values, args.records, args.seed)?;
        let wrong = race.differences(&maps)?;
        if asked(Workload::C) {
            comparisons.push(race.gets(&maps, wrong)?);
        }
        if asked(Workload::S100) {
            comparisons.push(race.scans(&maps, wrong)?);
        }
    }
    if asked(Workload::P) {
        comparisons.push(puts::compare(&race, args.puts, dir.path())?);
    }
    db.close()?;
    for comparison in &comparisons {
        if args.json {
            let line = Line { comparison, parameters: args, revision: runner::revision() };
            serde_json::to_writer(&mut *out, &line)?;
            writeln!(out)?;
        } else {
            comparison.print(out)?;
        }
    }
    Ok(comparisons.iter().all(|comparison| comparison.wrong == 0))
}

/// A progress bar that disappears when it is dropped.
fn bar(title: &'static str, length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {bar:30} {percent:>3} %");
    ProgressBar::new(length)
        .with_prefix(title)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_finish(ProgressFinish::AndClear)
}

/// Passes the records `0..records` to `put`, in key order. The same seed gives the same values.
fn each_record(
    title: &'static str,
    values: &Values,
    records: u64,
    seed: u64,
    mut put: impl FnMut(&[u8], &[u8]) -> Result,
) -> Result {
    let progress = bar(title, records);
    let mut random = Random::stream(seed, u64::MAX - 1);
    let mut value = [0; VALUE_BYTES];
    for record in 0..records {
        values.fill(&mut value, record, &mut random);
        put(&records::key(record), &value)?;
        if record % 4096 == 0 {
            progress.set_position(record);
        }
    }
    Ok(())
}

/// Growth of a counter over all keyspaces, between the two statistics.
fn grown(stats: &(Stats, Stats), counter: impl Fn(&KeyspaceStats) -> u64) -> u64 {
    let sum = |stats: &Stats| stats.keyspaces.iter().map(&counter).sum::<u64>();
    sum(&stats.1).saturating_sub(sum(&stats.0))
}

/// Number of chunks in memory, and of all chunks.
fn munks_and_chunks(stats: &Stats) -> (u64, u64) {
    let add = |(munks, chunks), keyspace: &KeyspaceStats| {
        (munks + keyspace.chunk().map_or(0, |chunk| chunk.munks), chunks + keyspace.regions)
    };
    stats.keyspaces.iter().fold((0, 0), add)
}

/// Waits until no background job is left, or for [`QUIET_TIMEOUT`].
fn quiet(db: &Db) {
    let start = Instant::now();
    while db.stats().maintenance_queued > 0 && start.elapsed() < QUIET_TIMEOUT {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns turns in which every thread runs `operation`.
fn side<O>(operation: O) -> impl Fn(&Keys, Length) -> Result<Turn>
where
    O: Fn(&Key, &mut Touched) -> Result + Sync,
{
    move |keys, length| race::turn(keys, length, |_| &operation)
}

/// The name of a side, with its turns.
type Turns = (&'static str, Vec<Turn>);

/// The name of a side, with its function.
type Named<'a> = (&'static str, &'a dyn Fn(&Keys, Length) -> Result<Turn>);

impl Race<'_> {
    /// Reads records of all chunks until every chunk is in memory, or no more are loaded.
    fn warm(&self) -> Result<(u64, u64)> {
        let mut random = Random::stream(self.args.seed, u64::MAX - 3);
        let (mut most, mut last_load) = (0, Instant::now());
        let progress = bar("warming", munks_and_chunks(&self.db.stats()).1);
        let (munks, chunks) = loop {
            for _ in 0..10_000 {
                self.db.get_with(records::key(random.below(self.args.records)), |_| ())?;
            }
            let (munks, chunks) = munks_and_chunks(&self.db.stats());
            progress.set_position(munks);
            if munks > most {
                (most, last_load) = (munks, Instant::now());
            }
            if munks >= chunks || last_load.elapsed() > WARMING_STALLS {
                break (munks, chunks);
            }
        };
        quiet(self.db);
        Ok((munks, chunks))
    }

    /// The number of keys, of 1,000, and of scans, of 20, for which the store and the maps differ.
    fn differences(&self, maps: &Maps) -> Result<u64> {
        let mut chooser = self.chooser.clone();
        let mut random = Random::stream(self.args.seed, u64::MAX - 4);
        let tree = maps.tree.read();
        let mut wrong = 0;
        for number in 0..1000 {
            let key = records::key(chooser.next(&mut random, self.args.records));
            let expected = tree.get(key.as_slice());
            let found = self.db.get(key)?;
            let listed = maps.list.get(key.as_slice());
            wrong += u64::from(
                found.as_deref() != expected.map(Vec::as_slice)
                    || listed.map(|entry| entry.value().clone()).as_ref() != expected,
            );
            if number % 50 == 0 {
                let mut cursor = self.db.cursor(key.as_slice()..);
                let mut there = cursor.seek_to_first()?;
                for (key, value) in tree.range(key.to_vec()..).take(SCAN_ROWS) {
                    let same = there && cursor.key() == Some(key) && cursor.value() == Some(value);
                    wrong += u64::from(!same);
                    there = cursor.next()?;
                }
            }
        }
        Ok(wrong)
    }

    /// Runs rounds in which each of `sides` has a turn, after one that does not count. Returns the
    /// turns of each side, and the number of turns that did not read the right number of rows.
    fn rounds(
        &self,
        title: &'static str,
        sides: &[Named<'_>],
        check: impl Fn(&Turn) -> bool,
    ) -> Result<(Vec<Turns>, u64)> {
        let args = self.args;
        let counts = vec![args.records.clamp(1024, KEYS_MAX); args.threads as usize];
        let mut turns: Vec<Turns> = sides.iter().map(|&(name, _)| (name, Vec::new())).collect();
        let mut wrong = 0;
        let progress = bar(title, (args.rounds + 1) * sides.len() as u64);
        for round in 0..=args.rounds {
            let keys = Keys::draw(&self.chooser, args.records, &counts, args.seed, round);
            let length = Length::Time(if round == 0 { args.turn / 4 } else { args.turn });
            for ((_, run), (_, turns)) in sides.iter().zip(&mut turns) {
                let turn = run(&keys, length)?;
                wrong += u64::from(!check(&turn));
                if round > 0 {
                    turns.push(turn);
                }
                progress.inc(1);
            }
        }
        Ok((turns, wrong))
    }

    fn turn_title(&self) -> String {
        format!("each side {:?} in each, the same keys", self.args.turn)
    }

    fn gets(&self, maps: &Maps, wrong: u64) -> Result<Comparison> {
        let db = self.db;
        let before = db.stats();
        let get_with = side(|key, touched| {
            db.get_with(key, |value| touched.value(value))?;
            Ok(())
        });
        let get = side(|key, touched| {
            if let Some(value) = db.get(key)? {
                touched.value(&value);
            }
            Ok(())
        });
        let tree = side(|key, touched| {
            maps.tree_get(key, touched);
            Ok(())
        });
        let list = side(|key, touched| {
            maps.list_get(key, touched);
            Ok(())
        });
        let sides: [Named<'_>; 4] =
            [("get_with", &get_with), ("get", &get), ("BTreeMap", &tree), ("SkipMap", &list)];
        let (turns, missing) = self.rounds("gets", &sides, |turn| turn.rows == turn.operations)?;
        let stats = (before, db.stats());
        let mut comparison = Comparison::of_turns("gets", self.turn_title(), turns);
        comparison.ratio(0, 2, Some(FLOOR_GETS));
        comparison.ratio(0, 3, None);
        comparison.ratio(1, 0, Some(FLOOR_OWNED));
        let gets = grown(&stats, |keyspace| keyspace.gets);
        let from_munks = grown(&stats, |keyspace| keyspace.gets_served.resident);
        comparison.facts.push(format!("{from_munks} of {gets} gets from munks"));
        comparison.more.insert("gets".into(), gets.into());
        comparison.more.insert("gets_munk".into(), from_munks.into());
        comparison.wrong = wrong + missing;
        Ok(comparison)
    }

    fn scans(&self, maps: &Maps, wrong: u64) -> Result<Comparison> {
        let db = self.db;
        let before = db.stats();
        let cursor = side(|key, touched| {
            let mut cursor = db.cursor(key.as_slice()..);
            let mut rows = 0;
            let mut there = cursor.seek_to_first()?;
            while there && let Some(value) = cursor.value() {
                touched.value(value);
                rows += 1;
                if rows == SCAN_ROWS {
                    break;
                }
                there = cursor.next()?;
            }
            Ok(())
        });
        let tree = side(|key, touched| {
            maps.tree_scan(key, SCAN_ROWS, touched);
            Ok(())
        });
        let list = side(|key, touched| {
            maps.list_scan(key, SCAN_ROWS, touched);
            Ok(())
        });
        let sides: [Named<'_>; 3] = [("cursor", &cursor), ("BTreeMap", &tree), ("SkipMap", &list)];
        // The keys exist: every scan has at least one row, and at most the requested number.
        let check = |turn: &Turn| (turn.operations..=turn.operations * SCAN_ROWS as u64).contains(&turn.rows);
        let (turns, missing) = self.rounds("scans", &sides, check)?;
        let stats = (before, db.stats());
        let mut comparison = Comparison::of_turns("scans", self.turn_title(), turns);
        comparison.ratio(0, 1, Some(FLOOR_SCANS));
        comparison.ratio(0, 2, None);
        let scans = grown(&stats, |keyspace| keyspace.scans);
        let from_munks = grown(&stats, |keyspace| keyspace.chunk().map_or(0, |chunk| chunk.scans_munk));
        comparison
            .facts
            .push(format!("{scans} scans of {SCAN_ROWS} rows read {from_munks} chunks from munks"));
        comparison.more.insert("scans".into(), scans.into());
        comparison.more.insert("scans_munk".into(), from_munks.into());
        comparison.wrong = wrong + missing;
        Ok(comparison)
    }
}

/// The smoke test: every comparison, tiny. Returns true if every record was present and right.
pub fn smoke() -> Result<bool> {
    let mut text = Vec::new();
    if run(&Args::tiny(), &mut text)? {
        return Ok(true);
    }
    Err(Failure(String::from_utf8_lossy(&text).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn each_round_compares_with_maps_and_appends() {
        let mut text = Vec::new();
        assert!(run(&Args::tiny(), &mut text).unwrap());
        let text = String::from_utf8(text).unwrap();
        let parts: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<&str> = parts.iter().filter_map(|part| part["reference"].as_str()).collect();
        assert_eq!(names, ["gets", "scans", "puts"]);
        for part in &parts {
            assert_eq!((&part["wrong"], &part["parameters"]["threads"]), (&0.into(), &2.into()));
            for figures in part["sides"].as_array().unwrap().iter().map(|side| &side["operations_per_s"]) {
                let rounds: Vec<f64> =
                    figures["rounds"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
                assert!(rounds.len() == 2 && rounds.iter().all(|&rate| rate > 0.0), "{part}");
                assert!(figures["least"].as_f64() <= figures["median"].as_f64(), "{part}");
            }
            let floors = part["ratios"].as_array().unwrap().iter().filter(|ratio| ratio["met"].is_boolean());
            assert!(floors.count() >= 1 && part["met"].is_boolean(), "{part}");
        }
        assert_eq!(parts[2]["puts"], 4000);
        assert!(parts[2]["write_amplification"].as_f64().unwrap() >= 1.0);
    }

    #[test]
    fn only_what_is_asked_for_is_measured_and_printed_within_100_columns() {
        let args = Args { workload: vec![Workload::P, Workload::S100], json: false, ..Args::tiny() };
        let mut text = Vec::new();
        assert!(run(&args, &mut text).unwrap());
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("cursor / BTreeMap") && text.contains("put / append"), "{text}");
        assert!(!text.contains("get_with"), "{text}");
        assert_eq!(text.lines().find(|line| line.chars().count() > 100), None);
        assert_eq!(parse_workload("s100"), Ok(Workload::S100));
        assert!(parse_workload("A").is_err());
    }
}
