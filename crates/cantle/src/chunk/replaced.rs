//! Garbage of writes: the length of the entry that a write replaced.
//!
//! The space bound depends on the bytes of replaced and deleted entries, *garbage*. Writes to a
//! munk find the replaced entry there. Other writes look it up in the chunk's files, as follows:
//!
//! * A write is looked up if its value is large, or if its chunk has few pairs, or many bytes in
//!   large ones: one in eight would not represent the others there. No value is read for that: the
//!   index of a log has the length of each record, and a large value is a block of its own in a
//!   table, whose index has the block's length.
//! * One in eight of the other writes is looked up, and represents all eight. Filters show if there
//!   is an older entry; its length is estimated as the mean of the file's small entries.
//! * One in 32 of these estimates is compared with the entry itself. The result corrects the
//!   estimates of the keyspace.
//!
//! Thread safety: any thread may look up at any time. Invariant: a file that a rebalance has merged
//! does not count any more, nor does garbage in it (`Chunks::count_replaced`), except what other chunks
//! that share it have of it (`rebalance::shared_garbage`).

use super::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::context::Context;
use crate::fetch::Directly;
use crate::filter::bloom;
use crate::layout::Op;
use crate::log::index::memory_part::{MemoryHit, RecordPtr};
use crate::log::index::range_deletes::RangeDeletes;
use crate::log::segment::Segment;
use crate::maintenance::Class;
use crate::run::get::find_indexed;
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::counter::sampled;
use crate::sync::{Arc, Mutex};
use crate::table::TableHandle;
use crate::table::{Table, TableGet};
use crate::types::compression::Compression;
use crate::types::entry::{Kind, LARGE_BYTES};
use crate::types::error::Result;
use bytes::Bytes;

/// Number of puts up to which a chunk has few: a sample of one in eight may miss most of its bytes.
const FEW_PUTS: u64 = 512;
/// Large puts may be estimated wrongly if they are together less than this fraction of a chunk.
const LARGE_FRACTION: u64 = 16;
/// One in this many writes to other chunks is looked up, and represents all.
const SAMPLE: u64 = 8;
/// One in this many estimates is compared with the entry.
const COMPARED: u64 = 32;
/// Number of operations of a log's tail that are looked up one by one. The others are sampled like
/// writes.
const TAIL_COUNTED: u64 = 4096;
/// Bytes of a record beside key and value: checksum, lengths, kind and version.
const RECORD_BYTES: u64 = 11;

/// An operation that was written.
pub struct Written<'a> {
    pub segment: &'a Arc<Segment>,
    /// The operation's place in the segment.
    pub place: RecordPtr,
    pub version: u64,
    pub key: &'a [u8],
}

/// The parts of files that a lookup reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Filters only.
    Filters,
    /// Indexes: no value is read, unless in a table with few entries or with compression.
    Indexes,
    /// Entries.
    Entries,
}

/// An entry that was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaced {
    /// Bytes of its key and value.
    pub user_bytes: u64,
    /// Its version, or an upper bound of it.
    pub version: u64,
    /// True if the length is estimated, and the entry may not exist.
    pub is_guess: bool,
}

/// The result for one file.
enum Looked {
    Replaced(Replaced),
    /// The key was deleted.
    Nothing,
    /// An older file may have the key.
    Further,
}

/// The correction of estimates.
#[derive(Default)]
pub struct Guesses {
    sums: Mutex<Sums>,
}

#[derive(Default)]
struct Sums {
    count: u64,
    guessed_bytes: f64,
    found_bytes: f64,
}

impl Guesses {
    /// Number of results at which the sums are halved, so that older results fade.
    const COUNT_MAX: u64 = 1024;
    /// Weight of the assumption that estimates are right, in results.
    const PRIOR: f64 = 8.0;

