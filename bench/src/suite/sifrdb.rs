//! SifrDB's evaluation (§5), by the names of its figures, and the goals of the layout `forest`.
//!
//! The paper's pairs have 23 bytes of key and 1 to 200 of value, 100 on average. The paper's memory leaves out that of
//! its load generator; here the generator is a part of the process, and has no more than a buffer for a pair.

use super::builder::{Builder, panel, point, series};
use super::measure::Measure;
use super::parts::{FILL, OPERATIONS, READ, SETTLED, fill, get_many, rate, row, run, settle, tables};
use super::rows::Against::{Leveled, Nothing, OneByOne};
use super::rows::Quantity;
use super::{Cell, View};
use crate::engine::Spec;
use crate::job::{Order, Step};
use cantle_workloads::generator::Distribution::ZipfSimple;
use cantle_workloads::records::Sizes;
use cantle_workloads::workload::Workload::{A, B, C, D, E100, F};

/// The paper's pairs, Cantle's usual ones, and the shortest.
const PAIR: Sizes = Sizes::new(23, 100).spread(99);
const USUAL: Sizes = Sizes::new(14, 800);
const TINY: Sizes = Sizes::new(14, 14);

/// Pairs of the paper's data set of 118 GB, and its bytes.
const PAIRS: f64 = 1e9;
const BYTES: f64 = PAIRS * 123.0;

/// Keys that are read at once.
const AT_ONCE: u64 = 64;

/// Space of a tight disk, for each byte of the data.
const TIGHT: f64 = 1.3;

/// The least memory of cells with little of it, and their data in limits of it. The paper's ratio is 400; 30 is as much
/// as a cell can be filled with in its time.
const LITTLE_BYTES: u64 = 128 << 20;
const DATA_LITTLE: f64 = 30.0;

/// Adds all figures and rows.
pub fn add(builder: &mut Builder) {
    random(builder);
    tight(builder);
    sequential(builder);
    factors(builder);
    parallel(builder);
    cached(builder);
    ycsb(builder);
    resident(builder);
}

fn forest() -> Spec {
    Spec::plain("cantle").with("layout", "forest")
}

/// The forest that the paper compares with.
fn size_tiered() -> Spec {
    forest().with("size_tiered", true)
}

/// The forest whose sub-trees are stored as LDS does (§5.2).
fn aligned() -> Spec {
    forest().with("aligned_storing", true).with("direct_io", true)
}

fn random(builder: &mut Builder) {
    let mut panels = Vec::new();
    for (sizes, title) in [(PAIR, "23/100"), (USUAL, "14/800")] {
        let records = builder.scaled(BYTES / sizes.record_bytes() as f64);
        let mut steps =
            [vec![fill("fill", records, Order::Random, 0), settle("settle")], builder.reads(records)]
                .concat();
        steps.insert(3, get_many(builder, records, AT_ONCE));
        let cell = builder.filling("fill-random", sizes, 1.0, steps);
        let flsm = Spec::plain("cantle").with("layout", "flsm");
        let cell = builder.add(Cell { besides: vec![size_tiered(), aligned(), flsm], ..cell });
        let of = |what: &str| format!("random fill, {title}: {what}");
        builder.rows([
            row(
                of("operations until settled"),
                &cell,
                Quantity::Rate(SETTLED),
                [(Leveled, 3.0)],
                [(Leveled, 2.0)],
            ),
            row(
                of("bytes written, settled"),
                &cell,
                Quantity::Written(SETTLED),
                [(Leveled, 1.0 / 2.5)],
                [(Leveled, 1.0 / 2.0)],
            ),
            row(
                of("most bytes on disk per live byte, without sealed logs and 64 MB"),
                &cell,
                Quantity::Peak(SETTLED),
                [(Nothing, 1.05)],
                [(Nothing, 1.10)],
            ),
            rate(&format!("random reads, {title}, settled"), &cell, &["gets"], 1.0, 0.95),
        ]);
        panels.extend(tables(title, &cell, &READ));
        panels.extend(tables(title, &cell, &["gets-at-once"]));
        let points = vec![point("", cell.clone(), "fill")];
        panels.push(panel(
            format!("bytes on disk, {title}"),
            "seconds",
            View::Space,
            vec![series("", points)],
        ));
        let points = vec![point("", cell, "fill")];
        let columns = vec![Measure::SpaceMax, Measure::Resident];
        panels.push(panel(format!("at most, {title}"), "", View::Table(columns), vec![series("", points)]));
    }
    builder.figure(
        "figure-9",
        "Figures 9, 10 and 11: a random fill, its space, and reads after it",
        "A random fill is 11 times as fast as by trees, and takes as much space as LevelDB; the size-tiered forest needs \
         twice the data. Reads at 400 bytes of data for each byte of memory are 4 times as fast as the size-tiered \
         forest's, and 5 times as fast as PebblesDB's.",
        "The size-tiered forest, aligned storing and flsm are Cantle's.",
        panels,
    );
}

