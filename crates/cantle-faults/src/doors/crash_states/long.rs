//! Samples of long random workloads, with munks, rebalances, splits and checkpoints in progress.

use super::check::{Moment, Seen};
use super::second;
use super::trails::Trails;
use crate::history::{Death, History, Progress};
use crate::images::record;
use crate::rng::Rng;
use crate::setup::Setup;
use crate::visit::Visit;
use crate::workload;
use cantle::Durability;
use cantle::vfs::{CrashPlan, FaultVfs, MemVfs};
use std::sync::Arc;

/// Workloads of a round.
const WORKLOADS: u64 = 3;

/// Operations of a workload.
const OPERATIONS: u64 = 120;

/// Moments of a workload at which the power fails.
const MOMENTS: usize = 12;

/// One of 4 moments gets a second life, too; in a long run every moment.
const SECOND_LIVES: [usize; 2] = [4, 1];

/// Runs a sample.
pub fn some(visit: &Visit, trails: &Trails, seed: u64) {
    let seeds: Vec<u64> = (0..WORKLOADS).map(|n| seed.wrapping_add(n)).collect();
    visit.each(&seeds, |&seed| one(visit, trails, seed));
}

/// Runs the workload of a seed.
pub fn one(visit: &Visit, trails: &Trails, seed: u64) {
    let mut rng = Rng::new(seed);
    let durability = [Durability::Process, Durability::Sync, Durability::Buffered][(seed % 3) as usize];
    let setup = Setup { layout: visit.layout, ..Setup::random(&mut rng, durability) };
    let value_bytes = [200, 1500, 4000][rng.below(3) as usize];
    let memory = MemVfs::new();
    let fault = FaultVfs::over_memory(memory.clone());
    let progress = Progress::at(0, 0);
    let images = record(&fault, &memory, &progress, 30 + rng.below(120), MOMENTS);
    let mut history = History::default();
    let mut serial = 0;
    while serial < OPERATIONS {
        let db = setup.open(Arc::new(fault.clone())).unwrap();
        let until = OPERATIONS.min(serial + 20 + rng.below(OPERATIONS));
        while serial < until {
            let op = workload::draw(&mut rng, history.now(), value_bytes);
            // Recorded before it begins: an image taken during the operation may contain it.
            history.push(&op);
            progress.begin();
            workload::run(&db, &op, &setup.keyspace(), serial)
                .unwrap_or_else(|error| panic!("CANTLE_TEST_CASE=long:{seed}, {op:?}: {error}"));
            progress.finish(workload::is_sync(&op));
            serial += 1;
            if serial.is_multiple_of(30) {
                workload::heat(&db);
            }
        }
        if rng.below(2) == 0 {
            db.close().unwrap();
            progress.all_is_durable();
        }
    }
    fault.clear_rule();
    visit.count("long workloads", 1);
    let images = std::mem::take(&mut *images.lock().unwrap());
    let mut seen = Seen::default();
    for (index, image) in images.iter().enumerate() {
        if visit.is_over() {
            return;
        }
        let context = format!("CANTLE_TEST_CASE=long:{seed}, image {index}, before {}, {setup:?}", image.at);
        let moment = Moment {
            setup: &setup,
            history: &history,
            marks: image.marks,
            memory: &image.vfs,
            trails,
            context: &context,
        };
        moment.check(visit, seed ^ index as u64, &mut seen);
        if index % SECOND_LIVES[usize::from(visit.is_long())] == 0 {
            let lost = CrashPlan::random(rng.next());
            for (vfs, death) in [(image.vfs.kill(), Death::Process), (image.vfs.crash(&lost), Death::Power)] {
                let (setup, history, marks) = (&setup, &history, image.marks);
                let left = second::Left { setup, history, marks, vfs, death, value_bytes };
                second::live(visit, left, rng.next())
                    .unwrap_or_else(|found| panic!("{context}; then, after {death:?}, {found}"));
            }
        }
    }
}