    /// Records the result of comparing an estimate with the entry.
    pub fn learn(&self, guessed_bytes: u64, found_bytes: u64) {
        let mut sums = self.sums.lock();
        sums.count += 1;
        sums.guessed_bytes += guessed_bytes as f64;
        sums.found_bytes += found_bytes as f64;
        if sums.count >= Self::COUNT_MAX {
            let Sums { count, guessed_bytes, found_bytes } = *sums;
            *sums =
                Sums { count: count / 2, guessed_bytes: guessed_bytes / 2.0, found_bytes: found_bytes / 2.0 };
        }
    }

    /// The estimate, corrected by the results so far.
    pub fn correct(&self, guessed_bytes: u64) -> u64 {
        let sums = self.sums.lock();
        if sums.count == 0 {
            return guessed_bytes;
        }
        let prior = sums.guessed_bytes / sums.count as f64 * Self::PRIOR;
        let ratio = (sums.found_bytes + prior) / (sums.guessed_bytes + prior).max(1.0);
        (guessed_bytes as f64 * ratio) as u64
    }
}

impl RunStack {
    /// True if each write to the chunk is to be looked up; for a value of at least this many bytes,
    /// if this write is.
    pub fn is_counted_exactly(&self, value_bytes: usize) -> bool {
        if value_bytes as u64 >= u64::from(LARGE_BYTES) {
            return true;
        }
        let (mut puts, mut user_bytes, mut large_bytes) = (0u64, 0u64, 0u64);
        for file in &self.files {
            let [more_puts, more_user, more_large] = match &file.source {
                Source::Log(segment) => [&segment.puts, &segment.user_bytes, &segment.large_bytes]
                    .map(|count| count.load(Relaxed)),
                Source::Table(table) => [table.entries, table.user_bytes, table.large_bytes],
            };
            puts = puts.saturating_add(more_puts);
            user_bytes = user_bytes.saturating_add(more_user);
            large_bytes = large_bytes.saturating_add(more_large);
        }
        puts <= FEW_PUTS || large_bytes > user_bytes / LARGE_FRACTION
    }

    /// The entry that a write replaced; `None` if there was none, or a rebalance has already merged
    /// the write.
    pub fn replaced(&self, context: &Context, written: &Written<'_>, look: Look) -> Result<Option<Replaced>> {
        let Some(own) = self.files.iter().position(|file| file.is_of(written.segment)) else {
            return Ok(None);
        };
        let hash = bloom::hash(written.key);
        for file in self.files.iter().skip(own) {
            if !file.span.contains(&context.order, written.key) || file.dropped.is_some() {
                continue;
            }
            let looked = match &file.source {
                Source::Log(segment) => {
                    // A chunk that was joined may refer to the log twice.
                    let before = if file.is_of(written.segment) { written.place.offset } else { u64::MAX };
                    look_in_log(context, segment, (written.key, hash), before, look)?
                }
                Source::Table(table) => look_in_table(context, table, (written.key, hash), look)?,
            };
            match looked {
                Looked::Replaced(replaced) => return Ok(Some(replaced)),
                Looked::Nothing => return Ok(None),
                Looked::Further => {}
            }
        }
        Ok(None)
    }
}

/// The mean length of small entries.
fn guess(user_bytes: u64, large_bytes: u64, puts: u64, version: u64) -> Looked {
    let user_bytes = user_bytes.saturating_sub(large_bytes) / puts.max(1);
    Looked::Replaced(Replaced { user_bytes, version, is_guess: true })
}

