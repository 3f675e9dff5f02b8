//! The entries of a funk as one merged walk, and what range deletes say of them.

use super::context::Context;
use super::ends;
use super::funk::{FileRef, Funk, Source};
use super::indexed_cursor::{IndexedCursor, OnePass};
use super::log_piece::Reads;
use super::log_view::{self, ViewCursor};
use super::memory_part::{MemoryCursor, MemoryPart, Place};
use super::segment::{Parts, Segment};
use super::tombstone::RangeTombstone;
use crate::canary::Canary;
use crate::entry::{EntryCursor, Kind};
use crate::error::Result;
use crate::merge::{MergeCursor, SpannedCursor};
use crate::order::KeyOrder;
use crate::span::Span;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use bytes::Bytes;

/// A log of at most so many chunks is read into memory at once by who merges half of it at least.
const AT_ONCE_CHUNKS_MAX: u64 = 3;

/// The range deletes of one source.
struct SourceTombstones {
    source: usize,
    span: Span,
    tombstones: Vec<RangeTombstone>,
}

/// A merged walk over files of a chunk.
pub struct Merged {
    pub cursor: MergeCursor,
    context: Arc<Context>,
    tombstones: Vec<SourceTombstones>,
    /// Of logs, but for those that are read at once.
    reads: Reads,
}

/// A range delete that covers a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Covering {
    pub version: u64,
    pub source: usize,
    pub offset: u64,
}

impl Merged {
    /// Merges those of `funk`'s files that `take` says. `once` is for jobs that pass once and should leave no
    /// trace in the cache.
    pub fn new(
        context: &Arc<Context>,
        funk: &Funk,
        once: bool,
        take: impl Fn(&FileRef) -> bool,
    ) -> Result<Self> {
        let mut sources: Vec<Box<dyn EntryCursor>> = Vec::new();
        let (mut tombstones, reads) = (Vec::new(), Reads::default());
        for file in funk.files.iter().filter(|file| take(file)) {
            let mut add = |cursor: Box<dyn EntryCursor>, deletes: &[RangeTombstone]| {
                if !deletes.is_empty() {
                    tombstones.push(SourceTombstones {
                        source: sources.len(),
                        span: file.span.clone(),
                        tombstones: deletes.to_vec(),
                    });
                }
                sources.push(Box::new(SpannedCursor::new(cursor, file.span.clone(), context.order.clone())));
            };
            match &file.source {
                Source::Log(segment) => {
                    let parts = segment.parts(context)?;
                    if let Some(memory) = &parts.memory {
                        add(
                            Box::new(memory_cursor(segment, &parts, memory.clone(), &reads)),
                            &memory.tombstones(),
                        );
                    }
                    // Who passes once gains nothing by it.
                    let view = if once { None } else { log_view::of(context, segment, &parts)? };
                    if let Some(view) = view {
                        let deletes: Vec<_> =
                            parts.indexed.iter().flat_map(|part| part.tombstones.iter().cloned()).collect();
                        add(
                            Box::new(ViewCursor::new(context, segment, &parts, view, reads.clone())),
                            &deletes,
                        );
                        continue;
                    }
                    let one_pass = || {
                        let at_once = segment.len() <= AT_ONCE_CHUNKS_MAX * context.options().chunk_bytes
                            && 2 * file.bytes() >= segment.len();
                        Arc::new(OnePass::new(file.span.clone(), at_once))
                    };
                    let one_pass = once.then(one_pass);
                    for part in &parts.indexed {
                        // Who passes once reads the log and not its index.
                        if !once {
                            ends::learn(context, segment, &parts, part)?;
                        }
                        if part.is_outside(&context.order, &file.span) {
                            context.counters.parts_passed_over.add(1);
                            continue;
                        }
                        if part.root.len > 0 {
                            let cursor = IndexedCursor::new(
                                context.clone(),
                                segment.clone(),
                                parts.clone(),
                                part.clone(),
                                one_pass.clone(),
                                reads.clone(),
                            );
                            add(Box::new(cursor), &part.tombstones);
                        } else if part.entries > 0 || !part.tombstones.is_empty() {
                            // Without an index the part is sorted here and now.
                            let sorted = context.memory_part();
                            segment.scan_part(&parts.header, part, |place, op| {
                                if op.kind != Kind::DeleteRange
                                    && context.recovery.counts(parts.header.epoch, op.version, op.batch)
                                {
                                    sorted.insert(op.key, op.version, op.kind, place, None);
                                }
                                Ok(())
                            })?;
                            add(
                                Box::new(memory_cursor(segment, &parts, Arc::new(sorted), &reads)),
                                &part.tombstones,
                            );
                        }
                    }
                }
                Source::Table(table) => {
                    let table =
                        table.open(&context.tables, &context.files, &context.order, &context.cache)?;
                    add(Box::new(if once { table.cursor_without_cache() } else { table.cursor() }), &[]);
                }
            }
        }
        Ok(Self {
            cursor: MergeCursor::new(context.order.clone(), sources),
            context: context.clone(),
            tombstones,
            reads,
        })
    }

    /// All range deletes, each with the span of the file that it stands in.
    pub fn range_deletes(&self) -> impl Iterator<Item = (&Span, &RangeTombstone)> {
        self.tombstones.iter().flat_map(|source| source.tombstones.iter().map(|t| (&source.span, t)))
    }

    /// How often logs were read, which this counts as a scan's: a table's records are read by the block, those of a log one by
    /// one where they do not lie behind one another.
    pub fn count_log_reads(&self) -> u64 {
        let reads = self.reads.load(Relaxed);
        self.context.counters.scan_log_reads.add(reads);
        reads
    }

    pub fn order(&self) -> &KeyOrder {
        &self.context.order
    }

    pub fn has_tombstones(&self) -> bool {
        !self.tombstones.is_empty()
    }

    /// The range deletes that cover `key` and are older or equal to `at`.
    pub fn covering(&self, key: &[u8], at: u64) -> impl Iterator<Item = Covering> {
        let order = &self.context.order;
        self.tombstones.iter().filter(|source| source.span.contains(order, key)).flat_map(move |source| {
            let counts = move |t: &&RangeTombstone| {
                t.is_visible(at) && self.context.recovery.is_alive(t.version) && t.covers(order, key)
            };
            source.tombstones.iter().filter(counts).map(|t| Covering {
                version: t.version,
                source: source.source,
                offset: t.offset,
            })
        })
    }

    /// Whether a range delete that counts at `at` is newer than the entry of `key` at this place.
    pub fn is_deleted(&self, key: &[u8], at: u64, source: usize, position: u64) -> bool {
        !self.tombstones.is_empty()
            && !Canary::RANGE_DELETE_MISSED.is_planted()
            && self
                .covering(key, at)
                .any(|t| t.source < source || (t.source == source && t.offset > position))
    }

    pub fn is_alive(&self, version: u64) -> bool {
        self.context.recovery.is_alive(version)
    }
}

fn memory_cursor(
    segment: &Arc<Segment>,
    parts: &Arc<Parts>,
    memory: Arc<MemoryPart>,
    reads: &Reads,
) -> MemoryCursor<impl FnMut(Place) -> Result<Bytes> + Send + use<>> {
    let (segment, parts, reads) = (segment.clone(), parts.clone(), reads.clone());
    MemoryCursor::new(memory, move |place| {
        reads.fetch_add(1, Relaxed);
        segment.read_value(&parts.header, place)
    })
}
