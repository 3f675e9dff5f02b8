//! PebblesDB's evaluation (§5), by the names of its figures, and the goals of the layout `flsm`.
//!
//! A store is filled, settled and read in one turn, so that its write figures and its read figures are
//! those of one store.

use super::builder::{Builder, panel, point, series};
use super::measure::Measure;
use super::parts::{FILL, OPERATIONS, READ, SETTLED, fill, rate, row, run, settle, tables};
use super::rows::Against::{Leveled, Nothing, RocksDb, Universal};
use super::rows::Quantity;
use super::{Cell, PageCache, View};
use crate::engine::Spec;
use crate::job::{Order, Step};
use crate::runner::FIRST_GETS;
use cantle_workloads::generator::Distribution::{Uniform, ZipfSimple};
use cantle_workloads::records::Sizes;
use cantle_workloads::workload::Workload::{A, B, C, D, E100, F, P};

/// The paper's records: small ones, usual ones, those of its test of empty guards, and those of its
/// applications.
const SMALL: Sizes = Sizes::new(16, 128);
const USUAL: Sizes = Sizes::new(16, 1024);
const MIDDLE: Sizes = Sizes::new(16, 512);
const LARGE: Sizes = Sizes::new(16, 16 << 10);

/// Memory of the paper's machine.
const MEMORY: f64 = 16.0 * (1u64 << 30) as f64;

/// Data in limits of memory: the paper's three, and a little more.
const DATA: f64 = 3.2;

/// Data that is copied for each turn.
const LOADED: f64 = 3.7;

/// The share of the memory in cells with little of it, the least that is left to them, and their data in
/// limits of that memory.
const LITTLE: f64 = 1.0 / 8.0;
const LITTLE_BYTES: u64 = 128 << 20;
const DATA_LITTLE: f64 = 30.0;

/// Operations that no run reaches: the step ends with its time.
const ENDLESS: u64 = 1 << 50;

const UPDATES: [&str; 10] = [
    "update-1",
    "update-2",
    "update-3",
    "update-4",
    "update-5",
    "update-6",
    "update-7",
    "update-8",
    "update-9",
    "update-10",
];

/// Adds all figures and rows.
pub fn add(builder: &mut Builder) {
    small(builder);
    usual(builder);
    threads(builder);
    updates(builder);
    space(builder);
    empty_guards(builder);
    cached(builder);
    little(builder);
    large(builder);
    ycsb(builder);
    delays(builder);
    opening(builder);
}

impl Builder {
    /// Records of data of this many limits of the paper's memory.
    fn times_memory(&self, times: f64, sizes: Sizes) -> u64 {
        self.scaled(times * MEMORY / sizes.record_bytes() as f64)
    }

    /// A cell that starts from a copy of a data set, which was loaded in random order and is settled.
    fn loaded(&self, id: &str, steps: impl FnOnce(u64) -> Vec<Step>) -> Cell {
        let (records, threads) = (self.times_memory(LOADED, USUAL), self.threads());
        let cell = Cell::new(format!("{id}/{USUAL}"), records, steps(records), threads);
        Cell { sizes: USUAL, is_scattered: true, ..cell }
    }
}

fn small(builder: &mut Builder) {
    let records = builder.times_memory(DATA, SMALL);
    let steps = [vec![fill("fill", records, Order::Random, 0), settle("settle")], builder.reads(records)];
    let cell = builder.filling("fill-random", SMALL, 1.0, steps.concat());
    let cell = builder.add(cell);
    let title = |what: &str| format!("random fill, 16/128: {what}");
    builder.rows([
        row(
            title("bytes written, settled"),
            &cell,
            Quantity::Written(SETTLED),
            [(Leveled, 1.0 / 2.4), (Universal, 0.6)],
            [(RocksDb, 0.7)],
        ),
        rate(&title("operations"), &cell, FILL, 2.0, 1.6),
        rate(&title("operations until settled"), &cell, SETTLED, 2.7, 2.0),
        rate("random reads, 16/128, settled", &cell, &["gets"], 1.0, 0.95),
        rate("seeks, 16/128, settled", &cell, &["seeks"], 1.0, 0.9),
        rate("seeks and 50 nexts, 16/128, settled", &cell, &["seeks-50"], 1.05, 0.95),
        row(
            "resident above the budget",
            &cell,
            Quantity::ResidentOverBudget,
            [(Nothing, 64.0)],
            [(Nothing, 64.0)],
        ),
    ]);
    builder.figure(
        "figure-4a",
        "Figure 4a: bytes written by a random fill of small records",
        "PebblesDB writes 2.5× less than RocksDB and HyperLevelDB, and 1.6× less than LevelDB, for 500 million records. \
         Reads cost as much as RocksDB's, seeks 30 % more.",
        "Bytes of reads are those of the merges that they cause.",
        tables("16/128", &cell, &READ),
    );
}

