//! Keys as people write and read them.
//!
//! A key of named columns is a CSV record, `UA,EWR,2013-07-04T09:00:00Z,1545`; an empty field is a
//! null, `""` the empty text; a time is RFC 3339 or a date and kept as UTC microseconds. Other keys
//! are raw (escaped text), hexadecimal, or any composite key as a JSON array. A key prints only if
//! its text parses to the same bytes again, so that printed keys can be used as arguments and
//! exports load back exactly.

mod time;

pub(crate) use time::Round;

use crate::csvtext::{self, Field};
use crate::escape;
use crate::output::counted;
use crate::schema::{ColumnType, KeyColumn, Schema};
use cantle::key::{self, Part};
use clap::ValueEnum;
use serde_json::value::RawValue;
use std::str;

/// The forms of keys that are not written by their columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyFormat {
    /// The bytes themselves, with \\, \t, \n, \r and \xNN for what is not printable
    Raw,
    /// Hexadecimal digits
    Hex,
    /// Any composite key as a JSON array: ["UA",1545,null]
    Tuple,
}

/// Parses and prints keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyCodec {
    /// Escaped bytes.
    Raw,
    /// Hexadecimal digits.
    Hex,
    /// A JSON array of parts.
    Tuple,
    /// A CSV record of these columns, whose times are rounded so.
    Columns(Vec<KeyColumn>, Round),
}

impl KeyCodec {
    /// The codec that the user asked for, else that of the keyspace.
    pub(crate) fn new(format: Option<KeyFormat>, schema: &Schema) -> Self {
        match format {
            Some(KeyFormat::Raw) => Self::Raw,
            Some(KeyFormat::Hex) => Self::Hex,
            Some(KeyFormat::Tuple) => Self::Tuple,
            None if schema.key.is_empty() => Self::Raw,
            None => Self::Columns(schema.key.clone(), Round::Exact),
        }
    }

    /// The same codec, where times that are finer than a microsecond are rounded when they are
    /// parsed.
    pub(crate) fn rounding(self, round: Round) -> Self {
        match self {
            Self::Columns(columns, _) => Self::Columns(columns, round),
            other => other,
        }
    }

    /// The key that `text` names.
    pub(crate) fn parse(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Columns(columns, round) => {
                let fields = csvtext::split(text)?;
                if fields.len() != columns.len() {
                    return Err(format!(
                        "the key has {} ({}), {:?} has {}",
                        counted(columns.len() as u64, "column", "columns"),
                        names(columns),
                        String::from_utf8_lossy(text),
                        fields.len()
                    ));
                }
                key_of_texts(columns, fields.iter().map(Option::as_deref), *round)
            }
            _ => self.parse_start(text),
        }
    }

    /// The start of a key that `text` names: the first of its columns, or its first bytes.
    pub(crate) fn parse_start(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Raw => escape::unescape(text),
            Self::Hex => escape::from_hex(text),
            Self::Tuple => Ok(key::encode(&parse_tuple(text)?)),
            Self::Columns(columns, round) => {
                let fields = csvtext::split(text)?;
                if fields.len() > columns.len() {
                    let most = counted(columns.len() as u64, "column", "columns");
                    return Err(format!("the key has only {most} ({})", names(columns)));
                }
                key_of_texts(columns, fields.iter().map(Option::as_deref), *round)
            }
        }
    }

    /// The start and the end of the keys that begin with `text`; without an end they go on to the
    /// last key.
    pub(crate) fn parse_prefix(&self, text: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>), String> {
        let start = self.parse_start(text)?;
        let end = match self {
            Self::Raw | Self::Hex => after_prefix(&start),
            // No part begins with 0xff; only a longer text that goes on with a zero byte does.
            Self::Tuple | Self::Columns(..) => Some([start.as_slice(), &[u8::MAX]].concat()),
        };
        Ok((start, end))
    }

    /// The text that [`parse`](Self::parse) takes back to `key`, if there is one.
    pub(crate) fn print(&self, key: &[u8]) -> Option<String> {
        match self {
            Self::Raw => Some(escape::escape(key)),
            Self::Hex => Some(escape::to_hex(key)),
            Self::Tuple => {
                let parts = key::parse(key).ok()?;
                Some(format!("[{}]", parts.iter().map(tuple_json).collect::<Option<Vec<_>>>()?.join(",")))
            }
            Self::Columns(columns, _) => {
                let fields = key_fields(columns, key)?;
                String::from_utf8(csvtext::record(&fields)).ok()
            }
        }
    }

    /// A text for people: the one of [`print`](Self::print), else hexadecimal digits after `0x`. A
    /// null alone has no text.
    pub(crate) fn show(&self, key: &[u8]) -> String {
        let visible = |text: &String| !text.is_empty() || key.is_empty();
        self.print(key).filter(visible).unwrap_or_else(|| format!("0x{}", escape::to_hex(key)))
    }

    /// A text for the start of a chunk, whose key may be cut off anywhere.
    pub(crate) fn show_start(&self, key: &[u8]) -> String {
        let cut = match self {
            Self::Columns(columns, _) if self.print(key).is_none() => cut_fields(columns, key),
            _ => None,
        };
        cut.and_then(|fields| String::from_utf8(csvtext::record(&fields)).ok())
            .unwrap_or_else(|| self.show(key))
    }
}

