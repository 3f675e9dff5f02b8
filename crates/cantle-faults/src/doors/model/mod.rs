//! Random operations on stores of random configurations, compared with a `BTreeMap` after every
//! one.
//!
//! Each operation has random numbers of its own, which follow from the seed and the operation's
//! number. Hence an operation does not change when others are left out. This allows shrinking a
//! failure to the fewest operations that still fail. `CANTLE_TRACE=1` prints each operation.

mod case;
mod config;
mod keys;
mod order;
mod random;
mod readers;
mod state;
mod totals;
mod world;

use crate::visit::{Visit, words_of};
use crate::{rings, shrink};
use cantle::LayoutKind;
use case::Case;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use totals::Totals;
use world::World;

/// Configurations of a round. Every 24 consecutive ones cover all values that must be covered.
const CONFIGURATIONS: u64 = 32;
const OPERATIONS: u64 = 3000;
/// Maximum number of attempts to shrink a failure.
const ATTEMPTS: usize = 400;

/// Runs rounds of configurations. A case is the seed of one configuration, alone or with the
/// operations to run ([`Case`]), and runs once per round: failures that depend on background work
/// may need many rounds.
pub fn enter(visit: &Visit) {
    let trace = std::env::var_os("CANTLE_TRACE").is_some();
    if let Some(text) = &visit.case {
        let case = Case::parse(text, OPERATIONS)
            .unwrap_or_else(|| panic!("{text:?} is no case, as 7:1-30,55 is one"));
        for _ in visit.rounds() {
            match run(visit, &case, trace) {
                Ok(totals) => totals.count(visit),
                Err(failure) => panic!("{case}: at operation {}: {}", failure.at, failure.what),
            }
        }
        return;
    }
    for seed in visit.rounds() {
        // The low byte of a seed is the configuration's turn, so that the seed alone determines the
        // configuration.
        let base = seed & !0xff;
        let is_default = visit.layout == LayoutKind::default();
        // A layout with few mechanisms needs only a part.
        let configurations = if is_default { CONFIGURATIONS } else { CONFIGURATIONS / 4 };
        let seeds: Vec<u64> = (base..base + configurations).collect();
        let totals = Mutex::new(Totals::default());
        visit.each(&seeds, |&seed| {
            let case = Case::whole(seed, OPERATIONS);
            match run(visit, &case, trace) {
                Ok(ran) => totals.lock().unwrap().join(&ran),
                Err(failure) => panic!("{}", explain(visit, &case, &failure)),
            }
            visit.count("configurations", 1);
            visit.count("operations", case.operations.len() as u64);
        });
        let totals = totals.into_inner().unwrap();
        totals.count(visit);
        if !visit.is_over() && is_default {
            assert_eq!(totals.missing(), [""; 0], "of all seeds from {base}: {totals:?}");
            assert!(totals.reads_by_ring > 0 || !rings::are_possible(visit), "{totals:?}");
        }
    }
}

/// The panic of a configuration, and the operation at which it happened.
struct Failure {
    at: u64,
    what: String,
}

fn run(visit: &Visit, case: &Case, trace: bool) -> Result<Totals, Failure> {
    let at = Cell::new(0);
    let world = || World::new(visit.layout, case.seed, &at, trace).run(&case.operations);
    catch_unwind(AssertUnwindSafe(world)).map_err(|panic| {
        let what = words_of(&*panic);
        Failure { at: at.get(), what: what.to_owned() }
    })
}

/// Shrinks the failure to the fewest operations that were found to fail, and prints them.
fn explain(visit: &Visit, case: &Case, failure: &Failure) -> String {
    let until = |last: u64| case.operations.iter().copied().filter(|&operation| operation <= last).collect();
    let operations = shrink::quietly(|| {
        shrink::shrink(until(failure.at), ATTEMPTS, |operations| {
            let case = Case { seed: case.seed, operations: operations.to_vec() };
            run(visit, &case, false).err().map(|failure| failure.at)
        })
    });
    let Some(operations) = operations else {
        return format!(
            "{}: at operation {}: {}\nit did not fail again; the whole of it, 100 times: cargo run -p cantle-faults -- --doors model --rounds 100 --case {}",
            case.seed, failure.at, failure.what, case.seed
        );
    };
    let shortest = Case { seed: case.seed, operations };
    let again = run(visit, &shortest, true).err();
    let what = again.map_or_else(|| failure.what.clone(), |failure| failure.what);
    format!(
        "{what}\nafter {} operations, at first {}: cargo run -p cantle-faults -- --doors model --case {shortest}",
        shortest.operations.len(),
        failure.at
    )
}
