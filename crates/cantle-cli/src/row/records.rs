//! Records of a CSV file (RFC 4180), strictly: which fields are quoted, and the line of each
//! record.
//!
//! A field in quotes may hold delimiters and line ends; two quotes are one. A quote within a field
//! that does not begin with one is a byte like any other. Records end with `\n`, `\r\n` or `\r`;
//! empty lines are passed over. Text after a closing quote makes its record an error, and reading
//! goes on after the next line end; a quote that is never closed ends the file. An empty field is a
//! null, unless it is quoted.

use crate::failure::{Failure, Outcome};
use std::io::{BufRead, BufReader, Read};

/// The fields of one record, one after the other in one buffer that is used again.
#[derive(Debug)]
pub(super) struct Record {
    bytes: Vec<u8>,
    /// End of each field in `bytes`, and whether it is a null.
    fields: Vec<(usize, bool)>,
    /// Fields after this number are counted and not kept: a row of delimiters alone would take many
    /// times its size.
    fields_max: usize,
    /// Number of fields, those that are not kept as well.
    count: usize,
}

impl Record {
    /// An empty record that keeps its first `fields_max` fields.
    pub(super) fn new(fields_max: usize) -> Self {
        Self { bytes: Vec::new(), fields: Vec::new(), fields_max, count: 0 }
    }

    /// Empties the record.
    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.bytes.clear();
        self.fields.clear();
    }

    /// Appends to the field at the end.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Ends the field at the end: a null if it is empty and not `quoted`.
    pub(super) fn end_field(&mut self, quoted: bool) {
        let start = self.start();
        self.count += 1;
        if self.count > self.fields_max {
            self.bytes.truncate(start);
            return;
        }
        self.fields.push((self.bytes.len(), !quoted && self.bytes.len() == start));
    }

    fn start(&self) -> usize {
        self.fields.last().map_or(0, |field| field.0)
    }

    /// Number of fields, those that are not kept as well.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Number of bytes and of fields that are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, usize) {
        (self.bytes.len(), self.fields.len())
    }

    /// The field at `index`; none for a null.
    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        let &(end, null) = self.fields.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.fields[before].0);
        (!null).then(|| &self.bytes[start..end])
    }
}

/// A record that was found.
pub(super) struct Found {
    /// The line on which it begins, from 1.
    pub(super) line: u64,
    /// The reason why it is no record.
    pub(super) wrong: Option<String>,
}

/// Position within a record.
#[derive(Clone, Copy)]
enum State {
    Before,
    FieldStart,
    Plain,
    Quoted,
    AfterQuote,
    /// After an error, up to the line end.
    Skip,
}

/// Reads records one by one.
pub(super) struct Records<R> {
    reader: BufReader<R>,
    name: String,
    delimiter: u8,
    line: u64,
    row_bytes_max: u64,
    begun: bool,
}

impl<R: Read> Records<R> {
    /// Reads records of at most about `row_bytes_max` bytes, whose fields are separated by
    /// `delimiter`. `name` is for messages.
    pub(super) fn new(inner: R, name: String, delimiter: u8, row_bytes_max: u64) -> Self {
        let reader = BufReader::with_capacity(1 << 18, inner);
        Self { reader, name, delimiter, line: 1, row_bytes_max, begun: false }
    }

    /// Reads the next record into `record`; none at the end of the file.
    pub(super) fn next(&mut self, record: &mut Record) -> Outcome<Option<Found>> {
        record.clear();
        let mut state = State::Before;
        let mut found = Found { line: self.line, wrong: None };
        let mut quote_line = self.line;
        let mut row_bytes = 0;
        loop {
            let failed = |line: u64, what: &dyn std::fmt::Display| {
                Failure::Failed(format!("cannot read {} from line {line} on: {what}", self.name))
            };
            let chunk = self.reader.fill_buf().map_err(|error| failed(found.line, &error))?;
            if chunk.is_empty() {
                return match state {
                    State::Before => Ok(None),
                    State::Quoted => Err(failed(quote_line, &"a quote opens there and is never closed")),
                    State::Skip => Ok(Some(found)),
                    State::FieldStart | State::Plain | State::AfterQuote => {
                        record.end_field(matches!(state, State::AfterQuote));
                        Ok(Some(found))
                    }
                };
            }
            // Spreadsheets begin UTF-8 files with a mark of the byte order.
            let mut at = if self.begun { 0 } else { mark(chunk) };
            self.begun = true;
            let mut ended = false;
            while at < chunk.len() && !ended {
                let byte = chunk[at];
                match state {
                    State::Before if byte == b'\n' || byte == b'\r' => {
                        self.line += u64::from(byte == b'\n');
                        at += 1;
                    }
                    State::Before => {
                        found.line = self.line;
                        state = State::FieldStart;
                    }
                    State::FieldStart if byte == b'"' => {
                        quote_line = self.line;
                        state = State::Quoted;
                        at += 1;
                    }
                    State::FieldStart => state = State::Plain,
                    State::Plain => {
                        let rest = &chunk[at..];
                        let ends = |byte: &u8| *byte == self.delimiter || matches!(byte, b'\n' | b'\r');
                        let length = rest.iter().position(ends).unwrap_or(rest.len());
                        record.extend(&rest[..length]);
                        at += length;
                        if let Some(&byte) = chunk.get(at) {
                            record.end_field(false);
                            at += 1;
                            state = State::FieldStart;
                            ended = byte != self.delimiter;
                            self.line += u64::from(byte == b'\n');
                        }
                    }
                    State::Quoted => {
                        let rest = &chunk[at..];
                        let length = rest.iter().position(|&byte| byte == b'"').unwrap_or(rest.len());
                        record.extend(&rest[..length]);
                        self.line += rest[..length].iter().filter(|&&byte| byte == b'\n').count() as u64;
                        at += length;
                        if at < chunk.len() {
                            at += 1;
                            state = State::AfterQuote;
                        }
                    }
                    State::AfterQuote if byte == b'"' => {
                        record.extend(b"\"");
                        state = State::Quoted;
                        at += 1;
                    }
                    State::AfterQuote if byte == self.delimiter || byte == b'\n' || byte == b'\r' => {
                        record.end_field(true);
                        at += 1;
                        state = State::FieldStart;
                        ended = byte != self.delimiter;
                        self.line += u64::from(byte == b'\n');
                    }
                    State::AfterQuote => {
                        found.wrong = Some(format!(
                            "field {} goes on after its closing quote (a quote within quotes is written twice)",
                            record.len() + 1
                        ));
                        state = State::Skip;
                    }
                    State::Skip => {
                        let rest = &chunk[at..];
                        let length = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
                        at += length.map_or(rest.len(), |length| length + 1);
                        if let Some(length) = length {
                            self.line += u64::from(rest[length] == b'\n');
                            ended = true;
                        }
                    }
                }
            }
            row_bytes = if matches!(state, State::Before) { 0 } else { row_bytes + at as u64 };
            self.reader.consume(at);
            if ended {
                return Ok(Some(found));
            }
            if row_bytes > self.row_bytes_max {
                let quote = match state {
                    State::Quoted => format!(": the quote that opens on line {quote_line} may not be closed"),
                    _ => String::new(),
                };
                return Err(Failure::Failed(format!(
                    "cannot read {} from line {} on: the row is too long (the most is 1 GiB){quote}",
                    self.name, found.line
                )));
            }
        }
    }
}

/// Length of the mark that UTF-8 files may begin with.
fn mark(chunk: &[u8]) -> usize {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    if chunk.starts_with(MARK) { MARK.len() } else { 0 }
}
