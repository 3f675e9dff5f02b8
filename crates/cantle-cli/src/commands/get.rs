//! `cantle get`: the value of one key.

use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::row::write;
use crate::store::{Access, KeyArgs, StoreArgs};
use clap::{Args, ValueEnum};

/// Print the value of a key
///
/// --json prints the pair as one object: its members are those of `cantle scan --json`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Get {
    #[command(flatten)]
    store: StoreArgs,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// The form in which the value is printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    #[command(flatten)]
    keys: KeyArgs,
}

const EXAMPLES: &str = "\
Examples:
  cantle get flights UA,EWR,2013-07-04T10:00:00Z,1506
  cantle get flights UA,EWR,2013-07-04T10:00:00Z,1506 --format json
  cantle get store 'a\\x00b' --format bytes > value";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Its bytes and a line end
    Text,
    /// The pair as a JSON object
    Json,
    /// Hexadecimal digits
    Hex,
    /// Its bytes and nothing else
    Bytes,
}

impl Get {
    pub(crate) fn run(self) -> Outcome {
        let opened = self.store.open(Access::Read)?;
        let (codec, schema) = opened.codec(&self.keys)?;
        let key = codec.parse(self.key.as_bytes()).map_err(Failure::Usage)?;
        let value = opened
            .keyspace
            .get(&key)?
            .ok_or_else(|| Failure::Absent(format!("there is no key {}", self.key)))?;
        let mut output = Output::new();
        match if self.json { Format::Json } else { self.format } {
            Format::Text => output.line(&value)?,
            Format::Json => output.line(write::json_line(&codec, &schema.value, &key, &value))?,
            Format::Hex => output.line(escape::to_hex(&value))?,
            Format::Bytes => output.bytes(&value)?,
        }
        output.finish()
    }
}
