//! The memory of records: blocks that are filled from the front and freed as a whole.
//!
//! Invariants:
//! * Allocated memory is not written again, and stays at its place for as long as the block.
//! * A block may belong to several arenas, but only one of them may fill it: sharing transfers this
//!   right.
//! * The total counts a block once, however many arenas hold it, until the last of them is dropped.
#![expect(unsafe_code, reason = "records are written into a block while others in it are read")]

use super::record::{Record, RecordPtr, layout};
use crate::memory::pages::{HUGE_BYTES, Pages, of_few_sizes};
use crate::mvcc::CommitCell;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::types::entry::Content;
use std::alloc::Layout;
use std::ptr::NonNull;

/// Bounds of a block's length in bytes. While the arena has less than the expected bytes, a block
/// has the missing length; later, a quarter of the arena's length. A munk thus wastes little.
const BLOCK_BYTES_MIN: usize = 4 << 10;
const BLOCK_BYTES_MAX: usize = HUGE_BYTES;
/// Records of at least this many bytes get a block of their own. Little of other blocks thus stays
/// empty, and large garbage is freed at once.
const LARGE_BYTES: usize = 32 << 10;

/// Memory that is counted in a total.
pub struct Block {
    pages: Pages,
    /// Bytes that records use; written by the arena that fills the block.
    filled_bytes: AtomicUsize,
    total_bytes: Arc<AtomicU64>,
}

impl Block {
    fn new(bytes: usize, total_bytes: Arc<AtomicU64>) -> Self {
        let layout = Layout::from_size_align(bytes, layout(0).align())
            .unwrap_or_else(|_| unreachable!("a block fits in memory"));
        total_bytes.fetch_add(bytes as u64, Relaxed);
        Self { pages: Pages::new(layout), filled_bytes: AtomicUsize::new(0), total_bytes }
    }

    pub fn bytes(&self) -> u64 {
        self.pages.len() as u64
    }

    pub fn start(&self) -> usize {
        self.pages.start().as_ptr().addr()
    }

    pub fn end(&self) -> usize {
        self.start() + self.pages.len()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // There are no links into it any more: every munk with such links holds the block.
        self.total_bytes.fetch_sub(self.bytes(), Relaxed);
    }
}

/// The blocks of a munk.
pub struct Arena {
    blocks: Vec<Arc<Block>>,
    /// The block that this arena may fill.
    filling: Option<Arc<Block>>,
    bytes: u64,
    filled_bytes: u64,
    expected_bytes: u64,
    total_bytes: Arc<AtomicU64>,
}

impl Arena {
    /// An arena for about `expected_bytes` of records.
    pub fn new(expected_bytes: u64, total_bytes: Arc<AtomicU64>) -> Self {
        Self { blocks: Vec::new(), filling: None, bytes: 0, filled_bytes: 0, expected_bytes, total_bytes }
    }

    /// Writes a record. It lives as long as this arena's blocks.
    pub fn write(&mut self, content: Content<'_>, cell: Option<&CommitCell>) -> RecordPtr {
        let layout = layout(content.key.len() + content.value.len());
        let place = self.allocate(layout);
        // SAFETY: the place was returned only once, and is as long and aligned as the layout.
        unsafe { Record::write(place, content, cell) }
    }

    /// Memory of a block for the layout, returned only once.
    fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        let bytes = layout.size();
        let fits = |block: &&Arc<Block>| block.pages.len() - block.filled_bytes.load(Relaxed) >= bytes;
        let block = if bytes >= LARGE_BYTES {
            self.add(bytes)
        } else if let Some(block) = self.filling.as_ref().filter(fits) {
            block.clone()
        } else {
            let missing = self.expected_bytes.saturating_sub(self.bytes);
            let next = if missing > 0 { missing } else { self.bytes / 4 };
            let next = (next as usize).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
            let block = self.add(of_few_sizes(next).max(bytes));
            self.filling.insert(block).clone()
        };
        let from = block.filled_bytes.load(Relaxed);
        block.filled_bytes.store(from + bytes, Relaxed);
        self.filled_bytes += bytes as u64;
        // SAFETY: within the block; sizes are multiples of the alignment, so every place is aligned.
        unsafe { block.pages.start().add(from) }
    }

    fn add(&mut self, bytes: usize) -> Arc<Block> {
        let block = Arc::new(Block::new(bytes, self.total_bytes.clone()));
        self.bytes += block.bytes();
        self.blocks.push(block.clone());
        block
    }

    pub fn blocks(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    /// The bytes of all blocks, full or not.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the blocks that records use, live or not.
    pub fn filled_bytes(&self) -> u64 {
        self.filled_bytes
    }

    pub fn total_bytes(&self) -> &Arc<AtomicU64> {
        &self.total_bytes
    }

    /// An arena with the blocks that are used. If `fill` is true, it continues to fill the block
    /// that this one filled.
    pub fn share(&mut self, used: &[bool], fill: bool) -> Self {
        let filling = if fill { self.filling.take() } else { None };
        let is_filling = |block: &Arc<Block>| filling.as_ref().is_some_and(|other| Arc::ptr_eq(block, other));
        let pairs = self.blocks.iter().zip(used);
        let blocks: Vec<_> = pairs
            .filter(|(block, used)| **used || is_filling(block))
            .map(|(block, _)| block.clone())
            .collect();
        let bytes = blocks.iter().map(|block| block.bytes()).sum();
        let filled_bytes = blocks.iter().map(|block| block.filled_bytes.load(Relaxed) as u64).sum();
        Self {
            blocks,
            filling,
            bytes,
            filled_bytes,
            expected_bytes: 0,
            total_bytes: self.total_bytes.clone(),
        }
    }
}
