//! Experiments that matter to users of stores and are not in the papers: loads, synced writes,
//! openings, writes against space.

use super::builder::{Builder, panel, point, point_of, series};
use super::evendb::THETA;
use super::measure::Measure;
use super::{PageCache, View};
use crate::engine::{Durability, Spec};
use crate::job::Step;
use cantle_workloads::generator::Distribution::{Uniform, ZipfComposite};
use cantle_workloads::workload::Workload::{InsertRandom, InsertSequential, P};

/// Puts per record of the data set before write amplification is measured: every chunk is
/// rebalanced at least twice.
const OVERWRITES: u64 = 4;

/// RocksDB's settings for the same trade-off: the ratio of level sizes, and tiers instead of
/// levels.
const RIVALS: [(&str, &str); 4] = [
    ("level_multiplier", "4"),
    ("level_multiplier", "10"),
    ("level_multiplier", "20"),
    ("compaction", "universal"),
];

/// Adds all experiments.
pub fn add(builder: &mut Builder) {
    loads(builder);
    synced(builder);
    opening(builder);
    write_space(builder);
}

fn loads(builder: &mut Builder) {
    let size = builder.size(64);
    let shown = builder.shown(size);
    let panels = [InsertRandom, InsertSequential].map(|workload| {
        let cell = builder.ycsb(workload, Uniform, THETA, size);
        let columns =
            vec![Measure::Throughput, Measure::WriteAmplification, Measure::Longest, Measure::SlowestSecond];
        let points = vec![point("", cell, "run")];
        panel(format!("{}, {shown}", workload.name()), "", View::Table(columns), vec![series("", points)])
    });
    builder.figure("loads", "Insert-only loads", "", "", panels.into());
}

fn synced(builder: &mut Builder) {
    let size = builder.size(4);
    let points = [1, 4, 16].map(|threads| {
        let mut cell = builder.ycsb_cell(P, ZipfComposite, THETA, size, threads);
        cell.durability = Some(Durability::Sync);
        cell.id = format!("P/zipf-composite/{size}GB/{threads}-threads");
        point(threads.to_string(), builder.add(cell), "run")
    });
    let view = View::Lines(Measure::Throughput);
    let panels = vec![panel("P, zipf-composite", "threads", view, vec![series("", points.into())])];
    builder.figure(
        "sync-puts",
        "Puts that survive a loss of power",
        "With synchronous I/O everything is an order of magnitude slower, which trivialises the results (§5.1).",
        "",
        panels,
    );
}

fn opening(builder: &mut Builder) {
    let size = builder.size(64);
    let shown = builder.shown(size);
    let caches =
        [("opening", "", PageCache::Kept), ("opening-cold", ", page cache emptied", PageCache::Dropped)];
    let panels = caches.map(|(name, title, page_cache)| {
        let mut cell = builder.ycsb_cell(P, ZipfComposite, THETA, size, builder.threads());
        cell.id = format!("{name}/{size}GB");
        cell.reopen = Some(page_cache);
        let cell = builder.add(cell);
        let columns = vec![Measure::Open, Measure::Throughput];
        let points = vec![point("", cell, crate::runner::FIRST_GETS)];
        panel(format!("{shown}{title}"), "", View::Table(columns), vec![series("", points)])
    });
    builder.figure(
        "opening",
        "Opening after SIGKILL in the midst of puts",
        "Near-instant recovery: no log is replayed (§3.5).",
        "The throughput is that of the first gets, which may have to read what opening left aside.",
        panels.into(),
    );
}

/// Bounds on Cantle's space.
const BOUNDS: [&str; 4] = ["1.25", "1.5", "2", "3"];

fn write_space(builder: &mut Builder) {
    let size = builder.size(64);
    let mut cell = builder.ycsb_cell(P, Uniform, THETA, size, builder.threads());
    if let Some(Step::Run { operations, records, .. }) = cell.steps.first_mut() {
        *operations = *records * OVERWRITES;
    }
    cell.id = format!("P/uniform/{size}GB/overwritten-{OVERWRITES}");
    let mut bounded = cell.clone();
    bounded.id += "/bounds";
    let bounds = BOUNDS.map(|bound| Spec::plain("cantle").with("space_amplification", bound));
    let rivals = RIVALS.map(|(name, value)| Spec::plain("rocksdb-tuned").with(name, value));
    bounded.engines = Some([&bounds[..], &rivals[..]].concat());
    let (cell, bounded) = (builder.add(cell), builder.add(bounded));
    let columns = || {
        vec![
            Measure::WriteAmplification,
            Measure::DeviceWriteAmplification,
            Measure::UserWriteAmplification,
            Measure::Space,
            Measure::SpaceMean,
            Measure::SpaceMax,
            Measure::Throughput,
        ]
    };
    let lines = bounds
        .into_iter()
        .chain(rivals)
        .map(|engine| series(engine.to_string(), vec![point_of("", bounded.clone(), "run", engine)]));
    let panels = vec![
        panel("every engine", "", View::Table(columns()), vec![series("", vec![point("", cell, "run")])]),
        panel("by what trades the one for the other", "", View::Table(columns()), lines.collect()),
    ];
    builder.figure(
        "write-space",
        "Bytes written against bytes kept: uniform puts, each record four times",
        "Write amplification can be traded for space; what counts is the curve.",
        "The step ends early if it takes longer than the run's limit for a step: see the number of operations.",
        panels,
    );
}