/// The fields of the columns that lie whole in the first bytes of a cut key, and the beginning of
/// the next one.
fn cut_fields(columns: &[KeyColumn], key: &[u8]) -> Option<Vec<Field>> {
    // More than a line shows; the search for the last whole column is quadratic in it.
    let head = key.get(..128).unwrap_or(key);
    let (end, parts) = (0..=head.len()).rev().find_map(|end| Some((end, key::parse(&head[..end]).ok()?)))?;
    if parts.len() > columns.len() {
        return None;
    }
    let fields = parts.iter().zip(columns).map(|(part, column)| field_of_part(column, part));
    let mut fields: Vec<Field> = fields.collect::<Option<_>>()?;
    let next = columns.get(parts.len()).and_then(|column| match head[end..] {
        [0x02, ref text @ ..] => Some(Some(String::from_utf8_lossy(text).into_owned().into_bytes())),
        // An integer or a time whose last bytes are cut off: the smallest one that begins so.
        [code @ 0x15..=0x1c, ref bytes @ ..] => {
            let mut whole = [&[code], bytes].concat();
            whole.resize(1 + usize::from(code - 0x14), 0);
            field_of_part(column, key::parse(&whole).ok()?.first()?)
        }
        _ => None,
    });
    fields.extend(next);
    (!fields.is_empty()).then_some(fields)
}

fn names(columns: &[KeyColumn]) -> String {
    columns.iter().map(KeyColumn::to_string).collect::<Vec<_>>().join(", ")
}

/// The first byte string after all that begin with `prefix`.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The key of the columns' fields, in their order.
pub(crate) fn key_of_texts<'a>(
    columns: &[KeyColumn],
    fields: impl Iterator<Item = Option<&'a [u8]>>,
    round: Round,
) -> Result<Vec<u8>, String> {
    let mut builder = key::Builder::new();
    for (column, field) in columns.iter().zip(fields) {
        builder = builder.part(&part_of_field(column, field, round)?);
    }
    Ok(builder.finish())
}

/// The fields of a key's columns, if the key consists of them and each field reads as the same part
/// again.
pub(crate) fn key_fields(columns: &[KeyColumn], key: &[u8]) -> Option<Vec<Field>> {
    let parts = parts_of(columns, key)?;
    parts.iter().zip(columns).map(|(part, column)| field_of_part(column, part)).collect()
}

fn parts_of(columns: &[KeyColumn], key: &[u8]) -> Option<Vec<Part>> {
    key::parse(key).ok().filter(|parts| parts.len() == columns.len())
}

/// The part that a column's field stands for. No field is a null; an empty one is so unless the
/// column is text.
fn part_of_field(column: &KeyColumn, field: Option<&[u8]>, round: Round) -> Result<Part, String> {
    let KeyColumn(name, kind) = column;
    let text = match field {
        None => return Ok(Part::Null),
        Some([]) if *kind != ColumnType::Text => return Ok(Part::Null),
        Some(text) => str::from_utf8(text).map_err(|_| format!("column {name:?} is not UTF-8"))?,
    };
    let wrong = |what: &str| format!("column {name:?} is {what}: {:?}", shortened(text));
    match kind {
        ColumnType::Text => Ok(Part::Text(text.to_owned())),
        ColumnType::Int => int_of_text(text).map_err(wrong),
        ColumnType::Float => float_of_text(text).map(Part::Float).map_err(wrong),
        ColumnType::Time => time::parse(text, round).map(Part::Int).map_err(|what| wrong(&what)),
    }
}

/// The integer that `text` is.
fn int_of_text(text: &str) -> Result<Part, &'static str> {
    let int = text.parse::<i64>().map(Part::from);
    let int = int.or_else(|_| text.parse::<i128>().map(Part::from));
    int.or_else(|_| text.parse::<u128>().map(Part::from)).map_err(|_| {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            "beyond the largest integer, which has 128 bits"
        } else {
            "not an integer"
        }
    })
}

/// The number that `text` is. Digits that no number holds are not taken for infinity.
fn float_of_text(text: &str) -> Result<f64, &'static str> {
    let float: f64 = text.parse().map_err(|_| "not a number")?;
    if float.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) {
        return Err("beyond the largest 64-bit number, 1.8e308");
    }
    Ok(float)
}