/// A fill of a disk on which the data has little room.
fn tight(builder: &mut Builder) {
    let records = builder.scaled(PAIRS);
    let steps = vec![fill("fill", records, Order::Random, 0), settle("settle")];
    let cell = builder.filling("fill-tight", PAIR, 1.0, steps);
    let cell = Cell { disk: Some(TIGHT), besides: vec![size_tiered()], rounds_max: 1, ..cell };
    let cell = builder.add(cell);
    builder.rows([row(
        "random fill of a disk of 1.3 times the data: longest write",
        &cell,
        Quantity::LongestWrite("fill"),
        [(Nothing, 1000.0)],
        // At least, it has to end.
        [(Nothing, 60_000.0)],
    )]);
    builder.figure(
        "tight-disk",
        "A random fill of a disk of 1.3 times the data",
        "With early cleaning, a merge needs no space for a copy of its trees.",
        "The disk is a file with a file system in it. A store that does not end the fill has no figure.",
        tables("23/1 to 199", &cell, &["fill", "settle"]),
    );
}

fn sequential(builder: &mut Builder) {
    let mut panels = Vec::new();
    for (sizes, title, goal, must) in [(USUAL, "14/800", 1.05, 1.08), (PAIR, "23/100", 1.12, 1.15)] {
        let records = builder.scaled(BYTES / sizes.record_bytes() as f64);
        let steps = vec![fill("fill", records, Order::Sequential, 0), settle("settle")];
        let cell = builder.filling("fill-sequential", sizes, 1.0, steps);
        let cell = builder.add(Cell { besides: vec![size_tiered()], ..cell });
        let of = |what: &str| format!("sequential fill, {title}: {what}");
        builder.rows([
            row(
                of("bytes written, log included"),
                &cell,
                Quantity::Written(SETTLED),
                [(Nothing, goal)],
                [(Nothing, must)],
            ),
            rate(&of("operations"), &cell, FILL, 1.5, 1.2),
        ]);
        panels.extend(tables(title, &cell, &["fill", "settle"]));
    }
    builder.figure(
        "figure-9a",
        "Figure 9a: a fill in key order",
        "SifrDB, LevelDB and RocksDB write each pair once; the size-tiered forest writes 8 times, PebblesDB 6 times.",
        "",
        panels,
    );
}

/// Figures 2 and 3: growth factors.
fn factors(builder: &mut Builder) {
    let records = builder.scaled(PAIRS);
    let steps = vec![fill("fill", records, Order::Random, 0), settle("settle"), builder.gets(records)];
    let cell = builder.filling("growth-factors", PAIR, 1.0, steps);
    let engines = [2, 4, 8, 16].map(|factor| forest().with("growth_factor", factor));
    let cell = builder.add(Cell { engines: Some(engines.into()), rounds_max: 1, ..cell });
    builder.figure(
        "figure-2",
        "Figures 2 and 3: growth factors",
        "With a larger factor a forest writes less, and a read searches more trees.",
        "",
        tables("23/100", &cell, &["fill", "settle", "gets"]),
    );
}

