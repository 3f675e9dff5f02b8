//! `cantle backup`: a copy of a store that is a store.

use crate::failure::Outcome;
use crate::monitored::Monitored;
use crate::output::{Output, human_bytes, note};
use crate::store::{Access, StoreArgs};
use cantle::Options;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Copy a store to a new directory; the copy is a store that opens
///
/// A program that has the store open, with the option `monitor`, writes the copy itself.
///
/// --json prints one object: path and bytes, of the copy.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backup {
    #[command(flatten)]
    store: StoreArgs,
    /// The directory to create
    to: PathBuf,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  cantle backup flights flights-2013
  cantle scan flights-2013 --limit 3";

impl Backup {
    pub(crate) fn run(self) -> Outcome {
        match Monitored::find(&self.store.db) {
            Some(elsewhere) => elsewhere.backup(&self.to)?,
            None => {
                let db = self.store.open_db(Access::Write)?;
                db.backup(&self.to)?;
                db.close()?;
            }
        }
        // A backup that does not open is none.
        let copy = Options::new().read_only(true).create_if_missing(false).open(&self.to)?;
        let bytes = copy.stats().disk_bytes;
        if self.json {
            let mut output = Output::new();
            output.json(&json!({ "path": self.to.display().to_string(), "bytes": bytes }))?;
            return output.finish();
        }
        note(format_args!("backed up to {}: {}", self.to.display(), human_bytes(bytes)));
        Ok(())
    }
}
