//! The project's goals: ratios to the better RocksDB configuration, by data set and distribution.

/// Data size in memory limits, distribution or step, workload, minimum ratio.
type Goal = (f64, &'static str, &'static str, f64);

#[rustfmt::skip]
const GOALS: [Goal; 47] = [
    (0.25, "zipf-composite", "C", 4.0), (0.25, "zipf-composite", "E10", 5.0), (0.25, "zipf-composite", "E100", 8.0),
    (0.25, "zipf-composite", "E1000", 8.0), (0.25, "zipf-composite", "P", 4.0), (0.25, "zipf-composite", "A", 4.0),
    (0.25, "zipf-composite", "F", 4.0), (0.25, "zipf-composite", "B", 3.0), (0.25, "latest", "D", 3.0),
    (0.25, "zipf-simple", "C", 3.0), (0.25, "zipf-simple", "E10", 4.0), (0.25, "zipf-simple", "E100", 4.0),
    (0.25, "zipf-simple", "E1000", 4.0), (0.25, "zipf-simple", "P", 3.0), (0.25, "zipf-simple", "A", 3.0),
    (0.25, "zipf-simple", "F", 3.0), (0.25, "zipf-simple", "B", 2.5),

    (1.0, "zipf-composite", "C", 2.0), (1.0, "zipf-composite", "E10", 3.0), (1.0, "zipf-composite", "E100", 3.0),
    (1.0, "zipf-composite", "E1000", 3.0), (1.0, "zipf-composite", "P", 4.0), (1.0, "zipf-composite", "A", 3.0),
    (1.0, "zipf-composite", "F", 3.0), (1.0, "zipf-composite", "B", 2.0), (1.0, "latest", "D", 2.0),
    (1.0, "zipf-simple", "C", 1.5), (1.0, "zipf-simple", "E10", 1.5), (1.0, "zipf-simple", "E100", 1.5),
    (1.0, "zipf-simple", "E1000", 1.5), (1.0, "zipf-simple", "P", 1.5), (1.0, "zipf-simple", "A", 1.5),
    (1.0, "zipf-simple", "F", 1.5), (1.0, "zipf-simple", "B", 1.5),

    (4.0, "zipf-composite", "P", 3.0), (4.0, "zipf-composite", "C", 1.5), (4.0, "zipf-composite", "E10", 2.0),
    (4.0, "zipf-composite", "E100", 2.0), (4.0, "zipf-composite", "E1000", 2.0), (4.0, "zipf-composite", "A", 2.0),
    (4.0, "zipf-composite", "F", 2.0), (4.0, "zipf-composite", "B", 1.5), (4.0, "latest", "D", 1.5),
    (4.0, "zipf-simple", "P", 2.0), (4.0, "zipf-simple", "", 1.0),

    (8.0, "ingest", "analytics", 4.4), (8.0, "analyse", "analytics", 1.3),
];

/// Maximum relative distance of a data size from that of a row: the rows are powers of four.
const TOLERANCE: f64 = 0.25;

/// The minimum ratio for a step of the cell `WORKLOAD/DISTRIBUTION/SIZE`, for data of this many
/// memory limits.
pub fn of(cell: &str, step: &str, data_per_memory: f64) -> Option<f64> {
    let words: Vec<&str> = cell.split('/').collect();
    let (workload, detail) = match words[..] {
        // Synced puts must not be slower, for any data size.
        [.., "sync"] => return Some(1.0),
        [workload @ "analytics", _] => (workload, step),
        // Only the plain cells: those with a size at the end.
        [workload, distribution, size] if size.ends_with("GB") => (workload, distribution),
        _ => return None,
    };
    let is_met = |goal: &&Goal| {
        (data_per_memory / goal.0 - 1.0).abs() < TOLERANCE
            && goal.1 == detail
            && (goal.2 == workload || goal.2.is_empty())
    };
    GOALS.iter().find(is_met).map(|goal| goal.3)
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn goals_are_found_by_data_distribution_and_workload() {
        assert_eq!(of("C/zipf-composite/4GB", "run", 0.233), Some(4.0));
        assert_eq!(of("D/latest/16GB", "run", 0.93), Some(2.0));
        assert_eq!(of("E100/zipf-simple/64GB", "run", 3.73), Some(1.0));
        assert_eq!(of("P/zipf-simple/64GB", "run", 3.73), Some(2.0));
        assert_eq!(of("P/uniform/64GB", "run", 4.0), None);
        assert_eq!(of("C/zipf-composite/4GB/8-threads", "run", 0.25), None);
        assert_eq!(of("C/zipf-composite-0.8/4GB", "run", 0.25), None);
        assert_eq!(of("C/zipf-composite/8GB", "run", 0.5), None);
        assert_eq!(of("analytics/256GB", "analyse", 8.1), Some(1.3));
        assert_eq!(of("P/zipf-composite/4GB/16-threads/sync", "run", 0.1), Some(1.0));
    }
}