/// Figure 7 and Table 1: search threads and memory.
fn parallel(builder: &mut Builder) {
    let share = builder.share_of_memory(1.0 / 16.0, LITTLE_BYTES);
    let records = (DATA_LITTLE * builder.memory(share) / PAIR.record_bytes() as f64) as u64;
    let mut panels = Vec::new();
    for (threads, title) in [(1, "one client"), (2, "two clients")] {
        let mut steps =
            vec![fill("fill", records, Order::Random, 0), settle("settle"), builder.gets(records)];
        if threads == 1 {
            steps.push(get_many(builder, records, AT_ONCE));
        }
        let mut cell = builder.filling(&format!("parallel-{threads}"), PAIR, share, steps);
        let plain = forest().with("filters", false);
        let engines = [16, 1, 4].map(|at_once| plain.clone().with("parallel_search", at_once));
        (cell.threads, cell.engines) = (threads, Some(engines.into()));
        let cell = builder.add(cell);
        panels.extend(tables(title, &cell, &["gets"]));
        let columns = vec![Measure::GetP50, Measure::GetP95, Measure::GetP99, Measure::ProcessorPerOperation];
        let points = vec![point("", cell.clone(), "gets")];
        panels.push(panel(format!("{title}: Table 1"), "", View::Table(columns), vec![series("", points)]));
        if threads == 1 {
            panels.extend(tables(title, &cell, &["gets-at-once"]));
            let title = |what: &str| format!("gets without filters, one client: {what}");
            builder.rows([
                row(title("median"), &cell, Quantity::Get50("gets"), [(OneByOne, 0.5)], [(OneByOne, 0.7)]),
                row(
                    "64 gets at once, one client, by 64 gets",
                    &cell,
                    Quantity::Gets("gets-at-once", "gets"),
                    [(Nothing, 3.0)],
                    [(Nothing, 2.0)],
                ),
                row(title("p99"), &cell, Quantity::Get99("gets"), [(OneByOne, 0.4)], [(OneByOne, 0.6)]),
            ]);
        } else {
            let title = "gets without filters, two clients: operations";
            let quantity = Quantity::Rate(&["gets"]);
            builder.rows([row(title, &cell, quantity, [(OneByOne, 1.3)], [(OneByOne, 1.1)])]);
        }
    }
    builder.figure(
        "table-1",
        "Figure 7 and Table 1: gets without filters that search several trees at the same time",
        "With 16 search threads and 256 MB of memory, 95 of 100 gets take 2.7 ms in place of 12.3, and 99 of 100 take 3.75 ms \
         in place of 18.7. Cached gets take three times as much processor time.",
        "30 bytes of data for each byte of memory.",
        panels,
    );
}

fn cached(builder: &mut Builder) {
    let records = builder.scaled(PAIRS / 20.0);
    let steps = vec![fill("fill", records, Order::Random, 0), settle("settle"), builder.gets(records)];
    let cell = builder.filling("cached", PAIR, 1.0, steps);
    let serial = forest().with("parallel_search", 1);
    let cell = builder.add(Cell { besides: vec![serial], ..cell });
    builder.rows([rate("cached reads", &cell, &["gets"], 1.3, 1.0)]);
    builder.figure(
        "figure-8",
        "Figure 8: gets of data that fits into memory",
        "Where all is cached, gets in 16 threads are 1.7 times as fast as in one.",
        "",
        tables("23/100", &cell, &["gets"]),
    );
}

fn ycsb(builder: &mut Builder) {
    let mut panels = Vec::new();
    for workload in [A, B, C, D, E100, F] {
        let operations = builder.scaled(OPERATIONS);
        let (records, threads) = (builder.scaled(PAIRS), builder.threads());
        let steps = vec![run("run", workload, workload.distribution(ZipfSimple), records, operations)];
        let cell = Cell::new(format!("ycsb-{}/{PAIR}", workload.name()), records, steps, threads);
        let cell = builder.add(Cell { sizes: PAIR, is_scattered: true, ..cell });
        builder.rows([rate(&format!("YCSB {}", workload.name()), &cell, &["run"], 1.0, 0.95)]);
        panels.extend(tables(workload.name(), &cell, &["run"]));
    }
    builder.figure(
        "figure-12",
        "Figure 12: YCSB",
        "SifrDB is faster than the size-tiered forest and PebblesDB in all workloads.",
        "In E 5 % are puts, in F every operation reads and writes.",
        panels,
    );
}

/// Memory of a fill of the shortest pairs.
fn resident(builder: &mut Builder) {
    let records = builder.scaled(3.0 * PAIRS);
    let mut panels = Vec::new();
    // With less the limit leaves no room beside the budget.
    let little = builder.share_of_memory(0.25, LITTLE_BYTES);
    for (share, name, title) in [(little, "little", "little memory"), (1.0, "all", "all memory")] {
        let steps: Vec<Step> = vec![fill("fill", records, Order::Random, 0), settle("settle")];
        let cell = builder.filling(&format!("tiny-{name}"), TINY, share, steps);
        let cell = builder.add(Cell { is_cantle_alone: true, rounds_max: 1, ..cell });
        let title = format!("resident above the budget, pairs of 28 bytes, {title}");
        builder.rows([row(
            &*title,
            &cell,
            Quantity::ResidentOverBudget,
            [(Nothing, 64.0)],
            [(Nothing, 64.0)],
        )]);
        panels.extend(tables(&title, &cell, &["fill"]));
    }
    builder.figure(
        "figure-9d",
        "Figure 9d: memory of a fill",
        "PebblesDB takes a hundred times as much memory as SifrDB.",
        "",
        panels,
    );
}
