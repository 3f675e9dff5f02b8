//! A second life: a recovered store is used heavily for a while, and then dies again, in any way.

use crate::history::{Death, History, Marks, Progress};
use crate::images::record;
use crate::rng::Rng;
use crate::setup::Setup;
use crate::visit::Visit;
use crate::workload;
use cantle::vfs::{CrashPlan, FaultVfs, MemVfs};
use std::sync::Arc;

/// Operations of a second life, and the number of operations after which everything is read until
/// it is in memory.
const OPERATIONS: u64 = 45;
const HEAT: u64 = 15;
/// Moments of a second life at which it ends.
const MOMENTS: usize = 3;

/// A crashed store, and the promises that it must keep.
pub struct Left<'a> {
    pub setup: &'a Setup,
    pub history: &'a History,
    pub marks: Marks,
    pub vfs: MemVfs,
    pub death: Death,
    pub value_bytes: u64,
}

/// Runs a second life; returns the finding.
pub fn live(visit: &Visit, left: Left<'_>, seed: u64) -> Result<(), String> {
    let Left { setup, history, marks, vfs, death, value_bytes } = left;
    let mut rng = Rng::new(seed);
    let fault = FaultVfs::over_memory(vfs.clone());
    let db = setup.open(Arc::new(fault.clone())).map_err(|error| format!("cannot reopen: {error}"))?;
    let cannot_read = |error| format!("cannot read: {error}");
    let found = workload::contents(&db, &setup.keyspace()).map_err(cannot_read)?;
    let first = history.check(&found, marks, death, setup.durability)?;
    let mut history = History { states: history.states[..=first as usize].to_vec() };
    let progress = Progress::at(first, marks.durable.min(first));
    let images = record(&fault, &vfs, &progress, 10 + rng.below(120), MOMENTS);
    workload::heat(&db);
    for serial in 0..OPERATIONS {
        let op = workload::draw(&mut rng, history.now(), value_bytes);
        history.push(&op);
        progress.begin();
        // Backups of the first life still exist.
        let done = workload::run(&db, &op, &setup.keyspace(), 1000 + serial);
        done.map_err(|error| format!("{op:?} in a second life: {error}"))?;
        progress.finish(workload::is_sync(&op));
        if serial % HEAT == HEAT - 1 {
            workload::heat(&db);
            let found = workload::contents(&db, &setup.keyspace()).map_err(cannot_read)?;
            if found != *history.now() {
                let difference = workload::difference(&found, history.now());
                return Err(format!("after {serial} operations of a second life:{difference}"));
            }
        }
    }
    fault.clear_rule();
    db.close().map_err(|error| format!("cannot close: {error}"))?;
    drop(db);
    progress.all_is_durable();
    visit.count("second lives", 1);
    let images = std::mem::take(&mut *images.lock().unwrap());
    let deaths = images.into_iter().flat_map(|image| {
        let lost = image.vfs.crash(&CrashPlan::random(rng.next()));
        let (at, marks) = (image.at, image.marks);
        [(image.vfs, Death::Process, marks, at.clone()), (lost, Death::Power, marks, at)]
    });
    let closed = (vfs.kill(), Death::Process, progress.now(), "it was closed".to_owned());
    for (vfs, death, marks, at) in deaths.chain([closed]) {
        visit.count("states of second lives", 1);
        let context = |found| format!("a second life ended before {at} by {death:?}: {found}");
        let db = setup.open_image(Arc::new(vfs)).map_err(|error| context(format!("cannot open: {error}")))?;
        let found =
            workload::contents(&db, &setup.keyspace()).map_err(|error| context(cannot_read(error)))?;
        history.check(&found, marks, death, setup.durability).map_err(context)?;
        let report = db.verify().map_err(|error| context(error.to_string()))?;
        if !report.is_ok() {
            return Err(context(format!("{report:?}")));
        }
    }
    Ok(())
}
