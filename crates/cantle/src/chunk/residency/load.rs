//! Loading a chunk into memory, and evicting it (EvenDB §3.1).
//!
//! Loading blocks nobody: the files are merged as of a snapshot that is taken under the chunk's
//! lock, while puts go on. Their log records are caught up with from the log, most of them without
//! the lock, the last ones under it. Then the munk is published. From there on puts also write to
//! the munk, and are only *noted* in the log's in-memory index, as the log is not searched.
//! Eviction sorts the noted operations in and removes the munk.
//!
//! ```text
//!   log      ──────────┬──────────────┬─────┐
//!                 snapshot         caught up │ under the lock
//!   munk     [ merged files ]──────[ + ops ][+]  shows
//! ```
//!
//! Nothing is lost or hidden. Everything that the snapshot sees is complete: while the chunk's lock
//! is held, no write to it is announced, and later writes have greater versions. The operations
//! after the log's end at that moment are exactly the later ones. A reader that finds no munk and
//! then reads the files may miss a write that was only noted; that write began after the reader had
//! looked for the munk.

use crate::chunk::Chunks;
use crate::chunk::chunk::{Chunk, ChunkWriter};
use crate::chunk::munk::{Munk, MunkBuilder, record_bytes_of, room_for};
use crate::chunk::residency::popularity::live;
use crate::chunk::walk::walk;
use crate::layout::PairCursor;
use crate::log::index::memory_part::MemoryHit;
use crate::log::segment::Segment;
use crate::maintenance::Class;
use crate::mvcc::{Keep, KeySpan};
use crate::run::merged::Merged;
use crate::run::retain::{Bottom, keep_versions};
use crate::run::run::{Run, Source};
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::waits::{self, Cause};
use crate::types::bounds::Bounds;
use crate::types::entry::Content;
use crate::types::entry::Kind;
use crate::types::error::{Error, Result};
use bytes::Bytes;
use std::ops::Bound;

/// Maximum bytes that are caught up with under the lock: less than a millisecond of work.
pub(in crate::chunk) const LAST_BYTES_MAX: u64 = 256 << 10;
/// A chunk that is larger than this many full chunks is split before it is loaded.
pub(in crate::chunk) const CHUNKS_MAX: u64 = 4;

/// Expected size of a munk in percent of the estimate of live bytes. A slightly too large one
/// wastes little; a slightly too small one wastes a whole block.
const LOADED_PERCENT: u64 = 101;

/// Maximum number of consecutive deleted keys that are left in an idle chunk: a cursor skips them
/// in some microseconds.
const DEAD_MAX: u64 = 100;
/// Ticks after its last access, half a second, after which a chunk is idle.
pub(in crate::chunk) const IDLE_TICKS: u64 = 25;

/// A log, and the offset from which on its operations are not in the munk yet.
struct Behind {
    segment: Arc<Segment>,
    from: u64,
}

impl Chunks {
    /// A function that is true if an open snapshot sees the older of two versions; overwriting in
    /// munks calls it.
    pub(in crate::chunk) fn is_needed(&self) -> impl Fn(u64, u64) -> bool {
        |older, newer| self.context.substrate.mvcc.is_open_between(older, newer)
    }

