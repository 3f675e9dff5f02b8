//! The door `space`, with the effort of `cargo test`. `CANTLE_TEST_CASE` runs the one case that a
//! failure named.

use cantle_faults::doors::door;
use cantle_faults::visit::{Visit, factor};

#[test]
fn stores_take_no_more_than_is_promised() {
    let visit = Visit::for_test();
    (door("space").expect("a door").enter)(&visit);
    visit.tell("space");
    if visit.case.is_none() {
        assert_eq!(visit.tally()["stores"], 48 * factor(), "{:?}", visit.tally());
    }
}
