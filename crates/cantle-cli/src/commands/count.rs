//! `cantle count`: how many pairs a keyspace has.

use super::scan::RangeArgs;
use crate::failure::Outcome;
use crate::output::Output;
use crate::store::{Access, KeyArgs, Opened, StoreArgs};
use clap::Args;
use serde_json::json;
use std::ops::Bound;

/// Count the pairs of a keyspace, or of a range of keys
///
/// Every key of the range is read, unless an estimate will do: that reads some thousands, and the
/// store's sizes.
///
/// --json prints one object: count, exact.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Count {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    range: RangeArgs,
    /// Estimate the pairs of the whole keyspace
    #[arg(long, conflicts_with_all = ["prefix", "from", "to"])]
    estimate: bool,
    /// The report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keys: KeyArgs,
}

const EXAMPLES: &str = "\
Examples:
  cantle count flights
  cantle count flights --prefix UA,EWR
  cantle count flights --estimate";

impl Count {
    pub(crate) fn run(self) -> Outcome {
        let opened = self.store.open(Access::Read)?;
        let (codec, _) = opened.codec(&self.keys)?;
        let (count, exact) = if self.estimate {
            estimate(&opened)?
        } else {
            let mut count = 0_u64;
            for key in opened.keyspace.range(self.range.bounds(&codec)?) {
                key?;
                count += 1;
            }
            (count, true)
        };
        let mut output = Output::new();
        if self.json {
            output.json(&json!({ "count": count, "exact": exact }))?;
        } else {
            output.line(count.to_string())?;
        }
        output.finish()
    }
}

/// Regions that are sampled, spread evenly over the keys.
const REGIONS: usize = 32;
/// Pairs that are read of each.
const PAIRS: usize = 256;

/// An estimate of the number of pairs, and true if all were counted, as they are few: live bytes of
/// the keyspace divided by the mean length of a pair in the sample. The library's own estimate goes
/// by pairs that it counted, and has none for logs of a process that was killed.
fn estimate(opened: &Opened) -> Outcome<(u64, bool)> {
    let regions = opened.keyspace.regions()?;
    let step = regions.len().div_ceil(REGIONS).max(1);
    let (mut pairs, mut bytes, mut is_all) = (0_u64, 0_u64, step == 1);
    for (index, region) in regions.iter().enumerate().step_by(step) {
        let start = if index == 0 { Bound::Unbounded } else { Bound::Included(region.start.clone()) };
        let end = match regions.get(index + 1) {
            Some(next) => Bound::Excluded(next.start.clone()),
            None => Bound::Unbounded,
        };
        let mut range = opened.keyspace.range((start, end));
        for pair in range.by_ref().take(PAIRS) {
            let (key, value) = pair?;
            pairs += 1;
            bytes += (key.len() + value.len()) as u64;
        }
        is_all &= range.next().transpose()?.is_none();
    }
    if is_all || bytes == 0 {
        return Ok((pairs, is_all));
    }
    let name = opened.keyspace.name();
    let stats = opened.db.stats();
    let live = stats.keyspaces.iter().find(|keyspace| keyspace.name == name);
    let live_bytes = live.map_or(0, |keyspace| keyspace.live_bytes);
    Ok((pairs.max((live_bytes as f64 * pairs as f64 / bytes as f64) as u64), false))
}
