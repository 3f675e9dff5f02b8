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
    line_bytes_max: u64,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(reader: R, name: String) -> Self {
        Self::with_limit(reader, name, ROW_BYTES_MAX)
    }

    /// The same for lines of at most `line_bytes_max` bytes.
    fn with_limit(reader: R, name: String, line_bytes_max: u64) -> Self {
        Self { reader: BufReader::with_capacity(1 << 18, reader), name, line: 0, line_bytes_max }
    }

    /// Reads the next line into `buffer`, without its end, and returns its number; none at the
    /// file's end.
    pub(super) fn next_line(&mut self, buffer: &mut Vec<u8>) -> Outcome<Option<u64>> {
        buffer.clear();
        let line = self.line + 1;
        let failed = |what: &dyn std::fmt::Display| {
            Failure::Failed(format!("cannot read {} line {line}: {what}", self.name))
        };
        let read = (&mut self.reader).take(self.line_bytes_max).read_until(b'\n', buffer);
        if read.map_err(|error| failed(&error))? == 0 {
            return Ok(None);
        }
        if buffer.last() == Some(&b'\n') {
            buffer.pop();
        } else if buffer.len() as u64 == self.line_bytes_max {
            return Err(failed(&"it is too long (the most is 1 GiB)"));
        }
        self.line = line;
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_is_refused_instead_of_filling_the_memory() {
        let mut lines = Lines::with_limit(b"12345\n1234567".as_slice(), "test".into(), 6);
        let mut buffer = Vec::new();
        assert_eq!(lines.next_line(&mut buffer).unwrap(), Some(1));
        assert_eq!(buffer, b"12345");
        let error = lines.next_line(&mut buffer).unwrap_err();
        assert!(error.message().unwrap().contains("test line 2: it is too long"), "{error:?}");
    }
}
