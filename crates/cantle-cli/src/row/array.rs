//! Files that are one JSON array of objects.
//!
//! Elements are found by their brackets alone, so that a file of any size is read in the memory of
//! one element; each is then parsed by itself. An element that is no object is reported in its
//! place.

use super::ndjson::NdjsonShape;
use super::{ROW_BYTES_MAX, Row, Rows};
use crate::failure::{Failure, Outcome};
use std::io::{BufRead, BufReader, Read};

/// Rows of a file that is an array, from its `[` on.
pub(super) struct ArrayRows<R> {
    reader: BufReader<R>,
    name: String,
    shape: NdjsonShape,
    line: u64,
    at: At,
    element: Vec<u8>,
}

/// Position between elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the array.
    Outside,
    /// After `[`: an element or `]`.
    First,
    /// After a comma.
    Element,
    /// After an element: a comma or `]`.
    Comma,
    /// After `]`: nothing.
    End,
}

impl<R: Read> ArrayRows<R> {
    /// `name` is for messages.
    pub(super) fn new(reader: BufReader<R>, name: String, shape: NdjsonShape) -> Self {
        Self { reader, name, shape, line: 1, at: At::Outside, element: Vec::new() }
    }

    fn failed(&self, what: impl std::fmt::Display) -> Failure {
        Failure::Failed(format!("cannot read {} from line {} on: {what}", self.name, self.line))
    }

    fn peek(&mut self) -> Outcome<Option<u8>> {
        let byte = self.reader.fill_buf().map(|chunk| chunk.first().copied());
        byte.map_err(|error| self.failed(error))
    }

    fn skip(&mut self, byte: u8) {
        self.line += u64::from(byte == b'\n');
        self.reader.consume(1);
    }

    /// Reads one value up to the comma or bracket after it.
    fn read_element(&mut self) -> Outcome {
        self.element.clear();
        let (mut depth, mut in_string, mut escaped) = (0_u64, false, false);
        loop {
            let chunk = match self.reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) => return Err(self.failed(error)),
            };
            if chunk.is_empty() {
                return Err(self.failed("the array ends within an element"));
            }
            let mut length = 0;
            let mut ended = false;
            for &byte in chunk {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if in_string => escaped = true,
                    b'"' => in_string = !in_string,
                    _ if in_string => {}
                    b'[' | b'{' => depth += 1,
                    b']' | b'}' | b',' if depth == 0 => {
                        ended = true;
                        break;
                    }
                    b']' | b'}' => depth -= 1,
                    _ => {}
                }
                self.line += u64::from(byte == b'\n');
                length += 1;
            }
            self.element.extend_from_slice(&chunk[..length]);
            self.reader.consume(length);
            if ended {
                return Ok(());
            }
            if self.element.len() as u64 > ROW_BYTES_MAX {
                return Err(self.failed("an element is too long (the most is 1 GiB)"));
            }
        }
    }
}

impl<R: Read> Rows for ArrayRows<R> {
    fn next_row(&mut self) -> Outcome<Option<Row>> {
        while let Some(byte) = self.peek()? {
            match (self.at, byte) {
                (_, b' ' | b'\t' | b'\r' | b'\n') => self.skip(byte),
                (At::Outside, b'[') => {
                    self.at = At::First;
                    self.skip(byte);
                }
                (At::First | At::Comma, b']') => {
                    self.at = At::End;
                    self.skip(byte);
                }
                (At::Comma, b',') => {
                    self.at = At::Element;
                    self.skip(byte);
                }
                (At::First | At::Element, byte) if !matches!(byte, b',' | b']' | b'}') => {
                    let line = self.line;
                    self.read_element()?;
                    self.at = At::Comma;
                    return Ok(Some(Row { line, pair: self.shape.pair(&self.element) }));
                }
                (At::End, _) => return Err(self.failed("there is something after the array")),
                (_, byte) => {
                    let byte = char::from(byte);
                    return Err(self.failed(format!("{byte:?} stands where an element of the array should")));
                }
            }
        }
        if self.at == At::End { Ok(None) } else { Err(self.failed("the array is not closed")) }
    }
}
