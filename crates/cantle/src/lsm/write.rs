//! One write in progress.

use super::generation::Entered;
use super::keyspace::Lsm;
use super::shape::Shape;
use super::view::LogGeneration;
use crate::cache::rows::Rows;
use crate::files::Promise;
use crate::format::bounds::encode_bounds;
use crate::layout::written_rows::{enter, has_ranges, leave, update};
use crate::layout::{Op, PreparedWrite, ReadSet, Stamp};
use crate::log::index::memory_part::Item;
use crate::log::op::range_delete::RangeTombstone;
use crate::log::shared::{Appended, SharedLog};
use crate::mvcc::key_locks::HeldKeys;
use crate::mvcc::{CommitCell, KeySpan};
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::types::bounds::Bounds;
use crate::types::durability::Durability;
use crate::types::entry::{Kind, large_part};
use crate::types::error::{Error, Result};

/// Maximum length in bytes of a value in a memtable, if there is room. Others are read from the log.
const INLINE_BYTES_MAX: usize = 4 << 10;

pub struct Write<'a, S> {
    lsm: &'a Lsm<S>,
    ops: &'a [Op<'a>],
    reads: &'a ReadSet,
    held: Option<HeldKeys<'a>>,
    /// `None` if nothing is written, and after the write has left its generation.
    entered: Option<Entered<SharedLog>>,
    stamp: Stamp,
    appended: Option<Appended>,
    /// The disk space for its records, if they wait in memory.
    promise: Option<Promise>,
}

impl<'a, S: Shape> Write<'a, S> {
    pub fn prepare(lsm: &'a Lsm<S>, ops: &'a [Op<'a>], reads: &'a ReadSet) -> Result<Self> {
        let locks_all = !reads.spans.is_empty() || has_ranges(ops);
        let keys = || ops.iter().map(|op| op.key).chain(reads.keys.iter().map(|key| &key[..]));
        let lock = || {
            let held = if locks_all { lsm.locks.lock_all() } else { lsm.locks.lock(&lsm.env.order, keys()) };
            let held = Some(held);
            canary!(STRIPES_NOT_TAKEN => let held = None);
            held
        };
        let (held, entered) = match ops {
            [] => (lock(), None),
            _ => {
                let (held, entered) = lsm.rotation.enter(|| lsm.create_log(), lock)?;
                (held, Some(entered))
            }
        };
        let stamp = Stamp { version: 0, batch: 0 };
        let mut write = Self { lsm, ops, reads, held, entered, stamp, appended: None, promise: None };
        if lsm.substrate.durability == Durability::Buffered {
            write.promise = write.promise_space()?;
        }
        Ok(write)
    }

    /// Memory holds no more records than there is disk space for.
    fn promise_space(&self) -> Result<Option<Promise>> {
        let Some(generation) = self.generation() else { return Ok(None) };
        let records: u64 = self.ops.iter().map(Op::logged_bytes_max).sum();
        let bytes = records + generation.log.segment.unpromised_page();
        self.lsm.substrate.reserve.promise(bytes).map(Some)
    }

    fn generation(&self) -> Option<&Arc<LogGeneration>> {
        self.entered.as_ref().map(Entered::generation)
    }

    fn rows(&self) -> Option<&Rows> {
        canary!(ROWS_UNMARKED => return None);
        self.lsm.rows()
    }

    /// Turns the store read-only, as a failed write may be found by a later opening.
    fn fail(&self, error: &Error) {
        self.lsm.substrate.health.fail(format!(
            "a write that failed could not be taken back ({error}): find out what is wrong with the disk, then reopen the \
             store, where that write may be found"
        ));
    }
}

impl<S: Shape> PreparedWrite for Write<'_, S> {
    fn conflict_since(&self, version: u64) -> Result<Option<Bounds>> {
        canary!(SECOND_PASS_SKIPPED => return Ok(None));
        self.lsm.changed_since(self.reads, version)
    }

    fn logs(&self) -> usize {
        usize::from(self.entered.is_some())
    }

