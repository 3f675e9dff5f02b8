//! The child process that has one store to itself, so that its memory, its processor time and its bytes are that
//! store's alone.
//!
//! It reads a [`Job`] as one line of JSON from its standard input, which the parent writes only once the child is in its
//! control group, and writes an [`Outcome`] as one line to its standard output. When its input ends, so does it: it never
//! outlives its parent.

mod crew;
mod load;
mod source;
mod tally;

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

/// Exit code of a child whose parent has gone.
const ABANDONED: i32 = 3;

/// Whether the store has been closed: the parent may then go first.
static IS_DONE: AtomicBool = AtomicBool::new(false);

/// Does what the parent says.
pub fn run() -> Result {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let job: Job = serde_json::from_str(&line)?;
    std::thread::spawn(|| {
        // Nothing more is sent: the end of the input is the end of the parent, or its wish.
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

/// Opens, takes the steps and closes; the engine is returned open if it is to be held.
pub fn perform(job: &Job) -> Result<(Outcome, Option<Box<dyn Engine>>)> {
    // Before the store starts its threads, which are counted only then.
    let (mut cycles, no_cycles) = Cycles::start();
    std::fs::create_dir_all(&job.settings.dir)?;
    let begun = Instant::now();
    let opened = engine::open(&job.engine, &job.settings)?;
    let open_ms = begun.elapsed().as_secs_f64() * 1e3;
    let values = Values::new(job.seed);
    let mut steps = BTreeMap::new();
    for step in &job.steps {
        if let Step::Load { records } = *step {
            load::load(opened.engine.as_ref(), &values, records, job.seed)?;
            continue;
        }
        let crew = Crew { job, engine: opened.engine.as_ref(), values: &values };
        let measured = crew.run(step, &mut cycles)?;
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
