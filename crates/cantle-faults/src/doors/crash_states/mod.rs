//! The power fails at every call that changes something. The images are not random but enumerated:
//! none of the unsynced changes, all, all but each one, each one alone, all up to each one, torn
//! within a write, with tails of nothing, zeros or noise; names and bytes separately. Each image is
//! opened and must hold everything that was promised. Some of them fail again while they recover,
//! above all if the recovery makes calls that hardly any recovery made before (`trails`).
//!
//! All workloads of up to three operations on a fresh store are run (`short`). Sampled are long
//! workloads (`long`), some of which are heavily used after the crash and die again (`second`),
//! several writers at once (`threads`), repairs and destructions (`upkeep`).

mod check;
mod enumerate;
mod long;
mod second;
mod short;
mod threads;
mod trails;
mod upkeep;

pub use enumerate::plans;

use crate::visit::Visit;
use trails::Trails;

/// A recovery fails again between two consecutive calls if fewer than 4 recoveries did so before;
/// in a long run, fewer than 256.
const RARE: [u32; 2] = [4, 256];

pub fn enter(visit: &Visit) {
    let trails = &Trails::new(RARE[usize::from(visit.is_long())]);
    if let Some(case) = &visit.case {
        match case.split_once(':').map(|(what, seed)| (what, seed.parse())) {
            Some(("threads", Ok(seed))) => threads::one(visit, seed),
            Some(("long", Ok(seed))) => long::one(visit, trails, seed),
            Some(("upkeep", Ok(seed))) => upkeep::one(visit, seed),
            _ => short::one(visit, trails, case),
        }
        return;
    }
    if !visit.is_long() {
        for (round, seed) in visit.rounds().enumerate() {
            threads::some(visit, seed);
            long::some(visit, trails, seed);
            upkeep::some(visit, seed);
            short::all(visit, trails, visit.seed, round);
        }
        return;
    }
    let mut short = short::Shuffled::new(visit.seed);
    for seed in visit.rounds() {
        threads::some(visit, seed);
        long::some(visit, trails, seed);
        upkeep::some(visit, seed);
        short.some(visit, trails, visit.round_seed());
    }
}
