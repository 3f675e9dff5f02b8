//! The chunks of a keyspace as areas of a walk: each is read from its munk or from its files.

use super::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::munk::MunkCursor;
use crate::mvcc::SnapshotGuard;
use crate::run::merged::Merged;
use crate::run::walk::{Area, Areas, MergedPairs, Walk};
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;

/// The chunks of a keyspace, as a snapshot sees them.
pub struct ChunksAt {
    chunks: Arc<Chunks>,
    snapshot: SnapshotGuard,
}

/// The chunk at the cursor's position.
pub struct OpenChunk {
    chunk: Arc<Chunk>,
    pairs: Pairs,
}

/// The source of the chunk's pairs.
enum Pairs {
    /// Its munk. `ahead`: the cursor is at a pair that the walk has not taken yet.
    Munk { cursor: MunkCursor, ahead: bool },
    /// Its files, merged.
    Files(Box<MergedPairs>),
}

impl Drop for OpenChunk {
    fn drop(&mut self) {
        if let Pairs::Files(pairs) = &self.pairs {
            self.chunk.note_dead_run(pairs.dead_run());
            self.chunk.owe_reads(pairs.debt());
        }
    }
}

impl ChunksAt {
    fn open(&self, chunk: Arc<Chunk>) -> Result<OpenChunk> {
        let at = self.snapshot.version();
        let context = &self.chunks.context;
        chunk.touch_scan(&self.chunks.jobs.ticks);
        context.substrate.budget.count_scan();
        // A reader that finds no munk finds all pairs of the snapshot in the files: they were
        // written before.
        let pairs = match chunk.munk.load_full() {
            Some(munk) => {
                context.counters.scans_munk.add(1);
                Pairs::Munk { cursor: munk.cursor(at), ahead: false }
            }
            None => {
                let funk = chunk.funk.load_full();
                let merged = Merged::at(&context.run, &funk, at)?;
                Pairs::Files(Box::new(MergedPairs::new(merged, at)))
            }
        };
        Ok(OpenChunk { chunk, pairs })
    }
}

impl Areas for ChunksAt {
    type Area = OpenChunk;

    fn order(&self) -> &KeyOrder {
        &self.chunks.context.order
    }

    fn area_at(&self, key: Option<&[u8]>) -> Result<OpenChunk> {
        self.open(self.chunks.chunk_at(key))
    }

    fn area_before(&self, key: Option<&[u8]>) -> Result<OpenChunk> {
        self.open(self.chunks.index.view().find_last_before(key).clone())
    }
}

impl Area for OpenChunk {
    fn span(&self) -> &Span {
        &self.chunk.span
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        match &mut self.pairs {
            Pairs::Munk { cursor, ahead } => *ahead = cursor.seek(key),
            Pairs::Files(pairs) => pairs.seek(key)?,
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        match &mut self.pairs {
            Pairs::Munk { cursor, ahead } => *ahead = cursor.seek_before(key),
            Pairs::Files(pairs) => pairs.seek_before(key)?,
        }
        Ok(())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        match &mut self.pairs {
            Pairs::Munk { cursor, ahead } => *ahead = cursor.seek_to_first(),
            Pairs::Files(pairs) => pairs.seek_to_first()?,
        }
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        match &mut self.pairs {
            Pairs::Munk { cursor, ahead } => *ahead = cursor.seek_to_last(),
            Pairs::Files(pairs) => pairs.seek_to_last()?,
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, forward: bool) -> Result<bool> {
        match &mut self.pairs {
            Pairs::Munk { cursor, ahead } => {
                Ok(std::mem::take(ahead) || if forward { cursor.next() } else { cursor.prev() })
            }
            Pairs::Files(pairs) => pairs.take(forward),
        }
    }

    fn turn_back(&mut self, key: &[u8]) -> Result<()> {
        match &mut self.pairs {
            // The munk's cursor is at the pair.
            Pairs::Munk { .. } => Ok(()),
            // The merge is past it.
            Pairs::Files(pairs) => pairs.seek_before(key),
        }
    }

    #[inline]
    fn pair(&self) -> Option<(&[u8], &[u8])> {
        match &self.pairs {
            Pairs::Munk { cursor, .. } => Some((cursor.key()?, cursor.value()?)),
            Pairs::Files(pairs) => pairs.pair(),
        }
    }

    fn owned_pair(&self) -> Option<(Bytes, Bytes)> {
        match &self.pairs {
            Pairs::Munk { .. } => {
                self.pair().map(|(key, value)| (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)))
            }
            Pairs::Files(pairs) => pairs.owned_pair(),
        }
    }
}

/// A cursor over the pairs of a keyspace within bounds, at one snapshot.
pub fn walk(chunks: Arc<Chunks>, bounds: Bounds, snapshot: SnapshotGuard) -> Walk<ChunksAt> {
    Walk::new(ChunksAt { chunks, snapshot }, bounds)
}
