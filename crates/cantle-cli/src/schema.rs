//! The columns of a keyspace's keys and values, kept as the keyspace's metadata.
//!
//! `load` writes it, everything else reads it. It is a compact JSON object with a version:
//! `{"cantle":1,"key":[["carrier","text"],["flight","int"]],"value":{"csv":["dest","distance"]}}`;
//! `value` is `{"csv":[columns]}`, `"json"` or `"raw"`. A program that opened the keyspace with types
//! adds the member `types`, which is carried along. Empty metadata stand for raw keys and raw values.

use crate::csvtext;
use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The version of the metadata that this program writes and reads.
const VERSION: u32 = 1;

/// The type of a column of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ColumnType {
    /// UTF-8, as it is.
    Text,
    /// An integer of at most 128 bits, with or without sign.
    Int,
    /// A 64-bit float.
    Float,
    /// RFC 3339, kept as UTC microseconds.
    Time,
}

impl ColumnType {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Int => "int",
            Self::Float => "float",
            Self::Time => "time",
        }
    }
}

/// One column of the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyColumn(pub(crate) String, pub(crate) ColumnType);

impl fmt::Display for KeyColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1.name())
    }
}

/// The key's columns as the command line gives them: `COL[:text|int|float|time],…`, CSV-quoted
/// where a name holds a comma.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyColumns(pub(crate) Vec<KeyColumn>);

impl FromStr for KeyColumns {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut columns: Vec<KeyColumn> = Vec::new();
        for name in names(text)? {
            let (name, kind) = match name.rsplit_once(':') {
                None => (name.as_str(), ColumnType::Text),
                Some((name, "text")) => (name, ColumnType::Text),
                Some((name, "int")) => (name, ColumnType::Int),
                Some((name, "float")) => (name, ColumnType::Float),
                Some((name, "time")) => (name, ColumnType::Time),
                Some((_, other)) => {
                    return Err(format!("{other:?} is not a type: text, int, float and time are"));
                }
            };
            if name.is_empty() {
                return Err("a column has no name".into());
            }
            if columns.iter().any(|column| column.0 == name) {
                return Err(format!("column {name:?} is named twice"));
            }
            columns.push(KeyColumn(name.to_owned(), kind));
        }
        Ok(Self(columns))
    }
}

/// The values' columns as the command line gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueColumns(pub(crate) Vec<String>);

impl FromStr for ValueColumns {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let names = names(text)?;
        match names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
            Some((_, twice)) => Err(format!("column {twice:?} is named twice")),
            None => Ok(Self(names)),
        }
    }
}

fn names(text: &str) -> Result<Vec<String>, String> {
    csvtext::split(text.as_bytes())?
        .into_iter()
        .map(|name| match String::from_utf8(name.unwrap_or_default()) {
            Ok(name) if !name.is_empty() => Ok(name),
            _ => Err("a column has no name".to_owned()),
        })
        .collect()
}

/// The form of values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ValueForm {
    /// Any bytes.
    #[default]
    Raw,
    /// A CSV record of these columns.
    Csv(Vec<String>),
    /// JSON: objects where `load` made it, any value where a program or `put` did.
    Json,
}

/// The columns of keys, and the form of values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Schema {
    /// The key's columns; none for raw keys.
    pub(crate) key: Vec<KeyColumn>,
    /// The form of values.
    pub(crate) value: ValueForm,
    /// The types that a program opened the keyspace with, in the library's own words.
    pub(crate) types: Option<serde_json::Value>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    cantle: u32,
    key: Vec<KeyColumn>,
    value: ValueForm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    types: Option<serde_json::Value>,
}

