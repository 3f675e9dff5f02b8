//! The door `model`, as long as `cargo test` stays. `CANTLE_TEST_CASE` runs the one case that a failure named.

use cantle_faults::doors::door;
use cantle_faults::visit::Visit;

#[test]
fn stores_do_as_the_model_does() {
    let visit = Visit::for_test();
    (door("model").expect("a door").enter)(&visit);
    println!("{:?}", visit.tally());
}
