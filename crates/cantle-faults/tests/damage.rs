//! The doors "damage" and "fuzz", for some seconds, in a process that counts their allocations.
//! `CANTLE_TEST_FACTOR` multiplies the random cases, `CANTLE_TEST_CASE` runs the one case that a
//! failure named.

use cantle_faults::doors::door;
use cantle_faults::files::Kind;
use cantle_faults::memory::{Watched, peak};
use cantle_faults::visit::Visit;

#[global_allocator]
static MEMORY: Watched = Watched;

/// Runs a door and prints its counters.
fn enter(name: &str) -> Visit {
    let visit = Visit::for_test();
    let door = door(name).unwrap_or_else(|| panic!("there is no door {name}"));
    (door.enter)(&visit);
    println!("{name}: {:?}; {} MiB at most", visit.tally(), peak() >> 20);
    visit
}

#[test]
fn damage() {
    let visit = enter("damage");
    if visit.case.is_none() {
        let tally = visit.tally();
        assert!(tally["bit flips"] >= 10_000, "{tally:?}");
        for kind in Kind::ALL.map(Kind::plural) {
            let harmed = [format!("bit flips of {kind}"), format!("damages of {kind}")];
            assert!(harmed.iter().all(|what| tally.contains_key(&what[..])), "no {harmed:?}: {tally:?}");
        }
        assert!(tally["stores repaired"] > 100 && tally["intact pairs saved by repairs"] > 1000, "{tally:?}");
    }
    assert!(peak() < 256 << 20, "{} bytes were in use", peak());
}

#[test]
fn fuzz() {
    let visit = enter("fuzz");
    assert!(visit.case.is_some() || visit.tally().len() == cantle_faults::doors::fuzz::TARGETS.len());
}
