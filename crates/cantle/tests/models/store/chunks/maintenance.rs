//! Rebalances, splits and merges of the model, in the order of the library's steps
//! (`chunk/rebalance/rebalance.rs`, `chunk/rebalance/replace.rs`, `chunk/rebalance/join.rs`).

use super::{Chunk, Chunks, Edit, ORDER, Run, RunStack, Source, Writer};
use crate::format::header::FileKind;
use crate::mvcc::Keep;
use crate::store::disk::Entry;
use crate::store::{Fault, KEYS};
use crate::sync::{Arc, MutexGuard};
use crate::types::span::Span;
use bytes::Bytes;

impl Chunks {
    /// Rebalances a chunk, and splits it at a key, if the key is inside.
    pub fn rebalance(&self, chunk: &Arc<Chunk>, split_at: Option<&'static [u8]>) -> bool {
        let Some(_change) = chunk.begin_change() else { return false };
        let early = self.mvcc.open_versions();
        let input = {
            let mut writer = chunk.writer.lock();
            if writer.retired {
                return false;
            }
            writer.active = None;
            chunk.funk.load_full()
        };
        let keep = Keep::new(match self.fault {
            Fault::AsksNobody => Vec::new(),
            Fault::AsksBeforeSealing => early,
            _ => self.mvcc.open_versions(),
        });
        let mut merged = Vec::new();
        for entries in input.entries(self.disk()) {
            let mut newer = None;
            for entry in entries {
                if keep.needed(newer, entry.version) {
                    merged.push(entry);
                }
                newer = Some(entry.version);
            }
        }
        let split_at = split_at.filter(|key| chunk.span.start.as_deref() < Some(*key));
        let split_at = split_at.filter(|key| chunk.span.contains(&ORDER, key)).map(Bytes::from_static);
        let (start, end) = (chunk.span.start.clone(), chunk.span.end.clone());
        let spans = match &split_at {
            Some(key) => vec![Span { start, end: Some(key.clone()) }, Span { start: Some(key.clone()), end }],
            None => vec![chunk.span.clone()],
        };
        let tables: Vec<_> = spans
            .iter()
            .map(|span| {
                let file = self.create(FileKind::Table);
                let of_span = |entry: &Entry| span.contains(&ORDER, KEYS[entry.key]);
                self.disk().write_table(file.id, merged.iter().copied().filter(of_span).collect());
                Run { source: Source::Table(file), span: span.clone() }
            })
            .collect();
        if self.fault == Fault::ReleasesBeforeTelling {
            self.release(&input.files);
        }
        let mut writer = chunk.writer.lock();
        let now = chunk.funk.load_full();
        let newer = now.files[..now.files.len() - input.files.len()].to_vec();
        let released = if split_at.is_some() { &now.files } else { &input.files };
        match &tables[..] {
            [table] => self.flip(chunk, newer, table),
            tables => self.split(chunk, &mut writer, &newer, tables),
        }
        drop(writer);
        let early = if self.fault == Fault::ReleasesBeforeTelling { input.files.len() } else { 0 };
        self.release(&released[..released.len() - early]);
        true
    }

    fn flip(&self, chunk: &Chunk, newer: Vec<Run>, table: &Run) {
        let mut files = newer;
        files.push(table.clone());
        let edit = Edit::Replace { removed: vec![chunk.id], added: vec![chunk.record(&files)] };
        self.substrate.manifest.append(edit);
        table.file().retain();
        chunk.funk.store(Arc::new(RunStack { files }));
    }

    fn split(&self, parent: &Chunk, writer: &mut Writer, newer: &[Run], tables: &[Run]) {
        writer.active = None;
        let funk = |table: &Run| {
            let part = |file: &Run| {
                let span = file.span.intersect(&ORDER, &table.span)?;
                Some(Run { span, source: file.source.clone() })
            };
            RunStack { files: newer.iter().filter_map(part).chain([table.clone()]).collect() }
        };
        let shows_early = self.fault == Fault::FlipsIndexBeforeFiles;
        let children: Vec<_> = tables
            .iter()
            .map(|table| {
                let files = if shows_early { RunStack::default() } else { funk(table) };
                Arc::new(Chunk::new(self.next_id(), table.span.clone(), files))
            })
            .collect();
        let records = children.iter().zip(tables).map(|(child, table)| child.record(&funk(table).files));
        let edit = Edit::Replace { removed: vec![parent.id], added: records.collect() };
        let tells_late = self.fault == Fault::TellsTheManifestLast;
        if !tells_late {
            self.substrate.manifest.append(edit.clone());
        }
        tables.iter().for_each(|table| funk(table).files.iter().for_each(|file| file.file().retain()));
        let added = children.iter().map(|child| (child.start(), child.clone())).collect();
        self.index.replace(&parent.start(), 1, added);
        if shows_early {
            children.iter().zip(tables).for_each(|(child, table)| child.funk.store(Arc::new(funk(table))));
        }
        // After the flip: a thread that finds the chunk retired finds its successors.
        writer.retired = self.fault != Fault::DoesNotRetire;
        if tells_late {
            self.substrate.manifest.append(edit);
        }
    }

    /// The current structures no longer refer to these files.
    fn release(&self, files: &[Run]) {
        files.iter().for_each(|file| {
            file.file().release();
        });
    }

    /// Merges two chunks, if they are neighbours.
    pub fn join(&self, left: &Arc<Chunk>, right: &Arc<Chunk>) -> bool {
        let (Some(_left), Some(_right)) = (left.begin_change(), right.begin_change()) else { return false };
        let (mut left_writer, mut right_writer) = match self.fault {
            Fault::LocksTheRightOneFirst => {
                let right = right.writer.lock();
                (left.writer.lock(), Some(right))
            }
            Fault::DoesNotLockTheRightOne => (left.writer.lock(), None),
            _ => {
                let left = left.writer.lock();
                (left, Some(right.writer.lock()))
            }
        };
        let is_retired = |writer: &MutexGuard<'_, Writer>| writer.retired;
        let right_is_retired = right_writer.as_ref().is_some_and(is_retired);
        if left_writer.retired || right_is_retired || left.span.end != right.span.start {
            return false;
        }
        left_writer.active = None;
        let (left_funk, right_funk) = (left.funk.load_full(), right.funk.load_full());
        let span = Span { start: left.span.start.clone(), end: right.span.end.clone() };
        let mut files: Vec<_> = left_funk.files.iter().chain(&right_funk.files).cloned().collect();
        if self.fault == Fault::JoinsUnderOneSpan {
            files.iter_mut().for_each(|file| file.span = span.clone());
        }
        let joined = Arc::new(Chunk::new(self.next_id(), span, RunStack { files: files.clone() }));
        let edit = Edit::Replace { removed: vec![left.id, right.id], added: vec![joined.record(&files)] };
        self.substrate.manifest.append(edit);
        self.index.replace(&joined.start(), 2, vec![(joined.start(), joined.clone())]);
        left_writer.retired = true;
        if let Some(right_writer) = &mut right_writer {
            right_writer.active = None;
            right_writer.retired = true;
        }
        true
    }
}
