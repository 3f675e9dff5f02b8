//! The power fails at every call that changes something. What it leaves is not drawn but enumerated: none of the unsynced changes,
//! all, all but each one, each one alone, all up to each one, torn within a write, with tails of nothing, zeros or noise; names and
//! bytes apart. Each image is opened and must hold what was promised; some fail again while they recover.
//!
//! Several writers at once are sampled (`threads`), long workloads, too (`long`); all workloads of up to three operations on a fresh
//! store are gone through (`short`).

mod check;
mod enumerate;
mod long;
mod short;
mod threads;

pub use enumerate::plans;

use crate::visit::Visit;

pub fn enter(visit: &Visit) {
    match &visit.case {
        Some(case) => short::one(visit, case),
        None => {
            threads::some(&visit.share(1, 3));
            long::some(&visit.share(1, 2));
            short::all(visit);
        }
    }
}
