//! `cantle import`: a store of LevelDB's, or a dump of RocksDB's, as a new store.

use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::output::{Output, counted, human_bytes, note};
use crate::progress::Progress;
use crate::store::{DEFAULT_KEYSPACE, StoreArgs};
use crate::tuning::Tuning;
use cantle_import::{Damage, Report};
use clap::{ArgGroup, Args};
use serde_json::{Value, json};
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Copy a LevelDB store, or a dump of a RocksDB store, into a new store; exit 1 if something was
/// left out
///
/// LevelDB's directory is read without LevelDB, and not changed; close it there first. A dump is
/// read from standard input, as `ldb --hex dump` prints it, compressed or not. The new store is
/// built in DB.importing and renamed to DB when everything is in it and durable: there must be
/// nothing at DB, or an empty directory.
///
/// --json prints one object: ok, pairs, bytes, tables, logs, read_bytes, counted, torn, lost (arrays of places), lost_untold.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("source").required(true).args(["leveldb", "rocksdb"])), after_help = EXAMPLES)]
pub(crate) struct Import {
    #[command(flatten)]
    store: StoreArgs,
    /// The directory that LevelDB wrote
    #[arg(long, value_name = "DIR")]
    leveldb: Option<PathBuf>,
    /// Pairs as lines 0xKEY ==> 0xVALUE from standard input, as RocksDB's `ldb --hex dump` prints
    /// them
    #[arg(long)]
    rocksdb: bool,
    /// Leave out what is damaged, and tell it: older values of these keys may show, and deleted
    /// ones be back
    #[arg(long, conflicts_with = "rocksdb")]
    skip_damaged: bool,
    /// The report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Options of the new store, for this import")]
    tuning: Tuning,
}

const EXAMPLES: &str = "\
Examples:
  cantle import --leveldb old flights
  cantle import --leveldb damaged saved --skip-damaged --json > report.json
  ldb --db=rocks --hex dump | cantle import --rocksdb flights
  cantle export flights --format rocksdb-dump | ldb --db=rocks --create_if_missing --hex load";

impl Import {
    pub(crate) fn run(self) -> Outcome {
        let keyspace = self.store.keyspace.as_deref().unwrap_or(DEFAULT_KEYSPACE);
        let copy = cantle_import::Import::new()
            .options(self.tuning.options())
            .keyspace(keyspace, self.tuning.keyspace_options())
            .skip_damaged(self.skip_damaged);
        let mut shown: Option<Progress> = None;
        let started = std::time::Instant::now();
        let mut show = |pairs: u64, bytes: u64, total: Option<u64>| {
            shown.get_or_insert_with(|| Progress::new("importing", total)).set(pairs, bytes);
            ControlFlow::Continue(())
        };
        let report = match &self.leveldb {
            Some(dir) => copy
                .leveldb(dir, &self.store.db, |at| show(at.pairs, at.bytes, at.total_bytes))
                .map_err(|error| failure(error, Some(dir)))?,
            None => {
                let input = input::open("-", None)?;
                let consumed = input.consumed;
                let reader = BufReader::with_capacity(1 << 16, input.reader);
                copy.rocksdb_dump(reader, &input.name, &self.store.db, |at| {
                    show(at.pairs, consumed.load(Ordering::Relaxed), None)
                })
                .map_err(|error| failure(error, None))?
            }
        };
        drop(shown);
        let mut output = Output::new();
        if self.json {
            output.json(&as_json(&report))?;
        } else {
            for lost in &report.lost {
                output.line(format!("left out {lost}{}", keys(lost)))?;
            }
            if report.lost_untold > 0 {
                output.line(format!("… and {}", counted(report.lost_untold, "more place", "more places")))?;
            }
        }
        output.finish()?;
        self.tell(&report, started.elapsed().as_secs_f64());
        if report.is_ok() {
            return Ok(());
        }
        Err(Failure::Damage(format!(
            "the source was damaged: what {} has is what is left",
            self.store.db.display()
        )))
    }

    fn tell(&self, report: &Report, seconds: f64) {
        for torn in &report.torn {
            note(format_args!("{torn} (its writer died; no damage)"));
        }
        if self.rocksdb && !report.counted {
            note("the dump does not end with its count of keys: it may have been cut");
        }
        note(format_args!(
            "imported {}, {} of keys and values, from {}, in {seconds:.1} s, into {}",
            counted(report.pairs, "pair", "pairs"),
            human_bytes(report.bytes),
            human_bytes(report.read_bytes),
            self.store.db.display(),
        ));
    }
}

fn failure(error: cantle_import::Error, source: Option<&Path>) -> Failure {
    let message = error.to_string();
    match error {
        cantle_import::Error::Store(error) => error.into(),
        cantle_import::Error::InvalidArgument(_) => Failure::Usage(message),
        // An error in a dump is no damage of a store.
        error if error.is_damage() && source.is_some() => Failure::Damage(message),
        _ => Failure::Failed(message),
    }
}

fn keys(lost: &Damage) -> String {
    match &lost.keys {
        Some((from, to)) => format!(" (keys from {} to {})", escape::escape(from), escape::escape(to)),
        None => String::new(),
    }
}

fn as_json(report: &Report) -> Value {
    let place = |damage: &Damage| {
        let mut place = json!({
            "path": damage.path.display().to_string(), "offset": damage.offset, "what": damage.what,
        });
        if let Some((from, to)) = &damage.keys {
            place["from_hex"] = escape::to_hex(from).into();
            place["to_hex"] = escape::to_hex(to).into();
        }
        place
    };
    json!({
        "ok": report.is_ok(), "pairs": report.pairs, "bytes": report.bytes, "tables": report.tables, "logs": report.logs,
        "read_bytes": report.read_bytes, "counted": report.counted,
        "torn": report.torn.iter().map(place).collect::<Vec<_>>(),
        "lost": report.lost.iter().map(place).collect::<Vec<_>>(), "lost_untold": report.lost_untold,
    })
}
