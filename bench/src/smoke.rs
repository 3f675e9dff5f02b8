//! Runs every suite, every adapter of Cantle and every reference at a tiny size: a test that the lab
//! works, not a measurement.

use crate::engine::{Durability, Spec};
use crate::failure::{Failure, Result};
use crate::job::Step;
use crate::record::{Plan, Run, Trial};
use crate::runner::{self, Results, Runner};
use crate::suite::{self, Parameters, Suite};
use crate::{reference, report, trace};
use std::path::Path;

/// Records of every data set, and operations of every step.
const RECORDS: u64 = 2_000;
const OPERATIONS: u64 = 500;

/// Operations of steps with long scans.
const SCANS: u64 = 50;

/// The only cell that is run with every variant of Cantle.
const ABLATION: &str = "A/zipf-composite/4GB/ablation";

const MEMORY_BYTES: u64 = 256 << 20;

/// Bytes of the disk of a cell that asks for one of its own.
const DISK_BYTES: f64 = 256e6;
/// Small chunks, so that there are several.
const CHUNKS: &str = "chunk_bytes=65536";

/// Runs all suites, a replay and the references. Returns true if every read was right.
pub fn run() -> Result<bool> {
    let dir = tempfile::Builder::new().prefix("cantle-lab-smoke-").tempdir()?;
    let specs = [format!("cantle:{CHUNKS}"), format!("cantle-published:{CHUNKS}"), "btree".into()];
    let mut evendb = suite_of("evendb", &specs, 1.0 / 4096.0)?;
    let file = dir.path().join("trace");
    trace::run(&trace::Args::analytics(&file, 500, 200))?;
    let mut replay = evendb.1.cells.first().cloned().ok_or_else(|| Failure::new("an empty suite"))?;
    (replay.id, replay.records, replay.engines) = ("replay".into(), 0, None);
    replay.steps = vec![Step::Replay { name: "run".into(), file }];
    evendb.1.cells.push(replay);
    let mut is_sound = measure(evendb, &dir.path().join("evendb"))?;
    let pebblesdb = suite_of(suite::PEBBLESDB, &["cantle:layout=flsm".into()], 1.0 / 4096.0)?;
    is_sound &= measure(pebblesdb, &dir.path().join(suite::PEBBLESDB))?;
    let sifrdb = suite_of(suite::SIFRDB, &["cantle:layout=forest".into()], 1.0 / 4096.0)?;
    is_sound &= measure(sifrdb, &dir.path().join(suite::SIFRDB))?;
    Ok(is_sound & reference::smoke()?)
}

/// A suite of tiny cells, and its plan.
fn suite_of(name: &str, engines: &[String], scale: f64) -> Result<(Plan, Suite)> {
    let engines: Vec<Spec> =
        engines.iter().map(|text| Spec::parse(text)).collect::<Result<Vec<_>>>()?.concat();
    let plan = Plan {
        suite: name.into(),
        only: Vec::new(),
        cells: Vec::new(),
        sizes: vec![4],
        trace_sizes: Vec::new(),
        engines,
        scale,
        memory_bytes: MEMORY_BYTES,
        budget_bytes: MEMORY_BYTES / 4,
        durability: Durability::Process,
        threads: 2,
        background_threads: 1,
        rounds: 1,
        seconds_max: 5.0,
        writing_seconds_max: 5.0,
        cell_seconds_max: None,
        suite_seconds_max: None,
        seed: 1,
    };
    let mut suite = suite::build(name, &Parameters::from(&plan), &[])?;
    suite.cells = tiny(&suite)?;
    Ok((plan, suite))
}

