//! Lines of a file with their numbers.

use super::ROW_BYTES_MAX;
use crate::failure::{Failure, Outcome};
use std::io::{BufRead, BufReader, Read};

/// Reads lines of at most [`ROW_BYTES_MAX`] bytes.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    name: String,
    /// Lines read so far.
    line: u64,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(reader: R, name: String) -> Self {
        Self { reader: BufReader::with_capacity(1 << 18, reader), name, line: 0 }
    }

    /// Reads the next line into `buffer`, without its end, and returns its number; none at the file's end.
    pub(super) fn next_line(&mut self, buffer: &mut Vec<u8>) -> Outcome<Option<u64>> {
        buffer.clear();
        let line = self.line + 1;
        let failed = |what: &dyn std::fmt::Display| {
            Failure::Failed(format!("cannot read {} line {line}: {what}", self.name))
        };
        let read = (&mut self.reader).take(ROW_BYTES_MAX).read_until(b'\n', buffer);
        if read.map_err(|error| failed(&error))? == 0 {
            return Ok(None);
        }
        if buffer.last() == Some(&b'\n') {
            buffer.pop();
        } else if buffer.len() as u64 == ROW_BYTES_MAX {
            return Err(failed(&"it is longer than 1 GiB"));
        }
        self.line = line;
        Ok(Some(line))
    }
}
