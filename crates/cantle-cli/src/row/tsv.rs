//! TSV files: a key, a tab, a value; or, with a header, columns with tabs between them.

use super::lines::Lines;
use super::records::Record;
use super::table::{COLUMNS_MAX, Header, Plan, Table};
use super::{Row, Rows, value_of_bytes};
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::keyfmt::{KeyCodec, Round};
use crate::schema::{Schema, ValueForm};
use std::io::Read;

/// Rows of a TSV file.
pub(crate) struct TsvRows<R> {
    lines: Lines<R>,
    line: Vec<u8>,
    shape: TsvShape,
}

/// The way from a line to a pair.
pub(crate) struct TsvShape {
    /// Reads keys.
    pub(crate) codec: KeyCodec,
    /// The form of values.
    pub(crate) value: ValueForm,
    /// Backslashes stand for other bytes.
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

/// A TSV file with a header, which has been read.
///
/// Quotes are bytes like any other. An empty field is a null, and so is `\N`, where there are
/// escapes.
pub(crate) struct TsvTable<R> {
    lines: Lines<R>,
    header: Header,
    escapes: bool,
}

impl<R: Read> TsvTable<R> {
    /// Reads the header. `name` is for messages.
    pub(crate) fn new(reader: R, name: String, escapes: bool) -> Outcome<Self> {
        let mut lines = Lines::new(reader, name.clone());
        let (mut line, mut record) = (Vec::new(), Record::new(COLUMNS_MAX));
        if lines.next_line(&mut line)?.is_some() {
            let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line);
            split(text, escapes, &mut record)
                .map_err(|what| Failure::Failed(format!("{name} line 1: {what}")))?;
        }
        Ok(Self { lines, header: Header::new(name, &record)?, escapes })
    }
}

impl<R: Read + 'static> Table for TsvTable<R> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn rows(self: Box<Self>, schema: &Schema, columns: &[String], round: Round) -> Outcome<Box<dyn Rows>> {
        let plan = self.header.plan(schema, columns, round)?;
        let (line, record) = (Vec::new(), plan.record());
        Ok(Box::new(TableRows { lines: self.lines, line, record, plan, escapes: self.escapes }))
    }
}

/// Rows of a TSV file with a header.
struct TableRows<R> {
    lines: Lines<R>,
    line: Vec<u8>,
    record: Record,
    plan: Plan,
    escapes: bool,
}

impl<R: Read> Rows for TableRows<R> {
    fn next_row(&mut self) -> Outcome<Option<Row>> {
        while let Some(line) = self.lines.next_line(&mut self.line)? {
            if self.line.is_empty() || self.line == b"\r" {
                continue;
            }
            let pair =
                split(&self.line, self.escapes, &mut self.record).and_then(|()| self.plan.pair(&self.record));
            return Ok(Some(Row { line, pair }));
        }
        Ok(None)
    }
}

/// Takes a line apart at its tabs. A carriage return at its end belongs to the line end.
fn split(line: &[u8], escapes: bool, record: &mut Record) -> Result<(), String> {
    record.clear();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    for field in line.split(|&byte| byte == b'\t') {
        match (escapes, field) {
            (true, b"\\N") => {}
            (true, field) if field.contains(&b'\\') => record.extend(&escape::unescape(field)?),
            (_, field) => record.extend(field),
        }
        record.end_field(false);
    }
    Ok(())
}