impl Schema {
    /// Reads a keyspace's metadata.
    pub(crate) fn from_metadata(metadata: &[u8]) -> Result<Self, String> {
        if metadata.is_empty() {
            return Ok(Self::default());
        }
        let value: serde_json::Value = serde_json::from_slice(metadata)
            .map_err(|_| "its metadata were not written by `cantle load`".to_owned())?;
        match value.get("cantle").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => {
                return Err(format!(
                    "its key columns are described in version {version}; this program reads version {VERSION}: \
                     use a newer one"
                ));
            }
            None => return Err("its metadata were not written by `cantle load`".into()),
        }
        let stored: Stored = serde_json::from_value(value)
            .map_err(|error| format!("its key columns cannot be understood: {error}"))?;
        Ok(Self { key: stored.key, value: stored.value, types: stored.types })
    }

    /// The metadata that describe this; empty for raw keys and values.
    pub(crate) fn to_metadata(&self) -> Result<Vec<u8>, Failure> {
        if *self == Self::default() {
            return Ok(Vec::new());
        }
        let stored = Stored {
            cantle: VERSION,
            key: self.key.clone(),
            value: self.value.clone(),
            types: self.types.clone(),
        };
        Ok(serde_json::to_vec(&stored)?)
    }
}

/// The key's columns in one line, as `load --key` takes them.
impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<String> = self.key.iter().map(KeyColumn::to_string).collect();
        f.write_str(&String::from_utf8_lossy(&csvtext::record(&columns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_comes_back_from_its_metadata() {
        let key: KeyColumns = "carrier,\"a,b:int\",at:time,x:y:float".parse().unwrap();
        assert_eq!(key.0[1], KeyColumn("a,b".into(), ColumnType::Int));
        assert_eq!(key.0[3], KeyColumn("x:y".into(), ColumnType::Float));
        for value in [ValueForm::Raw, ValueForm::Json, ValueForm::Csv(vec!["ä".into(), "b".into()])] {
            let schema = Schema { key: key.0.clone(), value, types: None };
            let metadata = schema.to_metadata().unwrap();
            assert_eq!(Schema::from_metadata(&metadata), Ok(schema.clone()));
            assert_eq!(schema.to_string().parse::<KeyColumns>().unwrap(), key);
        }
        assert_eq!(Schema::default().to_metadata().unwrap(), b"");
        assert_eq!(Schema::from_metadata(b""), Ok(Schema::default()));
    }

    #[test]
    fn metadata_are_compact_and_carry_a_version() {
        let schema = Schema {
            key: "c,n:int".parse::<KeyColumns>().unwrap().0,
            value: ValueForm::Csv(vec!["dest".into()]),
            types: None,
        };
        let text = r#"{"cantle":1,"key":[["c","text"],["n","int"]],"value":{"csv":["dest"]}}"#;
        assert_eq!(String::from_utf8(schema.to_metadata().unwrap()).unwrap(), text);
        let newer = text.replace("\"cantle\":1", "\"cantle\":2");
        assert!(Schema::from_metadata(newer.as_bytes()).unwrap_err().contains("newer"));
    }

    #[test]
    fn types_of_a_program_come_back_as_they_were() {
        for text in [
            r#"{"cantle":1,"key":[["key1","text"]],"value":"raw","types":{"key":["text"],"value":"String","codec":"text"}}"#,
            r#"{"cantle":1,"key":[],"value":"raw","types":{"key":["bool"],"value":"u64","codec":"int"}}"#,
        ] {
            let schema = Schema::from_metadata(text.as_bytes()).unwrap();
            assert!(schema.types.is_some());
            let again = schema.to_metadata().unwrap();
            assert_eq!(Schema::from_metadata(&again), Ok(schema));
            let value = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
            assert_eq!(value(&again), value(text.as_bytes()));
        }
    }

    #[test]
    fn metadata_of_others_are_refused() {
        for bytes in
            ["x", "{}", "[]", "{\"cantle\":1}", "{\"cantle\":1,\"key\":[[\"a\",\"b\"]],\"value\":\"raw\"}"]
        {
            assert!(Schema::from_metadata(bytes.as_bytes()).is_err(), "{bytes}");
        }
    }

    #[test]
    fn columns_without_name_or_named_twice_are_refused() {
        for wrong in ["", "a,", "a,a:int", ":int", "a:integer", "\"a"] {
            assert!(wrong.parse::<KeyColumns>().is_err(), "{wrong}");
        }
        assert!("a,b,a".parse::<ValueColumns>().is_err());
    }
}
