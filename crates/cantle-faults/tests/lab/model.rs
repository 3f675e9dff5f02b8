//! The door `model`, with the effort of `cargo test`. `CANTLE_TEST_CASE` runs the one case that a
//! failure named.

use cantle_faults::doors::door;
use cantle_faults::visit::{Visit, factor};

#[test]
fn stores_do_as_the_model_does() {
    let visit = Visit::for_test();
    (door("model").expect("a door").enter)(&visit);
    visit.tell("model");
    if visit.case.is_some() {
        return;
    }
    let tally = visit.tally();
    assert!(tally["configurations"] >= 25 * factor(), "{tally:?}");
    assert!(tally["operations"] >= 25 * 3000 * factor(), "{tally:?}");
    // The door itself asserts the events that each round must have.
}