/// Looks for a replaced entry in a log, before `before`.
fn look_in_log(
    context: &Context,
    segment: &Segment,
    (key, hash): (&[u8], u64),
    before: u64,
    look: Look,
) -> Result<Looked> {
    let budget = &context.substrate.budget;
    if look == Look::Filters
        && segment.loaded().is_none()
        && budget.logs.indexes.used_bytes() > budget.logs.indexes.limit_bytes()
    {
        // It would be unloaded at once.
        return Ok(Looked::Further);
    }
    let parts = segment.parts(context)?;
    if let Some(memory) = &parts.memory {
        let deleted = deleted_before(context, &memory.tombstones(), key, before);
        match resolve(memory.get_before(key, before), deleted, key) {
            Looked::Further => {}
            found => return Ok(found),
        }
    }
    for part in &parts.indexed {
        if part.start >= before || part.lacks(&context.order, key) {
            continue;
        }
        let deleted = deleted_before(context, &part.tombstones, key, before);
        let is_filtered = part.filter.len > 0;
        // The filter of the part that has the write itself contains its key. Only a batch as long
        // as a part finds its part indexed already: an index block for each of its keys would cost
        // more than an estimate is worth.
        let is_own = look == Look::Filters && is_filtered && part.end > before;
        let hit = if is_own || !segment.may_contain(context, &parts.header, part, hash, &Directly)? {
            None
        } else if part.root.len > 0 && (look != Look::Filters || !is_filtered) {
            find_indexed(context, segment, &parts, part.root, (key, u64::MAX), before, &Directly)?
        } else if is_filtered && deleted.is_none() {
            let of = |count: &AtomicU64| count.load(Relaxed);
            let (user_bytes, large_bytes) = (of(&segment.user_bytes), of(&segment.large_bytes));
            return Ok(guess(user_bytes, large_bytes, of(&segment.puts), segment.newest_version()));
        } else {
            None
        };
        match resolve(hit, deleted, key) {
            Looked::Further => {}
            found => return Ok(found),
        }
    }
    Ok(Looked::Further)
}

/// Place of the newest range delete before `before` that covers the key.
fn deleted_before(context: &Context, tombstones: &RangeDeletes, key: &[u8], before: u64) -> Option<u64> {
    let before = tombstones.covering(&context.order, key).filter(|tombstone| tombstone.offset < before);
    let counting = before.filter(|t| t.is_visible(u64::MAX) && context.recovery.is_alive(t.version));
    counting.map(|tombstone| tombstone.offset).max()
}

fn resolve(hit: Option<MemoryHit>, deleted: Option<u64>, key: &[u8]) -> Looked {
    match hit.filter(|hit| deleted.is_none_or(|offset| hit.place.offset > offset)) {
        Some(hit) if hit.kind == Kind::Put => {
            let user_bytes = u64::from(hit.place.len).saturating_sub(RECORD_BYTES).max(key.len() as u64);
            Looked::Replaced(Replaced { user_bytes, version: hit.version, is_guess: false })
        }
        Some(_) => Looked::Nothing,
        None if deleted.is_some() => Looked::Nothing,
        None => Looked::Further,
    }
}

fn look_in_table(
    context: &Context,
    handle: &TableHandle,
    (key, hash): (&[u8], u64),
    look: Look,
) -> Result<Looked> {
    let table = handle.open(&context.tables, &context.files, &context.order, &context.cache)?;
    if !table.may_contain(hash, &Directly)? {
        return Ok(Looked::Further);
    }
    if look == Look::Entries || !table.has_filter() {
        return read_in_table(context, &table, (key, hash));
    }
    let guess = || guess(handle.user_bytes, handle.large_bytes, handle.entries, handle.newest_version);
    if look == Look::Filters {
        return Ok(guess());
    }
    let table_options = context.table_options();
    let Some(block_bytes) = table.block_bytes_for(key)? else { return Ok(Looked::Further) };
    // A block of several entries is never this long.
    if block_bytes >= u64::from(LARGE_BYTES).max(4 * table_options.block_bytes as u64) {
        let times = handle.user_bytes as f64 / handle.file.bytes().max(1) as f64;
        let user_bytes = (block_bytes as f64 * times.max(1.0)) as u64;
        let version = handle.newest_version;
        return Ok(Looked::Replaced(Replaced { user_bytes, version, is_guess: false }));
    }
    if handle.entries <= FEW_PUTS || table_options.compression != Compression::None {
        return read_in_table(context, &table, (key, hash));
    }
    Ok(guess())
}

