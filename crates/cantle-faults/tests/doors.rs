//! Every door of the lab, for some seconds. `CANTLE_TEST_FACTOR` multiplies what is drawn by chance, `CANTLE_TEST_CASE` runs
//! the one case that a failure named.

use cantle_faults::doors::door;
use cantle_faults::visit::Visit;

/// Goes through a door; what it did is printed.
fn enter(name: &str) -> Visit {
    let visit = Visit::for_test();
    let door = door(name).unwrap_or_else(|| panic!("there is no door {name}"));
    (door.enter)(&visit);
    println!("{name}: {:?}", visit.tally());
    for skipped in visit.skipped() {
        println!("{name}: skipped: {skipped}");
    }
    visit
}

#[test]
fn crash_states() {
    let visit = enter("crash-states");
    assert!(visit.case.is_some() || visit.tally()["states"] >= 100_000, "{:?}", visit.tally());
}

#[test]
fn failing_calls() {
    enter("failing-calls");
}
