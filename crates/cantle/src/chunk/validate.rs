//! Validation of a transaction: whether what it read has changed since its snapshot.
//!
//! The chunks concerned are locked, so that everything written to them is committed and nothing comes in between.
//! Most of them were not written to since the snapshot, which one number tells (`Chunk::newest_version`). In the
//! others, files without a newer version are left out the same way, and in the rest keys are looked up as gets do
//! (newest first, with the filters) and ranges are walked, versions only. So the cost goes with what was written
//! since the snapshot, not with what was read.
//!
//! Newer versions are always in the funk, as every put is logged, whatever memory may hold besides. Those that a log has
//! only noted so far are sorted in first.

use super::chunk::Chunk;
use super::context::Context;
use crate::filter::bloom;
use crate::layout::ReadSet;
use crate::log::index::parts::Parts;
use crate::log::op::range_delete::RangeTombstone;
use crate::log::segment::Segment;
use crate::run::get::{find_indexed, search_part};
use crate::run::merged::Merged;
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::sync::Arc;
use crate::table::TableGet;
use crate::table::TableHandle;
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::{Span, contains, intersect_bounds, is_empty_range};
use std::cmp::Ordering;
use std::ops::Bound;

/// The first key or range found among `reads` that changed in one of `chunks` after version `since`. The chunks are
/// locked by the caller, and all those that something was read in are among them.
pub fn conflict_since<'a>(
    context: &Arc<Context>,
    chunks: impl Iterator<Item = &'a Chunk>,
    reads: &ReadSet,
    since: u64,
) -> Result<Option<Bounds>> {
    let order = &context.order;
    for chunk in chunks.filter(|chunk| chunk.newest_version() > since) {
        let funk = chunk.funk.load_full();
        let first = reads.keys.partition_point(|key| {
            chunk.span.start.as_ref().is_some_and(|start| order.compare(key, start) == Ordering::Less)
        });
        for key in reads.keys[first..].iter().take_while(|key| !chunk.span.ends_before(order, key)) {
            if key_changed(context, &funk, key, since)? {
                let at = || Bound::Included(key.to_vec());
                return Ok(Some(Bounds { start: at(), end: at() }));
            }
        }
        for span in reads.spans.iter().filter(|span| chunk.span.overlaps(order, span)) {
            if let Some(changed) = span_changed(context, &funk, span, since)? {
                return Ok(Some(changed));
            }
        }
    }
    Ok(None)
}

impl Run {
    /// Whether the file may hold, or its being dropped may be, something newer than `since`.
    fn may_be_newer(&self, since: u64) -> bool {
        match (&self.dropped, &self.source) {
            // Nothing was written to it later.
            (Some(dropped), _) => dropped.version > since,
            (None, Source::Log(segment)) => segment.newest_version() > since,
            (None, Source::Table(table)) => table.newest_version > since,
        }
    }
}

/// Whether the newest entry of `key`, or a delete of a range that it lies in, is newer than `since`.
fn key_changed(context: &Context, funk: &RunStack, key: &[u8], since: u64) -> Result<bool> {
    let order = &context.order;
    let hash = bloom::hash(key);
    for file in funk.files.iter().filter(|file| file.may_be_newer(since) && file.span.contains(order, key)) {
        if file.dropped.is_some() {
            return Ok(true);
        }
        let newest = match &file.source {
            Source::Log(segment) => newest_in_log(context, segment, key, hash)?,
            Source::Table(table) => newest_in_table(context, table, key, hash)?,
        };
        // What comes behind is older.
        if let Some(version) = newest {
            return Ok(version > since);
        }
    }
    Ok(false)
}

/// The parts of a log, in which everything written can be found: nobody is writing.
fn settled_parts(context: &Context, segment: &Segment) -> Result<Arc<Parts>> {
    let parts = segment.parts(context)?;
    if let Some(memory) = &parts.memory {
        memory.settle();
    }
    Ok(parts)
}

/// The newest version of a key in a log, as its own entry or as a range delete.
fn newest_in_log(context: &Context, segment: &Segment, key: &[u8], hash: u64) -> Result<Option<u64>> {
    let covering = |tombstones: &[RangeTombstone]| {
        tombstones.iter().filter(|t| t.covers(&context.order, key)).map(|t| t.version).max()
    };
    let parts = settled_parts(context, segment)?;
    if let Some(memory) = &parts.memory {
        let newest = memory.get(key, u64::MAX).map(|hit| hit.version).max(covering(&memory.tombstones()));
        if newest.is_some() {
            return Ok(newest);
        }
    }
    for part in &parts.indexed {
        let mut newest = covering(&part.tombstones);
        if segment.may_contain(context, &parts.header, part, hash)? {
            let hit = if part.root.len > 0 {
                find_indexed(context, segment, &parts, part.root, key, u64::MAX)?
            } else {
                search_part(context, segment, &parts, part, key, u64::MAX)?
            };
            newest = newest.max(hit.map(|hit| hit.version));
        }
        if newest.is_some() {
            return Ok(newest);
        }
    }
    Ok(None)
}

