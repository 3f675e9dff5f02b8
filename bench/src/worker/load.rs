//! The data set of a YCSB experiment: records in key order.

use crate::engine::{Engine, Pair};
use crate::failure::Result;
use cantle_workloads::generator::Random;
use cantle_workloads::records::{self, VALUE_BYTES, Values};

/// Number of pairs of one write.
const BATCH: usize = 256;

/// Puts the records `0..records` in key order, then syncs. The same seed gives the same values.
pub fn load(engine: &dyn Engine, values: &Values, records: u64, seed: u64) -> Result {
    let mut random = Random::stream(seed, u64::MAX - 1);
    let mut value = [0; VALUE_BYTES];
    let mut batch: Vec<Pair> = Vec::with_capacity(BATCH);
    for record in 0..records {
        values.fill(&mut value, record, &mut random);
        batch.push((records::key(record).to_vec(), value.to_vec()));
        if batch.len() == BATCH {
            engine.put_all(&batch)?;
            batch.clear();
        }
    }
    engine.put_all(&batch)?;
    engine.sync()
}
