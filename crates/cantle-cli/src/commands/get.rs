//! `cantle get`: the value of one key, or the pairs of several keys.

use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::keyfmt::KeyCodec;
use crate::output::{Output, note};
use crate::row::write;
use crate::schema::ValueForm;
use crate::store::{Access, KeyArgs, StoreArgs};
use clap::{Args, ValueEnum};

/// Print the value of a key, or the pairs of several keys
///
/// Several keys are read together, as of one point in time. Their pairs are printed in the order of
/// the keys, one a line, as `cantle scan` prints them. Each key that is absent is named on standard
/// error, and the exit code is 1 then.
///
/// --json prints one object for each pair, a line each: its members are those of `cantle scan
/// --json`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Get {
    #[command(flatten)]
    store: StoreArgs,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// Further keys; -- comes before one that begins with a hyphen and is no number
    // Options may follow the keys: `allow_hyphen_values` would take them for keys here.
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    more: Vec<String>,
    /// The form in which the value, or each pair, is printed
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
  cantle get flights UA,EWR,2013-07-04T10:00:00Z,1506 UA,EWR,2013-07-04T10:00:00Z,542
  cantle get flights UA,EWR,2013-07-04T10:00:00Z,1506 --format json
  cantle get store 'a\\x00b' --format bytes > value";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The value's bytes and a line end; of several keys the pairs, as CSV rows or key, tab, value
    Text,
    /// A JSON object for each pair
    Json,
    /// The value in hexadecimal; of several keys the pairs, as key, tab, value
    Hex,
    /// The value's bytes and nothing else; for one key only
    Bytes,
}

impl Get {
    pub(crate) fn run(self) -> Outcome {
        let format = if self.json { Format::Json } else { self.format };
        if self.more.is_empty() { self.print_value(format) } else { self.print_pairs(format) }
    }

    fn print_value(&self, format: Format) -> Outcome {
        let opened = self.store.open(Access::Read)?;
        let (codec, schema) = opened.codec(&self.keys)?;
        let key = codec.parse(self.key.as_bytes()).map_err(Failure::Usage)?;
        let value = opened.keyspace.get(&key)?.ok_or_else(|| Failure::Absent(absent(&self.key)))?;
        let mut output = Output::new();
        match format {
            Format::Text => output.line(&value)?,
            Format::Json => output.line(write::json_line(&codec, &schema.value, &key, &value))?,
            Format::Hex => output.line(escape::to_hex(&value))?,
            Format::Bytes => output.bytes(&value)?,
        }
        output.finish()
    }

    fn print_pairs(&self, format: Format) -> Outcome {
        let line: fn(&KeyCodec, &ValueForm, &[u8], &[u8]) -> Vec<u8> = match format {
            Format::Text => write::text_line,
            Format::Json => write::json_line,
            Format::Hex => |_, _, key, value| write::hex_line(key, value),
            Format::Bytes => {
                return Err(Failure::Usage(
                    "--format bytes prints the value of one key only: give one key, or another format".into(),
                ));
            }
        };
        let opened = self.store.open(Access::Read)?;
        let (codec, schema) = opened.codec(&self.keys)?;
        let texts: Vec<&String> = std::iter::once(&self.key).chain(&self.more).collect();
        let keys = texts.iter().map(|text| codec.parse(text.as_bytes()).map_err(Failure::Usage));
        let keys = keys.collect::<Outcome<Vec<_>>>()?;
        let mut output = Output::new();
        // Messages about keys that have no line.
        let (mut messages, mut exit_code) = (Vec::new(), 0);
        for ((text, key), found) in texts.iter().zip(&keys).zip(opened.keyspace.get_many(&keys)) {
            let failure = match found {
                Ok(Some(value)) => {
                    output.line(line(&codec, &schema.value, key, &value))?;
                    continue;
                }
                Ok(None) => Failure::Absent(absent(text)),
                Err(error) => Failure::from(error),
            };
            exit_code = exit_code.max(failure.exit_code());
            messages.push(match failure {
                Failure::Absent(message) => message,
                other => format!("{text}: {}", other.message().unwrap_or_default()),
            });
        }
        output.finish()?;
        messages.iter().for_each(|message| note(format_args!("cantle: {message}")));
        if exit_code == 0 { Ok(()) } else { Err(Failure::Reported(exit_code)) }
    }
}

fn absent(key: &str) -> String {
    format!("there is no key {key}")
}
