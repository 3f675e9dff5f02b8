//! Split of a chunk into several (EvenDB §3.4): the second half of a rebalance that gave more than one table.
//!
//! The chunk becomes immutable for a moment: under its lock the diverted segment is sealed, each new chunk gets
//! its own table and shares that segment, under key bounds, until its next rebalance. The index is flipped once;
//! who still holds the old chunk reads the same pairs from it, and who wants to write finds it retired.

use super::Chunks;
use super::chunk::Chunk;
use super::edit::{ChunkEdit, ChunkRecord};
use super::funk::{FileRef, Funk};
use super::output::Piece;
use super::rebalance::{Input, newer_files, table_ref};
use crate::error::Result;
use crate::manifest::Edit;
use crate::span::Span;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use bytes::Bytes;

impl Chunks {
    pub(super) fn split(&self, parent: &Arc<Chunk>, input: &Input, pieces: &[Piece]) -> Result<bool> {
        let order = &self.context.order;
        let mut writer = parent.writer.lock();
        if writer.retired {
            return Ok(false); // the keyspace was dropped
        }
        if let Some(active) = &mut writer.active {
            // Each child will look into it: by its index, not by a memory part that nobody evicts.
            if let Err(error) = self.index_part(active) {
                tracing::warn!(%error, "cannot index a part of a log");
            }
        }
        writer.active = None;
        let before = parent.funk.load_full();
        let newer = newer_files(&before, input);
        let shared: Vec<&FileRef> = newer.iter().chain(&input.kept).collect();
        let mut children = Vec::with_capacity(pieces.len());
        for (index, piece) in pieces.iter().enumerate() {
            let start = if index == 0 { parent.span.start.clone() } else { piece.start.clone() };
            let end =
                pieces.get(index + 1).map_or_else(|| parent.span.end.clone(), |next| next.start.clone());
            let span = Span { start, end };
            let part = |file: &&FileRef| {
                let span = file.span.intersect(order, &span)?;
                let share_bytes = Some(file.bytes() / pieces.len() as u64);
                Some(FileRef { span, share_bytes, ..(*file).clone() })
            };
            let mut files: Vec<FileRef> = shared[..newer.len()].iter().filter_map(part).collect();
            let table = table_ref(piece, parent, &before, newer.len());
            files.push(FileRef { span: span.clone(), ..table });
            files.extend(shared[newer.len()..].iter().filter_map(part));
            let child = Chunk::new(self.next_id(), span, Funk { files });
            child.inherit(parent, pieces.len() as u64);
            children.push(Arc::new(child));
        }
        let records = children.iter().map(|child| ChunkRecord::of(child, &child.funk.load().files)).collect();
        let edit = ChunkEdit::Replace { removed: vec![parent.id], added: records };
        self.context
            .manifest
            .append(&[Edit::Layout { keyspace: self.context.keyspace, payload: edit.encode() }])?;
        for child in &children {
            child.funk.load().files.iter().for_each(|file| file.file().retain());
        }
        let mut after = super::funk::FunkSizes::default();
        for child in &children {
            after.add(&child.funk.load().sizes());
        }
        self.account(&before.sizes(), &after);
        let key = |chunk: &Chunk| chunk.span.start.clone().unwrap_or_else(Bytes::new);
        let count = children.len();
        let added = children.iter().map(|child| (key(child), child.clone())).collect();
        self.index.replace(&key(parent), 1, added);
        // From here on others find them.
        self.purge_later(&children);
        // After the flip: who finds the chunk retired finds its successors.
        writer.retired = true;
        drop(writer);
        self.release(&before.files, &[]);
        self.context.counters.splits.fetch_add(1, Relaxed);
        tracing::debug!(chunk = parent.id, count, "split");
        Ok(true)
    }
}
