//! `cantle bench --smoke`: every workload over every distribution, tiny, so that a broken bench (or a store
//! that loses or mixes up records) is found by the tests and not by whoever wants a figure.

use super::args::Args;
use super::workload::Workload;
use super::{Bench, Workplace, plan};
use crate::failure::Outcome;
use crate::measure::generator::Distribution;
use crate::tuning::Tuning;
use std::io::Write;

/// Records of the store: a few chunks of the size below.
const RECORDS: u64 = 2_000;

/// Operations of each phase; a hundredth of it for long scans, which return up to a thousand rows each.
const OPERATIONS: u64 = 1_000;

/// The smallest chunk that a store takes, so that the smoke test splits some.
const CHUNK_BYTES: u64 = 64 << 10;

/// Enough to work, little enough to evict.
const MEMORY_BYTES: u64 = 16 << 20;

/// Threads: more than one, so that they meet.
const THREADS: u64 = 3;

/// Runs everything; whether every record was there and right.
pub(crate) fn run(args: &Args) -> Outcome<bool> {
    let tuning = Tuning {
        memory: Some(args.tuning.memory.unwrap_or(MEMORY_BYTES)),
        chunk_bytes: Some(args.tuning.chunk_bytes.unwrap_or(CHUNK_BYTES)),
        ..args.tuning.clone()
    };
    let tiny = Args {
        tuning,
        records: RECORDS,
        operations: Some(OPERATIONS),
        threads: Some(THREADS),
        overwrites: None,
        warmup: 100,
        ..args.clone()
    };
    let few = Args { operations: Some(OPERATIONS / 20), ..tiny.clone() };
    let workplace = Workplace::new(&tiny)?;
    let mut bench = Bench::create(&tiny, workplace.path())?;
    let mut out = std::io::stdout().lock();
    let mut sound = true;
    for (workload, distribution) in plan(&Workload::ALL, &Distribution::ALL) {
        if distribution.is_some() && bench.population.existing() == 0 {
            bench.load()?;
        }
        bench.args = if workload.scan_rows_max().is_some() { &few } else { &tiny };
        let report = bench.phase(workload, distribution)?;
        if args.json {
            serde_json::to_writer(&mut out, &report)?;
            writeln!(out)?;
        } else {
            writeln!(out, "{}", report.line())?;
        }
        if !report.is_sound() {
            report.print(&mut out)?;
        }
        sound &= report.is_sound();
    }
    bench.db.close()?;
    Ok(sound)
}
