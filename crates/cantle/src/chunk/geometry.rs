//! Checks that after a change of the set of chunks the store can be opened again.
//!
//! The manifest stores the start of each chunk; a chunk ends where the next one begins. An edit
//! that puts a chunk in a wrong place would thus make the store unreadable at the next opening, and
//! could not be undone. Therefore each edit that replaces chunks is built here, and only if it
//! fits. Only then is it appended to the manifest, and only after that is the index changed, which
//! cannot refuse it any more.
//!
//! ```text
//!   removed   ├──────── a ────────┼──── b ────┤        neighbours
//!   added     ├── c ──┼───── d ─────┼── e ────┤        begin and end where these do, without gap or overlap
//!   files       ├─────┼─────────┤   ├─────────┤        of d: within d
//! ```
//!
//! *Invariants*, for the spans of all chunks in the keyspace's order:
//!
//! * The first chunk has no start key. No chunk ends at an empty key.
//! * The starts of the others ascend strictly, and none of them is empty.
//! * A file's span lies within its chunk's span. A chunk that refers to one file twice does so with
//!   disjoint spans.
//!
//! An empty key is no boundary under any order: in the index, and at the start of rounds over all
//! chunks, it stands for the beginning.
//!
//! Builds with debug assertions replay each edit on a [`Model`] of the manifest.

use super::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::edit::{ChunkEdit, ChunkRecord};
use crate::run::run::Run;
use crate::sync::Arc;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;

/// The reason why an edit does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misfit(pub &'static str);

/// A chunk added by an edit: its keys, and its files by number, with the keys of each that count.
pub struct Tile<'a> {
    pub span: &'a Span,
    pub files: Vec<(u64, &'a Span)>,
}

impl<'a> Tile<'a> {
    fn of(chunk: &'a Chunk, files: &'a [Run]) -> Self {
        Self { span: &chunk.span, files: files.iter().map(|file| (file.file().id, &*file.span)).collect() }
    }
}

/// Checks that the tiles cover each key of the removed spans once, and no other key.
pub fn check_replacement(
    order: &KeyOrder,
    removed: &[&Span],
    added: &[Tile<'_>],
) -> std::result::Result<(), Misfit> {
    let ensure = |fits: bool, else_why| if fits { Ok(()) } else { Err(Misfit(else_why)) };
    let ((Some(from), Some(to)), (Some(first), Some(last))) =
        ((removed.first(), removed.last()), (added.first(), added.last()))
    else {
        return Err(Misfit("nothing is replaced, or by nothing"));
    };
    let adjoins = |left: &Span, right: &Span| left.end.is_some() && left.end == right.start;
    ensure(
        removed.windows(2).all(|pair| adjoins(pair[0], pair[1])),
        "the replaced chunks are no neighbours",
    )?;
    ensure(first.span.start == from.start, "the first new chunk begins elsewhere")?;
    ensure(last.span.end == to.end, "the last new chunk ends elsewhere")?;
    ensure(
        added.windows(2).all(|pair| adjoins(pair[0].span, pair[1].span)),
        "new chunks leave a gap or overlap",
    )?;
    for Tile { span, files } in added {
        ensure(has_keys(order, span), "a new chunk has no keys")?;
        let fits = |file: &Span| has_keys(order, file) && is_within(order, file, span);
        ensure(files.iter().all(|(_, file)| fits(file)), "a file counts for keys outside of its chunk")?;
        let again = |(index, (id, file)): (usize, &(u64, &Span))| {
            files[..index].iter().any(|(other, span)| other == id && span.intersect(order, file).is_some())
        };
        ensure(!files.iter().enumerate().any(again), "a file counts twice for a key")?;
    }
    Ok(())
}

/// True if a chunk may have this span: not empty, and between keys that may be boundaries.
fn has_keys(order: &KeyOrder, span: &Span) -> bool {
    let is_boundary = |key: &Option<Bytes>| key.as_ref().is_none_or(|key| !key.is_empty());
    let ascends = match (&span.start, &span.end) {
        (Some(start), Some(end)) => order.compare(start, end) == Ordering::Less,
        _ => true,
    };
    is_boundary(&span.start) && is_boundary(&span.end) && ascends
}

fn is_within(order: &KeyOrder, inner: &Span, outer: &Span) -> bool {
    let starts_within = match (&outer.start, &inner.start) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(outer), Some(inner)) => order.compare(outer, inner) != Ordering::Greater,
    };
    let ends_within = match (&outer.end, &inner.end) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(outer), Some(inner)) => order.compare(inner, outer) != Ordering::Greater,
    };
    starts_within && ends_within
}

/// Checks that chunks that begin at these keys, in this order, can be opened.
pub fn check_starts<'a>(
    order: &KeyOrder,
    starts: impl IntoIterator<Item = Option<&'a Bytes>>,
) -> std::result::Result<(), Misfit> {
    let mut starts = starts.into_iter();
    let Some(None) = starts.next() else { return Err(Misfit("its first chunk is missing")) };
    let mut before: Option<&Bytes> = None;
    for start in starts {
        let follows = start.is_some_and(|start| {
            !start.is_empty() && before.is_none_or(|before| order.compare(before, start) == Ordering::Less)
        });
        if !follows {
            return Err(Misfit("two chunks begin at the same key"));
        }
        before = start;
    }
    Ok(())
}

