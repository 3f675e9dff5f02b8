//! `--reference`: the store beside what is fastest without one, in the same process and on the same operations.
//!
//! A round gives each side one turn, and ratios are of one round: what else the machine does then weighs on all
//! sides alike. The store's chunks are all in memory before the first round.

mod comparison;
mod maps;
mod puts;
mod race;

use super::Workplace;
use super::args::Args;
use super::phase;
use super::records::{self, KEY_BYTES, RECORD_BYTES, VALUE_BYTES, Values};
use super::report::{Parameters, Run, grown, served};
use super::workload::Workload;
use crate::failure::{Failure, Outcome};
use crate::measure::display;
use crate::measure::generator::{Chooser, Distribution, Random};
use crate::progress::Progress;
use crate::tuning::Tuning;
use cantle::{Db, Stats};
use comparison::{Common, Comparison};
use maps::Maps;
use race::{Key, Keys, Length, Touched, Turn};
use serde::Serialize;
use serde_json::Value;
use std::io::Write;
use std::time::{Duration, Instant};

/// Rows of a scan.
const SCAN_ROWS: usize = 100;

/// The setting that the floors are meant for, where the command line does not say otherwise.
const MEMORY_BYTES: u64 = 2 << 30;
const THREADS: u64 = 2;
const PUTS: u64 = 3_000_000;

/// The floors of gets beside the B-tree, of `get` beside `get_with`, and of scans.
const FLOOR_GETS: f64 = 1.2;
const FLOOR_OWNED: f64 = 0.85;
const FLOOR_SCANS: f64 = 1.0;

/// Keys that each thread draws for a round, at most: more would cost more to read than they add.
const KEYS_MAX: u64 = 1 << 20;

/// How long warming goes on without another chunk in memory.
const WARMING_STALLS: Duration = Duration::from_secs(10);

/// How long background work is waited for.
const QUIET_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs one side's turn.
type Side<'a> = &'a dyn Fn(&Keys, Length) -> Outcome<Turn>;

/// What all comparisons run over.
struct Race<'a> {
    db: &'a Db,
    values: &'a Values,
    chooser: Chooser,
    records: u64,
    threads: usize,
    rounds: u64,
    turn: Duration,
    seed: u64,
    has_munks: bool,
}

/// How much of the store was in memory when the rounds began.
#[derive(Debug, Clone, Copy, Serialize)]
struct Warmth {
    chunks: u64,
    munks: u64,
    warming_s: f64,
}

/// Runs the comparisons that `args.workload` names; whether every record was there and right.
pub(super) fn run(args: &Args) -> Outcome<bool> {
    let args = &with_defaults(args);
    let asked = |workload: Workload| args.workload.contains(&workload);
    let scans = asked(Workload::S100) || asked(Workload::E100);
    if !(asked(Workload::C) || scans || asked(Workload::P)) {
        return Err(Failure::Usage("--reference measures the workloads C, S100 and P, and no others".into()));
    }
    let workplace = Workplace::new(args)?;
    let db = args.store_options().error_if_exists(true).open(workplace.path().join("store"))?;
    let values = Values::new(args.seed);
    let took = phase::load(&db, &values, args.records, args.seed, None)?;
    let distribution = args.distribution.first().copied().unwrap_or(Distribution::ZipfComposite);
    let race = Race {
        db: &db,
        values: &values,
        chooser: Chooser::new(distribution, args.records, args.theta, args.seed),
        records: args.records,
        threads: args.thread_count(),
        rounds: args.rounds,
        turn: args.turn,
        seed: args.seed,
        has_munks: !args.no_munks,
    };
    let warmth = race.warm()?;
    let mut out = std::io::stdout().lock();
    if !args.json && !args.smoke {
        introduce(&mut out, args, took, warmth)?;
    }
    let run = Run { args, records: args.records, threads: race.threads };
    let common = Common { distribution, parameters: Parameters::new(&run), warmth };
    let mut sound = true;
    let mut report = |comparison: &Comparison| -> Outcome {
        sound &= comparison.wrong == 0;
        if args.json {
            serde_json::to_writer(&mut out, comparison)?;
            writeln!(out)?;
        } else if args.smoke {
            writeln!(out, "{}", comparison.line())?;
        } else {
            comparison.print(&mut out)?;
        }
        Ok(out.flush()?)
    };
    if asked(Workload::C) || scans {
        let maps = Maps::load(&values, args.records, args.seed)?;
        let wrong = race.differences(&maps)?;
        if asked(Workload::C) {
            report(&race.gets(&common, &maps, wrong)?)?;
        }
        if scans {
            report(&race.scans(&common, &maps, wrong)?)?;
        }
    }
    if asked(Workload::P) {
        report(&puts::compare(&race, &common, args.operations.unwrap_or(PUTS), workplace.path())?)?;
    }
    db.close()?;
    if let Workplace::Kept(dir) = &workplace {
        writeln!(std::io::stderr(), "the store is kept in {}", dir.join("store").display())?;
    }
    Ok(sound)
}