/// Runs a suite in `dir`, and checks its results.
fn measure((plan, suite): (Plan, Suite), dir: &Path) -> Result<bool> {
    let run = Run {
        plan,
        commands: vec!["smoke".into()],
        revision: runner::revision(),
        machine: runner::describe(dir),
        memory_limit_missing: None,
    };
    let out = dir.join("out");
    let results = Results::open(&out, &run)?;
    Runner::new(&run.plan, &suite, dir.join("work"), results, true).run()?;
    let (run, trials) = runner::read_results(&out)?;
    let is_sound = check(&suite, &trials);
    let html = report::html(&run, &suite, &trials);
    let (turns, cells) = (trials.len(), suite.cells.len());
    println!("{}: {turns} trials of {cells} cells; a report of {} bytes", run.plan.suite, html.len());
    Ok(is_sound)
}

/// One cell of each shape, with few operations: cells that only differ in numbers of threads or in
/// settings are left out.
fn tiny(suite: &Suite) -> Result<Vec<suite::Cell>> {
    let mut cells = Vec::new();
    let mut shapes = std::collections::BTreeSet::new();
    for cell in &suite.cells {
        let mut cell = cell.clone();
        // The skew is a number, too.
        let words: Vec<&str> =
            cell.id.split('/').map(|word| word.split("-0.").next().unwrap_or(word)).collect();
        let is_ablation = cell.id == ABLATION;
        let shape = format!("{:?}{:?}{is_ablation}", &words[..2.min(words.len())], cell.durability);
        if !shapes.insert(shape) || cell.threads > 4 {
            continue;
        }
        cell.records = cell.records.min(RECORDS);
        for step in &mut cell.steps {
            match step {
                Step::Run { records, operations, warmup, workload, .. } => {
                    *records = cell.records;
                    *operations = if workload.scan_rows_max().is_some() { SCANS } else { OPERATIONS };
                    *warmup = (*warmup).min(100);
                }
                Step::Ingest { events, .. } => *events = RECORDS,
                Step::Analyse { events, operations, .. } => (*events, *operations) = (RECORDS, SCANS),
                Step::Fill { records, .. } | Step::Delete { records, .. } => *records = RECORDS.min(*records),
                Step::Seek { records, operations, .. } | Step::GetMany { records, operations, .. } => {
                    *records = RECORDS;
                    *operations = SCANS;
                }
                Step::Load { .. } | Step::Settle { .. } | Step::Replay { .. } => {}
            }
        }
        // Room for what any store needs.
        cell.disk = cell.disk.map(|_| DISK_BYTES / cell.data_bytes() as f64);
        cells.push(cell);
    }
    Ok(cells)
}

/// True if the step waits, and has no operations.
fn waits(suite: &Suite, cell: &str, step: &str) -> bool {
    let steps = suite.cells.iter().filter(|other| other.id == cell).flat_map(|cell| &cell.steps);
    let mut named = steps.filter(|other| other.name() == Some(step));
    named.any(|step| matches!(step, Step::Settle { .. }))
}

/// Reports failures and wrong reads.
fn check(suite: &Suite, trials: &[Trial]) -> bool {
    let mut sound = true;
    let mut say = |trial: &Trial, what: String| {
        eprintln!("{} · {}: {what}", trial.cell, trial.engine);
        sound = false;
    };
    let has_own_disk =
        |trial: &Trial| suite.cells.iter().any(|cell| cell.id == trial.cell && cell.disk.is_some());
    for trial in trials {
        let may_be_left_out = trial.engine.is_volatile() || has_own_disk(trial);
        match &trial.outcome {
            Err(what) if may_be_left_out && what.starts_with(runner::LEFT_OUT) => {}
            Err(what) => say(trial, what.clone()),
            Ok(outcome) => {
                for (name, measured) in &outcome.steps {
                    let is_idle = measured.operations == 0 && !waits(suite, &trial.cell, name);
                    if measured.missing + measured.wrong > 0 || is_idle {
                        let (missing, wrong) = (measured.missing, measured.wrong);
                        let operations = measured.operations;
                        say(trial, format!("{name}: {missing} missing and {wrong} wrong of {operations}"));
                    }
                }
            }
        }
    }
    for cell in &suite.cells {
        if !trials.iter().any(|trial| trial.cell == cell.id) {
            eprintln!("{} was not run", cell.id);
            sound = false;
        }
    }
    sound
}
