//! The door `histories`, with the effort of `cargo test`. `CANTLE_TEST_CASE` runs the one history
//! that a failure named.

use cantle_faults::doors::door;
use cantle_faults::visit::{Visit, factor};

#[test]
fn every_history_keeps_the_promises() {
    let visit = Visit::for_test();
    (door("histories").expect("a door").enter)(&visit);
    visit.tell("histories");
    if visit.case.is_some() {
        return;
    }
    let tally = visit.tally();
    assert!(tally["histories"] >= 20 * factor(), "{tally:?}");
    for what in [
        "rounds checked",
        "batches of keys read",
        "transactions",
        "conflicts",
        "rebalances",
        "splits",
        "merges",
        "checkpoints",
        "keyspaces dropped",
    ] {
        assert!(tally[what] > 0, "no {what}: {tally:?}");
    }
}