fn read_in_table(context: &Context, table: &Table, (key, hash): (&[u8], u64)) -> Result<Looked> {
    let found = table.get(key, hash, u64::MAX, &|version| context.recovery.is_alive(version), &Directly)?;
    Ok(match found {
        TableGet::Found { kind: Kind::Put, value, version } => {
            let user_bytes = (key.len() + value.len()) as u64;
            Looked::Replaced(Replaced { user_bytes, version, is_guess: false })
        }
        TableGet::Found { .. } => Looked::Nothing,
        TableGet::FilteredOut | TableGet::Absent => Looked::Further,
    })
}

impl Chunks {
    /// Adds the entry that an operation replaced to the garbage of a chunk without a munk, or a
    /// multiple of it for a sample.
    pub(super) fn count_replaced(&self, chunk: &Chunk, written: &Written<'_>, op: &Op<'_>) {
        let funk = chunk.funk.load();
        let is_exact = funk.is_counted_exactly(op.value.len());
        if !is_exact && !sampled(SAMPLE) {
            return;
        }
        let Some((found, user_bytes)) = self.find_replaced(&funk, written, is_exact) else { return };
        canary!(NEW_VALUE_COUNTED => let user_bytes = if op.kind == Kind::Put { op.user_bytes() } else { user_bytes });
        let times = if is_exact { 1 } else { SAMPLE };
        let pinned_below = self.pinned_below(found.version, written.version);
        self.add_replaced(written.key, written.segment, user_bytes.saturating_mul(times), pinned_below);
    }

    /// The entry that an operation replaced, and its bytes, corrected if they are estimated.
    fn find_replaced(
        &self,
        funk: &RunStack,
        written: &Written<'_>,
        is_exact: bool,
    ) -> Option<(Replaced, u64)> {
        let look = |look| {
            funk.replaced(&self.context, written, look).unwrap_or_else(|error| {
                tracing::debug!(%error, "cannot count garbage");
                None
            })
        };
        // Only indexes have the version, which shows if a snapshot sees the entry.
        let closely = is_exact || self.pins.is_pinning();
        let found = look(if closely { Look::Indexes } else { Look::Filters })?;
        let guesses = &self.jobs.guesses;
        let user_bytes = if !found.is_guess {
            found.user_bytes
        } else if sampled(COMPARED) {
            let user_bytes = look(Look::Entries).map_or(0, |entry| entry.user_bytes);
            guesses.learn(found.user_bytes, user_bytes);
            user_bytes
        } else {
            guesses.correct(found.user_bytes)
        };
        Some((found, user_bytes))
    }

    /// Adds garbage to a log that a key was written to, unless a rebalance has merged the log: then
    /// the garbage is gone. `pinned_below` is the result of the method `pinned_below` for the
    /// replaced entry.
    pub(super) fn add_replaced(
        &self,
        key: &[u8],
        segment: &Arc<Segment>,
        user_bytes: u64,
        pinned_below: Option<u64>,
    ) {
        if user_bytes == 0 {
            return;
        }
        while !self.released.load(Acquire) {
            let chunk = self.index.find(key);
            let writer = chunk.writer.lock();
            if writer.retired {
                continue;
            }
            let funk = chunk.funk.load();
            if funk.files.iter().any(|file| file.is_of(segment) && file.dropped.is_none()) {
                let sizes = funk.sizes();
                let user_bytes = user_bytes.min(sizes.live_bytes());
                self.add_garbage(segment, user_bytes);
                if let Some(below) = pinned_below {
                    self.add_pinned(segment, user_bytes, below);
                }
                // A checkpoint may have recorded the log's counts since the write.
                if segment.mark_dirty() {
                    self.context.substrate.dirty.add(segment.clone());
                }
            }
            return;
        }
    }

