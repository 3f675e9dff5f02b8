//! The part of the reads of the last seconds that are gets.

use crate::sync::Mutex;
use crate::sync::counter::Counter;
use crate::sync::time::{Instant, now};

/// Time in seconds after which the weight of a read has halved: long enough not to follow every
/// burst.
const HALF_LIFE_S: f64 = 4.0;
/// Cost of a scan in gets: a scan walks a part of a region.
const GETS_PER_SCAN: f64 = 8.0;
/// Minimum weight of the recent reads, in gets. Fewer reads say nothing about the workload.
const GETS_MIN: f64 = 1000.0;

/// Gets and scans of all stores that share a budget.
pub(super) struct Reads {
    gets: Counter,
    scans: Counter,
    recent: Mutex<Recent>,
}

struct Recent {
    /// The time of the last call.
    at: Instant,
    counted: [u64; 2],
    /// Gets and scans, weighted less the longer ago they were.
    weights: [f64; 2],
}

impl Reads {
    pub(super) fn new() -> Self {
        let recent = Recent { at: now(), counted: [0; 2], weights: [0.0; 2] };
        Self { gets: Counter::default(), scans: Counter::default(), recent: Mutex::new(recent) }
    }

    pub(super) fn count_gets(&self, gets: u64) {
        self.gets.add(gets);
    }

    pub(super) fn count_scan(&self) {
        self.scans.add(1);
    }

    /// The part of the reads that are gets, from 0 to 1, weighted by cost; `None` if there are
    /// hardly any reads.
    pub(super) fn gets_part(&self) -> Option<f64> {
        let mut recent = self.recent.lock();
        let passed = recent.at.elapsed();
        let counted = [self.gets.get(), self.scans.get()];
        recent.observe(counted, passed.as_secs_f64());
        recent.at = now();
        recent.part()
    }
}

impl Recent {
    fn observe(&mut self, counted: [u64; 2], passed_s: f64) {
        let kept = 0.5f64.powf(passed_s / HALF_LIFE_S);
        for (kind, counted) in counted.into_iter().enumerate() {
            let more = counted.wrapping_sub(self.counted[kind]) as f64;
            self.weights[kind] = self.weights[kind] * kept + more;
            self.counted[kind] = counted;
        }
    }

    fn part(&self) -> Option<f64> {
        let [gets, scans] = self.weights;
        let all = gets + GETS_PER_SCAN * scans;
        (all >= GETS_MIN).then(|| gets / all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(steps: &[([u64; 2], f64)]) -> Option<f64> {
        let mut recent = Recent { at: now(), counted: [0; 2], weights: [0.0; 2] };
        let mut counted = [0; 2];
        for ([gets, scans], passed_s) in steps {
            counted = [counted[0] + gets, counted[1] + scans];
            recent.observe(counted, *passed_s);
        }
        recent.part()
    }

    #[test]
    fn a_scan_weighs_as_much_as_some_gets_and_few_reads_say_nothing() {
        assert_eq!(after(&[]), None);
        assert_eq!(after(&[([900, 10], 0.3)]), None);
        assert_eq!(after(&[([100_000, 0], 0.3)]), Some(1.0));
        assert_eq!(after(&[([0, 1000], 0.3)]), Some(0.0));
        assert_eq!(after(&[([80_000, 10_000], 0.3)]), Some(0.5));
    }

    #[test]
    fn what_was_read_before_is_forgotten_in_time() {
        let gets = ([100_000, 0], 0.3);
        let scans = ([0, 12_500], 4.0);
        let part = |seconds: usize| after(&[&[gets], &vec![scans; seconds / 4][..]].concat()).unwrap();
        assert!((0.3..0.4).contains(&part(4)), "{}", part(4));
        assert!(part(60) < 0.001, "{}", part(60));
        assert_eq!(after(&[gets, ([0, 0], 3600.0)]), None, "nobody reads any more");
    }
}
