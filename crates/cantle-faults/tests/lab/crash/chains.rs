//! Processes that die one after the other, with little or no checkpoint in between, and then the
//! power fails.

use cantle::Durability;
use cantle::vfs::{CrashPlan, MemVfs};
use cantle_faults::history::{Death, History, Marks, try_reopen};
use cantle_faults::rng::Rng;
use cantle_faults::setup::Setup;
use cantle_faults::visit::factor;
use cantle_faults::workload;
use std::sync::Arc;
use std::time::Duration;

fn chain(seed: u64, durability: Durability) -> u64 {
    let mut rng = Rng::new(seed);
    let mut setup = Setup::random(&mut rng, durability);
    setup.checkpoint_interval = Duration::from_secs(3600);
    let mut vfs = MemVfs::new();
    let mut history = History::default();
    let mut marks = Marks { durable: 0, acknowledged: 0, begun: 0 };
    let mut states = 0;
    let links = 3 + rng.below(5);
    for link in 0..links {
        let context = format!("seed {seed}, link {link} of {links}, {setup:?}, {marks:?}");
        let (db, k) = try_reopen(&setup, Arc::new(vfs.clone()), &history, marks, Death::Process)
            .unwrap_or_else(|what| panic!("{context}: {what}"));
        states += 1;
        history.states.truncate(k as usize + 1);
        marks = Marks { durable: marks.durable.min(k), acknowledged: k, begun: k };
        for _ in 0..rng.below(30) {
            let op = workload::draw(&mut rng, history.now(), 1500);
            // Checkpoints are rare here.
            if workload::is_sync(&op) && rng.below(4) > 0 {
                continue;
            }
            history.push(&op);
            workload::run(&db, &op, &setup.keyspace(), 1000 * link + marks.begun).unwrap();
            marks.begun += 1;
            marks.acknowledged += 1;
            if workload::is_sync(&op) {
                marks.durable = marks.acknowledged;
            }
        }
        if rng.below(3) == 0 {
            std::thread::sleep(Duration::from_millis(rng.below(60)));
        }
        let dead = vfs.kill();
        drop(db);
        vfs = dead;
        for plan in [CrashPlan::LOSE_UNSYNCED, CrashPlan::KEEP_ALL, CrashPlan::random(rng.next())] {
            let lost = vfs.crash(&plan);
            let (db, _) = try_reopen(&setup, Arc::new(lost.clone()), &history, marks, Death::Power)
                .unwrap_or_else(|what| panic!("{context}: {what}"));
            assert!(db.verify().unwrap().is_ok());
            // And killed at once: the recovered data are still there.
            let killed = lost.kill();
            drop(db);
            let again = try_reopen(&setup, Arc::new(killed), &history, marks, Death::Power);
            again.unwrap_or_else(|what| panic!("{context}, and killed: {what}"));
            states += 2;
        }
    }
    states
}

fn chains(durability: Durability, first: u64, count: u64) {
    let states: u64 = (first..first + count * factor()).map(|seed| chain(seed, durability)).sum();
    println!("{durability:?}: {states} states checked");
}

#[test]
fn processes_that_die_one_after_the_other_keep_all() {
    chains(Durability::Process, 0, 12);
}

#[test]
fn sync_stores_that_die_one_after_the_other_keep_all() {
    chains(Durability::Sync, 100, 8);
}

#[test]
fn buffered_stores_that_die_one_after_the_other_stay_prefixes() {
    chains(Durability::Buffered, 200, 8);
}

/// Writes that were acknowledged with one durability are kept with another.
#[test]
fn a_change_of_durability_between_deaths_loses_nothing() {
    for (seed, next) in [(1, Durability::Buffered), (2, Durability::Sync), (3, Durability::Buffered)] {
        let mut rng = Rng::new(seed);
        let mut setup = Setup::random(&mut rng, Durability::Process);
        setup.checkpoint_interval = Duration::from_secs(3600);
        let memory = MemVfs::new();
        let db = setup.open(Arc::new(memory.clone())).unwrap();
        db.put("first", "kept").unwrap();
        let killed = memory.kill();
        let changed = Setup { durability: next, ..setup.clone() };
        let db = changed.open(Arc::new(killed.clone())).unwrap();
        assert_eq!(db.get("first").unwrap().as_deref(), Some(&b"kept"[..]));
        let again = killed.kill();
        let reopened = changed.open(Arc::new(again)).unwrap();
        assert_eq!(reopened.get("first").unwrap().as_deref(), Some(&b"kept"[..]), "seed {seed}");
        if next == Durability::Sync {
            db.put("second", "on top").unwrap();
            let lost = killed.crash(&CrashPlan::LOSE_UNSYNCED);
            let db = changed.open(Arc::new(lost)).unwrap();
            assert_eq!(db.get("second").unwrap().as_deref(), Some(&b"on top"[..]));
            assert_eq!(db.get("first").unwrap().as_deref(), Some(&b"kept"[..]));
        }
    }
}
