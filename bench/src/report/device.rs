//! Cells at which the device read one engine's files faster than another's.

use super::compare::{Middle, Results};
use super::svg::number;
use crate::suite::Suite;
use crate::suite::measure::Measure;

/// Maximum ratio of the rates at which results are still comparable.
const RATIO_MAX: f64 = 1.25;

/// For each cell at which the rates differ too much, the rate of each engine.
pub fn uneven(suite: &Suite, results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    for cell in &suite.cells {
        let engines = cell.engines_of(&results.engines);
        let reads = |engine| Some((engine, results.middle(&cell.id, "", engine, Measure::DeviceReads)?));
        let rates: Vec<(_, Middle)> = engines.iter().filter_map(reads).collect();
        let medians = || rates.iter().map(|(_, middle)| middle.median);
        if medians().fold(0.0, f64::max) > RATIO_MAX * medians().fold(f64::INFINITY, f64::min) {
            let each = rates.iter().map(|(engine, middle)| format!("{engine} {}", number(middle.median)));
            let each = each.collect::<Vec<_>>().join(", ");
            lines.push(format!(
                "{}: the device read files at different rates (thousand blocks a second: {each}): what reads it cannot be \
                 compared",
                cell.id
            ));
        }
    }
    lines
}
