//! `cantle compact`: sorts logs into tables and drops garbage.

use super::scan::RangeArgs;
use crate::failure::Outcome;
use crate::measure::disk::allocated_bytes;
use crate::output::{Output, human_bytes, note};
use crate::store::{Access, KeyArgs, StoreArgs};
use clap::Args;
use serde_json::json;
use std::io;

/// Sort logs into tables and drop garbage, over all keys or a range
///
/// --json prints one object: bytes_before and bytes_after, of the store's directory (null where they cannot be read).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Compact {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    keys: KeyArgs,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  cantle compact flights
  cantle compact flights --prefix UA";

impl Compact {
    pub(crate) fn run(self) -> Outcome {
        // An open store sets space aside, so that its files are measured before and after.
        let size = || allocated_bytes(&self.store.db);
        let before = size();
        let opened = self.store.open(Access::Write)?;
        let (codec, _) = opened.codec(&self.keys)?;
        opened.keyspace.compact_range(self.range.bounds(&codec)?)?;
        // Files that were replaced go when a checkpoint covers the change.
        opened.db.sync()?;
        opened.db.close()?;
        let after = size();
        if self.json {
            let mut output = Output::new();
            output.json(&json!({ "bytes_before": before.ok(), "bytes_after": after.ok() }))?;
            return output.finish();
        }
        let told = |bytes: io::Result<u64>| bytes.map_or_else(|_| "unknown size".to_owned(), human_bytes);
        note(format_args!(
            "compacted {}: {} before, {} now",
            self.store.db.display(),
            told(before),
            told(after)
        ));
        Ok(())
    }
}
