//! `cantle keyspaces`: the keyspaces of a store.

use crate::failure::{Failure, Outcome};
use crate::output::{Output, human_bytes};
use crate::schema::{Schema, ValueForm};
use crate::store::{Access, DEFAULT_KEYSPACE};
use cantle::{Db, Options};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;

/// List the keyspaces of a store, or drop one
///
/// A line for each: its name, layout, live bytes, and the columns that `load` stored for its keys
/// and values.
///
/// --json prints one object: keyspaces, an array of objects with name, layout, live_bytes, file_bytes, key (an array of
/// COLUMN:TYPE, or null for raw keys) and value ("raw", "json", an array of columns, or null if
/// another program described it). With --drop: dropped, the name.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Keyspaces {
    /// The store's directory
    db: PathBuf,
    /// Drop this keyspace with everything in it
    #[arg(long, value_name = "NAME")]
    drop: Option<String>,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  cantle keyspaces store
  cantle keyspaces store --drop english";

impl Keyspaces {
    pub(crate) fn run(self) -> Outcome {
        let access = if self.drop.is_some() { Access::Write } else { Access::Read };
        let db = access.apply(Options::new()).open(&self.db)?;
        let mut output = Output::new();
        if let Some(name) = &self.drop {
            drop_keyspace(&db, name)?;
            if self.json {
                output.json(&json!({ "dropped": name }))?;
            }
            return output.finish();
        }
        let listed = list(&db)?;
        if self.json {
            let keyspaces: Vec<Value> = listed.iter().map(Listed::as_json).collect();
            output.json(&json!({ "keyspaces": keyspaces }))?;
        } else {
            let width = listed.iter().map(|keyspace| keyspace.name.chars().count()).max().unwrap_or(0);
            for keyspace in &listed {
                output.line(keyspace.line(width).trim_end())?;
            }
        }
        output.finish()
    }
}

fn drop_keyspace(db: &Db, name: &str) -> Outcome {
    if name == DEFAULT_KEYSPACE {
        return Err(Failure::Usage(
            "the keyspace \"default\" belongs to the store: `cantle delete DB --from ''` empties it".into(),
        ));
    }
    if !db.keyspaces()?.iter().any(|known| known == name) {
        return Err(cantle::Error::NoKeyspace(name.to_owned()).into());
    }
    db.drop_keyspace(name)?;
    // Its space comes back with the checkpoint.
    db.sync()?;
    Ok(db.close()?)
}

struct Listed {
    name: String,
    layout: &'static str,
    live_bytes: u64,
    file_bytes: u64,
    /// None where another program wrote the metadata.
    schema: Option<Schema>,
}

fn list(db: &Db) -> Outcome<Vec<Listed>> {
    let stats = db.stats();
    let mut listed = Vec::new();
    for name in db.keyspaces()? {
        let metadata = db.keyspace(&name)?.metadata();
        let sizes = stats.keyspaces.iter().find(|keyspace| keyspace.name == name);
        listed.push(Listed {
            layout: sizes.map_or("", |keyspace| keyspace.layout.name()),
            live_bytes: sizes.map_or(0, |keyspace| keyspace.live_bytes),
            file_bytes: sizes.map_or(0, |keyspace| keyspace.file_bytes()),
            schema: Schema::from_metadata(&metadata).ok(),
            name,
        });
    }
    Ok(listed)
}

impl Listed {
    fn line(&self, width: usize) -> String {
        let columns = match &self.schema {
            None => "described by another program".to_owned(),
            Some(schema) => {
                let key = if schema.key.is_empty() { String::new() } else { format!("key {schema}") };
                let value = match &schema.value {
                    ValueForm::Raw => String::new(),
                    ValueForm::Json => "  value JSON objects".to_owned(),
                    ValueForm::Csv(columns) => format!("  value {}", columns.join(",")),
                };
                key + &value
            }
        };
        format!("{:<width$}  {:<6} {:>8}  {columns}", self.name, self.layout, human_bytes(self.live_bytes))
    }

    fn as_json(&self) -> Value {
        let key = self.schema.as_ref().filter(|schema| !schema.key.is_empty());
        let key = key.map(|schema| schema.key.iter().map(ToString::to_string).collect::<Vec<_>>());
        let value = match self.schema.as_ref().map(|schema| &schema.value) {
            None => Value::Null,
            Some(ValueForm::Raw) => "raw".into(),
            Some(ValueForm::Json) => "json".into(),
            Some(ValueForm::Csv(columns)) => columns.clone().into(),
        };
        json!({
            "name": self.name, "layout": self.layout, "live_bytes": self.live_bytes,
            "file_bytes": self.file_bytes, "key": key, "value": value,
        })
    }
}
