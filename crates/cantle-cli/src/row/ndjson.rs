//! NDJSON files: one JSON object on each line.
//!
//! The key's columns are members of the object. Raw keys are the member `key` (a string) or `key_hex`, raw
//! values `value` or `value_hex`.

use super::lines::Lines;
use super::members::{self, Members};
use super::{Row, Rows};
use crate::csvtext;
use crate::escape;
use crate::failure::Outcome;
use crate::keyfmt::{self, KeyCodec, string_of_json};
use crate::schema::ValueForm;
use serde_json::value::RawValue;
use std::io::Read;

/// Rows of an NDJSON file.
pub(crate) struct NdjsonRows<R> {
    lines: Lines<R>,
    line: Vec<u8>,
    shape: NdjsonShape,
}

/// How an object becomes a pair.
pub(crate) struct NdjsonShape {
    /// Reads keys.
    pub(crate) codec: KeyCodec,
    /// What values are.
    pub(crate) value: ValueForm,
    /// The members that go into a JSON value; none for all but the key's.
    pub(crate) columns: Option<Vec<String>>,
}

impl<R: Read> NdjsonRows<R> {
    pub(crate) fn new(reader: R, name: String, shape: NdjsonShape) -> Self {
        Self { lines: Lines::new(reader, name), line: Vec::new(), shape }
    }
}

impl NdjsonShape {
    /// The pair of one object.
    pub(crate) fn pair(&self, json: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let members = members::parse(json)?;
        Ok((self.key(&members)?, self.value(&members)?))
    }

    fn key(&self, members: &Members<'_>) -> Result<Vec<u8>, String> {
        if let KeyCodec::Columns(columns) = &self.codec {
            for column in columns {
                members::only(members, &column.0)?;
            }
            let find = |name: &str| members.iter().find(|member| member.0 == name).map(|member| member.1);
            return keyfmt::key_of_json(columns, find);
        }
        let key = |json: &RawValue| match self.codec {
            KeyCodec::Raw => string_of_json(json).map(String::into_bytes),
            KeyCodec::Tuple => self.codec.parse(json.get().as_bytes()),
            _ => self.codec.parse(string_of_json(json)?.as_bytes()),
        };
        plain_or_hex(members, "key", "key_hex", key)
    }

    fn is_key(&self, name: &str) -> bool {
        match &self.codec {
            KeyCodec::Columns(columns) => columns.iter().any(|column| column.0 == name),
            _ => matches!(name, "key" | "key_hex"),
        }
    }

    fn value(&self, members: &Members<'_>) -> Result<Vec<u8>, String> {
        match &self.value {
            ValueForm::Json => {
                let wanted = |name: &str| {
                    !self.is_key(name)
                        && self.columns.as_ref().is_none_or(|columns| columns.iter().any(|c| c == name))
                };
                let kept = members.iter().filter(|member| wanted(&member.0));
                Ok(members::object(kept.map(|(name, json)| (name.as_str(), json.get()))).into_bytes())
            }
            ValueForm::Csv(columns) => {
                let mut fields = Vec::with_capacity(columns.len());
                for column in columns {
                    fields.push(match members::only(members, column)? {
                        Some(json) if json.get().starts_with('"') => string_of_json(json)?,
                        Some(json) if json.get() != "null" => json.get().to_owned(),
                        _ => String::new(),
                    });
                }
                Ok(csvtext::record(&fields))
            }
            ValueForm::Raw => {
                let known = |name: &str| self.is_key(name) || matches!(name, "value" | "value_hex");
                if let Some(unknown) = members.iter().find(|member| !known(&member.0)) {
                    return Err(format!(
                        "raw values are members \"value\" or \"value_hex\", not {:?}",
                        unknown.0
                    ));
                }
                plain_or_hex(members, "value", "value_hex", |json| {
                    string_of_json(json).map(String::into_bytes)
                })
            }
        }
    }
}

fn plain_or_hex(
    members: &Members<'_>,
    plain: &str,
    hex: &str,
    parse: impl Fn(&RawValue) -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, String> {
    match (members::only(members, plain)?, members::only(members, hex)?) {
        (Some(json), None) => parse(json),
        (None, Some(json)) => escape::from_hex(string_of_json(json)?.as_bytes()),
        _ => Err(format!("wants one member {plain:?} or {hex:?}")),
    }
}

impl<R: Read> Rows for NdjsonRows<R> {
    fn next_row(&mut self) -> Outcome<Option<Row>> {
        while let Some(line) = self.lines.next_line(&mut self.line)? {
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some(Row { line, pair: self.shape.pair(&self.line) }));
            }
        }
        Ok(None)
    }
}
