//! The doors to real processes, file systems and limits, for some seconds each. Those that need root or a tool that is missing
//! say so and do nothing. `CANTLE_TEST_FACTOR` and `CANTLE_TEST_CASE` as in `doors.rs`.

use cantle_faults::doors::door;
use cantle_faults::visit::Visit;

/// Goes through a door; what it did is printed. `done` was done at least once, unless the door was skipped.
fn enter(name: &str, done: &str) {
    let mut visit = Visit::for_test();
    visit.program = env!("CARGO_BIN_EXE_cantle-faults").into();
    let door = door(name).unwrap_or_else(|| panic!("there is no door {name}"));
    (door.enter)(&visit);
    let (tally, skipped) = (visit.tally(), visit.skipped());
    println!("{name}: {tally:?}");
    for skipped in &skipped {
        println!("{name}: skipped: {skipped}");
    }
    assert!(tally.contains_key(done) || !skipped.is_empty() || visit.case.is_some(), "{tally:?}");
}

#[test]
fn processes_that_are_killed_keep_what_they_acknowledged() {
    enter("kill", "stores checked");
}

#[test]
fn file_systems_that_go_down_keep_what_was_synced() {
    enter("shutdown", "stores checked");
}
