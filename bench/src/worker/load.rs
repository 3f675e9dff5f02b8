//! The data set of a YCSB experiment: records in key order.

use crate::engine::{Engine, Pair};
use crate::failure::Result;
use cantle_workloads::generator::Random;
use cantle_workloads::records::{Sizes, Values};

/// Number of pairs of one write.
const BATCH: usize = 256;

/// Puts the records `0..records` in key order, then syncs. The same seed gives the same values.
pub fn load(engine: &dyn Engine, values: &Values, sizes: Sizes, records: u64, seed: u64) -> Result {
    let mut random = Random::stream(seed, u64::MAX - 1);
    let mut batch: Vec<Pair> = Vec::with_capacity(BATCH);
    for record in 0..records {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        sizes.key(record, &mut key);
        values.fill_for(&key, sizes.value_bytes, &mut value, &mut random);
        batch.push((key, value));
        if batch.len() == BATCH {
            engine.put_all(&batch)?;
            batch.clear();
        }
    }
    engine.put_all(&batch)?;
    engine.sync()
}
