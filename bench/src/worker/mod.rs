//! A child process that contains only one store, so that its memory, its processor time and its
//! bytes are that store's alone.
//!
//! It reads a [`Job`] as one line of JSON from its standard input, and writes an [`Outcome`] as one
//! line to its standard output. The parent writes the job only after it has moved the child to its
//! control group. The child ends when its input ends, so it never outlives its parent.

mod appends;
mod crew;
mod filled;
mod load;
mod meter;
mod settle;
mod source;
mod tally;
#[cfg(test)]
mod tests;
mod work;

use crate::engine::{self, Engine};
use crate::failure::{Failure, Result};
use crate::job::{Job, Step};
use crate::measure::cycles::Cycles;
use crate::record::Outcome;
use cantle_workloads::records::Values;
use crew::Crew;
use std::collections::BTreeMap;
use std::io::{BufRead, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Exit code of a child whose parent is gone.
const ABANDONED: i32 = 3;

/// True once the store has been closed: then the parent may end first.
static IS_DONE: AtomicBool = AtomicBool::new(false);

/// Runs the parent's job.
pub fn run() -> Result {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let job: Job = serde_json::from_str(&line)?;
    std::thread::spawn(|| {
        // No more input is sent: it ends when the parent dies or closes it.
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(if IS_DONE.load(Ordering::Acquire) { 0 } else { ABANDONED });
    });
    let (outcome, engine) = perform(&job)?;
    IS_DONE.store(true, Ordering::Release);
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &outcome)?;
    writeln!(out)?;
    out.flush()?;
    if engine.is_some() {
        loop {
            std::thread::park();
        }
    }
    Ok(())
}

/// Opens the store, runs the steps and closes it; returns the open engine instead if it is to be
/// held.
pub fn perform(job: &Job) -> Result<(Outcome, Option<Box<dyn Engine>>)> {
    // Before the store starts its threads, as only later threads are counted.
    let (mut cycles, no_cycles) = Cycles::start();
    std::fs::create_dir_all(&job.settings.dir)?;
    let begun = Instant::now();
    let opened = engine::open(&job.engine, &job.settings)?;
    let open_ms = begun.elapsed().as_secs_f64() * 1e3;
    let values = Values::new(job.seed);
    let mut steps = BTreeMap::new();
    let mut filled = None;
    // A load is not measured, and has no part of the time of all steps.
    let mut begun = Instant::now();
    for (at, step) in job.steps.iter().enumerate() {
        if let Step::Load { records, is_scattered } = *step {
            load::load(opened.engine.as_ref(), &values, job, records, is_scattered)?;
            begun = Instant::now();
            continue;
        }
        let crew = Crew { job, engine: opened.engine.as_ref(), values: &values, filled: filled.as_ref() };
        let (measured, left) = crew.run(step, job.longest_at(at, begun.elapsed()), &mut cycles)?;
        filled = left.or(filled);
        let name = step.name().ok_or_else(|| Failure::new("a step without a name"))?;
        steps.insert(name.to_string(), measured);
    }
    let begun = Instant::now();
    let held = if job.hold {
        Some(opened.engine)
    } else {
        opened.engine.close()?;
        None
    };
    let outcome = Outcome {
        version: opened.version,
        configuration: opened.configuration,
        caveats: opened.caveats,
        notes: no_cycles.into_iter().collect(),
        open_ms,
        close_ms: begun.elapsed().as_secs_f64() * 1e3,
        group_peak_bytes: None,
        group_device_bytes: None,
        device_reads: None,
        steps,
    };
    Ok((outcome, held))
}