    fn span(&self) -> KeySpan {
        let of = |op: &Op<'_>| match (op.bounds, self.lsm.env.order.prefix(op.key)) {
            (None, Some(prefix)) => KeySpan::key(prefix),
            _ => KeySpan::ALL,
        };
        self.ops.iter().map(of).fold(KeySpan::EMPTY, KeySpan::hull)
    }

    fn append(&mut self, stamp: Stamp) -> Result<()> {
        let Some(generation) = self.generation() else { return Ok(()) };
        let bounds: Vec<_> = self.ops.iter().map(|op| op.bounds.map(encode_bounds)).collect();
        let ops = self.ops.iter().zip(&bounds);
        let ops: Vec<_> =
            ops.map(|(op, bounds)| (op.kind, op.key, bounds.as_deref().unwrap_or(op.value))).collect();
        let appended = generation.log.append(&self.lsm.env, (stamp.version, stamp.batch), &ops)?;
        if let Some(promise) = &self.promise {
            generation.log.segment.take_promise(promise, appended.disk_bytes());
        }
        (self.stamp, self.appended) = (stamp, Some(appended));
        Ok(())
    }

    fn revoke(&mut self) {
        let appended = self.appended.take();
        let Some(generation) = self.generation() else { return };
        let log = &generation.log;
        if let Some(appended) = appended
            // On a full disk, uses the reserved space: otherwise the store would turn read-only for
            // lack of a few bytes.
            && let Err(error) = self.lsm.substrate.reserve.with(|| log.revoke(&self.lsm.env, &appended))
        {
            self.fail(&error);
        }
        if log.is_broken() {
            if let Err(error) = log.segment.zero_tail(log.segment.len()) {
                self.fail(&error);
            }
            // Later writes go to another log than this one, which may end in a broken record.
            self.lsm.rotation.seal_if_active(generation);
        }
    }

    fn publish(&mut self, cell: Option<&CommitCell>) {
        self.rows().into_iter().for_each(|rows| enter(rows, self.ops));
        let appended = self.appended.take();
        let (Some(generation), Some(appended)) = (self.generation(), appended) else { return };
        let segment = &generation.log.segment;
        // Nobody replaces the part: the generation is not indexed while a writer is in it.
        let Some(memory) = segment.loaded().and_then(|parts| parts.memory.clone()) else { return };
        let memtables = &self.lsm.env.memory.memtables;
        let version = self.stamp.version;
        let (mut user_bytes, mut puts, mut large_bytes) = (0, 0, 0);
        for (op, &place) in self.ops.iter().zip(&appended.places) {
            match op.bounds.cloned() {
                Some(bounds) => {
                    let (offset, cell) = (place.offset, cell.cloned());
                    memory.insert_tombstone(RangeTombstone { bounds, version, offset, cell });
                }
                None => {
                    // A batch may be far longer than memtables may become.
                    let has_room = memtables.has_room(op.value.len() as u64);
                    let value = Some(op.value).filter(|value| has_room && value.len() <= INLINE_BYTES_MAX);
                    let (key, kind, cell) = (op.key, op.kind, cell.cloned());
                    memory.insert_item(Item { key, version, kind, place, cell, value });
                }
            }
            if op.kind == Kind::Put {
                user_bytes += op.user_bytes();
                large_bytes += large_part(op.user_bytes(), self.lsm.env.large_from);
                puts += 1;
            }
        }
        segment.user_bytes.fetch_add(user_bytes, Relaxed);
        segment.puts.fetch_add(puts, Relaxed);
        segment.large_bytes.fetch_add(large_bytes, Relaxed);
        self.lsm.counters.writes.add(self.ops.len() as u64);
        self.lsm.counters.user_bytes_written.add(self.ops.iter().map(Op::user_bytes).sum());
    }

    fn index(&mut self) {
        if let Some(rows) = self.rows() {
            leave(rows, self.ops);
            if !has_ranges(self.ops) {
                update(rows, self.ops.iter());
            }
        }
        // A write that was neither published nor revoked has appended nothing.
        self.entered = None;
        self.held = None;
    }

    fn after_unlock(&mut self) {
        if self.promise.is_some()
            && let Some(active) = &self.lsm.rotation.view.load().active
        {
            self.lsm.substrate.try_later(active.log.segment.flush_if_long(), "drain a log");
        }
        if !self.ops.is_empty() {
            self.lsm.rotate_if_full();
        }
    }
}
