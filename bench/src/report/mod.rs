//! The report of a run: a page of HTML, and its main table for the terminal.
//!
//! The page is one file without scripts or external resources: tables, and plots as inline SVG.
//! Losses come first.

mod compare;
mod device;
mod figure;
mod page;
mod svg;
mod tables;

#[cfg(test)]
mod tests;

use crate::record::{Run, Trial};
use crate::suite::Suite;
use compare::Results;
pub use svg::number;

/// The page.
pub fn html(run: &Run, suite: &Suite, trials: &[Trial]) -> String {
    page::render(run, suite, &Results::new(run, trials))
}

/// Prints the comparison of every cell, the worst first, for the terminal.
pub fn print(run: &Run, suite: &Suite, trials: &[Trial]) {
    let results = Results::new(run, trials);
    for line in tables::lines(&compare::comparisons(run, suite, &results)) {
        println!("{line}");
    }
    for line in device::uneven(suite, &results) {
        println!("{line}");
    }
}

/// Prints the same in the order of the suite, as a table in Markdown.
pub fn print_markdown(run: &Run, suite: &Suite, trials: &[Trial]) {
    let results = Results::new(run, trials);
    let mut comparisons = compare::comparisons(run, suite, &results);
    let place = |cell: &str| suite.cells.iter().position(|other| other.id == cell);
    comparisons.sort_by_key(|comparison| place(&comparison.cell));
    for line in tables::markdown(&comparisons) {
        println!("{line}");
    }
}
