//! Pairs as lines of text.
//!
//! [`text_line`] and [`json_line`] show any pair; a pair that does not fit the keyspace's columns is shown in
//! hexadecimal. [`Exporter`] writes pairs that load back as they were, and refuses the rest.

use super::ndjson::{NdjsonShape, VALUE_JSON};
use super::tsv::TsvShape;
use super::{members, value_of_bytes};
use crate::csvtext::{self, Field};
use crate::escape;
use crate::keyfmt::{self, KeyCodec, json_string};
use crate::schema::{Schema, ValueForm};
use cantle_import::dump;
use clap::ValueEnum;
use std::str;

/// The files that `export` writes, and `load` or `import` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// A header, then one record for each pair
    Csv,
    /// One JSON object for each pair
    Ndjson,
    /// Key, tab, value; escaped
    Tsv,
    /// 0xKEY ==> 0xVALUE, as RocksDB's `ldb --hex dump` prints; for `import --rocksdb` and
    /// `ldb --hex load`
    RocksdbDump,
}

/// The fields of a value that is a record of columns.
fn value_fields(form: &ValueForm, value: &[u8]) -> Option<Vec<Field>> {
    let ValueForm::Csv(columns) = form else { return None };
    csvtext::split(value)
        .ok()
        .filter(|fields| fields.len() == columns.len() && csvtext::record(fields) == value)
}

/// The fields of a pair that is a row of columns.
fn row_fields(codec: &KeyCodec, form: &ValueForm, key: &[u8], value: &[u8]) -> Option<Vec<Field>> {
    let KeyCodec::Columns(columns, _) = codec else { return None };
    let mut fields = keyfmt::key_fields(columns, key)?;
    fields.extend(value_fields(form, value)?);
    Some(fields)
}

/// A pair for people: a CSV row where it is one, else the key, a tab and the escaped value.
pub(crate) fn text_line(codec: &KeyCodec, form: &ValueForm, key: &[u8], value: &[u8]) -> Vec<u8> {
    if let Some(fields) = row_fields(codec, form, key, value) {
        return csvtext::record(&fields);
    }
    let value = match json_text(form, value) {
        Some(json) => json.to_owned(),
        None => escape::escape(value),
    };
    format!("{}\t{value}", codec.show(key)).into_bytes()
}

/// A pair in hexadecimal: the key, a tab and the value.
pub(crate) fn hex_line(key: &[u8], value: &[u8]) -> Vec<u8> {
    format!("{}\t{}", escape::to_hex(key), escape::to_hex(value)).into_bytes()
}

/// A value that is JSON on one line, as it is.
fn json_text<'a>(form: &ValueForm, value: &'a [u8]) -> Option<&'a str> {
    let is_line = *form == ValueForm::Json && !value.iter().any(u8::is_ascii_control);
    (is_line && (members::parse(value).is_ok() || members::parse_other(value).is_some()))
        .then(|| str::from_utf8(value).ok())?
}

/// Bytes as JSON: a string, or `{"hex":"…"}` where they are no UTF-8.
fn json_bytes(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => json_string(text),
        Err(_) => json_hex(bytes),
    }
}

fn json_hex(bytes: &[u8]) -> String {
    format!("{{\"hex\":\"{}\"}}", escape::to_hex(bytes))
}

/// The key's members of an object, as JSON texts.
fn key_members(codec: &KeyCodec, key: &[u8]) -> Vec<(String, String)> {
    let named = match codec {
        KeyCodec::Columns(columns, _) => keyfmt::key_json(columns, key)
            .map(|texts| columns.iter().map(|column| column.0.clone()).zip(texts).collect()),
        KeyCodec::Raw => Some(vec![("key".to_owned(), json_bytes(key))]),
        KeyCodec::Tuple => codec.print(key).map(|json| vec![("key".to_owned(), json)]),
        KeyCodec::Hex => None,
    };
    named.unwrap_or_else(|| vec![("key".to_owned(), json_hex(key))])
}

/// A pair as a JSON object on one line.
pub(crate) fn json_line(codec: &KeyCodec, form: &ValueForm, key: &[u8], value: &[u8]) -> Vec<u8> {
    named_json_line(codec, form, key, value, "value")
}

/// The same, where a JSON value that is no object is the member `other`.
fn named_json_line(codec: &KeyCodec, form: &ValueForm, key: &[u8], value: &[u8], other: &str) -> Vec<u8> {
    let mut members = key_members(codec, key);
    members.extend(value_members(form, value, other));
    members::object(members.iter().map(|(name, json)| (name.as_str(), json.as_str()))).into_bytes()
}

/// A key as a JSON object on one line.
pub(crate) fn json_key_line(codec: &KeyCodec, key: &[u8]) -> Vec<u8> {
    let members = key_members(codec, key);
    members::object(members.iter().map(|(name, json)| (name.as_str(), json.as_str()))).into_bytes()
}

