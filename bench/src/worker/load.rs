//! The data set of an experiment: records in key order, or in a random one.

use super::settle;
use crate::engine::{Engine, Pair};
use crate::failure::Result;
use crate::job::Job;
use cantle_workloads::generator::{Permutation, Random};
use cantle_workloads::records::Values;
use std::time::Duration;

/// Number of pairs of one write.
const BATCH: usize = 256;

/// The longest wait until a data set is settled.
const SETTLE_MAX: Duration = Duration::from_secs(3600);

/// Puts the records `0..records` in key order and syncs; or in a random order, and then also waits until
/// the store is settled. The same seed gives the same values.
pub fn load(engine: &dyn Engine, values: &Values, job: &Job, records: u64, is_scattered: bool) -> Result {
    let sizes = job.sizes;
    let order = (is_scattered && records > 0).then(|| Permutation::new(records, job.seed));
    let mut random = Random::stream(job.seed, u64::MAX - 1);
    let mut batch: Vec<Pair> = Vec::with_capacity(BATCH);
    for index in 0..records {
        let record = order.as_ref().map_or(index, |order| order.apply(index));
        let (mut key, mut value) = (Vec::new(), Vec::new());
        sizes.key(record, &mut key);
        values.fill_for(&key, sizes.next_value_bytes(&mut random), &mut value, &mut random);
        batch.push((key, value));
        if batch.len() == BATCH {
            engine.put_all(&batch)?;
            batch.clear();
        }
    }
    engine.put_all(&batch)?;
    engine.sync()?;
    if is_scattered {
        settle::wait(engine, Duration::from_secs_f64(job.quiet_s), SETTLE_MAX, &mut || ())?;
        engine.sync()?;
    }
    Ok(())
}
