//! Numbers and tables for people.

pub(crate) use crate::output::{human_bytes as bytes, human_count as count};
use std::time::Duration;

/// A duration with three digits: `812 ns`, `3.41 µs`, `12.0 ms`, `1.30 s`.
pub(crate) fn duration(duration: Duration) -> String {
    let ns = duration.as_nanos() as f64;
    let (value, unit) = match ns {
        ns if ns < 999.5 => return format!("{ns:.0} ns"),
        ns if ns < 999.5e3 => (ns / 1e3, "µs"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Nanoseconds as [`duration`].
pub(crate) fn nanoseconds(ns: u64) -> String {
    duration(Duration::from_nanos(ns))
}

fn three_digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// Operations per second, or zero if no time has passed.
pub(crate) fn rate(operations: u64, took: Duration) -> f64 {
    let seconds = took.as_secs_f64();
    if seconds > 0.0 { operations as f64 / seconds } else { 0.0 }
}

/// `part / whole`, or zero if there is no whole.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The alignment of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A small table: a heading, then rows, columns as wide as their widest cell.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Self {
        Self {
            columns: columns.iter().map(|&(name, align)| (name.into(), align)).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells are empty, surplus ones are dropped.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().take(self.columns.len()).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// The lines, each behind `indent`, none with trailing blanks.
    pub(crate) fn lines(&self, indent: &str) -> Vec<String> {
        let heading: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let all = || std::iter::once(&heading).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| all().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        all()
            .map(|row| {
                let mut line = indent.to_string();
                for (column, cell) in row.iter().enumerate() {
                    let blanks = " ".repeat(widths[column] - cell.chars().count());
                    let gap = if column == 0 { "" } else { "  " };
                    match self.columns[column].1 {
                        Align::Left => line.extend([gap, cell, &blanks]),
                        Align::Right => line.extend([gap, &blanks, cell]),
                    }
                }
                line.truncate(line.trim_end().len());
                line
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_no_odd_steps() {
        let times =
            [(7, "7 ns"), (999, "999 ns"), (1_000, "1.00 µs"), (999_600, "1.00 ms"), (12_345_678, "12.3 ms")];
        for (ns, text) in times {
            assert_eq!(nanoseconds(ns), text);
        }
        assert_eq!(duration(Duration::from_secs(130)), "130 s");
    }

    #[test]
    fn tables_align_words_left_and_numbers_right() {
        let mut table = Table::new(&[("to", Align::Left), ("late", Align::Right)]);
        table.row(["Zürich".into(), "3".into()]);
        table.row(["LAX".into(), "-12".into(), "surplus".into()]);
        table.row(["SFO".into()]);
        assert_eq!(table.lines("  "), ["  to      late", "  Zürich     3", "  LAX      -12", "  SFO"]);
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        assert_eq!((ratio(5, 0), rate(5, Duration::ZERO)), (0.0, 0.0));
    }
}
