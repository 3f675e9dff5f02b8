//! One writer, with images at many moments: power lost or the process killed, and crashes during
//! recoveries.

use cantle::Durability;
use cantle::vfs::{CrashPlan, FaultVfs, MemVfs};
use cantle_faults::history::{Death, History, Progress, try_reopen};
use cantle_faults::images::{Image, record};
use cantle_faults::rng::Rng;
use cantle_faults::setup::Setup;
use cantle_faults::visit::factor;
use cantle_faults::workload;
use std::sync::Arc;

struct Run {
    setup: Setup,
    history: History,
    images: Vec<Image>,
    /// Loads and flushes.
    munks: [u64; 2],
}

fn run(seed: u64, durability: Durability, operations: u64) -> Run {
    let mut rng = Rng::new(seed);
    let setup = Setup::random(&mut rng, durability);
    let value_bytes = [200, 1500, 4000][rng.below(3) as usize];
    let memory = MemVfs::new();
    let fault = FaultVfs::over_memory(memory.clone());
    let progress = Progress::at(0, 0);
    let step = 1 + rng.below(if durability == Durability::Sync { 40 } else { 24 });
    let images = record(&fault, &memory, &progress, step, 40);
    let mut history = History::default();
    // Sometimes closed and opened again.
    let (mut serial, mut munks) = (0, [0; 2]);
    while serial < operations {
        let db = setup.open(Arc::new(fault.clone())).unwrap();
        let until = operations.min(serial + 20 + rng.below(operations));
        while serial < until {
            let op = workload::draw(&mut rng, history.now(), value_bytes);
            // Recorded before it begins: an image taken during the operation may contain it.
            history.push(&op);
            progress.begin();
            workload::run(&db, &op, &setup.keyspace(), serial)
                .unwrap_or_else(|error| panic!("{op:?}: {error}"));
            progress.finish(workload::is_sync(&op));
            serial += 1;
            if serial.is_multiple_of(30) {
                workload::heat(&db);
            }
        }
        for keyspace in db.stats().keyspaces {
            munks[0] += keyspace.chunk().unwrap().munk_loads;
            munks[1] += keyspace.chunk().unwrap().munk_flushes;
        }
        if rng.below(2) == 0 {
            db.close().unwrap();
        }
        drop(db);
    }
    fault.clear_rule();
    let images = std::mem::take(&mut *images.lock().unwrap());
    Run { setup, history, images, munks }
}

/// The states of an image after each kind of death.
fn deaths(rng: &mut Rng, vfs: &MemVfs) -> [(MemVfs, Death, String); 4] {
    let plan = rng.next();
    [
        (vfs.crash(&CrashPlan::LOSE_UNSYNCED), Death::Power, "power loss, unsynced lost".into()),
        (vfs.crash(&CrashPlan::KEEP_ALL), Death::Power, "power loss, all kept".into()),
        (vfs.crash(&CrashPlan::random(plan)), Death::Power, format!("power loss, plan {plan}")),
        (vfs.kill(), Death::Process, "process killed".into()),
    ]
}

fn check_runs(durability: Durability, seeds: std::ops::Range<u64>) {
    /// Number of further seeds if the machine was too busy for a munk to be loaded, or flushed.
    const MORE_SEEDS: u64 = 20;
    let (mut states, mut second, mut all_munks) = (0, 0, [0; 2]);
    for seed in seeds.start..seeds.end + MORE_SEEDS {
        if seed >= seeds.end && all_munks.iter().all(|count| *count > 0) {
            break;
        }
        let Run { setup, history, images, munks } = run(seed, durability, 120);
        all_munks.iter_mut().zip(munks).for_each(|(all, more)| *all += more);
        let mut rng = Rng::new(seed ^ 0xabcd);
        for (index, image) in images.iter().enumerate() {
            for (vfs, death, what) in deaths(&mut rng, &image.vfs) {
                let context = format!("seed {seed}, image {index} before {}, {what}, {setup:?}", image.at);
                // Some are opened on a file system that takes images itself: crashes during the
                // recovery.
                let again = rng.below(4) == 0;
                let fault = FaultVfs::over_memory(vfs.clone());
                let progress = Progress::at(0, 0);
                let taken = again.then(|| record(&fault, &vfs, &progress, 1 + rng.below(3), 6));
                let (db, k) = try_reopen(&setup, Arc::new(fault.clone()), &history, image.marks, death)
                    .unwrap_or_else(|what| panic!("{context}: {what}"));
                // The recovered store works.
                db.put("after", "crash").unwrap_or_else(|error| panic!("{context}: {error}"));
                if rng.below(4) == 0 {
                    let report = db.verify().unwrap();
                    assert!(report.is_ok(), "{context}: {report:?}");
                }
                drop(db);
                states += 1;
                let _ = k;
                for image_of_recovery in
                    taken.iter().flat_map(|taken| std::mem::take(&mut *taken.lock().unwrap()))
                {
                    for (vfs, next, what) in deaths(&mut rng, &image_of_recovery.vfs) {
                        // Only a chain of killed processes keeps data that a loss of power would
                        // not.
                        let worst = if death == Death::Power { death } else { next };
                        let context = format!("{context}; then before {}, {what}", image_of_recovery.at);
                        let mut history = history.clone();
                        // The put after the recovery may be there or not.
                        let marks =
                            cantle_faults::history::Marks { begun: image.marks.begun + 1, ..image.marks };
                        let last = (image.marks.begun as usize).min(history.states.len() - 1);
                        history.states.truncate(last + 1);
                        let result = try_reopen_with_after(&setup, vfs, &history, marks, worst);
                        result.unwrap_or_else(|what| panic!("{context}: {what}"));
                        second += 1;
                    }
                }
            }
        }
    }
    println!("{durability:?}: {states} states checked, and {second} after a second crash");
    println!("[munk loads, flushes]: {all_munks:?}");
    assert!(all_munks.iter().all(|count| *count > 0), "no munk was there when the power failed");
}

/// As `try_reopen`, but the key `after` may have been put since.
fn try_reopen_with_after(
    setup: &Setup,
    vfs: MemVfs,
    history: &History,
    marks: cantle_faults::history::Marks,
    death: Death,
) -> Result<(), String> {
    let db = setup.open(Arc::new(vfs)).map_err(|error| format!("cannot reopen: {error}"))?;
    let mut found =
        workload::contents(&db, &setup.keyspace()).map_err(|error| format!("cannot read: {error}"))?;
    found.get_mut("default").unwrap().remove(&b"after"[..]);
    history.check(&found, marks, death, setup.durability)?;
    Ok(())
}

#[test]
fn a_buffered_store_is_a_prefix_after_any_crash() {
    check_runs(Durability::Buffered, 0..2 * factor());
}

#[test]
fn a_process_store_keeps_all_when_killed_and_a_prefix_when_power_fails() {
    check_runs(Durability::Process, 1000..1000 + 3 * factor());
}

#[test]
fn a_sync_store_keeps_every_acknowledged_write() {
    check_runs(Durability::Sync, 2000..2000 + 2 * factor());
}
