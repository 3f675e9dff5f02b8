//! `cantle delete`: one key or a range of keys.

use super::scan::RangeArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, counted, note};
use crate::store::{Access, KeyArgs, StoreArgs};
use clap::{ArgGroup, Args};
use serde_json::json;

/// Delete a key, or all keys of a range, and tell how many
///
/// --json prints one object: deleted, found, dry_run.
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
    /// Only tell how many pairs there are to delete
    #[arg(long)]
    dry_run: bool,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  cantle delete flights UA,EWR,2013-07-04T10:00:00Z,1506
  cantle delete flights --prefix UA,EWR --dry-run
  cantle delete flights --from DL --to UA";

impl Delete {
    pub(crate) fn run(self) -> Outcome {
        let opened = self.store.open(if self.dry_run { Access::Read } else { Access::Write })?;
        let (codec, _) = opened.codec(&self.keys)?;
        let deleted = match &self.key {
            Some(text) => {
                let key = codec.parse(text.as_bytes()).map_err(Failure::Usage)?;
                if !opened.keyspace.contains_key(&key)? {
                    return Err(Failure::Absent(format!("there is no key {text}")));
                }
                if !self.dry_run {
                    opened.keyspace.delete(key)?;
                }
                1
            }
            None => {
                let bounds = self.range.bounds(&codec)?;
                let mut pairs = 0_u64;
                for pair in opened.keyspace.range(bounds.clone()) {
                    pair?;
                    pairs += 1;
                }
                if !self.dry_run && pairs > 0 {
                    opened.keyspace.delete_range(bounds)?;
                }
                pairs
            }
        };
        opened.db.close()?;
        if self.json {
            let mut output = Output::new();
            output.json(&json!({ "deleted": if self.dry_run { 0 } else { deleted }, "found": deleted, "dry_run": self.dry_run }))?;
            return output.finish();
        }
        let done = if self.dry_run { "would delete" } else { "deleted" };
        note(format_args!("{done} {}", counted(deleted, "pair", "pairs")));
        Ok(())
    }
}
