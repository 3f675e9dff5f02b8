//! TSV files: a key, a tab, a value.

use super::lines::Lines;
use super::{Row, Rows, value_of_bytes};
use crate::escape;
use crate::failure::Outcome;
use crate::keyfmt::KeyCodec;
use crate::schema::ValueForm;
use std::io::Read;

/// Rows of a TSV file.
pub(crate) struct TsvRows<R> {
    lines: Lines<R>,
    line: Vec<u8>,
    shape: TsvShape,
}

/// How a line becomes a pair.
pub(crate) struct TsvShape {
    /// Reads keys.
    pub(crate) codec: KeyCodec,
    /// What values are.
    pub(crate) value: ValueForm,
    /// Whether backslashes stand for other bytes.
    pub(crate) escapes: bool,
}

impl<R: Read> TsvRows<R> {
    pub(crate) fn new(reader: R, name: String, shape: TsvShape) -> Self {
        Self { lines: Lines::new(reader, name), line: Vec::new(), shape }
    }
}

impl TsvShape {
    /// The pair of a line without its end.
    pub(crate) fn pair(&self, line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let tab = line.iter().position(|&byte| byte == b'\t').ok_or("no tab between a key and a value")?;
        let (key, value) = (&line[..tab], &line[tab + 1..]);
        let key = match (&self.codec, self.escapes) {
            (KeyCodec::Raw, true) | (KeyCodec::Hex, _) => self.codec.parse(key)?,
            (KeyCodec::Raw, false) => key.to_vec(),
            (_, true) => self.codec.parse(&escape::unescape(key)?)?,
            (_, false) => self.codec.parse(key)?,
        };
        let value = if self.escapes { escape::unescape(value)? } else { value.to_vec() };
        Ok((key, value_of_bytes(&self.value, value)?))
    }
}

impl<R: Read> Rows for TsvRows<R> {
    fn next_row(&mut self) -> Outcome<Option<Row>> {
        while let Some(line) = self.lines.next_line(&mut self.line)? {
            // An escaped line never ends with a carriage return of its own.
            if self.shape.escapes && self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
            if !self.line.is_empty() {
                return Ok(Some(Row { line, pair: self.shape.pair(&self.line) }));
            }
        }
        Ok(None)
    }
}
