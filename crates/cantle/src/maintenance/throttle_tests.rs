//! Tests of the brake. A file of its own, because a model under loom includes `throttle.rs`.

use super::throttle::{Throttle, nanos_per_kib};
use crate::sync::atomic::Ordering::Relaxed;

#[test]
fn a_large_write_pays_what_it_owes_and_small_ones_in_turns() {
    let paid = |brake: &Throttle| brake.delayed_nanos.load(Relaxed);
    let brake = Throttle::default();
    brake.set(nanos_per_kib(1.0, 100e6));
    // At 100 MB a second. If it were delayed as one write of a MiB, more than half would be left.
    brake.delay(4 << 20);
    let at_once = paid(&brake);
    assert!((41_000_000..43_000_000).contains(&at_once), "{at_once}");
    brake.set(nanos_per_kib(8.0, 100e6));
    brake.delay(1 << 20);
    assert_eq!(paid(&brake) - at_once, 20_000_000, "the rest is paid by the writes that follow");
}
