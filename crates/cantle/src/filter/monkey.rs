//! The length of a filter by the share of its run (Monkey, SIGMOD 2017).
//!
//! A get asks the filter of each run that may hold its key. With filters of one length, each run costs
//! as many false positives, however short it is. For a given sum of false positives the filters take
//! least memory if those of a run are in proportion to its number of keys: short runs have long filters,
//! which cost little, as there are few keys in them.

/// Sum of the false positives of the tables that a get asks, if they were all written now. The older ones
/// had a greater share of the keys when they were written: a keyspace that grows has twice as many.
const TABLES_SUM: f64 = 0.007;
/// The false positives of a filter of this many bits per key, of which each [`BITS_PER_TENTH`] more leave
/// a tenth (`bloom`).
const BASE: (u32, f64) = (10, 0.011);
const BITS_PER_TENTH: f64 = 5.0;
/// Maximum number of bits per key: longer filters gain little.
const BITS_MOST: u32 = 24;
/// Bits per key of logs, of which a get may have to ask twelve: less than one percent in all.
pub const LOG_BITS: u32 = 16;

/// Bits per key of a table that has this share of the keys among which a get may have to look.
pub fn bits_per_key(share: f64) -> u32 {
    let allowed = TABLES_SUM * share.clamp(1e-6, 1.0);
    let more = BITS_PER_TENTH * (BASE.1 / allowed).log10();
    (BASE.0 + more.max(0.0).round() as u32).min(BITS_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_runs_have_long_filters() {
        let bits = [1.0, 0.5, 0.25, 1.0 / 8.0, 1.0 / 64.0, 1.0 / 512.0, 0.0, f64::NAN].map(bits_per_key);
        assert_eq!(bits, [11, 12, 14, 15, 20, 24, 24, 10]);
    }

    /// As the filters are, not as the formula says.
    #[test]
    fn the_false_positives_of_runs_of_many_lengths_are_few_in_all() {
        use crate::filter::bloom::{BloomBuilder, hash, may_contain};
        let lengths = [40_000u64, 20_000, 10_000, 5_000, 5_000, 1_000, 500, 100];
        let all: u64 = lengths.iter().sum();
        let (mut false_positives, mut plain) = (0, 0);
        for (run, keys) in lengths.into_iter().enumerate() {
            let count = |bits| {
                let mut builder = BloomBuilder::new(bits);
                (0..keys).for_each(|key| builder.add(hash(format!("{run} {key}").as_bytes())));
                let filter = builder.finish();
                let absent = |key: &u64| may_contain(&filter, hash(format!("absent {run} {key}").as_bytes()));
                (0..20_000).filter(absent).count()
            };
            false_positives += count(bits_per_key(keys as f64 / all as f64));
            plain += count(BASE.0);
        }
        assert!(false_positives < 20_000 * 3 / 200, "{false_positives} of 20,000 gets");
        assert!(plain > 20_000 * 5 / 100, "{plain} with filters of one length");
    }
}
