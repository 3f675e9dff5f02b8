//! The division of a memory budget among regions in memory, rows and blocks.
//!
//! The division is computed, not searched for. Its inputs are the budget, the data of its stores,
//! and the part of their reads that are gets. A region in memory as a whole (a munk of `chunk`)
//! serves gets, scans and puts. If data is not much larger than memory, regions have most of it
//! (EvenDB §5.1 gives them two thirds). If there is much more data and it is read by gets, the hot
//! rows lie in more regions than memory could hold: a cached row takes less memory for the same
//! get. Scans gain nothing by rows.
//!
//! An earlier division tried changes and kept those that made reads cheaper. From the same start it
//! gained nothing measurable (docs/notebook/revisions.md).
//!
//! Layouts over levels have no regions in memory. Their part of that memory is for blocks, and for
//! memtables, which may take a fourth of the budget.

use crate::log::MEMTABLE_FRACTION;

/// Percent of the budget for regions, rows and blocks if data is at most `PLENTY_TIMES` the budget,
/// or is not read by gets. The other 12 percent are for logs and for memory without an owner.
const PLENTY_PERCENTS: [u64; 3] = [80, 3, 5];
/// The same if data is `SCARCE_TIMES` the budget or more, and all reads are gets.
const SCARCE_PERCENTS: [u64; 3] = [30, 38, 20];
const PLENTY_TIMES: f64 = 1.5;
const SCARCE_TIMES: f64 = 3.0;
/// Minimum limit of blocks in bytes, for the filters and indexes of tables: without them every read
/// is slow.
const BLOCK_BYTES_MIN: u64 = 8 << 20;
/// Maximum percentage of a small budget for that minimum.
const BLOCK_PERCENT_MAX: u64 = 40;
/// A budget below this many bytes is always divided as with plenty of memory, as that minimum takes
/// its spare part.
const SMALL_BYTES: u64 = 64 << 20;
/// Fraction of the way from plenty to scarce by which rows must change before the division changes:
/// each change evicts entries that were in use.
const CHANGE_MIN: f64 = 0.1;

/// The limits of regions in memory, rows and blocks, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Division {
    /// From 0, if memory is plenty, to 1, if it is scarce and rows pay.
    scarcity: f64,
    unresident: f64,
    pub(super) resident: u64,
    pub(super) rows: u64,
    pub(super) blocks: u64,
}

impl Division {
    /// The division for stores with `live_bytes`, if the fraction `gets` (0 to 1) of their reads
    /// are gets, and the fraction `unresident` of the data is in layouts without regions in memory.
    pub(super) fn new(total_bytes: u64, live_bytes: u64, (gets, unresident): (f64, f64)) -> Self {
        let times = live_bytes as f64 / total_bytes.max(1) as f64;
        let scarcity = match total_bytes {
            ..SMALL_BYTES => 0.0,
            _ => ((times - PLENTY_TIMES) / (SCARCE_TIMES - PLENTY_TIMES)).clamp(0.0, 1.0) * gets,
        };
        let [plenty, scarce] = [Self::plenty(total_bytes), Self::scarce(total_bytes)];
        let between =
            |part: usize| (plenty[part] as f64 * (1.0 - scarcity) + scarce[part] as f64 * scarcity) as u64;
        let resident = (between(0) as f64 * (1.0 - unresident)) as u64;
        let memtables = (total_bytes as f64 / MEMTABLE_FRACTION as f64 * unresident) as u64;
        let blocks = between(2) + (between(0) - resident).saturating_sub(memtables);
        Self { scarcity, unresident, resident, rows: between(1), blocks }
    }

    fn plenty(total_bytes: u64) -> [u64; 3] {
        let [resident, rows, blocks] = PLENTY_PERCENTS.map(|percent| total_bytes / 100 * percent);
        let more = BLOCK_BYTES_MIN.min(total_bytes / 100 * BLOCK_PERCENT_MAX).saturating_sub(blocks);
        [resident - more, rows, blocks + more]
    }

    fn scarce(total_bytes: u64) -> [u64; 3] {
        SCARCE_PERCENTS.map(|percent| total_bytes / 100 * percent)
    }

    /// Minimum limits of regions, rows and blocks for the same layouts, whatever the size of the
    /// data and the reads.
    pub(super) fn floors(&self, total_bytes: u64) -> [u64; 3] {
        let [plenty, scarce] = [Self::plenty(total_bytes), Self::scarce(total_bytes)];
        let [resident, rows, blocks] = match total_bytes {
            ..SMALL_BYTES => plenty,
            _ => [0, 1, 2].map(|part| plenty[part].min(scarce[part])),
        };
        [(resident as f64 * (1.0 - self.unresident)) as u64, rows, blocks]
    }

