//! Writes rows in batches, and counts those that replace others.

use super::seen::Seen;
use super::{OnDuplicate, OnError};
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::keyfmt::KeyCodec;
use crate::output::{counted, human_bytes, human_count, note};
use crate::progress::Progress;
use crate::row::{Row, Rows};
use crate::store::Opened;
use cantle::{KEY_BYTES_MAX, VALUE_BYTES_MAX, WriteBatch};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// Rows that are written together: enough to make the cost of a write small, few enough to hold in
/// memory.
const BATCH_ROWS: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
/// Skipped rows that are reported one by one.
const SKIPPED_SHOWN: u64 = 20;

/// The rules of a load.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) on_error: OnError,
    pub(super) on_duplicate: OnDuplicate,
}

/// Counts of a load.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Rows in the store.
    pub(super) rows: u64,
    /// Rows of these that replaced an earlier one of the same key.
    pub(super) replaced: u64,
    /// Malformed rows that were skipped.
    pub(super) malformed: u64,
    /// Rows that were skipped, as their key was there.
    pub(super) duplicates: u64,
    /// Bytes of keys and values in the store.
    pub(super) bytes: u64,
}

/// Writes rows in batches.
pub(super) struct Writer<'a> {
    opened: &'a Opened,
    codec: KeyCodec,
    rules: Rules,
    interrupt: Arc<Interrupt>,
    /// Written before the first row, if the keyspace has others.
    metadata: Option<Vec<u8>>,
    progress: Progress,
    batch: WriteBatch,
    /// Counts of the batch.
    pending: Counts,
    batch_keys: HashSet<Vec<u8>>,
    /// The keys of the keyspace, if it was empty: one that is not among them is new.
    seen: Option<Seen>,
    /// The greatest key of the keyspace: a key above it is new.
    greatest: Option<Vec<u8>>,
    pub(super) counts: Counts,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        opened: &'a Opened,
        codec: KeyCodec,
        rules: Rules,
        interrupt: Arc<Interrupt>,
        metadata: Option<Vec<u8>>,
        progress: Progress,
    ) -> Outcome<Self> {
        let greatest = opened.keyspace.range(..).next_back().transpose()?.map(|(key, _)| key.to_vec());
        Ok(Self {
            opened,
            codec,
            rules,
            interrupt,
            metadata,
            progress,
            batch: WriteBatch::new(),
            pending: Counts::default(),
            batch_keys: HashSet::new(),
            seen: greatest.is_none().then(Seen::new),
            greatest,
            counts: Counts::default(),
        })
    }

    /// Writes all rows, up to the first error or signal. `name` is the file's; `consumed` are its
    /// bytes that were read.
    pub(super) fn load(&mut self, rows: &mut dyn Rows, name: &str, consumed: impl Fn() -> u64) -> Outcome {
        loop {
            // A signal ends an input that waits for its next bytes, with an error of its own.
            let row = match rows.next_row() {
                Ok(Some(row)) => Some(row),
                _ if self.interrupt.signal().is_some() => None,
                Ok(None) => break,
                Err(failure) => return Err(failure),
            };
            if let Some(Row { line, pair }) = row {
                match pair.and_then(within_limits) {
                    Ok((key, value)) => self.take(&key, &value, line, name)?,
                    Err(what) => self.refuse(&what, "--on-error skip goes on", line, name)?,
                }
            }
            if let Some(signal) = self.interrupt.signal() {
                self.flush()?;
                return Err(Failure::Interrupted(
                    format!(
                        "interrupted: {} of {name} are in the store",
                        counted(self.counts.rows, "row", "rows")
                    ),
                    signal,
                ));
            }
            if self.pending.rows >= BATCH_ROWS as u64 || self.pending.bytes >= BATCH_BYTES as u64 {
                self.flush()?;
                self.progress.set(self.counts.rows, consumed());
            }
        }
        self.flush()
    }

    fn take(&mut self, key: &[u8], value: &[u8], line: u64, name: &str) -> Outcome {
        if self.is_there(key)? {
            match self.rules.on_duplicate {
                OnDuplicate::Replace => self.pending.replaced += 1,
                OnDuplicate::Skip => {
                    self.counts.duplicates += 1;
                    return Ok(());
                }
                OnDuplicate::Error => {
                    let what = format!("key {} is there already", self.codec.show(key));
                    return self.refuse(&what, "--on-duplicate replace or skip goes on", line, name);
                }
            }
        }
        self.batch.keyspace(&self.opened.keyspace).put(key, value);
        self.batch_keys.insert(key.to_vec());
        self.pending.rows += 1;
        self.pending.bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    /// True if the key is in the keyspace or the batch.
    fn is_there(&mut self, key: &[u8]) -> Outcome<bool> {
        let is_unseen = self.seen.as_mut().is_some_and(|seen| !seen.insert(key));
        let is_greatest = self.greatest.as_deref().is_none_or(|greatest| key > greatest);
        if is_greatest {
            self.greatest = Some(key.to_vec());
        }
        if is_unseen || is_greatest {
            return Ok(false);
        }
        Ok(self.batch_keys.contains(key) || self.opened.keyspace.contains_key(key)?)
    }

    fn refuse(&mut self, what: &str, remedy: &str, line: u64, name: &str) -> Outcome {
        if self.rules.on_error == OnError::Stop {
            self.flush()?;
            return Err(Failure::Failed(format!(
                "{name} line {line}: {what}; {} before it {} loaded ({remedy})",
                counted(self.counts.rows, "row", "rows"),
                if self.counts.rows == 1 { "is" } else { "are" },
            )));
        }
        self.counts.malformed += 1;
        if self.counts.malformed <= SKIPPED_SHOWN {
            self.progress.say(&format!("cantle: {name} line {line}: {what}; skipped"));
        }
        Ok(())
    }

    /// Writes the batch, and before the first one what the keys are made of.
    pub(super) fn flush(&mut self) -> Outcome {
        let batch = std::mem::take(&mut self.batch);
        let pending = std::mem::take(&mut self.pending);
        self.batch_keys.clear();
        if pending.rows == 0 {
            return Ok(());
        }
        self.describe()?;
        self.opened.db.write(batch)?;
        self.counts.rows += pending.rows;
        self.counts.replaced += pending.replaced;
        self.counts.bytes += pending.bytes;
        Ok(())
    }

    /// Stores the key columns, unless that is done.
    pub(super) fn describe(&mut self) -> Outcome {
        if let Some(metadata) = self.metadata.take() {
            self.opened.keyspace.set_metadata(&metadata)?;
        }
        Ok(())
    }

    /// Tells the counts, or returns them as JSON.
    pub(super) fn finish(self, is_complete: bool, json: bool) -> Option<Value> {
        let Counts { rows, replaced, malformed, duplicates, bytes } = self.counts;
        if malformed > SKIPPED_SHOWN {
            self.progress.say(&format!("cantle: {} rows were skipped", human_count(malformed)));
        }
        let seconds = self.progress.elapsed().as_secs_f64();
        drop(self.progress);
        if json {
            return Some(json!({
                "complete": is_complete, "rows": rows, "replaced": replaced, "duplicates_skipped": duplicates,
                "malformed_skipped": malformed, "bytes": bytes, "seconds": seconds,
            }));
        }
        let replaced = match replaced {
            0 => String::new(),
            1 => " (1 replaced another)".to_owned(),
            _ => format!(" ({} replaced others)", human_count(replaced)),
        };
        let duplicates = match duplicates {
            0 => String::new(),
            _ => format!(", skipped {} whose key was there", counted(duplicates, "row", "rows")),
        };
        note(format_args!(
            "loaded {}{replaced}{duplicates}, {} of keys and values, in {seconds:.1} s: {} rows/s",
            counted(rows, "row", "rows"),
            human_bytes(bytes),
            human_count((rows as f64 / seconds.max(0.001)) as u64),
        ));
        None
    }
}

/// The store's own limits, checked here so that an error names the line.
fn within_limits(pair: (Vec<u8>, Vec<u8>)) -> Result<(Vec<u8>, Vec<u8>), String> {
    if pair.0.len() > KEY_BYTES_MAX {
        return Err(format!("the key has {} bytes; at most 1 MiB is allowed", pair.0.len()));
    }
    if pair.1.len() > VALUE_BYTES_MAX {
        return Err(format!("the value has {} bytes; at most 1 GiB is allowed", pair.1.len()));
    }
    Ok(pair)
}
