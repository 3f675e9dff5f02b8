//! Changes of a stack since a version. A transaction asks for them before it is committed.
//!
//! Runs without a newer version are skipped. In the others, keys are looked up as by a get: the
//! newest run first and with the filters. Ranges are walked, reading versions only. The cost thus
//! depends on the number of entries written since, not on the size of the read set.
//!
//! The caller holds the locks that keep writers out: everything written is committed, and nothing
//! is written meanwhile. Operations that a log has only noted so far are sorted in first.

use super::env::RunEnv;
use super::get::{find_indexed, search_part};
use super::merged::Merged;
use super::run::{Run, Source};
use super::stack::RunStack;
use crate::fetch::Directly;
use crate::filter::bloom;
use crate::log::index::parts::Parts;
use crate::log::index::range_deletes::RangeDeletes;
use crate::log::segment::Segment;
use crate::sync::Arc;
use crate::table::{TableGet, TableHandle};
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::{contains, intersect_bounds, is_empty_range};
use std::cmp::Ordering;
use std::ops::Bound;

impl Run {
    /// True if the file may hold an entry newer than `since`, or was dropped after `since`.
    pub fn may_be_newer(&self, since: u64) -> bool {
        match (&self.dropped, &self.source) {
            // Nothing was written to a file after it was dropped.
            (Some(dropped), _) => dropped.version > since,
            (None, Source::Log(segment)) => segment.newest_version() > since,
            (None, Source::Table(table)) => table.newest_version > since,
        }
    }
}

/// True if the newest entry of `key`, or a range delete that covers it, is newer than `since`.
pub fn key_changed(env: &RunEnv, funk: &RunStack, key: &[u8], since: u64) -> Result<bool> {
    let order = &env.order;
    let hash = bloom::hash(key);
    for file in funk.files.iter().filter(|file| file.may_be_newer(since) && file.span.contains(order, key)) {
        if file.dropped.is_some() {
            return Ok(true);
        }
        let newest = match &file.source {
            Source::Log(segment) => newest_in_log(env, segment, key, hash)?,
            Source::Table(table) => newest_in_table(env, table, key, hash)?,
        };
        // Later sources are older.
        if let Some(version) = newest {
            return Ok(version > since);
        }
    }
    Ok(false)
}

/// The parts of a log, with all noted operations sorted in. Nobody writes meanwhile.
fn settled_parts(env: &RunEnv, segment: &Segment) -> Result<Arc<Parts>> {
    let parts = segment.parts(env)?;
    if let Some(memory) = &parts.memory {
        memory.merge_deferred();
    }
    Ok(parts)
}

/// The newest version of a key in a log, as its own entry or as a range delete.
fn newest_in_log(env: &RunEnv, segment: &Segment, key: &[u8], hash: u64) -> Result<Option<u64>> {
    let covering = |tombstones: &RangeDeletes| tombstones.covering(&env.order, key).map(|t| t.version).max();
    let parts = settled_parts(env, segment)?;
    if let Some(memory) = &parts.memory {
        let newest = memory.get(key, u64::MAX).map(|hit| hit.version).max(covering(&memory.tombstones()));
        if newest.is_some() {
            return Ok(newest);
        }
    }
    for part in &parts.indexed {
        let mut newest = covering(&part.tombstones);
        if segment.may_contain(env, &parts.header, part, hash, &Directly)? {
            let hit = if part.root.len > 0 {
                find_indexed(env, segment, &parts, part.root, (key, u64::MAX), u64::MAX, &Directly)?
            } else {
                search_part(env, segment, &parts, part, key, u64::MAX)?
            };
            newest = newest.max(hit.map(|hit| hit.version));
        }
        if newest.is_some() {
            return Ok(newest);
        }
    }
    Ok(None)
}

/// The newest version of a key in a table, as its own entry or as a range delete.
fn newest_in_table(env: &RunEnv, table: &TableHandle, key: &[u8], hash: u64) -> Result<Option<u64>> {
    let has_deleted = table.has_deleted;
    let table = table.open(&env.tables, &env.files, &env.order, &env.cache)?;
    let alive = |version| env.recovery.is_alive(version);
    let deleted = if has_deleted { table.deleted_at(key, u64::MAX, &alive, &Directly)? } else { None };
    Ok(match table.get(key, hash, u64::MAX, &alive, &Directly)? {
        TableGet::Found { version, .. } => deleted.max(Some(version)),
        TableGet::FilteredOut | TableGet::Absent => deleted,
    })
}

/// A part of `span` that was written after `since`: one key, or a deleted range.
pub fn span_changed(env: &Arc<RunEnv>, funk: &RunStack, span: &Bounds, since: u64) -> Result<Option<Bounds>> {
    let order = &env.order;
    let overlaps = |file: &Run| file.may_be_newer(since) && file.span.overlaps(order, span);
    if let Some(file) = funk.files.iter().find(|file| file.dropped.is_some() && overlaps(file)) {
        return Ok(Some(intersect_bounds(order, span, &file.span.bounds())));
    }
    for file in funk.files.iter().filter(|file| overlaps(file)) {
        if let Source::Log(segment) = &file.source {
            settled_parts(env, segment)?;
        }
    }
    // Files that were dropped hold nothing newer.
    let mut merged = Merged::new(env, funk, false, |file| file.dropped.is_none() && overlaps(file))?;
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

/// True if `key` is the start that the span excludes.
fn is_before_start(order: &KeyOrder, span: &Bounds, key: &[u8]) -> bool {
    matches!(&span.start, Bound::Excluded(start) if order.compare(key, start) == Ordering::Equal)
}

impl Merged {
    /// The part of `span` that a range delete has deleted after `since`, if there is one.
    fn deleted_since(&self, span: &Bounds, since: u64) -> Option<Bounds> {
        let order = self.order();
        self.range_deletes().filter(|(_, delete)| delete.version > since).find_map(|(file_span, delete)| {
            let deleted = intersect_bounds(order, &delete.bounds, &file_span.bounds());
            let deleted = intersect_bounds(order, span, &deleted);
            (!is_empty_range(order, &deleted)).then_some(deleted)
        })
    }
}
