//! The door `histories`, as long as `cargo test` stays. `CANTLE_TEST_CASE` makes the one history that a failure named.

use cantle_faults::doors::door;
use cantle_faults::visit::Visit;

#[test]
fn every_history_keeps_the_promises() {
    let visit = Visit::for_test();
    (door("histories").expect("a door").enter)(&visit);
    println!("{:?}", visit.tally());
}
