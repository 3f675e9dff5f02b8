//! `cantle bench --smoke`: every workload over every distribution, tiny, so that a broken bench (or
//! a store that loses or mixes up records) is found by the tests and not by someone who wants a
//! figure.

use super::args::Args;
use super::session::Session;
use super::{plan, show};
use crate::failure::Outcome;
use crate::tuning::Tuning;
use cantle_workloads::generator::Distribution;
use cantle_workloads::workload::Workload;

/// Records of the store: a few chunks of the size below.
const RECORDS: u64 = 2_000;

/// Operations of each phase.
const OPERATIONS: u64 = 1_000;

/// Operations of phases with scans, which return up to a thousand rows each.
const SCANS: u64 = 50;

/// The smallest chunks that a store takes, so that the smoke test splits some.
const LAYOUT: &str = "chunk:chunk_bytes=64KiB";

/// Enough to work, little enough to evict.
const MEMORY_BYTES: u64 = 16 << 20;

/// Threads: more than one, so that they meet.
const THREADS: u64 = 3;

/// Runs everything; whether every record was there and right.
pub(crate) fn run(args: &Args) -> Outcome<bool> {
    let tuning = Tuning {
        memory: Some(args.tuning.memory.unwrap_or(MEMORY_BYTES)),
        layout: Some(args.tuning.layout.clone().unwrap_or_else(|| LAYOUT.to_owned())),
        ..args.tuning.clone()
    };
    let of = |operations| Args {
        tuning: tuning.clone(),
        records: RECORDS,
        operations: Some(operations),
        threads: THREADS,
        warmup: 100,
        ..args.clone()
    };
    let (many, few) = (of(OPERATIONS), of(SCANS));
    let mut session = Session::create(&many)?;
    let mut sound = true;
    for (workload, distribution) in plan(&Workload::ALL, &Distribution::ALL) {
        let args = if workload.scan_rows_max().is_some() { &few } else { &many };
        let report = session.phase(args, workload, distribution)?;
        sound &= report.is_sound();
        show(&report, args)?;
    }
    session.db.close()?;
    Ok(sound)
}
