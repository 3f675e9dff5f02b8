//! `cantle repair`: what is left of a damaged store, in a new one.

use crate::failure::{Failure, Outcome};
use crate::keyfmt::KeyCodec;
use crate::output::{Output, counted, human_bytes, note};
use crate::progress::Progress;
use crate::schema::Schema;
use crate::tuning::Tuning;
use cantle::Options;
use cantle::repair::RepairReport;
use clap::Args;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Save what is left of a damaged store into a new one; exit 1 if something could not be saved
///
/// The damaged store is only read. The new one has every pair whose bytes are intact, with its
/// newest intact value, in all keyspaces. The report has each damaged place, each file that was
/// left out, and the keys whose newest value may be lost. With a whole manifest an undamaged store
/// comes out as it is; without one, names of keyspaces may be lost, and pairs that had been deleted
/// may be back.
///
/// --json prints one object: ok, keyspaces (name, pairs, bytes), files, bytes, damage (an array of texts),
/// damage_untold, left_out (path, why, loses), uncertain (keyspace, from, to, path, offset),
/// uncertain_untold, may_return (keyspace, from, to, path), may_return_untold, notes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Repair {
    /// The damaged store's directory
    db: PathBuf,
    /// The new store's directory, which must not exist
    new: PathBuf,
    /// Keep what was written since the last checkpoint, though nothing proves that it has no gaps;
    /// before the store is opened
    #[arg(long)]
    keep_left_behind: bool,
    /// The report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Options of the new store")]
    tuning: Tuning,
}

const EXAMPLES: &str = "\
Examples:
  cantle repair flights flights.repaired
  cantle repair flights flights.repaired --json > report.json
  cantle repair flights flights.repaired --keep-left-behind
  cantle verify flights.repaired";

impl Repair {
    pub(crate) fn run(self) -> Outcome {
        let options = self.tuning.options().default_keyspace(self.tuning.keyspace_options());
        let options = options.keep_left_behind(self.keep_left_behind);
        let mut progress: Option<Progress> = None;
        let report = cantle::Db::repair_with(&self.db, &self.new, options, |step| {
            let shown = progress.get_or_insert_with(|| Progress::new("repairing", Some(step.total_bytes)));
            shown.set(step.pairs, step.bytes);
        })?;
        drop(progress);
        let keys = Keys::of(&self.new, &report)?;
        let mut output = Output::new();
        if self.json {
            output.json(&as_json(&report, &keys))?;
        } else {
            for line in lines(&report, &keys) {
                output.line(line)?;
            }
        }
        output.finish()?;
        note(format_args!(
            "saved {} of {}, {}, to {}",
            counted(report.pairs(), "pair", "pairs"),
            counted(report.files, "file", "files"),
            human_bytes(report.bytes),
            self.new.display(),
        ));
        if report.is_ok() {
            return Ok(());
        }
        Err(Failure::Damage(format!(
            "{} was damaged: what {} has is what is left",
            self.db.display(),
            self.new.display()
        )))
    }
}

fn lines(report: &RepairReport, keys: &Keys) -> Vec<String> {
    let mut lines: Vec<String> = report.damage.iter().map(ToString::to_string).collect();
    let more = |count: u64, one: &str, many: &str| {
        (count > 0).then(|| format!("… and {}", counted(count, one, many)))
    };
    lines.extend(more(report.damage_untold, "more damaged place", "more damaged places"));
    for left in &report.left_out {
        let harmless = if left.loses { "" } else { " (harmless)" };
        lines.push(format!("left out {}: {}{harmless}", left.path.display(), left.why));
    }
    for range in &report.uncertain {
        lines.push(format!(
            "keyspace {:?}: pairs may be missing or of before {}, by {} at offset {}",
            range.keyspace,
            keys.range(&range.keyspace, &range.keys),
            range.path.display(),
            range.offset
        ));
    }
    lines.extend(more(report.uncertain_untold, "more range of keys", "more ranges of keys"));
    for range in &report.may_return {
        lines.push(format!(
            "keyspace {:?}: deleted pairs may be back {}, from {}",
            range.keyspace,
            keys.range(&range.keyspace, &range.keys),
            range.path.display()
        ));
    }
    lines.extend(more(report.may_return_untold, "more range of keys", "more ranges of keys"));
    lines.extend(report.notes.iter().cloned());
    for keyspace in &report.keyspaces {
        lines.push(format!(
            "keyspace {:?}: {}, {}",
            keyspace.name,
            counted(keyspace.pairs, "pair", "pairs"),
            human_bytes(keyspace.bytes)
        ));
    }
    lines
}

