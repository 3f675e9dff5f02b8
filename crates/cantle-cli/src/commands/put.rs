//! `cantle put`: sets one key.

use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::row::value_of_bytes;
use crate::schema::ValueForm;
use crate::store::{Access, KeyArgs, NewStore, Opened, StoreArgs};
use clap::Args;
use serde_json::json;
use std::io::{self, Read};

/// Set the value of a key
///
/// The value must have the columns that the keyspace's values have, as a CSV record. In a keyspace
/// of JSON it is any JSON, in one of raw values text with \\, \t, \n, \r and \xNN, as keys are and
/// as `cantle scan` prints both. A store that does not exist is created, in a directory that does.
///
/// --json prints one object: replaced, true if the key had a value.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Put {
    #[command(flatten)]
    store: StoreArgs,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// The value; - takes it from standard input, byte by byte
    #[arg(allow_hyphen_values = true)]
    value: String,
    #[command(flatten)]
    keys: KeyArgs,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  cantle put store greeting 'hello,\tworld'
  cantle put store picture - < picture.png
  cantle put routes UA,EWR,1545 IAH,1400";

impl Put {
    pub(crate) fn run(self) -> Outcome {
        let new = NewStore::before(&self.store)?;
        let opened = self.store.open(Access::Create)?;
        let (key, value) = match self.pair(&opened) {
            Ok(pair) => pair,
            Err(failure) => {
                new.undo(opened)?;
                return Err(failure);
            }
        };
        let replaced = self.json && opened.keyspace.contains_key(&key)?;
        opened.keyspace.put(key, value)?;
        opened.db.close()?;
        if self.json {
            let mut output = Output::new();
            output.json(&json!({ "replaced": replaced }))?;
            output.finish()?;
        }
        Ok(())
    }

    fn pair(&self, opened: &Opened) -> Outcome<(Vec<u8>, Vec<u8>)> {
        let (codec, schema) = opened.codec(&self.keys)?;
        let key = codec.parse(self.key.as_bytes()).map_err(Failure::Usage)?;
        let value = if self.value == "-" {
            let mut value = Vec::new();
            // One byte over the store's limit is enough for the store to refuse it.
            io::stdin()
                .take((1 << 30) + 1)
                .read_to_end(&mut value)
                .map_err(|error| Failure::Failed(format!("cannot read standard input: {error}")))?;
            value
        } else if schema.value == ValueForm::Raw {
            escape::unescape(self.value.as_bytes())
                .map_err(|what| Failure::Usage(format!("the value {:?}: {what}", self.value)))?
        } else {
            self.value.clone().into_bytes()
        };
        Ok((key, value_of_bytes(&schema.value, value).map_err(Failure::Usage)?))
    }
}
