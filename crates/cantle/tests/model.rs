//! Random operations on stores of random configurations, compared with a `BTreeMap` after every one.
//!
//! A failure prints its seed; `CANTLE_SEED=<seed> cargo test --test model` runs that configuration alone, and
//! `CANTLE_TRACE=1` prints each operation. `CANTLE_TEST_FACTOR=10` runs ten times as many configurations.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "model/config.rs"]
mod config;
#[path = "model/keys.rs"]
mod keys;
#[path = "model/order.rs"]
mod order;
#[path = "model/random.rs"]
mod random;
#[path = "model/readers.rs"]
mod readers;
#[path = "model/state.rs"]
mod state;
#[path = "model/totals.rs"]
mod totals;
#[path = "model/world.rs"]
mod world;

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use totals::Totals;
use world::World;

const CONFIGURATIONS: usize = 32;
const OPERATIONS: usize = 3000;
const THREADS: usize = 2;

/// Says which seed failed.
struct Announce(u64);

impl Drop for Announce {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed: CANTLE_SEED={} cargo test --test model", self.0);
        }
    }
}

/// The low byte of a seed is its turn, so that the seed alone says which configuration it is.
fn run(seed: u64) -> Totals {
    let _announce = Announce(seed);
    World::new(seed, (seed % 256) as usize, OPERATIONS).run()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn stores_do_as_the_model_does() {
    if let Some(seed) = number("CANTLE_SEED") {
        eprintln!("{:?}", run(seed));
        return;
    }
    let factor = number("CANTLE_TEST_FACTOR").unwrap_or(1) as usize;
    let base = RandomState::new().hash_one("seed") & !0xff;
    let turn = AtomicUsize::new(0);
    let totals = Mutex::new(Totals::default());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let turn = turn.fetch_add(1, Ordering::Relaxed);
                    if turn >= CONFIGURATIONS * factor {
                        return;
                    }
                    let seed = base.wrapping_add((turn / 256 * 0x1_0000 + turn % 256) as u64);
                    let ran = run(seed);
                    totals.lock().unwrap().join(&ran);
                }
            });
        }
    });
    let totals = totals.into_inner().unwrap();
    eprintln!("{totals:?}");
    assert_eq!(totals.missing(), [""; 0], "of all seeds from {base}: {totals:?}");
}
