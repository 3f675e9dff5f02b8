//! The power fails at every call that changes something. What it leaves is not drawn but enumerated: none of the unsynced changes,
//! all, all but each one, each one alone, all up to each one, torn within a write, with tails of nothing, zeros or noise; names and
//! bytes apart. Each image is opened and must hold what was promised; some fail again while they recover.
//!
//! All workloads of up to three operations on a fresh store are gone through (`short`); of long ones a sample (`long`).

mod check;
mod enumerate;
mod long;
mod short;

use crate::visit::Visit;

pub fn enter(visit: &Visit) {
    match &visit.case {
        Some(case) => short::one(visit, case),
        None => {
            short::all(visit);
            long::some(visit);
        }
    }
}