fn newest_in_table(context: &Context, table: &TableHandle, key: &[u8], hash: u64) -> Result<Option<u64>> {
    let table = table.open(&context.tables, &context.files, &context.order, &context.cache)?;
    Ok(match table.get(key, hash, u64::MAX, &|version| context.recovery.is_alive(version))? {
        TableGet::Found { version, .. } => Some(version),
        TableGet::FilteredOut | TableGet::Absent => None,
    })
}

/// What of a range was written after `since`: a key, or a range that was deleted.
fn span_changed(
    context: &Arc<Context>,
    funk: &RunStack,
    span: &Bounds,
    since: u64,
) -> Result<Option<Bounds>> {
    let order = &context.order;
    let overlaps = |file: &Run| file.may_be_newer(since) && file.span.overlaps(order, span);
    if let Some(file) = funk.files.iter().find(|file| file.dropped.is_some() && overlaps(file)) {
        return Ok(Some(intersect_bounds(order, span, &bounds_of(&file.span))));
    }
    for file in funk.files.iter().filter(|file| overlaps(file)) {
        if let Source::Log(segment) = &file.source {
            settled_parts(context, segment)?;
        }
    }
    // Those that were dropped hold nothing newer.
    let mut merged = Merged::new(&context.run, funk, false, |file| file.dropped.is_none() && overlaps(file))?;
    if let Some(deleted) = merged.deleted_since(span, since) {
        return Ok(Some(deleted));
    }
    match &span.start {
        Bound::Unbounded => merged.cursor.seek_to_first()?,
        Bound::Included(start) | Bound::Excluded(start) => merged.cursor.seek(start)?,
    }
    while let Some(entry) = merged.cursor.entry() {
        let within = contains(span, order, entry.key);
        if !within && !is_before_start(order, span, entry.key) {
            break;
        }
        if within && entry.version > since {
            let at = || Bound::Included(entry.key.to_vec());
            return Ok(Some(Bounds { start: at(), end: at() }));
        }
        merged.cursor.advance()?;
    }
    Ok(None)
}

/// Whether `key` is the start that the span excludes.
fn is_before_start(order: &KeyOrder, span: &Bounds, key: &[u8]) -> bool {
    matches!(&span.start, Bound::Excluded(start) if order.compare(key, start) == Ordering::Equal)
}

fn bounds_of(span: &Span) -> Bounds {
    let start = span.start.as_ref().map_or(Bound::Unbounded, |key| Bound::Included(key.to_vec()));
    let end = span.end.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(key.to_vec()));
    Bounds { start, end }
}

impl Merged {
    /// What of `span` was deleted by a range delete after `since`.
    fn deleted_since(&self, span: &Bounds, since: u64) -> Option<Bounds> {
        let order = self.order();
        self.range_deletes().filter(|(_, delete)| delete.version > since).find_map(|(file_span, delete)| {
            let deleted = intersect_bounds(order, &delete.bounds, &bounds_of(file_span));
            let deleted = intersect_bounds(order, span, &deleted);
            (!is_empty_range(order, &deleted)).then_some(deleted)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::log::index::memory_part::Place;
    use crate::types::entry::Kind;
    use crate::vfs::MemVfs;

    #[test]
    fn what_a_log_has_only_noted_is_a_conflict() {
        for by_range in [false, true] {
            let db = Options::new().vfs(Arc::new(MemVfs::new())).open("store").unwrap();
            db.put("a", "").unwrap();
            let mut tx = db.transaction();
            if by_range {
                assert!(tx.range("b".."c").next().is_none());
            } else {
                assert!(!tx.contains_key("b").unwrap());
            }
            tx.put("d", "").unwrap();
            let chunks = db.chunks_for_test();
            let (version, chunk) = (chunks.context.substrate.mvcc.current(), chunks.index.find(b"b"));
            let segment = chunk.funk.load().logs().next().unwrap().clone();
            let memory = segment.loaded().unwrap().memory.clone().unwrap();
            memory.note(b"b", version, Kind::Delete, Place { offset: segment.len(), len: 0 });
            segment.note_version(version);
            chunk.note_version(version);
            assert!(tx.commit().is_err_and(|error| error.is_conflict()), "by range: {by_range}");
        }
    }
}