fn with_defaults(args: &Args) -> Args {
    let tuning = Tuning { memory: Some(args.tuning.memory.unwrap_or(MEMORY_BYTES)), ..args.tuning.clone() };
    Args { tuning, threads: Some(args.threads.unwrap_or(THREADS)), ..args.clone() }
}

fn introduce(out: &mut impl Write, args: &Args, took: Duration, warmth: Warmth) -> Outcome {
    writeln!(
        out,
        "{} records of {RECORD_BYTES} bytes, {} threads, memory {}, durability {}, loaded in {}",
        display::count(args.records),
        args.thread_count(),
        display::bytes(args.tuning.memory.unwrap_or(0)),
        args.tuning.durability.name(),
        display::duration(took),
    )?;
    writeln!(
        out,
        "{} of {} chunks in memory after gets for {} (uniform keys); then background work was waited for",
        display::count(warmth.munks),
        display::count(warmth.chunks),
        display::duration(Duration::from_secs_f64(warmth.warming_s)),
    )?;
    writeln!(
        out,
        "gets and scans read the first and the last byte of each value where it lies; keys were drawn before"
    )?;
    Ok(())
}

fn munks_and_chunks(stats: &Stats) -> (u64, u64) {
    stats
        .keyspaces
        .iter()
        .fold((0, 0), |(munks, chunks), keyspace| (munks + keyspace.munks, chunks + keyspace.chunks))
}

fn rates(turns: &[Turn]) -> Vec<f64> {
    turns.iter().map(Turn::operations_per_s).collect()
}