fn usual(builder: &mut Builder) {
    let records = builder.times_memory(DATA, USUAL);
    let mut steps = vec![
        fill("fill", records, Order::Random, 0),
        builder.seek("seeks-at-once", records, 0),
        settle("settle"),
    ];
    steps.extend(builder.reads(records));
    let cell = builder.filling("fill-random", USUAL, 1.0, steps);
    let random = builder.add(cell);
    let sequential = [USUAL, SMALL].map(|sizes| {
        let records = builder.times_memory(DATA, sizes);
        let steps =
            vec![fill("fill", records, Order::Sequential, 0), settle("settle"), builder.gets(records)];
        let cell = builder.filling("fill-sequential", sizes, 1.0, steps);
        builder.add(cell)
    });
    builder.rows([
        rate("random fill, 16/1024: operations", &random, FILL, 1.8, 1.4),
        rate("random reads, 16/1024, settled", &random, &["gets"], 1.0, 0.95),
        rate("seeks, 16/1024, settled", &random, &["seeks"], 1.0, 0.9),
        rate("seeks and 50 nexts, 16/1024, settled", &random, &["seeks-50"], 1.05, 0.95),
        rate("seeks right after the load", &random, &["seeks-at-once"], 0.8, 0.6),
    ]);
    for (cell, sizes, goal, must) in
        [(&sequential[0], "16/1024", 1.04, 1.06), (&sequential[1], "16/128", 1.10, 1.13)]
    {
        let title = |what: &str| format!("sequential fill, {sizes}: {what}");
        builder.rows([
            row(
                title("bytes written, log included"),
                cell,
                Quantity::Written(SETTLED),
                [(Nothing, goal)],
                [(Nothing, must)],
            ),
            rate(&title("operations"), cell, FILL, 1.5, 1.2),
        ]);
    }
    let steps = ["fill", "seeks-at-once", "settle", "gets", "seeks", "seeks-50", "settle-after"];
    let mut panels = tables("16/1024, random", &random, &steps);
    for (cell, title) in sequential.iter().zip(["16/1024, in order", "16/128, in order"]) {
        panels.extend(tables(title, cell, &["fill", "settle", "gets"]));
    }
    builder.figure(
        "figure-4b",
        "Figure 4b: fills in random and in key order, reads and seeks",
        "Random writes are 2.7× as fast as HyperLevelDB's and 6.7× as fast as RocksDB's, sequential ones a third as fast as \
         HyperLevelDB's. Reads are faster than all, seeks 30 % slower; right after the load 15 % slower with 50 nexts.",
        "",
        panels,
    );
    let columns =
        vec![Measure::Tables, Measure::TableMean, Measure::TableMedian, Measure::TableP90, Measure::TableP95];
    let lines = vec![series("", vec![point("", random, "settle")])];
    builder.figure(
        "table-1",
        "Table 1: sizes of tables",
        "33 GB: mean 17.23 MB, median 5.29, p90 51.06, p95 68.31; HyperLevelDB 13.33, 16.59, 16.60, 16.60.",
        "After the fill in random order of 16/1024, settled. Logs are no tables.",
        vec![panel("16/1024", "", View::Table(columns), lines)],
    );
}

/// Threads of the paper's runs with several.
const THREADS: u64 = 4;

fn threads(builder: &mut Builder) {
    let records = builder.times_memory(DATA, USUAL);
    let operations = builder.scaled(OPERATIONS);
    let steps = vec![
        fill("fill", records, Order::Random, 0),
        builder.gets(records),
        run("mixed", A, Some(Uniform), records, operations),
    ];
    let mut cell = builder.filling("threads", USUAL, 1.0, steps);
    (cell.threads, cell.id) = (THREADS, format!("threads-{THREADS}/{USUAL}"));
    let cell = builder.add(cell);
    builder.figure(
        "figure-4c",
        "Figure 4c: four threads",
        "Writes are 3.3× as fast as RocksDB's, and mixed reads and writes are faster as well.",
        "Every thread reads and writes in the mixed step.",
        tables("16/1024", &cell, &["fill", "gets", "mixed"]),
    );
}

