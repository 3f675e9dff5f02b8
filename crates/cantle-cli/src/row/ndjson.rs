//! NDJSON files: one JSON object on each line. A file that begins with `[` is one array of objects
//! instead.
//!
//! The key's columns are members of the object. Raw keys are the member `key`, a string or
//! `{"hex":"…"}`, raw values the member `value` likewise; `key_hex` and `value_hex` are strings of
//! hexadecimal digits. An object whose one member besides the key's is `value_json` stands for a JSON
//! value that is no object.

use super::array::ArrayRows;
use super::lines::Lines;
use super::members::{self, Members};
use super::{Row, Rows};
use crate::csvtext;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::keyfmt::{self, KeyCodec, string_of_json};
use crate::schema::ValueForm;
use serde_json::value::RawValue;
use std::io::{BufRead, BufReader, Read};

/// The mark of UTF-8 that some programs begin files with.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The member that stands for a JSON value that is no object.
pub(super) const VALUE_JSON: &str = "value_json";

/// Rows of an NDJSON file.
pub(crate) struct NdjsonRows<R> {
    lines: Lines<R>,
    line: Vec<u8>,
    shape: NdjsonShape,
}

/// The way from an object to a pair.
pub(crate) struct NdjsonShape {
    /// Reads keys.
    pub(crate) codec: KeyCodec,
    /// The form of values.
    pub(crate) value: ValueForm,
    /// The members that go into a JSON value; none for all but the key's.
    pub(crate) columns: Option<Vec<String>>,
}

/// The rows of a file of objects: on lines of their own, or in an array.
pub(crate) fn rows(reader: impl Read + 'static, name: String, shape: NdjsonShape) -> Outcome<Box<dyn Rows>> {
    let mut reader = BufReader::with_capacity(1 << 18, reader);
    // The first 256 KiB tell, unless they are blank.
    let chunk =
        reader.fill_buf().map_err(|error| Failure::Failed(format!("cannot read {name} line 1: {error}")))?;
    if chunk.starts_with(MARK) {
        reader.consume(MARK.len());
    }
    let is_array = reader.buffer().trim_ascii_start().first() == Some(&b'[');
    Ok(if is_array {
        Box::new(ArrayRows::new(reader, name, shape))
    } else {
        Box::new(NdjsonRows::new(reader, name, shape))
    })
}

impl<R: Read> NdjsonRows<R> {
    pub(crate) fn new(reader: R, name: String, shape: NdjsonShape) -> Self {
        Self { lines: Lines::new(reader, name), line: Vec::new(), shape }
    }
}

impl NdjsonShape {
    /// The pair of one object.
    pub(crate) fn pair(&self, json: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
        let members = members::parse(json).map_err(|what| match json.trim_ascii() {
            b"{" | b"[" => format!("{what}: each object stands on a line of its own (jq -c . makes it so)"),
            _ => what,
        })?;
        Ok((self.key(&members)?, self.value(&members)?))
    }

    fn key(&self, members: &Members<'_>) -> Result<Vec<u8>, String> {
        if let KeyCodec::Columns(columns, round) = &self.codec {
            for column in columns {
                members::only(members, &column.0)?;
            }
            let find = |name: &str| members.iter().find(|member| member.0 == name).map(|member| member.1);
            return keyfmt::key_of_json(columns, find, *round).map_err(|what| match what {
                what if columns.iter().any(|column| find(&column.0).is_none()) => {
                    format!("{what}; it has {}", members::names(members))
                }
                what => what,
            });
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
            KeyCodec::Columns(columns, _) => columns.iter().any(|column| column.0 == name),
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
                let mut all = kept.clone();
                if let (Some((name, json)), None) = (all.next(), all.next())
                    && self.columns.is_none()
                    && name == VALUE_JSON
                    && !json.get().starts_with('{')
                {
                    return Ok(members::on_one_line(json.get().to_owned()).into_bytes());
                }
                let object = members::object(kept.map(|(name, json)| (name.as_str(), json.get())));
                Ok(members::on_one_line(object).into_bytes())
            }
            ValueForm::Csv(columns) => {
                let mut fields = Vec::with_capacity(columns.len());
                for column in columns {
                    fields.push(match members::only(members, column)? {
                        Some(json) if json.get().starts_with('"') => Some(string_of_json(json)?.into_bytes()),
                        Some(json) if json.get() != "null" => Some(json.get().as_bytes().to_vec()),
                        _ => None,
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

/// Bytes that are no UTF-8.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Hex {
    hex: String,
}

fn plain_or_hex(
    members: &Members<'_>,
    plain: &str,
    hex: &str,
    parse: impl Fn(&RawValue) -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, String> {
    match (members::only(members, plain)?, members::only(members, hex)?) {
        (Some(json), None) if json.get().starts_with('{') => match serde_json::from_str(json.get()) {
            Ok(Hex { hex }) => escape::from_hex(hex.as_bytes()),
            Err(_) => Err(format!("member {plain:?} is an object other than {{\"hex\":\"…\"}}")),
        },
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