    /// Corrects the chunk's garbage: all bytes that are not live. The caller holds the chunk's lock
    /// and has read all pairs.
    pub(super) fn correct_garbage(&self, chunk: &Chunk, live_user_bytes: u64) {
        let funk = chunk.funk.load();
        let own = funk.files.iter().filter(|file| file.share_bytes.is_none() && file.dropped.is_none());
        let Some(segment) = own.filter_map(Run::log).next() else { return };
        let sizes = funk.sizes();
        let garbage_bytes = sizes.user_bytes.saturating_sub(live_user_bytes);
        if garbage_bytes.abs_diff(sizes.garbage_bytes) <= sizes.user_bytes / LARGE_FRACTION {
            return;
        }
        let more = garbage_bytes as i64 - sizes.garbage_bytes as i64;
        let more = more.max(-(segment.garbage_bytes.load(Relaxed) as i64));
        segment.garbage_bytes.fetch_add(more as u64, Relaxed);
        self.context.totals.garbage_bytes.fetch_add(more, Relaxed);
        if !self.context.substrate.read_only && segment.mark_dirty() {
            self.context.substrate.dirty.add(segment.clone());
        }
    }

    /// Submits the count of replaced entries for the part of a log after its recorded length,
    /// unless another count is under way.
    pub(super) fn submit_count(&self, segment: &Arc<Segment>) {
        if self.context.substrate.read_only || self.jobs.counting.swap(true, AcqRel) {
            return;
        }
        let (this, segment) = (self.this.clone(), segment.clone());
        self.context.substrate.pool.submit(Class::Asked, move || {
            let Some(chunks) = this.upgrade() else { return };
            if let Some(_work) = chunks.context.substrate.begin_work()
                && let Err(error) = chunks.count_tail(&segment)
            {
                tracing::debug!(%error, "cannot count garbage");
                // Not tried again, as the log cannot be read.
                segment.end_count();
            }
            chunks.jobs.counting.store(false, Release);
        });
    }

    fn count_tail(&self, segment: &Arc<Segment>) -> Result<()> {
        let mut tail: Vec<(Bytes, MemoryHit, u64)> = Vec::new();
        let mut seen = 0;
        segment.for_each_since(&self.context, segment.uncounted_from(), |key, hit| {
            seen += 1;
            let is_counted = hit.place.len >= LARGE_BYTES || seen <= TAIL_COUNTED;
            if is_counted || sampled(SAMPLE) {
                tail.push((Bytes::copy_from_slice(key), hit, if is_counted { 1 } else { SAMPLE }));
            }
        })?;
        for (key, hit, times) in tail {
            if self.context.substrate.health.is_closing() || self.released.load(Acquire) {
                return Ok(());
            }
            let chunk = self.index.find(&key);
            // A chunk that was loaded since was counted during the load.
            if chunk.munk.load().is_none() {
                let written = Written { segment, place: hit.place, version: hit.version, key: &key };
                let found = chunk.funk.load().replaced(&self.context, &written, Look::Indexes)?;
                self.add_replaced(
                    &key,
                    segment,
                    found.map_or(0, |found| found.user_bytes.saturating_mul(times)),
                    None,
                );
            }
        }
        segment.end_count();
        // The next checkpoint shall record it.
        if segment.mark_dirty() {
            self.context.substrate.dirty.add(segment.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_corrected_by_those_that_were_compared() {
        let guesses = Guesses::default();
        assert_eq!(guesses.correct(1000), 1000);
        (0..2000).for_each(|_| guesses.learn(1000, 2000));
        assert!((1950..=2000).contains(&guesses.correct(1000)), "{}", guesses.correct(1000));
        (0..4000).for_each(|_| guesses.learn(1000, 0));
        assert!(guesses.correct(1000) < 50, "{}", guesses.correct(1000));
    }
}