fn updates(builder: &mut Builder) {
    let records = builder.times_memory(DATA, USUAL);
    let rounds = [("fill", 0), ("fill-2", 1), ("fill-3", 2)];
    let mut steps: Vec<Step> =
        rounds.iter().map(|(name, round)| fill(name, records, Order::Random, *round)).collect();
    steps.push(settle("settle"));
    let cell = builder.filling("overwrite", USUAL, 1.0, steps);
    let cell = builder.add(cell);
    builder.rows([("fill-2", 2), ("fill-3", 3)].map(|(step, number)| {
        let title = format!("overwrites, round {number}, of round 1");
        row(title, &cell, Quantity::Kept(step, "fill"), [(Nothing, 80.0)], [(Nothing, 70.0)])
    }));
    builder.figure(
        "table-2",
        "Table 2: rounds of overwrites",
        "Thousand operations per second in rounds 1 to 3: PebblesDB 56.18, 47.85, 42.55; RocksDB 14.12, 7.60, 7.36. PebblesDB \
         keeps 75 %.",
        "",
        tables("16/1024", &cell, &["fill", "fill-2", "fill-3", "settle"]),
    );
}

fn space(builder: &mut Builder) {
    let records = builder.scaled(5e6);
    let mut steps = vec![fill("fill", records, Order::Random, 0)];
    steps.extend(UPDATES.iter().zip(1..).map(|(name, round)| fill(name, records, Order::Random, round)));
    steps.push(settle("settle"));
    let cell = builder.filling("updates", USUAL, 1.0, steps);
    let cell = builder.add(cell);
    builder.rows([
        row(
            "space after ten updates of each key",
            &cell,
            Quantity::Space("settle"),
            [(Leveled, 1.05)],
            [(Leveled, 1.10)],
        ),
        row(
            "the same, of the default bound",
            &cell,
            Quantity::SpaceOfBound("settle"),
            [(Nothing, 100.0)],
            [(Nothing, 100.0)],
        ),
    ]);
    builder.figure(
        "space",
        "§5.2: space after updates",
        "5 million records with ten updates each take 7.9 GB in PebblesDB, 7.8 GB in LevelDB and 7.1 GB in RocksDB.",
        "",
        tables("16/1024", &cell, &["fill", "update-10", "settle"]),
    );
}

/// Rounds of new records, of the paper's twenty; their fills, gets and deletes.
const ROUNDS: [[&str; 3]; 5] = [
    ["fill-1", "gets-1", "delete-1"],
    ["fill-2", "gets-2", "delete-2"],
    ["fill-3", "gets-3", "delete-3"],
    ["fill-4", "gets-4", "delete-4"],
    ["fill-5", "gets-5", "delete-5"],
];

fn empty_guards(builder: &mut Builder) {
    let records = builder.scaled(20e6);
    let mut steps = Vec::new();
    for ([fill, gets, delete], round) in ROUNDS.into_iter().zip(0..) {
        let first = records * round;
        steps.push(Step::Fill { name: fill.into(), records, first, order: Order::Random, round: 0 });
        steps.push(run(gets, C, Some(Uniform), records, builder.scaled(OPERATIONS)));
        steps.push(Step::Delete { name: delete.into(), records });
    }
    let cell = builder.filling("empty-guards", MIDDLE, 1.0, steps);
    let cell = builder.add(cell);
    let panels = [("fill", 0), ("gets", 1), ("deletes", 2)].map(|(title, at)| {
        let points =
            ROUNDS.iter().zip(1..).map(|(names, round)| point(round.to_string(), cell.clone(), names[at]));
        panel(title, "round", View::Lines(Measure::Throughput), vec![series("", points.collect())])
    });
    let mut panels = Vec::from(panels);
    panels.extend(tables("16/512", &cell, &["fill-5", "gets-5", "delete-5"]));
    builder.figure(
        "empty-guards",
        "§5.2: new records, reads and deletes of all, again and again",
        "Twenty rounds leave 9000 guards empty, and reads stay between 70 and 90 thousand a second. Deletes are as fast as \
         writes.",
        "Five rounds.",
        panels,
    );
}

fn cached(builder: &mut Builder) {
    let records = builder.scaled(4e6);
    let steps = vec![
        fill("fill", records, Order::Random, 0),
        settle("settle"),
        builder.gets(records),
        builder.seek("seeks", records, 0),
    ];
    let cell = builder.filling("cached", USUAL, 1.0, steps);
    let cell = builder.add(cell);
    builder.rows([
        rate("cached reads", &cell, &["gets"], 1.5, 1.0),
        rate("cached seeks", &cell, &["seeks"], 1.2, 1.0),
    ]);
    builder.figure(
        "figure-4d",
        "Figure 4d: data that fits into memory",
        "Reads are 7 % slower than HyperLevelDB's and seeks 47 %; with one table per guard reads are 11 % faster and seeks 13 % \
         slower.",
        "",
        tables("16/1024", &cell, &["fill", "settle", "gets", "seeks"]),
    );
}