/// The way to keep a row that a key column refuses: a type that takes its text, or an option of
/// `load`.
pub(crate) fn remedy(column: &KeyColumn, field: Option<&[u8]>) -> Option<String> {
    let KeyColumn(name, kind) = column;
    let text = str::from_utf8(field?).ok()?;
    let takes = |kind| part_of_field(&KeyColumn(name.clone(), kind), field, Round::Exact).is_ok();
    if *kind == ColumnType::Time && time::parse(text, Round::Nearest).is_ok() {
        return Some("--round keeps its nearest microsecond".into());
    }
    let kinds = [ColumnType::Int, ColumnType::Float, ColumnType::Time];
    let fits = kinds.into_iter().find(|other| other != kind && takes(*other))?;
    Some(format!("{name}:{} in --key takes it", fits.name()))
}

/// The first column that refuses its field, and why, or the key.
pub(crate) fn key_of_fields<'a>(
    columns: &[KeyColumn],
    fields: impl Iterator<Item = Option<&'a [u8]>> + Clone,
    round: Round,
) -> Result<Vec<u8>, String> {
    key_of_texts(columns, fields.clone(), round).map_err(|what| {
        let refused =
            columns.iter().zip(fields).find(|(column, field)| part_of_field(column, *field, round).is_err());
        match refused.and_then(|(column, field)| remedy(column, field)) {
            Some(remedy) => format!("{what} ({remedy})"),
            None => what,
        }
    })
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The field of a part, if it reads as the same part again.
fn field_of_part(column: &KeyColumn, part: &Part) -> Option<Field> {
    let text = match (part, column.1) {
        (Part::Null, _) => return Some(None),
        (Part::Text(text), ColumnType::Text) => text.clone(),
        (Part::Int(int), ColumnType::Int) => int.to_string(),
        (Part::BigInt(int), ColumnType::Int) => int.to_string(),
        (Part::Float(float), ColumnType::Float) => format!("{float:?}"),
        (Part::Int(micros), ColumnType::Time) => time::print(*micros)?,
        _ => return None,
    };
    let again = part_of_field(column, Some(text.as_bytes()), Round::Exact);
    (again.as_ref() == Ok(part)).then(|| Some(text.into_bytes()))
}

/// The part that a JSON value stands for in a column.
fn part_of_json(column: &KeyColumn, json: &RawValue, round: Round) -> Result<Part, String> {
    let KeyColumn(name, kind) = column;
    let text = match (json.get().as_bytes().first(), kind) {
        (Some(b'n'), _) => return Ok(Part::Null),
        (Some(b'"'), _) => string_of_json(json)?,
        (Some(b'-' | b'0'..=b'9'), ColumnType::Int | ColumnType::Float) => json.get().to_owned(),
        _ => {
            let what = format!("column {name:?} is {}, not {}", kind.name(), shortened(json.get()));
            return Err(match remedy(column, Some(json.get().as_bytes())) {
                Some(remedy) => format!("{what} ({remedy})"),
                None => what,
            });
        }
    };
    part_of_field(column, Some(text.as_bytes()), round).map_err(|what| {
        match remedy(column, Some(text.as_bytes())) {
            Some(remedy) => format!("{what} ({remedy})"),
            None => what,
        }
    })
}

/// A JSON string's text.
pub(crate) fn string_of_json(json: &RawValue) -> Result<String, String> {
    serde_json::from_str(json.get()).map_err(|_| format!("not a string: {}", shortened(json.get())))
}

/// The key of columns whose JSON values `member` looks up. A null is written out as `null`.
pub(crate) fn key_of_json<'a>(
    columns: &[KeyColumn],
    member: impl Fn(&str) -> Option<&'a RawValue>,
    round: Round,
) -> Result<Vec<u8>, String> {
    let mut builder = key::Builder::new();
    for column in columns {
        let json = member(&column.0).ok_or_else(|| {
            format!("there is no member {:?}, a column of the key: write null where there is none", column.0)
        })?;
        builder = builder.part(&part_of_json(column, json, round)?);
    }
    Ok(builder.finish())
}

/// The JSON texts of a key's columns, if the key consists of them.
pub(crate) fn key_json(columns: &[KeyColumn], key: &[u8]) -> Option<Vec<String>> {
    let parts = parts_of(columns, key)?;
    let json = |(part, column): (&Part, &KeyColumn)| {
        let field = field_of_part(column, part)?;
        let text = String::from_utf8(field.unwrap_or_default()).ok()?;
        Some(match part {
            Part::Null => "null".to_owned(),
            Part::Int(_) | Part::BigInt(_) if column.1 == ColumnType::Int => text,
            Part::Float(float) if float.is_finite() => text,
            _ => json_string(&text),
        })
    };
    parts.iter().zip(columns).map(json).collect()
}

