//! Standard output, and notes on standard error.
//!
//! Whoever reads standard output may go away (`| head`): the error of the next write then ends the
//! command silently, see [`Failure::ClosedPipe`](crate::failure::Failure::ClosedPipe).

use crate::failure::Outcome;
use std::io::{self, BufWriter, StdoutLock, Write};

/// Buffered standard output. [`finish`](Self::finish) it, or the last lines are lost.
pub(crate) struct Output(BufWriter<StdoutLock<'static>>);

impl Output {
    pub(crate) fn new() -> Self {
        Self(BufWriter::with_capacity(1 << 16, io::stdout().lock()))
    }

    /// Writes `bytes` as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Outcome {
        Ok(self.0.write_all(bytes)?)
    }

    /// Writes `bytes` and a line end.
    pub(crate) fn line(&mut self, bytes: impl AsRef<[u8]>) -> Outcome {
        self.bytes(bytes.as_ref())?;
        self.bytes(b"\n")
    }

    /// Writes `value` as indented JSON.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> Outcome {
        serde_json::to_writer_pretty(&mut self.0, value)?;
        self.bytes(b"\n")
    }

    /// Writes out what is buffered.
    pub(crate) fn finish(mut self) -> Outcome {
        Ok(self.0.flush()?)
    }
}

/// Writes a line to standard error. Whoever reads that may have gone away, which is no reason to
/// stop.
pub(crate) fn note(line: impl std::fmt::Display) {
    // Nobody is left to tell.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Columns of the terminal that standard output is, if it is one.
pub(crate) fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

/// Bytes as people write them: `1.5 MB`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && size < 99.95);
    format!("{size:.digits$} {}", UNITS[unit])
}

/// A count as people write it: `336,776`.
pub(crate) fn human_count(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count of things, as people write it: `1 row`, `2,000 rows`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", human_count(count), if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_are_short() {
        let sizes = [0, 999, 1000, 99_940, 99_950, 1_500_000, 999_600_000, u64::MAX];
        let texts = ["0 B", "999 B", "1.0 kB", "99.9 kB", "100 kB", "1.5 MB", "1.0 GB", "18446744 TB"];
        assert_eq!(sizes.map(human_bytes), texts);
        assert_eq!([0, 999, 1000, 336_776].map(human_count), ["0", "999", "1,000", "336,776"]);
        assert_eq!([0, 1, 2000].map(|rows| counted(rows, "row", "rows")), ["0 rows", "1 row", "2,000 rows"]);
    }
}
