//! The time that a cell and its turns may take.

use crate::record::Plan;
use std::time::{Duration, Instant};

/// The share of a turn's usual time that its repetition needs: it may be slower than before.
const REPEATED: f64 = 0.9;

/// The rest of a cell's time. Loads of data sets, which several cells share, do not count.
pub struct TimeOf {
    until: Option<Instant>,
}

impl TimeOf {
    /// The time of a cell: the plan's, and at most this share of what the suite has left after `gone`.
    pub fn cell(plan: &Plan, gone: Duration, share: f64) -> Self {
        let of_suite = plan.suite_seconds_max.map(|all| (all - gone.as_secs_f64()).max(0.0) * share);
        let seconds = [plan.cell_seconds_max, of_suite].into_iter().flatten().reduce(f64::min);
        // A time without end is no limit.
        let until = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Self { until: until.and_then(|time| Instant::now().checked_add(time)) }
    }

    /// Adds time.
    pub fn grant(&mut self, time: Duration) {
        self.until = self.until.and_then(|until| until.checked_add(time));
    }

    /// Seconds for the next of this number of turns that are left; `None` without a limit.
    pub fn of_turn(&self, turns_left: usize) -> Option<f64> {
        let left = self.until?.saturating_duration_since(Instant::now());
        Some(left.as_secs_f64() / turns_left.max(1) as f64)
    }

    /// The first of these repeated turns for which enough of the usual time of a turn is left: a repetition
    /// fills less.
    pub fn fitting<T>(&self, mut turns: Vec<T>, usual: Option<f64>) -> Vec<T> {
        let needed = usual.map_or(0.0, |usual| usual * REPEATED);
        while !turns.is_empty() && self.of_turn(turns.len()).is_some_and(|seconds| seconds < needed) {
            turns.pop();
        }
        turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(cell: Option<f64>, suite: Option<f64>) -> Plan {
        let text = r#"{"suite":"","only":[],"cells":[],"sizes":[],"trace_sizes":[],"engines":[],"scale":1.0,
            "memory_bytes":1,"budget_bytes":1,"durability":"process","threads":1,"background_threads":1,
            "rounds":1,"seconds_max":1.0,"writing_seconds_max":1.0,"seed":1}"#;
        let plan: Plan = serde_json::from_str(text).unwrap();
        Plan { cell_seconds_max: cell, suite_seconds_max: suite, ..plan }
    }

    #[test]
    fn a_cell_has_its_own_limit_or_its_share_of_what_the_suite_has_left() {
        let turn = |cell, suite, gone, share| {
            let gone = Duration::from_secs(gone);
            TimeOf::cell(&plan(cell, suite), gone, share)
                .of_turn(2)
                .map(|left| (left / 100.0).round() * 100.0)
        };
        assert_eq!(turn(None, None, 0, 1.0), None, "no limit");
        assert_eq!(turn(Some(6e5), None, 0, 0.5), Some(3e5));
        assert_eq!(turn(Some(6e5), Some(8e5), 0, 0.5), Some(2e5), "half of the suite, two turns");
        assert_eq!(turn(Some(6e5), Some(8e5), 400_000, 0.5), Some(1e5));
        assert_eq!(turn(None, Some(8e5), 900_000, 0.5), Some(0.0), "the suite's time is over");
        let time = TimeOf::cell(&plan(Some(6e5), None), Duration::ZERO, 1.0);
        assert_eq!(time.fitting(vec![1, 2, 3], Some(3.3e5)), [1, 2], "the third would have too little");
        assert!(time.fitting(vec![1], Some(2e6)).is_empty());
        let mut time = time;
        time.grant(Duration::from_secs(200_000));
        assert_eq!((time.of_turn(1).unwrap() / 100.0).round() * 100.0, 8e5, "a load does not count");
    }
}
