//! `cantle put`: sets one key.

use crate::failure::{Failure, Outcome};
use crate::row::value_of_bytes;
use crate::store::{Access, KeyArgs, StoreArgs};
use clap::Args;
use std::io::{self, Read};

/// Set the value of a key
///
/// The value must have the columns that the keyspace's values have, as a CSV record or a JSON object; in a
/// keyspace of raw values it is taken as it is. A store that does not exist is created.
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
}

const EXAMPLES: &str = "\
Examples:
  cantle put store greeting 'hello, world'
  cantle put store picture - < picture.png
  cantle put routes UA,EWR,1545 IAH,1400";

impl Put {
    pub(crate) fn run(self) -> Outcome {
        let opened = self.store.open(Access::Create)?;
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
        } else {
            self.value.into_bytes()
        };
        opened.keyspace.put(key, value_of_bytes(&schema.value, value).map_err(Failure::Usage)?)?;
        Ok(opened.db.close()?)
    }
}
