//! The types of a keyspace, kept as its metadata.
//!
//! The command keeps the columns of keys in the same place. Both are one JSON object, of which each
//! reads its members and leaves the others:
//!
//! ```text
//! {"cantle":1,"key":[["key1","text"],["key2","time"]],"value":"json","types":{"key":["text","time"],"value":"Flight","codec":"json"}}
//!             └─ columns, for the command            └─ its form    └─ types of keys, the type of values and their encoding, for this module
//! ```
//!
//! The command knows the types `text`, `int`, `float` and `time`; where a key has others, `key` is
//! an empty list, and to the command keys are bytes. A keyspace without `types` that the command
//! filled opens with the types of its columns, and gets `types` then; so does one without pairs.

use super::json::Json;
use super::value::ValueCodec;
use crate::db::Keyspace;
use crate::key::kind::Kind;
use crate::types::error::{Error, Result};
use crate::types::order::BYTEWISE;

/// The version of the metadata that the command and this module write.
const VERSION: &str = "1";

/// The encoding that the command knows as well.
const JSON: &str = "json";

/// The type of values that may be any.
const ANY: &str = "any";

/// The types that a keyspace is opened with.
struct Types {
    key: Vec<String>,
    value: String,
    codec: &'static str,
}

/// Makes sure that the keyspace has these types, and records them in one that has none yet.
pub(super) fn agree<K: Kind, V: ValueCodec>(keyspace: &Keyspace) -> Result<()> {
    let types = Types { key: K::parts(), value: V::type_name(), codec: V::CODEC };
    if keyspace.comparator_name() != BYTEWISE {
        return Err(mismatch(keyspace, "comparator", keyspace.comparator_name(), BYTEWISE));
    }
    loop {
        let stored = keyspace.metadata();
        let Some(metadata) = types.adopt(keyspace, &stored)? else { return Ok(()) };
        match keyspace.compare_and_swap_metadata(&stored, metadata.to_string().as_bytes()) {
            // Another thread was faster: its types count.
            Ok(false) => {}
            // The types fit; they are recorded by whoever may write.
            Ok(true) | Err(Error::ReadOnly { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn mismatch(keyspace: &Keyspace, option: &'static str, stored: &str, given: &str) -> Error {
    Error::OptionMismatch {
        keyspace: keyspace.name().to_owned(),
        option,
        stored: stored.to_owned(),
        given: given.to_owned(),
    }
}

fn foreign(keyspace: &Keyspace, what: &str) -> Error {
    Error::InvalidArgument(format!("keyspace {:?} cannot be opened with types: {what}", keyspace.name()))
}

/// The command's type of a part.
fn column_type(name: &str) -> Option<&'static str> {
    Some(match name.strip_suffix('?').unwrap_or(name) {
        "text" => "text",
        "int" => "int",
        "float" => "float",
        "time" | "date" => "time",
        _ => return None,
    })
}

fn texts(list: &[Json]) -> Option<Vec<String>> {
    list.iter().map(|item| item.as_text().map(str::to_owned)).collect()
}

impl Types {
    /// The metadata that a keyspace with these is to have, if it has others that allow for them.
    fn adopt(&self, keyspace: &Keyspace, stored: &[u8]) -> Result<Option<Json>> {
        if stored.is_empty() {
            if let Some(pair) = keyspace.range(..).next() {
                pair?;
                return Err(foreign(
                    keyspace,
                    "it has pairs without types: copy them into one that has types",
                ));
            }
            return Ok(Some(self.metadata()));
        }
        let unknown = || foreign(keyspace, "its metadata are those of another program");
        let document = Json::parse(stored).ok_or_else(unknown)?;
        match document.get("cantle") {
            Some(Json::Plain(version)) if version == VERSION => {}
            Some(Json::Plain(version)) => {
                let what = format!(
                    "its types are described in version {version}, and this library reads version {VERSION}: use a newer one"
                );
                return Err(foreign(keyspace, &what));
            }
            _ => return Err(unknown()),
        }
        if let Some(types) = document.get("types") {
            let key = types.get("key").and_then(Json::as_list).and_then(texts).ok_or_else(unknown)?;
            let text = |name| types.get(name).and_then(Json::as_text).ok_or_else(unknown);
            self.compare(keyspace, "key types", &key.join(", "), &self.key.join(", "))?;
            self.compare(keyspace, "value encoding", text("codec")?, self.codec)?;
            // JSON of any type, as a language without types of its own writes it, is for each type
            // to read.
            let value = text("value")?;
            if (self.codec, value) != (JSON, ANY) {
                self.compare(keyspace, "value type", value, &self.value)?;
            }
            return Ok(None);
        }
        self.compare_columns(keyspace, &document).ok_or_else(unknown)??;
        let Json::Object(mut members) = document else { return Err(unknown()) };
        members.push(("types".into(), self.types()));
        Ok(Some(Json::Object(members)))
    }

    fn compare(&self, keyspace: &Keyspace, option: &'static str, stored: &str, given: &str) -> Result<()> {
        if stored == given { Ok(()) } else { Err(mismatch(keyspace, option, stored, given)) }
    }

    /// Compares with the columns that the command recorded; `None` if it did not.
    fn compare_columns(&self, keyspace: &Keyspace, document: &Json) -> Option<Result<()>> {
        let columns: Option<Vec<&str>> = document
            .get("key")?
            .as_list()?
            .iter()
            .map(|column| column.as_list()?.get(1)?.as_text())
            .collect();
        let columns = columns?;
        let ours: Vec<_> = self.key.iter().map(|name| column_type(name)).collect();
        let value = match document.get("value")? {
            Json::Text(form) => form.as_str(),
            Json::Object(_) => "csv",
            _ => return None,
        };
        if columns.is_empty() || !columns.iter().copied().map(Some).eq(ours) {
            let stored = if columns.is_empty() { "bytes".into() } else { columns.join(", ") };
            return Some(Err(mismatch(keyspace, "key types", &stored, &self.key.join(", "))));
        }
        Some(self.compare(keyspace, "value encoding", value, self.form()))
    }

    /// The command's name of the values' form.
    fn form(&self) -> &'static str {
        if self.codec == JSON { JSON } else { "raw" }
    }

    fn types(&self) -> Json {
        Json::Object(vec![
            ("key".into(), Json::List(self.key.iter().map(|name| Json::text(name)).collect())),
            ("value".into(), Json::text(&self.value)),
            ("codec".into(), Json::text(self.codec)),
        ])
    }

    fn metadata(&self) -> Json {
        let column = |(index, name): (usize, &String)| {
            Some(Json::List(vec![Json::Text(format!("key{}", index + 1)), Json::text(column_type(name)?)]))
        };
        let columns: Option<Vec<_>> = self.key.iter().enumerate().map(column).collect();
        Json::Object(vec![
            ("cantle".into(), Json::Plain(VERSION.into())),
            ("key".into(), Json::List(columns.unwrap_or_default())),
            ("value".into(), Json::text(self.form())),
            ("types".into(), self.types()),
        ])
    }
}
