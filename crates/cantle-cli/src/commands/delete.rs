//! `cantle delete`: one key or a range of keys.

use super::scan::RangeArgs;
use crate::failure::{Failure, Outcome};
use crate::store::{Access, KeyArgs, StoreArgs};
use clap::{ArgGroup, Args};

/// Delete a key, or all keys of a range
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("what").required(true).multiple(true).args(["key", "prefix", "from", "to"])),
    after_help = EXAMPLES
)]
pub(crate) struct Delete {
    #[command(flatten)]
    store: StoreArgs,
    /// The key
    #[arg(conflicts_with_all = ["prefix", "from", "to"], allow_hyphen_values = true)]
    key: Option<String>,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    keys: KeyArgs,
}

const EXAMPLES: &str = "\
Examples:
  cantle delete flights UA,EWR,2013-07-04T10:00:00Z,1545
  cantle delete flights --prefix UA,EWR
  cantle delete flights --from DL --to UA";

impl Delete {
    pub(crate) fn run(self) -> Outcome {
        let opened = self.store.open(Access::Write)?;
        let (codec, _) = opened.codec(&self.keys)?;
        match self.key {
            Some(text) => {
                let key = codec.parse(text.as_bytes()).map_err(Failure::Usage)?;
                if !opened.keyspace.contains_key(&key)? {
                    return Err(Failure::Absent(format!("there is no key {text}")));
                }
                opened.keyspace.delete(key)?;
            }
            None => opened.keyspace.delete_range(self.range.bounds(&codec)?)?,
        }
        Ok(opened.db.close()?)
    }
}