impl Chunks {
    /// The edit that replaces `removed` by `added` with these files, all in key order. `None` if it
    /// does not fit; then nothing may be changed. Either the caller has stale chunks, or the
    /// comparator does not order keys. The caller holds the locks of `removed`: until they are
    /// released, the index cannot refuse an edit that fits.
    pub(super) fn replacement(
        &self,
        removed: &[&Arc<Chunk>],
        added: &[(&Chunk, &[Run])],
    ) -> Result<Option<ChunkEdit>> {
        let order = &self.context.order;
        let spans: Vec<&Span> = removed.iter().map(|chunk| &chunk.span).collect();
        let tiles: Vec<Tile<'_>> = added.iter().map(|(chunk, files)| Tile::of(chunk, files)).collect();
        let fits = check_replacement(order, &spans, &tiles).and_then(|()| {
            let keys: Vec<Bytes> = added.iter().map(|(chunk, _)| first_key(chunk)).collect();
            let end = added.last().and_then(|(chunk, _)| chunk.span.end.as_ref());
            self.index.check_replace(removed, &keys, end).map_err(Misfit)
        });
        canary!(SPLIT_OUTSIDE => let fits = Ok(()));
        if let Err(Misfit(why)) = fits {
            // After a comparator has failed, an edit is not expected to fit.
            order.check()?;
            let chunks: Vec<u64> = removed.iter().map(|chunk| chunk.id).collect();
            tracing::warn!(
                why,
                ?chunks,
                "refuses a change of chunks that could not be opened again: report it"
            );
            self.context.counters.edits_refused.add(1);
            return Ok(None);
        }
        let records = added.iter().map(|(chunk, files)| ChunkRecord::of(chunk, files)).collect();
        let removed = removed.iter().map(|chunk| chunk.id).collect();
        Ok(Some(ChunkEdit::Replace { removed, added: records }))
    }
}

/// The chunk's key in the index; empty for the first chunk.
pub fn first_key(chunk: &Chunk) -> Bytes {
    chunk.span.start.clone().unwrap_or_default()
}

/// The starts of the chunks of a keyspace according to the manifest: the next opening would find
/// these.
#[cfg(debug_assertions)]
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// In order, each with the number of its chunk.
    starts: Vec<(Option<Bytes>, u64)>,
}

#[cfg(debug_assertions)]
impl Model {
    /// The model for records in key order.
    pub fn new(records: &[ChunkRecord]) -> Self {
        Self { starts: records.iter().map(|record| (record.start.clone(), record.id)).collect() }
    }

    /// The model after the edit.
    ///
    /// # Panics
    ///
    /// If the edit could not be replayed, or the result could not be opened.
    pub fn after(&self, order: &KeyOrder, edit: &ChunkEdit) -> Self {
        let is_known = |id: &u64| self.starts.iter().any(|(_, chunk)| chunk == id);
        let (removed, added) = match edit {
            ChunkEdit::Replace { removed, added } => (removed, added),
            ChunkEdit::Log { chunk, .. } => {
                assert!(is_known(chunk), "a log of chunk {chunk}, which the manifest does not know");
                return self.clone();
            }
            ChunkEdit::Drop { chunks, .. } => {
                assert!(chunks.iter().all(is_known), "of {chunks:?} the manifest does not know all");
                return self.clone();
            }
        };
        assert!(removed.iter().all(is_known), "of {removed:?} the manifest does not know all");
        let mut starts = self.starts.clone();
        starts.retain(|(_, id)| !removed.contains(id));
        for record in added {
            assert!(starts.iter().all(|(_, id)| *id != record.id), "chunk {} is there twice", record.id);
            let is_before = |(start, _): &(Option<Bytes>, u64)| match (start, &record.start) {
                (Some(start), Some(key)) => order.compare(start, key) == Ordering::Less,
                (start, key) => start.is_none() && key.is_some(),
            };
            let at = starts.partition_point(is_before);
            starts.insert(at, (record.start.clone(), record.id));
            // The one before, this one and the next. Before these the first one of all, which is
            // lowest.
            let near =
                starts[at.saturating_sub(1).max(1).min(starts.len())..(at + 2).min(starts.len())].iter();
            let near = starts.first().into_iter().chain(near).map(|(start, _)| start.as_ref());
            let opens = check_starts(order, near);
            assert!(
                opens.is_ok() || order.failure().is_some(),
                "{opens:?}: {edit:?} among {:?}",
                self.starts
            );
        }
        let opens = check_starts(order, starts.first().map(|(start, _)| start.as_ref()));
        assert!(opens.is_ok() || order.failure().is_some(), "{opens:?}: {edit:?} among {:?}", self.starts);
        Self { starts }
    }
}
