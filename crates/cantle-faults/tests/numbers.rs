//! Every number in the manifests of small stores is replaced by each extreme once, with valid
//! checksums.

use cantle::LayoutKind;
use cantle_faults::doors::fuzz::target;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn no_number_of_a_manifest_makes_anybody_panic() {
    let numbers = target("numbers").unwrap();
    for &layout in LayoutKind::ALL {
        let seeds = (numbers.seeds)(layout);
        assert!(seeds.len() > 5_000, "{} numbers", seeds.len());
        let panics =
            |seed: &&Vec<u8>| catch_unwind(AssertUnwindSafe(|| (numbers.run)(layout, seed))).is_err();
        let found: Vec<&Vec<u8>> = seeds.iter().filter(panics).collect();
        assert!(
            found.is_empty(),
            "{} of {} panicked: {:?}",
            found.len(),
            seeds.len(),
            &found[..found.len().min(40)]
        );
    }
}
