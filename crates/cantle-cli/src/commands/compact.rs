//! `cantle compact`: sorts logs into tables and drops garbage.

use super::scan::RangeArgs;
use crate::failure::Outcome;
use crate::measure::disk::allocated_bytes;
use crate::output::{human_bytes, note};
use crate::store::{Access, KeyArgs, StoreArgs};
use clap::Args;
use std::io;

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
        // What an open store knows of its files leaves out what killed processes appended to logs that nobody has read since; and
        // it sets space aside while it is open.
        let size = || allocated_bytes(&self.store.db);
        let before = size();
        let opened = self.store.open(Access::Write)?;
        let (codec, _) = opened.codec(&self.keys)?;
        opened.keyspace.compact_range(self.range.bounds(&codec)?)?;
        // Files that were replaced go when a checkpoint covers it.
        opened.db.sync()?;
        opened.db.close()?;
        let told = |bytes: io::Result<u64>| bytes.map_or_else(|_| "unknown size".to_owned(), human_bytes);
        note(format_args!(
            "compacted {}: {} before, {} now",
            self.store.db.display(),
            told(before),
            told(size())
        ));
        Ok(())
    }
}
