//! Files with a header: which of their columns make the key and the value of a pair.

use super::members;
use super::records::Record;
use crate::csvtext;
use crate::failure::{Failure, Outcome};
use crate::keyfmt::{self, Round, json_string};
use crate::output::{counted, human_count};
use crate::schema::{KeyColumn, Schema, ValueForm};
use std::str;

/// The most columns that a header names.
pub(super) const COLUMNS_MAX: usize = 1_000_000;

/// The names of a file's columns.
pub(crate) struct Header {
    /// The file's name, for messages.
    file: String,
    columns: Vec<String>,
}

/// A file whose header has been read.
pub(crate) trait Table {
    /// The names of its columns.
    fn header(&self) -> &Header;

    /// Its rows as pairs of this schema. `columns` are those of a JSON value; a CSV value has its
    /// own.
    fn rows(
        self: Box<Self>,
        schema: &Schema,
        columns: &[String],
        round: Round,
    ) -> Outcome<Box<dyn super::Rows>>;
}

impl Header {
    /// The header that `record` is.
    pub(super) fn new(file: String, record: &Record) -> Outcome<Self> {
        if record.len() > COLUMNS_MAX {
            return Err(Failure::Failed(format!(
                "{file} line 1: the header has {} (the most is {}): is it a row of another file?",
                counted(record.len() as u64, "column", "columns"),
                human_count(COLUMNS_MAX as u64)
            )));
        }
        let name = |index| str::from_utf8(record.get(index).unwrap_or_default()).map(str::to_owned);
        let columns: Vec<String> = (0..record.len()).map(name).collect::<Result<_, _>>().map_err(|_| {
            Failure::Failed(format!(
                "{file} line 1: the header is not UTF-8 (from UTF-16: iconv -f UTF-16 -t UTF-8 {file})"
            ))
        })?;
        if columns.is_empty() {
            return Err(Failure::Failed(format!(
                "{file} is empty: a first line with the names of the columns is expected"
            )));
        }
        Ok(Self { file, columns })
    }

    /// The names.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Index of a column.
    pub(crate) fn position(&self, column: &str) -> Outcome<usize> {
        let mut found = self.columns.iter().enumerate().filter(|(_, name)| *name == column);
        match (found.next(), found.next()) {
            (Some((index, _)), None) => Ok(index),
            (Some(_), Some(_)) => {
                Err(Failure::Usage(format!("{} has several columns {column:?}", self.file)))
            }
            (None, _) => Err(Failure::Usage(format!(
                "{} has no column {column:?}; it has {}{}",
                self.file,
                self.columns.join(", "),
                self.other_delimiter()
            ))),
        }
    }

    /// The delimiter that the file seems to have, where its header is one column.
    fn other_delimiter(&self) -> String {
        let [only] = self.columns.as_slice() else { return String::new() };
        match only.chars().find(|c| matches!(c, ';' | '\t' | '|' | ',')) {
            Some('\t') => " (--delimiter tab, perhaps?)".into(),
            Some(delimiter) => format!(" (--delimiter '{delimiter}', perhaps?)"),
            None => String::new(),
        }
    }

    pub(super) fn plan(self, schema: &Schema, columns: &[String], round: Round) -> Outcome<Plan> {
        let (value, json) = match &schema.value {
            ValueForm::Csv(columns) => (columns.as_slice(), false),
            ValueForm::Json => (columns, true),
            ValueForm::Raw => {
                return Err(Failure::Usage(
                    "the keyspace has raw values: load TSV without --header or NDJSON into it, or load this into \
                     another with --keyspace"
                        .into(),
                ));
            }
        };
        let key_at = schema.key.iter().map(|column| self.position(&column.0)).collect::<Outcome<_>>()?;
        let value_at = value.iter().map(|column| self.position(column)).collect::<Outcome<_>>()?;
        Ok(Plan { key: schema.key.clone(), key_at, value_at, json, round, header: self })
    }
}

/// Makes pairs of records.
pub(super) struct Plan {
    header: Header,
    key: Vec<KeyColumn>,
    key_at: Vec<usize>,
    value_at: Vec<usize>,
    json: bool,
    round: Round,
}

impl Plan {
    /// A record that keeps the fields of these columns.
    pub(super) fn record(&self) -> Record {
        Record::new(self.header.columns.len())
    }

    pub(super) fn pair(&self, record: &Record) -> Result<(Vec<u8>, Vec<u8>), String> {
        let (fields, header) = (record.len(), self.header.columns.len());
        if fields != header {
            let fields = counted(fields as u64, "field", "fields");
            return Err(format!("{fields} where the header has {header}"));
        }
        let key = keyfmt::key_of_fields(&self.key, self.key_at.iter().map(|&at| record.get(at)), self.round)?;
        let value = if self.json {
            let mut values = Vec::with_capacity(self.value_at.len());
            for &at in &self.value_at {
                let name = &self.header.columns[at];
                let json = match record.get(at).map(str::from_utf8).transpose() {
                    Ok(Some(text)) => json_string(text),
                    Ok(None) => "null".to_owned(),
                    Err(_) => return Err(format!("column {name:?} is not UTF-8")),
                };
                values.push((name.as_str(), json));
            }
            members::object(values.iter().map(|(name, json)| (*name, json.as_str()))).into_bytes()
        } else {
            let fields: Vec<Option<&[u8]>> = self.value_at.iter().map(|&at| record.get(at)).collect();
            csvtext::record(&fields)
        };
        Ok((key, value))
    }
}