fn little(builder: &mut Builder) {
    let mut panels = Vec::new();
    let share = builder.share_of_memory(LITTLE, LITTLE_BYTES);
    for (sizes, title) in [(SMALL, "16/128"), (USUAL, "16/1024")] {
        let records = (DATA_LITTLE * builder.memory(share) / sizes.record_bytes() as f64) as u64;
        let steps = [vec![fill("fill", records, Order::Random, 0), settle("settle")], builder.reads(records)];
        let cell = builder.filling("little-memory", sizes, share, steps.concat());
        let cell = builder.add(cell);
        panels.extend(tables(title, &cell, &READ));
    }
    builder.figure(
        "figure-4g",
        "Figure 4g: little memory",
        "100 million records of 1 KB with 4 GB of memory, 6 % of the data: writes +64 %, reads +63 %, seeks −40 % against \
         HyperLevelDB.",
        "An eighth of the run's memory, but no less than 128 MiB, and 30 times as much data.",
        panels,
    );
}

fn large(builder: &mut Builder) {
    let records = builder.times_memory(DATA, LARGE);
    let steps = [vec![fill("fill", records, Order::Random, 0), settle("settle")], builder.reads(records)];
    let cell = builder.filling("fill-random", LARGE, 1.0, steps.concat());
    let cell = builder.add(cell);
    builder.figure(
        "figure-6",
        "Figure 6: values of 16 KB, those of the paper's applications",
        "With values of 16 KB the geometric mean of the gains in HyperDex is 105 %.",
        "The applications are not part of the lab: a fill of their values stands in.",
        tables("16/16384", &cell, &READ),
    );
}

fn ycsb(builder: &mut Builder) {
    let mut panels = Vec::new();
    for (workload, goal) in [(A, 1.2), (B, 1.0), (C, 1.0), (D, 1.0), (E100, 1.0), (F, 1.2)] {
        let operations = builder.scaled(OPERATIONS);
        let cell = builder.loaded(&format!("ycsb-{}", workload.name()), |records| {
            vec![run("run", workload, workload.distribution(ZipfSimple), records, operations)]
        });
        let cell = builder.add(Cell { besides: vec![Spec::plain("cantle")], ..cell });
        let title = format!("YCSB {}", workload.name());
        builder.rows([rate(&title, &cell, &["run"], goal, 0.95)]);
        panels.extend(tables(workload.name(), &cell, &["run"]));
    }
    builder.figure(
        "figure-5",
        "Figure 5: YCSB",
        "Loads are 1.5× to 2× as fast as the best, C is faster, E 6 % slower and 18 % without its writes; half of the bytes \
         are written.",
        "The layout `chunk` has a turn, too. In E 5 % are puts, in F every operation reads and writes.",
        panels,
    );
}

fn delays(builder: &mut Builder) {
    let cell = builder.loaded("delays", |records| {
        let mut step = run("run", A, Some(ZipfSimple), records, ENDLESS);
        if let Step::Run { with_appends, warmup, .. } = &mut step {
            (*with_appends, *warmup) = (true, 0);
        }
        vec![step]
    });
    let cell = builder.add(Cell { is_cantle_alone: true, rounds_max: 1, ..cell });
    builder.rows([row(
        "longest delay that the store imposes, YCSB A",
        &cell,
        Quantity::LongestDelay("run"),
        [(Nothing, 50.0)],
        [(Nothing, 100.0)],
    )]);
    let over_time = vec![series("", vec![point("", cell.clone(), "run")])];
    let mut panels = tables("YCSB A", &cell, &["run"]);
    panels.push(panel("throughput over time", "seconds", View::Timeline, over_time));
    builder.figure(
        "delays",
        "The longest delay in ten minutes of YCSB A",
        "",
        "Cantle alone. A bare writer appends to a file meanwhile: the delays that it sees are the system's.",
        panels,
    );
}

fn opening(builder: &mut Builder) {
    let operations = builder.scaled(OPERATIONS);
    let cell = builder.loaded("opening", |records| vec![run("run", P, Some(Uniform), records, operations)]);
    let cell = builder.add(Cell { reopen: Some(PageCache::Kept), ..cell });
    builder.rows([
        row("open after SIGKILL", &cell, Quantity::Open, [(Nothing, 10.0)], [(Nothing, 50.0)]),
        row("first get after it", &cell, Quantity::First(FIRST_GETS), [(Nothing, 100.0)], [(Nothing, 200.0)]),
    ]);
    let points = vec![point("", cell, FIRST_GETS)];
    let columns = vec![Measure::Open, Measure::First, Measure::Throughput];
    let panels = vec![panel("after puts", "", View::Table(columns), vec![series("", points)])];
    builder.figure("opening", "Opening after SIGKILL", "", "", panels);
}