/// The codec of each keyspace's keys.
struct Keys(HashMap<String, KeyCodec>);

impl Keys {
    /// By the columns that `load` stored, where the new store has them.
    fn of(new: &Path, report: &RepairReport) -> Outcome<Self> {
        let mut codecs = HashMap::new();
        if report.uncertain.is_empty() && report.may_return.is_empty() {
            return Ok(Self(codecs));
        }
        let db = Options::new().read_only(true).create_if_missing(false).open(new)?;
        for keyspace in &report.keyspaces {
            let metadata = db.keyspace(&keyspace.name)?.metadata();
            let schema = Schema::from_metadata(&metadata).unwrap_or_default();
            codecs.insert(keyspace.name.clone(), KeyCodec::new(None, &schema));
        }
        Ok(Self(codecs))
    }

    fn show(&self, keyspace: &str, key: &[u8]) -> String {
        self.0.get(keyspace).unwrap_or(&KeyCodec::Raw).show(key)
    }

    fn range(&self, keyspace: &str, keys: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> String {
        let show = |key: &[u8]| self.show(keyspace, key);
        let start = match &keys.0 {
            Bound::Unbounded => "from the first key".to_owned(),
            Bound::Included(start) => format!("from {}", show(start)),
            Bound::Excluded(start) => format!("behind {}", show(start)),
        };
        let end = match &keys.1 {
            Bound::Unbounded => "to the last".to_owned(),
            Bound::Included(end) => format!("to {}", show(end)),
            Bound::Excluded(end) => format!("to before {}", show(end)),
        };
        format!("{start} {end}")
    }
}

fn as_json(report: &RepairReport, keys: &Keys) -> Value {
    let bound = |keyspace: &str, bound: &Bound<Vec<u8>>| match bound {
        Bound::Unbounded => Value::Null,
        Bound::Included(at) => json!({ "key": keys.show(keyspace, at), "included": true }),
        Bound::Excluded(at) => json!({ "key": keys.show(keyspace, at), "included": false }),
    };
    let keyspaces: Vec<Value> = report
        .keyspaces
        .iter()
        .map(|keyspace| json!({ "name": keyspace.name, "pairs": keyspace.pairs, "bytes": keyspace.bytes }))
        .collect();
    let left_out: Vec<Value> = report
        .left_out
        .iter()
        .map(|left| json!({ "path": left.path.display().to_string(), "why": left.why, "loses": left.loses }))
        .collect();
    let uncertain: Vec<Value> = report
        .uncertain
        .iter()
        .map(|range| {
            let name = &range.keyspace;
            json!({
                "keyspace": name, "from": bound(name, &range.keys.0), "to": bound(name, &range.keys.1),
                "path": range.path.display().to_string(), "offset": range.offset,
            })
        })
        .collect();
    let may_return: Vec<Value> = report
        .may_return
        .iter()
        .map(|range| {
            let name = &range.keyspace;
            json!({
                "keyspace": name, "from": bound(name, &range.keys.0), "to": bound(name, &range.keys.1),
                "path": range.path.display().to_string(),
            })
        })
        .collect();
    json!({
        "ok": report.is_ok(), "keyspaces": keyspaces, "files": report.files, "bytes": report.bytes,
        "damage": report.damage.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "damage_untold": report.damage_untold, "left_out": left_out, "uncertain": uncertain,
        "uncertain_untold": report.uncertain_untold, "may_return": may_return,
        "may_return_untold": report.may_return_untold, "notes": report.notes,
    })
}
