//! CSV files with a header line.

use super::records::{Record, Records};
use super::table::{COLUMNS_MAX, Header, Plan, Table};
use super::{ROW_BYTES_MAX, Row, Rows};
use crate::failure::Outcome;
use crate::keyfmt::Round;
use crate::schema::Schema;
use std::io::Read;

/// The byte between fields, if nothing else is asked for.
pub(crate) const DELIMITER: u8 = b',';

/// A CSV file whose header has been read.
pub(crate) struct CsvFile<R> {
    records: Records<R>,
    header: Header,
}

impl<R: Read> CsvFile<R> {
    /// Reads the header. `name` is for messages.
    pub(crate) fn new(inner: R, name: String, delimiter: u8) -> Outcome<Self> {
        Self::with_row_limit(inner, name, delimiter, ROW_BYTES_MAX)
    }

    /// The same, where a row has at most about `row_bytes_max` bytes (and a buffer's).
    pub(super) fn with_row_limit(inner: R, name: String, delimiter: u8, row_bytes_max: u64) -> Outcome<Self> {
        let mut records = Records::new(inner, name.clone(), delimiter, row_bytes_max);
        let mut record = Record::new(COLUMNS_MAX);
        if let Some(found) = records.next(&mut record)?
            && let Some(wrong) = found.wrong
        {
            return Err(crate::failure::Failure::Failed(format!("{name} line {}: {wrong}", found.line)));
        }
        Ok(Self { records, header: Header::new(name, &record)? })
    }
}

impl<R: Read + 'static> Table for CsvFile<R> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn rows(self: Box<Self>, schema: &Schema, columns: &[String], round: Round) -> Outcome<Box<dyn Rows>> {
        let plan = self.header.plan(schema, columns, round)?;
        Ok(Box::new(CsvRows { records: self.records, record: plan.record(), plan }))
    }
}

/// Rows of a CSV file.
struct CsvRows<R> {
    records: Records<R>,
    record: Record,
    plan: Plan,
}

impl<R: Read> Rows for CsvRows<R> {
    fn next_row(&mut self) -> Outcome<Option<Row>> {
        let Some(found) = self.records.next(&mut self.record)? else { return Ok(None) };
        let pair = match found.wrong {
            Some(wrong) => Err(wrong),
            None => self.plan.pair(&self.record),
        };
        Ok(Some(Row { line: found.line, pair }))
    }
}