    /// Gives the chunk a munk; false if that is not possible now.
    pub(in crate::chunk) fn load_munk(&self, chunk: &Arc<Chunk>) -> Result<bool> {
        let Some(_change) = chunk.begin_change() else { return Ok(false) };
        let context = &self.context;
        let (funk, mut behind, snapshot) = {
            let writer = chunk.writer.lock();
            let funk = chunk.funk.load_full();
            // Dropped files are read by older snapshots, which would not find their content in a
            // munk.
            let dropped = funk.files.iter().any(|file| file.dropped.is_some());
            if writer.retired || dropped || chunk.munk.load().is_some() {
                return Ok(false);
            }
            let behind = writer
                .active
                .as_ref()
                .map(|active| Behind { segment: active.segment.clone(), from: active.end });
            (funk, behind, context.substrate.mvcc.own_snapshot(KeySpan::EMPTY))
        };
        let keep = Keep::new(context.substrate.mvcc.open_versions());
        let mut merged = Merged::new(&context.run, &funk, true, |_| true)?;
        // Now that its logs are read, their pairs are counted.
        let (live_bytes, pairs) = live(chunk);
        let expected_bytes = record_bytes_of(live_bytes, pairs) / 100 * LOADED_PERCENT;
        let bytes_max = record_bytes_of(CHUNKS_MAX * self.limits().chunk_bytes, pairs)
            .min(context.substrate.budget.resident_limit_bytes() / 2);
        let mut builder = MunkBuilder::new(
            context.order.clone(),
            expected_bytes,
            context.substrate.budget.resident.counter().clone(),
        );
        let mut keys = 0;
        let mut live_user_bytes = 0;
        let mut is_caught_up = true;
        merged.cursor.seek_to_first()?;
        while let Some(key) = merged.cursor.entry().map(|entry| Bytes::copy_from_slice(entry.key)) {
            if context.substrate.health.is_closing() {
                return Err(Error::Closed);
            }
            let entries =
                keep_versions(context, &mut merged, &key, &keep, snapshot.version(), Bottom::Reached)?;
            keys += usize::from(!entries.is_empty());
            let newest = entries.first().filter(|newest| newest.kind == Kind::Put);
            live_user_bytes += newest.map_or(0, |newest| (newest.key.len() + newest.value.len()) as u64);
            for entry in &entries {
                let (version, kind) = (entry.version, entry.kind);
                builder.push(Content { key: &entry.key, version, kind, value: &entry.value });
            }
            if builder.bytes() > bytes_max {
                return Ok(false);
            }
        }
        let mut munk = builder.finish(room_for(keys));
        loop {
            let writer = chunk.writer.lock();
            let Some(logs) = self.logs_behind(chunk, &writer, &funk.files, behind.as_ref()) else {
                return Ok(false);
            };
            let left: u64 = logs.iter().map(|log| log.segment.len().saturating_sub(log.from)).sum();
            // Otherwise a load would follow a faster writer until memory is exhausted.
            if munk.live_bytes() + munk.garbage_bytes() + left > bytes_max
                || context.substrate.health.is_closing()
            {
                return Ok(false);
            }
            is_caught_up &= left == 0;
            let caught_up = left <= LAST_BYTES_MAX;
            let ends: Vec<u64> = logs.iter().map(|log| log.segment.len()).collect();
            let writer = (caught_up).then_some(writer);
            for (log, &end) in logs.iter().zip(&ends) {
                canary!(MUNK_TOO_EARLY => break);
                if !self.catch_up(&mut munk, log, end)? {
                    return Ok(false);
                }
            }
            if writer.is_some() {
                if is_caught_up {
                    self.correct_garbage(chunk, live_user_bytes);
                }
                chunk.munk.store(Some(Arc::new(munk)));
                context.counters.munk_loads.add(1);
                self.add_resident(chunk);
                return Ok(true);
            }
            behind = logs
                .last()
                .zip(ends.last())
                .map(|(log, &end)| Behind { segment: log.segment.clone(), from: end });
        }
    }

    /// The logs with later writes, oldest first; `None` if the chunk was replaced or dropped.
    fn logs_behind(
        &self,
        chunk: &Chunk,
        writer: &ChunkWriter,
        files: &[Run],
        behind: Option<&Behind>,
    ) -> Option<Vec<Behind>> {
        let now = chunk.funk.load();
        if writer.retired || now.files.iter().any(|file| file.dropped.is_some()) {
            return None;
        }
        let newer = now.files.len() - files.len();
        let mut logs = Vec::new();
        if let Some(behind) = behind {
            logs.push(Behind { segment: behind.segment.clone(), from: behind.from });
        }
        // Files after the log that was caught up with last are in the munk already.
        let is_behind = |file: &Run| behind.is_some_and(|log| log.segment.file.id == file.file().id);
        let unseen = now.files[..newer].iter().position(is_behind).unwrap_or(newer);
        for file in now.files[..unseen].iter().rev() {
            match &file.source {
                Source::Log(segment) => logs.push(Behind { segment: segment.clone(), from: 0 }),
                Source::Table(_) => return None,
            }
        }
        Some(logs)
    }

