//! CSV files with a header line.

use super::{ROW_BYTES_MAX, Row, Rows, members};
use crate::csvtext;
use crate::failure::{Failure, Outcome};
use crate::keyfmt::{self, json_string};
use crate::schema::{KeyColumn, Schema, ValueForm};
use csv::{ByteRecord, Reader, ReaderBuilder};
use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;
use std::str;

/// A CSV file whose header has been read.
pub(crate) struct CsvFile<R> {
    reader: Reader<Watched<R>>,
    seen: Rc<RefCell<Seen>>,
    name: String,
    header: Vec<String>,
    row_bytes_max: u64,
}

impl<R: Read> CsvFile<R> {
    /// Reads the header. `name` is for messages.
    pub(crate) fn new(inner: R, name: String) -> Outcome<Self> {
        Self::with_row_limit(inner, name, ROW_BYTES_MAX)
    }

    /// The same, where a row has at most about `row_bytes_max` bytes (and a buffer's).
    pub(super) fn with_row_limit(inner: R, name: String, row_bytes_max: u64) -> Outcome<Self> {
        let seen = Seen { left: row_bytes_max, position: 0, last: Vec::new() };
        let seen = Rc::new(RefCell::new(seen));
        let watched = Watched { inner, seen: Rc::clone(&seen) };
        let mut reader = ReaderBuilder::new().flexible(true).buffer_capacity(1 << 18).from_reader(watched);
        let header = reader.byte_headers().map_err(|error| failed(&name, 1, &error))?;
        let header: Vec<String> = header
            .iter()
            .map(|column| str::from_utf8(column).map(str::to_owned))
            .collect::<Result<_, _>>()
            .map_err(|_| Failure::Failed(format!("{name} line 1: the header is not UTF-8")))?;
        Ok(Self { reader, seen, name, header, row_bytes_max })
    }

    /// The names of the columns.
    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    /// Where a column stands.
    pub(crate) fn position(&self, column: &str) -> Outcome<usize> {
        let mut found = self.header.iter().enumerate().filter(|(_, name)| *name == column);
        match (found.next(), found.next()) {
            (Some((index, _)), None) => Ok(index),
            (Some(_), Some(_)) => {
                Err(Failure::Usage(format!("{} has several columns {column:?}", self.name)))
            }
            (None, _) => Err(Failure::Usage(format!(
                "{} has no column {column:?}; it has {}",
                self.name,
                self.header.join(", ")
            ))),
        }
    }

    /// The rows as pairs of this schema. `columns` are those of a JSON value; a CSV value has its own.
    pub(crate) fn rows(self, schema: &Schema, columns: &[String]) -> Outcome<CsvRows<R>> {
        let (value, json) = match &schema.value {
            ValueForm::Csv(columns) => (columns.as_slice(), false),
            ValueForm::Json => (columns, true),
            ValueForm::Raw => {
                return Err(Failure::Usage(
                    "the keyspace has raw values: load TSV or NDJSON into it, or CSV into another".into(),
                ));
            }
        };
        let key_at = schema.key.iter().map(|column| self.position(&column.0)).collect::<Outcome<_>>()?;
        let value_at = value.iter().map(|column| self.position(column)).collect::<Outcome<_>>()?;
        Ok(CsvRows { key: schema.key.clone(), key_at, value_at, json, record: ByteRecord::new(), file: self })
    }
}

/// Rows of a CSV file.
pub(crate) struct CsvRows<R> {
    file: CsvFile<R>,
    key: Vec<KeyColumn>,
    key_at: Vec<usize>,
    value_at: Vec<usize>,
    json: bool,
    record: ByteRecord,
}

impl<R: Read> CsvRows<R> {
    fn pair(&self) -> Result<(Vec<u8>, Vec<u8>), String> {
        let (fields, header) = (self.record.len(), self.file.header.len());
        if fields != header {
            return Err(format!("{fields} fields where the header has {header}"));
        }
        let key = keyfmt::key_of_texts(&self.key, self.key_at.iter().map(|&at| &self.record[at]))?;
        let value = if self.json {
            let mut values = Vec::with_capacity(self.value_at.len());
            for &at in &self.value_at {
                let name = &self.file.header[at];
                let text =
                    str::from_utf8(&self.record[at]).map_err(|_| format!("column {name:?} is not UTF-8"))?;
                values.push((name.as_str(), json_string(text)));
            }
            members::object(values.iter().map(|(name, json)| (*name, json.as_str()))).into_bytes()
        } else {
            let fields: Vec<&[u8]> = self.value_at.iter().map(|&at| &self.record[at]).collect();
            csvtext::record(&fields)
        };
        Ok((key, value))
    }
}

impl<R: Read> Rows for CsvRows<R> {
    fn next_row(&mut self) -> Outcome<Option<Row>> {
        self.file.seen.borrow_mut().left = self.file.row_bytes_max;
        let from = self.file.reader.position().line();
        let more = self.file.reader.read_byte_record(&mut self.record);
        if !more.map_err(|error| failed(&self.file.name, from, &error))? {
            return Ok(None);
        }
        // The reader's own idea of where a record starts is off after `\r\n` and empty lines; where one
        // ends is certain: behind its line end, whose `\n` the reader has counted if it is one.
        let end = self.file.reader.position();
        let counted = self.file.seen.borrow().byte_before(end.byte()) == Some(b'\n');
        let within = self.record.iter().flatten().filter(|&&byte| byte == b'\n').count() as u64;
        let line = end.line().saturating_sub(within).saturating_sub(u64::from(counted));
        // The last byte may lie within a field whose quote is never closed.
        Ok(Some(Row { line: line.max(from), pair: self.pair() }))
    }
}

fn failed(name: &str, line: u64, error: &csv::Error) -> Failure {
    Failure::Failed(format!("cannot read {name} from line {line} on: {error}"))
}

/// What passed through a [`Watched`] reader.
struct Seen {
    /// How many bytes may still be read for the row at hand.
    left: u64,
    /// The position behind `last`.
    position: u64,
    /// The bytes read last, with one before them.
    last: Vec<u8>,
}

impl Seen {
    /// The byte before `position`, which lies in what was read last.
    fn byte_before(&self, position: u64) -> Option<u8> {
        let back = usize::try_from(self.position.checked_sub(position)?).ok()?;
        self.last.get(self.last.len().checked_sub(back + 1)?).copied()
    }
}

/// Remembers the bytes read last and ends a row that is too long.
struct Watched<R> {
    inner: R,
    seen: Rc<RefCell<Seen>>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut seen = self.seen.borrow_mut();
        if seen.left == 0 {
            return Err(io::Error::other(
                "the row is too long (the most is 1 GiB): a quote may not be closed",
            ));
        }
        let read = self.inner.read(buffer)?;
        if read > 0 {
            let before = seen.last.last().copied();
            seen.last.clear();
            seen.last.extend(before);
            seen.last.extend_from_slice(&buffer[..read]);
        }
        seen.position += read as u64;
        seen.left = seen.left.saturating_sub(read as u64);
        Ok(read)
    }
}
