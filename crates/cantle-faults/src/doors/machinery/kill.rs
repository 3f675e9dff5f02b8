//! A writing process is killed at a random moment, also while it opens the store after the kill
//! before.

use super::child::{DURABILITIES, Part, Role, Running, name_of};
use super::writer::Promised;
use crate::history::Death;
use crate::rings;
use crate::rng::Rng;
use crate::visit::Visit;
use std::time::Duration;

/// Number of processes that are killed on one store.
const CHAIN: u64 = 10;

pub fn enter(visit: &Visit) {
    rings::are_possible(visit);
    for seed in visit.rounds() {
        for durability in DURABILITIES {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("store");
            let part = Part { role: Role::Write, path, layout: visit.layout, durability, seed };
            chain(visit, &part)
                .unwrap_or_else(|found| panic!("{}, seed {seed}: {found}", name_of(durability)));
        }
    }
}

fn chain(visit: &Visit, part: &Part) -> Result<(), String> {
    let mut rng = Rng::new(part.seed);
    let mut promised = Promised::default();
    for cycle in 0..CHAIN {
        let mut child = Running::start(&mut part.command(&visit.program));
        // Three of four are killed after the opening, the others at any moment.
        if rng.below(4) > 0 {
            child.wait_for("opened");
        }
        std::thread::sleep(Duration::from_micros(rng.below(60_000)));
        let ended = child.kill();
        let context = |found| format!("cycle {cycle}: {found}");
        if let Some(found) = ended.is_by_itself() {
            return Err(context(found));
        }
        promised.hear(&ended.lines, Death::Process, part.durability).map_err(context)?;
        if let Some(failure) = promised.failures.first() {
            return Err(context(failure.clone()));
        }
        visit.count("processes killed", 1);
        ended.count_places(visit);
        // Every other time the next child is the first to open the store.
        if rng.below(2) == 0 || cycle + 1 == CHAIN {
            let db = part.open().map_err(|error| context(format!("cannot open: {error}")))?;
            promised.check(&db, Death::Process, part.durability).map_err(context)?;
            let report = db.verify().map_err(|error| context(format!("cannot verify: {error}")))?;
            if !report.is_ok() {
                return Err(context(format!("{report:?}")));
            }
            visit.count("stores checked", 1);
        }
    }
    visit.count("batches acknowledged", promised.batches);
    Ok(())
}
