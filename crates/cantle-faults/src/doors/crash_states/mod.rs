//! The power fails at every call that changes something. What it leaves is not drawn but enumerated: none of the unsynced changes,
//! all, all but each one, each one alone, all up to each one, torn within a write, with tails of nothing, zeros or noise; names and
//! bytes apart. Each image is opened and must hold what was promised; some fail again while they recover.
//!
//! Several writers at once are sampled (`threads`), long workloads, too (`long`), repairs and destructions (`upkeep`); all workloads of up to three operations on a fresh
//! store are gone through (`short`).

mod check;
mod enumerate;
mod long;
mod short;
mod threads;
mod upkeep;

pub use enumerate::plans;

use crate::visit::Visit;

pub fn enter(visit: &Visit) {
    if let Some(case) = &visit.case {
        match case.split_once(':').map(|(what, seed)| (what, seed.parse())) {
            Some(("threads", Ok(seed))) => threads::one(visit, seed),
            Some(("long", Ok(seed))) => long::one(visit, seed),
            Some(("upkeep", Ok(seed))) => upkeep::one(visit, seed),
            _ => short::one(visit, case),
        }
        return;
    }
    if !visit.is_long() {
        for (round, seed) in visit.rounds().enumerate() {
            threads::some(visit, seed);
            long::some(visit, seed);
            upkeep::some(visit, seed);
            short::all(visit, visit.seed, round);
        }
        return;
    }
    let mut short = short::Shuffled::new(visit.seed);
    for seed in visit.rounds() {
        threads::some(visit, seed);
        long::some(visit, seed);
        upkeep::some(visit, seed);
        short.some(visit, visit.round_seed());
    }
}
