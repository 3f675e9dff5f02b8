//! Every door of the lab, for some seconds. `CANTLE_TEST_FACTOR` multiplies the random cases,
//! `CANTLE_TEST_CASE` runs the one case that a failure named.

use cantle::LayoutKind;
use cantle_faults::doors::door;
use cantle_faults::visit::{Effort, Visit, factor};

/// Runs a door and prints its counters.
fn enter(name: &str) -> Visit {
    let visit = Visit::for_test();
    let door = door(name).unwrap_or_else(|| panic!("there is no door {name}"));
    (door.enter)(&visit);
    visit.tell(name);
    visit
}

#[test]
fn crash_states() {
    let visit = enter("crash-states");
    if visit.case.is_some() {
        return;
    }
    let tally = visit.tally();
    assert!(visit.states() >= 100_000, "{tally:?}");
    assert!(tally["states after a second crash"] >= 1000, "{tally:?}");
    assert!(tally["second lives"] > 0, "{tally:?}");
    assert_eq!(tally["times that all short workloads were done"], factor(), "{tally:?}");
}

#[test]
fn without_manifest() {
    let visit = enter("without-manifest");
    if visit.case.is_none() {
        let tally = visit.tally();
        assert!(tally["states without a manifest"] >= 300, "{tally:?}");
    }
}

#[test]
fn pressure() {
    let tally = enter("pressure").tally();
    assert_eq!(tally["keyspaces that fell behind"], 2 * factor(), "{tally:?}");
}

#[test]
fn life() {
    let visit = enter("life");
    if visit.case.is_some() {
        return;
    }
    let tally = visit.tally();
    assert_eq!(tally["lives"], 40 * factor(), "{tally:?}");
    for what in ["processes killed", "losses of power", "munks loaded", "rebalances", "splits", "merges"] {
        assert!(tally[what] > 0, "no {what}: {tally:?}");
    }
}

#[test]
fn schedules() {
    assert_eq!(enter("schedules").tally()["schedules"], 3 * factor());
}

#[test]
fn failing_calls() {
    let visit = enter("failing-calls");
    if visit.case.is_some() {
        return;
    }
    let tally = visit.tally();
    assert_eq!(tally["workloads of which every call failed"], 3 * factor(), "{tally:?}");
    assert!(tally["calls of the workloads"] >= 600, "{tally:?}");
    assert!(tally["calls of the workloads that failed"] >= tally["calls of the workloads"], "{tally:?}");
}

#[test]
fn openings() {
    let visit = enter("openings");
    if visit.case.is_some() {
        return;
    }
    let tally = visit.tally();
    assert_eq!(tally["stores checked"], 32 * factor(), "{tally:?}");
    assert!(
        tally["openings that were killed"] >= 100 && tally["openings that were closed"] >= 100,
        "{tally:?}"
    );
}

/// A store was being destroyed whose last manifest had replaced an older one. The power failed
/// before the removal of the older one was durable, and the store opened in the older state.
#[test]
fn no_older_manifest_comes_back_with_an_older_store() {
    let case = "upkeep:503501878571572501".to_owned();
    let visit = Visit::new(LayoutKind::default(), 0, Effort::Rounds(1)).of_case(Some(case));
    (door("crash-states").expect("a door").enter)(&visit);
    assert!(visit.tally()["states of repairs and destructions"] > 1000);
}