/// Waits until no background job is left, or for long enough.
fn quiet(db: &Db) {
    let start = Instant::now();
    while db.stats().maintenance_queued > 0 && start.elapsed() < QUIET_TIMEOUT {
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Race<'_> {
    /// Reads records from everywhere until every chunk is in memory, or no more are.
    fn warm(&self) -> Outcome<Warmth> {
        let start = Instant::now();
        let mut random = Random::stream(self.seed, u64::MAX - 3);
        let (mut most, mut last_load, mut gets) = (0, start, 0);
        let (_, chunks) = munks_and_chunks(&self.db.stats());
        let mut progress = Progress::new("warm up", Some(chunks));
        let (munks, chunks) = loop {
            for _ in 0..10_000 {
                self.db.get_with(records::key(random.below(self.records)), |_| ())?;
            }
            gets += 10_000;
            let (munks, chunks) = munks_and_chunks(&self.db.stats());
            progress.set(gets, munks);
            if munks > most {
                (most, last_load) = (munks, Instant::now());
            }
            if munks >= chunks || !self.has_munks || last_load.elapsed() > WARMING_STALLS {
                break (munks, chunks);
            }
        };
        let warming_s = start.elapsed().as_secs_f64();
        quiet(self.db);
        Ok(Warmth { chunks, munks, warming_s })
    }

    /// How many of some keys and scans give something else in the store than in the maps.
    fn differences(&self, maps: &Maps) -> Outcome<u64> {
        let mut chooser = self.chooser.clone();
        let mut random = Random::stream(self.seed, u64::MAX - 4);
        let tree = maps.tree.read();
        let mut wrong = 0;
        for number in 0..1000 {
            let key = records::key(chooser.next(&mut random, self.records));
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

    /// Rounds in which each of `sides` has a turn, after one that does not count. Returns the turns of each side,
    /// and what was not the same everywhere.
    fn rounds<const N: usize>(
        &self,
        title: &str,
        sides: [Side<'_>; N],
        check: impl Fn(&Turn) -> bool,
    ) -> Outcome<([Vec<Turn>; N], u64)> {
        let counts = vec![self.records.clamp(1024, KEYS_MAX); self.threads];
        let mut turns = [const { Vec::new() }; N];
        let (mut operations, mut wrong) = (0, 0);
        let mut progress = Progress::new(title, Some((self.rounds + 1) * N as u64));
        for round in 0..=self.rounds {
            let keys = Keys::draw(&self.chooser, self.records, &counts, self.seed, round);
            let length = Length::Time(if round == 0 { self.turn / 4 } else { self.turn });
            for (side, run) in sides.iter().enumerate() {
                let turn = run(&keys, length)?;
                operations += turn.operations;
                wrong += u64::from(!check(&turn));
                if round > 0 {
                    turns[side].push(turn);
                }
                progress.set(operations, round * N as u64 + side as u64 + 1);
            }
        }
        Ok((turns, wrong))
    }

    fn turn_title(&self) -> String {
        format!("each side {} in each, the same keys", display::duration(self.turn))
    }

    fn gets(&self, common: &Common, maps: &Maps, wrong: u64) -> Outcome<Comparison> {
        let db = self.db;
        let before = db.stats();
        let get_with = |keys: &Keys, length| {
            race::turn(keys, length, |_| {
                |key: &Key, touched: &mut Touched| {
                    db.get_with(key, |value| touched.value(value))?;
                    Ok(())
                }
            })
        };
        let get = |keys: &Keys, length| {
            race::turn(keys, length, |_| {
                |key: &Key, touched: &mut Touched| {
                    if let Some(value) = db.get(key)? {
                        touched.value(&value);
                    }
                    Ok(())
                }
            })
        };
        let tree = |keys: &Keys, length| {
            race::turn(keys, length, |_| {
                |key: &Key, touched: &mut Touched| {
                    maps.tree_get(key, touched);
                    Ok(())
                }
            })
        };
        let list = |keys: &Keys, length| {
            race::turn(keys, length, |_| {
                |key: &Key, touched: &mut Touched| {
                    maps.list_get(key, touched);
                    Ok(())
                }
            })
        };
        let (turns, missing) =
            self.rounds("gets", [&get_with, &get, &tree, &list], |turn| turn.rows == turn.operations)?;
        let [get_with, get, tree, list] = turns.each_ref().map(|turns| rates(turns));
        let served = served(&(before, db.stats()));
        let mut comparison = Comparison::new(
            "gets",
            Workload::C,
            common,
            self.turn_title(),
            [("get_with", get_with), ("get", get), ("BTreeMap", tree), ("SkipMap", list)],
        );
        comparison.cpu(&turns);
        comparison.ratio(0, 2, Some(FLOOR_GETS));
        comparison.ratio(0, 3, None);
        comparison.ratio(1, 0, Some(FLOOR_OWNED));
        let gets: u64 = served.values().filter_map(Value::as_u64).sum();
        let munk = served.get("munk").and_then(Value::as_u64).unwrap_or(0);
        let percent = display::ratio(munk * 100, gets);
        comparison.facts.push(("gets from", format!("munks {percent:.2} % of {}", display::count(gets))));
        comparison.gets_served = served;
        comparison.wrong = wrong + missing;
        Ok(comparison)
    }

    fn scans(&self, common: &Common, maps: &Maps, wrong: u64) -> Outcome<Comparison> {
        let db = self.db;
        let before = db.stats();
        let cursor = |keys: &Keys, length| {
            race::turn(keys, length, |_| {
                |key: &Key, touched: &mut Touched| {
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
                }
            })
        };
        let tree = |keys: &Keys, length| {
            race::turn(keys, length, |_| {
                |key: &Key, touched: &mut Touched| {
                    maps.tree_scan(key, SCAN_ROWS, touched);
                    Ok(())
                }
            })
        };
        let list = |keys: &Keys, length| {
            race::turn(keys, length, |_| {
                |key: &Key, touched: &mut Touched| {
                    maps.list_scan(key, SCAN_ROWS, touched);
                    Ok(())
                }
            })
        };
        // The keys exist: every scan has a row, and no more than asked for.
        let check = |turn: &Turn| (turn.operations..=turn.operations * SCAN_ROWS as u64).contains(&turn.rows);
        let (turns, missing) = self.rounds("scans", [&cursor, &tree, &list], check)?;
        let stats = (before, db.stats());
        let [cursor, tree, list] = turns.each_ref().map(|turns| rates(turns));
        let mut comparison = Comparison::new(
            "scans",
            Workload::S100,
            common,
            self.turn_title(),
            [("cursor", cursor), ("BTreeMap", tree), ("SkipMap", list)],
        );
        comparison.cpu(&turns);
        comparison.ratio(0, 1, Some(FLOOR_SCANS));
        comparison.ratio(0, 2, None);
        let scans = grown(&stats, |keyspace| keyspace.scans);
        let from_munks = grown(&stats, |keyspace| keyspace.scans_munk);
        comparison.facts.push((
            "scans",
            format!(
                "{} of {SCAN_ROWS} rows; chunks that they read from munks: {}",
                display::count(scans),
                display::count(from_munks)
            ),
        ));
        comparison.more.insert("scans".into(), scans.into());
        comparison.more.insert("scans_munk".into(), from_munks.into());
        comparison.wrong = wrong + missing;
        Ok(comparison)
    }
}

const _: () = assert!(KEY_BYTES + VALUE_BYTES == RECORD_BYTES as usize);