    /// True if `self` differs enough to replace `current`.
    pub(super) fn differs_from(&self, current: &Self) -> bool {
        let differs = |own: f64, other: f64| {
            let (is_end, change) = (own == 0.0 || own == 1.0, (own - other).abs());
            change > CHANGE_MIN || (is_end && change > 0.0)
        };
        differs(self.scarcity, current.scarcity) || differs(self.unresident, current.unresident)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regions, rows and blocks in MiB, if all reads are gets.
    fn divided(total_mib: u64, live_mib: u64) -> [u64; 3] {
        parts(Division::new(total_mib << 20, live_mib << 20, (1.0, 0.0)))
    }

    fn parts(Division { resident, rows, blocks, .. }: Division) -> [u64; 3] {
        [resident, rows, blocks].map(|bytes| (bytes + (1 << 19)) >> 20)
    }

    #[test]
    fn the_more_data_is_read_by_gets_the_more_is_for_rows() {
        let found = [0, 1000, 1500, 1800, 2250, 2700, 3000, 100_000].map(|live| divided(1000, live));
        let plenty = [800, 30, 50];
        assert_eq!(
            found,
            [
                plenty,
                plenty,
                plenty,
                [700, 100, 80],
                [550, 205, 125],
                [400, 310, 170],
                [300, 380, 200],
                [300, 380, 200],
            ]
        );
        let by_gets = [0.0, 0.5, 1.0].map(|gets| parts(Division::new(1000 << 20, 4000 << 20, (gets, 0.0))));
        assert_eq!(by_gets, [plenty, [550, 205, 125], [300, 380, 200]]);
    }

    #[test]
    fn of_small_budgets_more_is_for_blocks() {
        let plenty = [1, 10, 20, 63, 64, 128, 256].map(|total| divided(total, total));
        assert_eq!(
            plenty,
            [[0, 0, 0], [4, 0, 4], [9, 1, 8], [46, 2, 8], [46, 2, 8], [101, 4, 8], [205, 8, 13]]
        );
        let scarce = [1, 10, 20, 63, 64, 128, 256].map(|total| divided(total, 4 * total));
        assert_eq!(scarce[..4], plenty[..4], "a small budget has none to spare beside its blocks");
        assert_eq!(scarce[4..], [[19, 24, 13], [38, 49, 26], [77, 97, 51]]);
    }

    #[test]
    fn a_division_leaves_the_same_to_logs_and_nobody_less_than_the_floor() {
        for total_bytes in [0, 1, 99, 1 << 20, 100 << 20, 1 << 40] {
            for live_bytes in [0, 1, total_bytes, 2 * total_bytes, u64::MAX] {
                for gets in [0.0, 0.3, 1.0] {
                    let division = Division::new(total_bytes, live_bytes, (gets, 0.0));
                    let Division { resident, rows, blocks, .. } = division;
                    let (all, shared) = (resident + rows + blocks, total_bytes / 100 * 88);
                    // Each is rounded down.
                    assert!((shared.saturating_sub(3)..=shared).contains(&all), "{all} of {total_bytes}");
                    for (limit, floor) in [resident, rows, blocks].iter().zip(division.floors(total_bytes)) {
                        assert!(limit + 1 >= floor, "{limit} of {total_bytes}, {floor}");
                    }
                }
            }
        }
    }

    #[test]
    fn layouts_over_levels_leave_the_memory_of_regions_to_blocks_and_memtables() {
        for total_bytes in [1 << 20, 20 << 20, 128 << 20, 1 << 30, 1 << 40] {
            for unresident in [0.0, 0.3, 0.5, 1.0] {
                let division = Division::new(total_bytes, 4 * total_bytes, (0.5, unresident));
                let memtables = (total_bytes as f64 / MEMTABLE_FRACTION as f64 * unresident) as u64;
                let all = division.resident + division.rows + division.blocks + memtables;
                assert!(all.abs_diff(total_bytes / 100 * 88) < 8, "{all} of {total_bytes}");
                let floors = division.floors(total_bytes);
                assert!(division.resident + 1 >= floors[0] && division.rows + 1 >= floors[1]);
                assert!(unresident < 1.0 || division.resident == 0);
            }
        }
    }

    #[test]
    fn small_changes_are_no_reason_to_evict() {
        let with = |gets: f64| Division::new(1 << 30, 4 << 30, (gets, 0.0));
        assert!(!with(0.55).differs_from(&with(0.5)) && with(0.65).differs_from(&with(0.5)));
        assert!(
            with(1.0).differs_from(&with(0.95)) && with(0.0).differs_from(&with(0.05)),
            "the ends are reached"
        );
        assert!(!with(1.0).differs_from(&with(1.0)));
    }
}
