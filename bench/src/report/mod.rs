//! The report of a run: a page of HTML, and its main table for the terminal.
//!
//! The page is one file without scripts or external resources: tables, and plots as inline SVG.
//! Losses come first.

mod compare;
mod device;
mod figure;
mod page;
mod rows;
mod svg;
mod tables;

#[cfg(test)]
mod row_tests;
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
    let goals = rows::lines(&rows::scores(run, suite, &results));
    goals.iter().for_each(|line| println!("{line}"));
    if !goals.is_empty() {
        println!();
    }
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
    let goals = rows::markdown(&rows::scores(run, suite, &results));
    goals.iter().for_each(|line| println!("{line}"));
    if !goals.is_empty() {
        println!();
    }
    let place = |cell: &str| suite.cells.iter().position(|other| other.id == cell);
    comparisons.sort_by_key(|comparison| place(&comparison.cell));
    for line in tables::markdown(&comparisons) {
        println!("{line}");
    }
}