/// `text` as a JSON string.
pub(crate) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A part as self-describing JSON. Bytes are `{"hex":"…"}`, floats of 32 bits `{"float32":0.5}`, floats
/// that JSON lacks `{"float":"bits in hex"}` or `{"float32":"bits in hex"}`, UUIDs `{"uuid":"…"}`,
/// versionstamps `{"versionstamp":"12 bytes in hex"}`. An integer that no text stands for has none.
fn tuple_json(part: &Part) -> Option<String> {
    Some(match part {
        Part::Null => "null".into(),
        Part::Bool(bool) => bool.to_string(),
        Part::Int(int) => int.to_string(),
        Part::BigInt(int) => Some(int.to_string()).filter(|text| int_of_text(text).as_ref() == Ok(part))?,
        Part::Float32(float) if float.is_finite() => format!("{{\"float32\":{float:?}}}"),
        Part::Float32(float) => format!("{{\"float32\":\"{:08x}\"}}", float.to_bits()),
        Part::Float(float) if float.is_finite() => format!("{float:?}"),
        Part::Float(float) => format!("{{\"float\":\"{:016x}\"}}", float.to_bits()),
        Part::Text(text) => json_string(text),
        Part::Bytes(bytes) => format!("{{\"hex\":\"{}\"}}", escape::to_hex(bytes)),
        Part::Uuid(_) => format!("{{\"uuid\":\"{part}\"}}"),
        Part::Versionstamp(bytes) => format!("{{\"versionstamp\":\"{}\"}}", escape::to_hex(bytes)),
        Part::Nested(parts) => {
            format!("[{}]", parts.iter().map(tuple_json).collect::<Option<Vec<_>>>()?.join(","))
        }
        _ => return None,
    })
}

/// The parts of a self-describing JSON array.
pub(crate) fn parse_tuple(json: &[u8]) -> Result<Vec<Part>, String> {
    tuple_parts(json, 0)
}

fn tuple_parts(json: &[u8], depth: u32) -> Result<Vec<Part>, String> {
    // As deep as `cantle::key` reads back.
    if depth > 32 {
        return Err("the key nests deeper than 32 levels".into());
    }
    let items: Vec<&RawValue> = serde_json::from_slice(json)
        .map_err(|_| format!("{:?} is not a JSON array", shortened(&String::from_utf8_lossy(json))))?;
    items.into_iter().map(|item| tuple_part(item, depth)).collect()
}

fn tuple_part(item: &RawValue, depth: u32) -> Result<Part, String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Special {
        Hex(String),
        Float(String),
        Float32(Box<RawValue>),
        Uuid(String),
        Versionstamp(String),
    }
    let text = item.get();
    let wrong = || format!("{} is no part of a key", shortened(text));
    Ok(match text.as_bytes().first() {
        Some(b'n') => Part::Null,
        Some(b't') => Part::Bool(true),
        Some(b'f') => Part::Bool(false),
        Some(b'"') => Part::Text(string_of_json(item)?),
        Some(b'[') => Part::Nested(tuple_parts(text.as_bytes(), depth + 1)?),
        Some(b'{') => match serde_json::from_str(text).map_err(|_| wrong())? {
            Special::Hex(hex) => Part::Bytes(escape::from_hex(hex.as_bytes())?),
            Special::Float(bits) => {
                Part::Float(f64::from_bits(u64::from_str_radix(&bits, 16).map_err(|_| wrong())?))
            }
            Special::Float32(json) => {
                let float = match string_of_json(&json) {
                    Ok(bits) => u32::from_str_radix(&bits, 16).map(f32::from_bits).ok(),
                    Err(_) => json.get().parse().ok().filter(|float: &f32| float.is_finite()),
                };
                Part::Float32(float.ok_or_else(wrong)?)
            }
            Special::Uuid(uuid) => {
                let bytes = escape::from_hex(uuid.replace('-', "").as_bytes()).map_err(|_| wrong())?;
                let part = Part::Uuid(bytes.try_into().map_err(|_| wrong())?);
                // Hyphens stand where they do in the usual form.
                Some(part).filter(|part| part.to_string().eq_ignore_ascii_case(&uuid)).ok_or_else(wrong)?
            }
            Special::Versionstamp(hex) => {
                let bytes = escape::from_hex(hex.as_bytes())?;
                Part::Versionstamp(bytes.try_into().map_err(|_| wrong())?)
            }
        },
        _ if text.contains(['.', 'e', 'E']) => {
            Part::Float(float_of_text(text).map_err(|what| format!("{} is {what}", shortened(text)))?)
        }
        _ => int_of_text(text).map_err(|what| format!("{} is {what}", shortened(text)))?,
    })
}

#[cfg(test)]
mod tests;
