//! `cantle compact`: sorts logs into tables and drops garbage.

use super::scan::RangeArgs;
use crate::failure::Outcome;
use crate::output::{human_bytes, note};
use crate::store::{Access, KeyArgs, StoreArgs};
use clap::Args;

/// Sort logs into tables and drop garbage, over all keys or a range
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Compact {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    keys: KeyArgs,
}

const EXAMPLES: &str = "\
Examples:
  cantle compact flights
  cantle compact flights --prefix UA";

impl Compact {
    pub(crate) fn run(self) -> Outcome {
        let opened = self.store.open(Access::Write)?;
        let (codec, _) = opened.codec(&self.keys)?;
        let before = opened.db.stats().disk_bytes;
        opened.keyspace.compact_range(self.range.bounds(&codec)?)?;
        // Files that were replaced go when a checkpoint covers it.
        opened.db.sync()?;
        let after = opened.db.stats().disk_bytes;
        note(format_args!(
            "compacted {}: {} before, {} now",
            self.store.db.display(),
            human_bytes(before),
            human_bytes(after)
        ));
        Ok(opened.db.close()?)
    }
}