fn value_members(form: &ValueForm, value: &[u8], other: &str) -> Vec<(String, String)> {
    let named = match form {
        ValueForm::Csv(columns) => value_fields(form, value).and_then(|fields| {
            let json = |field: Field| match field {
                Some(text) => String::from_utf8(text).ok().map(|text| json_string(&text)),
                None => Some("null".to_owned()),
            };
            let texts: Option<Vec<String>> = fields.into_iter().map(json).collect();
            Some(columns.iter().cloned().zip(texts?).collect())
        }),
        ValueForm::Json if value.contains(&b'\n') => None,
        ValueForm::Json => match members::parse_other(value) {
            Some(json) => Some(vec![(other.to_owned(), json.to_owned())]),
            None => members::parse(value).ok().map(|members| {
                members.into_iter().map(|(name, json)| (name, json.get().to_owned())).collect()
            }),
        },
        ValueForm::Raw => None,
    };
    named.unwrap_or_else(|| vec![("value".to_owned(), json_bytes(value))])
}

/// Writes pairs so that `load` reads them back exactly.
pub(crate) struct Exporter {
    format: FileFormat,
    schema: Schema,
    codec: KeyCodec,
    tsv: TsvShape,
    ndjson: NdjsonShape,
}

impl Exporter {
    /// The format that suits the keyspace.
    pub(crate) fn natural_format(schema: &Schema, codec: &KeyCodec) -> FileFormat {
        match (codec, &schema.value) {
            (KeyCodec::Columns(..), ValueForm::Csv(_)) => FileFormat::Csv,
            (KeyCodec::Columns(..), ValueForm::Json) => FileFormat::Ndjson,
            _ => FileFormat::Tsv,
        }
    }

    pub(crate) fn new(format: FileFormat, schema: &Schema, codec: &KeyCodec) -> Result<Self, String> {
        let natural = Self::natural_format(schema, codec);
        if format == FileFormat::Csv && natural != FileFormat::Csv {
            return Err("only a keyspace of key and value columns exports as CSV: use ndjson or tsv".into());
        }
        // Other key formats are for pairs that do not fit the columns: then values are bytes as
        // well.
        let value =
            if matches!(codec, KeyCodec::Columns(..)) { schema.value.clone() } else { ValueForm::Raw };
        Ok(Self {
            format,
            schema: Schema { key: schema.key.clone(), value: value.clone(), types: None },
            codec: codec.clone(),
            tsv: TsvShape { codec: codec.clone(), value: value.clone(), escapes: true },
            ndjson: NdjsonShape { codec: codec.clone(), value, columns: None },
        })
    }

    /// The first line, if the format has one.
    pub(crate) fn header(&self) -> Option<Vec<u8>> {
        let ValueForm::Csv(columns) = &self.schema.value else { return None };
        let names: Vec<&str> = self
            .schema
            .key
            .iter()
            .map(|column| column.0.as_str())
            .chain(columns.iter().map(String::as_str))
            .collect();
        (self.format == FileFormat::Csv).then(|| csvtext::record(&names))
    }

    /// The last line, if the format has one.
    pub(crate) fn last_line(&self, pairs: u64) -> Option<Vec<u8>> {
        (self.format == FileFormat::RocksdbDump).then(|| dump::last_line(pairs))
    }

    /// The line of a pair; none if it would not load back as the same pair.
    pub(crate) fn line(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        let form = &self.schema.value;
        match self.format {
            // The fields were taken from the pair only because they make the same pair again.
            FileFormat::Csv => {
                let fields = row_fields(&self.codec, form, key, value)?;
                // A null alone would be an empty line, which readers pass over.
                Some(csvtext::record(&fields)).filter(|line| !line.is_empty())
            }
            FileFormat::Tsv => {
                let text = self.codec.print(key)?;
                let text =
                    if matches!(self.codec, KeyCodec::Raw) { text } else { escape::escape(text.as_bytes()) };
                let exact = value_of_bytes(form, value.to_vec()).is_ok_and(|again| again == value);
                let line = format!("{text}\t{}", escape::escape(value)).into_bytes();
                (exact && self.tsv.pair(&line).is_ok_and(|pair| pair.0 == key)).then_some(line)
            }
            // Bytes as they are, whatever they mean.
            FileFormat::RocksdbDump => Some(dump::line(key, value)),
            FileFormat::Ndjson => {
                let line = named_json_line(&self.codec, form, key, value, VALUE_JSON);
                let exact = self.ndjson.pair(&line).is_ok_and(|pair| pair.0 == key && pair.1 == value);
                exact.then_some(line)
            }
        }
    }
}
