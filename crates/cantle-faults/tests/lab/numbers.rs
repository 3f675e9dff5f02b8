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
        let share = seeds.len().div_ceil(std::thread::available_parallelism().map_or(1, usize::from));
        let found: Vec<&Vec<u8>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (seeds.chunks(share))
                .map(|share| scope.spawn(move || share.iter().filter(panics).collect::<Vec<_>>()))
                .collect();
            workers.into_iter().flat_map(|worker| worker.join().expect("panics are caught")).collect()
        });
        assert!(
            found.is_empty(),
            "{} of {} panicked: {:?}",
            found.len(),
            seeds.len(),
            &found[..found.len().min(40)]
        );
    }
}
