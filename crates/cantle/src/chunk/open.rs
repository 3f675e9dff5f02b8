//! Opens a keyspace from its state in the manifest.

use super::Chunks;
use super::keyspace::Jobs;
use crate::chunk::chunk::Chunk;
use crate::chunk::context::Context;
use crate::chunk::edit::{ChunkMap, ChunkRecord};
use crate::chunk::geometry::{Misfit, check_starts};
use crate::chunk::pinned::Pins;
use crate::chunk::settings::Settings;
use crate::format::header::FileKind;
use crate::layout::factory::OpenKeyspace;
use crate::manifest::SegmentEdit;
use crate::mvcc::range_index::RangeIndex;
use crate::run::record::FileRecord;
use crate::run::run::{Run, Source};
use crate::run::stack::{RunStack, StackSizes};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::types::error::{Error, Result};
use crate::types::span::Span;
use bytes::Bytes;
use std::collections::HashMap;

impl Chunks {
    /// Opens the keyspace with these chunks.
    pub(super) fn open(keyspace: OpenKeyspace<'_>, map: ChunkMap) -> Result<Arc<Self>> {
        let OpenKeyspace { substrate, id: keyspace, order, settings, segments, outlived, .. } = keyspace;
        let context = Arc::new(Context::new(substrate, keyspace, order.clone(), Settings::of(settings)));
        let mut records: Vec<ChunkRecord> = map.chunks.into_values().collect();
        order.sort_by(&mut records, |a, b| match (&a.start, &b.start) {
            (Some(a), Some(b)) => order.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        });
        let opens = check_starts(&order, records.iter().map(|record| record.start.as_ref()));
        order.check()?;
        if let Err(Misfit(why)) = opens {
            let what = format!("keyspace {keyspace}: {why}");
            return Err(Error::corruption(context.substrate.manifest.path(), 0, what));
        }
        #[cfg(debug_assertions)]
        {
            *context.model.lock() = crate::chunk::geometry::Model::new(&records);
        }
        let next_chunk = records.iter().map(|record| record.id).max().unwrap_or(0) + 1;
        let ends: Vec<Option<Bytes>> =
            records.iter().skip(1).map(|record| record.start.clone()).chain([None]).collect();
        let mut opener = Opener { context: &context, segments, outlived, files: HashMap::new() };
        let mut sizes = StackSizes::default();
        let mut entries = Vec::with_capacity(records.len());
        let mut dropped = Vec::new();
        for (record, end) in records.into_iter().zip(ends) {
            let key = record.start.clone().unwrap_or_default();
            let chunk = opener.chunk(record, end);
            let funk = chunk.funk.load();
            sizes.add(&funk.sizes());
            if funk.files.iter().any(|file| file.dropped.is_some()) {
                dropped.push((chunk.id, Arc::downgrade(&chunk)));
            }
            drop(funk);
            entries.push((key, chunk));
        }
        let chunks = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            index: RangeIndex::new(order, entries),
            context,
            next_chunk: AtomicU64::new(next_chunk),
            jobs: Jobs::default(),
            pins: Pins::default(),
            released: AtomicBool::new(false),
        });
        chunks.account(&StackSizes::default(), &sizes);
        chunks.expect_rebalances();
        chunks.jobs.waiting.lock().extend(dropped);
        Ok(chunks)
    }
}

struct Opener<'a> {
    context: &'a Arc<Context>,
    segments: &'a HashMap<u64, SegmentEdit>,
    outlived: bool,
    /// A file that several chunks share is one object.
    files: HashMap<u64, Source>,
}

impl Opener<'_> {
    fn chunk(&mut self, record: ChunkRecord, end: Option<Bytes>) -> Arc<Chunk> {
        let span = Span { start: record.start, end };
        let mut files = Vec::with_capacity(record.files.len());
        for file in record.files {
            let log = (file.file, file.epoch);
            let counts = file.kind == FileKind::Table
                || self.context.substrate.is_log_counted(log, self.segments, self.outlived);
            if !counts {
                continue;
            }
            let source = self.source(&file).clone();
            let file = Run {
                span: file.span.clone().unwrap_or_else(|| span.clone()).into(),
                dropped: file.dropped(),
                dropped_ranges: None,
                share_bytes: file.share_bytes,
                source,
            };
            file.retain(&self.context.totals);
            files.push(file);
        }
        Arc::new(Chunk::new(record.id, span, RunStack { files }))
    }

    fn source(&mut self, record: &FileRecord) -> &Source {
        let Self { context, segments, outlived, files } = self;
        let substrate = &context.substrate;
        files.entry(record.file).or_insert_with(|| match record.kind {
            FileKind::Table => Source::Table(Arc::new(record.adopt_table(
                &substrate.files,
                context.keyspace,
                Box::default(),
            ))),
            _ => {
                let log = (record.file, record.epoch);
                Source::Log(substrate.adopt_log(&context.log, log, segments, *outlived))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::Options;
    use crate::chunk::test_support::chunks_of;
    use crate::sync::Arc;
    use crate::vfs::{MemVfs, OpenMode, Vfs};

    /// Like a job that waits for a background thread and holds the files of its chunk.
    #[test]
    fn who_lets_go_of_a_file_when_the_store_is_closed_removes_nothing() {
        let disk = MemVfs::new();
        let open = || Options::new().vfs(Arc::new(disk.clone())).open("store").unwrap();
        let db = open();
        db.put("key", "value").unwrap();
        let late = chunks_of(&db).index.find(b"").funk.load_full();
        let log = late.logs().next().unwrap().file.path.clone();
        db.compact_range(..).unwrap();
        db.sync().unwrap();
        let is_there = || disk.metadata(&log).unwrap().is_some();
        assert!(is_there(), "it is held");
        drop(db);
        assert!(!is_there(), "nobody needs it");
        // Another process may have opened the store by now.
        disk.open(&log, OpenMode::CreateNew).unwrap();
        drop(late);
        assert!(is_there());
    }
}
