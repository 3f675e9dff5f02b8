//! `cantle verify`: reads every file and checks it.

use crate::failure::{Failure, Outcome};
use crate::output::{Output, counted, human_bytes};
use crate::store::{Access, StoreArgs};
use clap::Args;
use serde_json::json;

/// Read every file of a store and check it; exit 1 if there is damage
///
/// All keyspaces are read: their files share directories and records.
///
/// --json prints one object: ok, files, bytes, entries, damage (an array of texts), unknown_files (an array of paths).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Verify {
    #[command(flatten)]
    store: StoreArgs,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  cantle verify flights
  cantle verify flights --json";

impl Verify {
    pub(crate) fn run(self) -> Outcome {
        let report = self.store.open_db(Access::Read)?.verify()?;
        let damage: Vec<String> = report.damage.iter().map(ToString::to_string).collect();
        let unknown: Vec<String> =
            report.unknown_files.iter().map(|path| path.display().to_string()).collect();
        let mut output = Output::new();
        if self.json {
            output.json(&json!({
                "ok": report.is_ok(), "files": report.files, "bytes": report.bytes, "entries": report.entries,
                "damage": damage, "unknown_files": unknown,
            }))?;
        } else {
            for what in &damage {
                output.line(what)?;
            }
            for path in &unknown {
                output.line(format!("{path} does not belong to the store (harmless)"))?;
            }
            output.line(format!(
                "{}, {}, {}: {}",
                counted(report.files, "file", "files"),
                human_bytes(report.bytes),
                counted(report.entries, "entry", "entries"),
                if damage.is_empty() {
                    "no damage".to_owned()
                } else {
                    counted(damage.len() as u64, "damaged place", "damaged places")
                },
            ))?;
        }
        output.finish()?;
        if report.is_ok() {
            return Ok(());
        }
        let path = self.store.db.display();
        Err(Failure::Damage(format!(
            "{path} is damaged: restore the files named from a backup, or see `cantle repair`"
        )))
    }
}