    /// Writes the operations of a log between two offsets to the munk; false if there is a range
    /// delete among them.
    fn catch_up(&self, munk: &mut Munk, log: &Behind, end: u64) -> Result<bool> {
        let context = &self.context;
        let mut hits: Vec<(Bytes, MemoryHit)> = Vec::new();
        log.segment.for_each_since(context, log.from, |key, hit| {
            if hit.place.offset < end {
                hits.push((Bytes::copy_from_slice(key), hit));
            }
        })?;
        if log.segment.has_range_deletes_since(context, log.from)? {
            return Ok(false);
        }
        hits.sort_by_key(|(_, hit)| hit.place.offset);
        let header = log.segment.parts(context)?.header;
        for (key, hit) in hits {
            let value = if hit.kind == Kind::Put {
                log.segment.read_value(&header, hit.place)?
            } else {
                Bytes::new()
            };
            if munk.room() == 0 {
                *munk = munk.resort(room_for(munk.len()), self.is_needed());
            }
            let content = Content { key: &key, version: hit.version, kind: hit.kind, value: &value };
            if munk.insert(content, None, self.is_needed()).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes the munk.
    pub(in crate::chunk) fn evict_munk(&self, chunk: &Chunk) {
        self.evict_locked(chunk, &mut chunk.writer.lock());
    }

    /// As `evict_munk`, unless a writer holds the lock: maintenance does not wait for it, and tries
    /// again soon.
    pub(in crate::chunk) fn try_evict_munk(&self, chunk: &Chunk) {
        if let Some(mut writer) = chunk.writer.try_lock() {
            self.evict_locked(chunk, &mut writer);
        }
    }

    fn evict_locked(&self, chunk: &Chunk, writer: &mut ChunkWriter) {
        if self.drop_munk(chunk, writer) {
            self.context.counters.munk_evictions.add(1);
        }
    }

    /// The same for a caller that holds the lock. From here on gets search the logs.
    pub(in crate::chunk) fn drop_munk(&self, chunk: &Chunk, _writer: &mut ChunkWriter) -> bool {
        canary!(MUNK_GONE_TOO_EARLY => return chunk.munk.swap(None).inspect(|_| chunk.funk.load().merge_deferred()).is_some());
        chunk.funk.load().merge_deferred();
        chunk.munk.swap(None).is_some()
    }

    /// Makes sure that this many new keys fit into the chunk's munk, if it has one. Under the
    /// chunk's lock, and before the write is announced.
    pub(in crate::chunk) fn make_room(&self, chunk: &Chunk, keys: usize) {
        let munk = chunk.munk.load();
        let Some(munk) = &*munk else { return };
        if munk.room() < keys || munk.is_tangled() {
            waits::timed(Cause::Allocation, || self.sort_munk(chunk, munk, keys));
        }
    }

    /// Sorts a munk anew, without deleted keys. Under the chunk's lock.
    fn sort_munk(&self, chunk: &Chunk, munk: &Munk, keys: usize) {
        let sorted = munk.resort(room_for(munk.len()) + keys, self.is_needed());
        chunk.munk.store(Some(Arc::new(sorted)));
        self.context.counters.munk_rebalances.add(1);
    }

    /// Removes the deleted keys that cursors skip, from a chunk that is idle or has few other keys.
    pub(in crate::chunk) fn bury_dead(&self, chunk: &Arc<Chunk>, ticks: u64) {
        if self.limits().log_bytes.is_some() {
            return;
        }
        let is_idle = chunk.last_access() + IDLE_TICKS <= ticks;
        let munk = chunk.munk.load_full();
        match munk {
            Some(munk) => {
                let dead = munk.dead_keys();
                let is_due = dead > DEAD_MAX && (is_idle || dead > munk.len() as u64 / 4);
                if is_due
                    && let Some(writer) = chunk.writer.try_lock()
                    && !writer.retired
                    && chunk.munk.load().as_ref().is_some_and(|now| Arc::ptr_eq(now, &munk))
                {
                    self.sort_munk(chunk, &munk, 0);
                }
            }
            // If a snapshot keeps the deletes, a rebalance would not remove them.
            None if is_idle
                && chunk.dead_run() > DEAD_MAX
                && !self.pins.is_pinning()
                && !chunk.is_changing() =>
            {
                self.submit(chunk);
            }
            None if is_idle && chunk.deleted_in_order.load(Relaxed) > DEAD_MAX => self.submit_probe(chunk),
            None => {}
        }
    }

    /// Checks if keys that were deleted in ascending order are consecutive: a cursor that skips
    /// them records it in their chunks.
    fn submit_probe(&self, chunk: &Arc<Chunk>) {
        chunk.deleted_in_order.store(0, Relaxed);
        let (this, chunk) = (self.this.clone(), chunk.clone());
        self.context.substrate.pool.submit(Class::Asked, move || {
            let Some(chunks) = this.upgrade() else { return };
            let Some(_work) = chunks.context.substrate.begin_work() else { return };
            let bounds =
                Bounds { start: Bound::Included(chunk.writer.lock().take_deleted()), end: Bound::Unbounded };
            let snapshot = chunks.context.substrate.mvcc.own_snapshot(KeySpan::ALL);
            if let Err(error) = walk(chunks.clone(), bounds, snapshot).seek_to_first() {
                tracing::debug!(%error, "cannot look for deleted keys");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::test_support::chunks_of;
    use crate::fetch::Directly;
    use crate::filter::bloom;
    use crate::vfs::MemVfs;
    use crate::{ChunkOptions, KeyspaceOptions, Options};
    use crate::{Db, WriteBatch};

    fn open() -> (Db, Arc<Chunks>) {
        let options =
            Options::new().default_keyspace(KeyspaceOptions::new().layout(ChunkOptions::new().munks(false)));
        let db = options.vfs(Arc::new(MemVfs::new())).open("store").unwrap();
        let chunks = chunks_of(&db);
        (db, chunks)
    }

    /// The result of a get that found no munk just before there was one.
    fn get_in_files(chunks: &Chunks, chunk: &Chunk, key: &[u8]) -> Option<Bytes> {
        chunk.funk.load().get(&chunks.context, key, bloom::hash(key), u64::MAX, &Directly).unwrap().value
    }

    #[test]
    fn a_get_that_missed_the_munk_sees_no_range_delete_without_the_put_behind_it() {
        let (db, chunks) = open();
        db.put("b", "1").unwrap();
        let chunk = chunks.index.find(b"b");
        assert!(chunks.load_munk(&chunk).unwrap());
        for generation in ["2", "3"] {
            let mut batch = WriteBatch::new();
            batch.delete_range("a".."c").put("b", generation);
            db.write(batch).unwrap();
            let found = get_in_files(&chunks, &chunk, b"b");
            assert!(found.is_some(), "a get saw a range delete without the put behind it");
            assert_eq!(db.get("b").unwrap().as_deref(), Some(generation.as_bytes()));
        }
        chunks.evict_munk(&chunk);
        assert_eq!(get_in_files(&chunks, &chunk, b"b").as_deref(), Some(&b"3"[..]));
    }

    #[test]
    fn what_a_munk_takes_is_known_before_and_little_of_it_is_empty() {
        // Numbers of pairs that fill the last block well enough; the sizes of blocks are in steps
        // of a quarter.
        for (pairs, value_bytes) in [(3_900, 800), (40_000, 20)] {
            let (db, chunks) = open();
            (0..pairs).for_each(|number| db.put(format!("{number:08}"), vec![1; value_bytes]).unwrap());
            let chunk = chunks.index.find(b"0");
            assert!(chunks.load_munk(&chunk).unwrap());
            let munk = chunk.munk.load_full().unwrap();
            let expected = crate::chunk::residency::popularity::munk_bytes(&chunk) as f64;
            let took = munk.bytes() as f64 / expected;
            assert!((0.97..1.06).contains(&took), "{took} of what was expected, {expected}");
        }
    }

    #[test]
    fn a_chunk_of_tiny_pairs_can_be_loaded() {
        // No log is sorted in the background, as that would prevent loads of its chunk.
        let options = KeyspaceOptions::new()
            .layout(ChunkOptions::new().munks(false).chunk_bytes(1 << 20).log_bytes(u64::MAX));
        let options = Options::new().default_keyspace(options);
        let db = options.vfs(Arc::new(MemVfs::new())).open("store").unwrap();
        (0..60_000u64).for_each(|number| db.put(number.to_be_bytes(), [1; 8]).unwrap());
        db.compact_range(..).unwrap();
        let chunks = chunks_of(&db);
        for (_, chunk) in chunks.index.view().iter() {
            assert!(!chunks.is_oversized(chunk));
            assert!(chunks.load_munk(chunk).unwrap());
            assert!(
                crate::chunk::residency::popularity::munk_bytes(chunk) > 4 * live(chunk).0,
                "what it takes is more"
            );
        }
    }

    #[test]
    fn logs_that_were_caught_up_with_are_not_applied_again() {
        let (_db, chunks) = open();
        let chunk = chunks.index.find(b"");
        let mut writer = chunk.writer.lock();
        let mut segments = Vec::new();
        let mut files = Vec::new();
        for log in 0..3 {
            // Like after a failed append that could not be truncated.
            writer.active = None;
            chunks.ensure_active(&chunk, &mut writer).unwrap();
            segments.push(writer.active.as_ref().unwrap().segment.clone());
            if log == 0 {
                files = chunk.funk.load().files.clone();
            }
        }
        let behind = |log: usize| {
            let behind = Behind { segment: segments[log].clone(), from: segments[log].len() };
            let logs = chunks.logs_behind(&chunk, &writer, &files, Some(&behind)).unwrap();
            logs.iter().map(|log| log.segment.file.id).collect::<Vec<_>>()
        };
        let ids: Vec<u64> = segments.iter().map(|segment| segment.file.id).collect();
        assert_eq!([0, 1, 2].map(behind), [&ids[..], &ids[1..], &ids[2..]].map(<[u64]>::to_vec));
    }
}
