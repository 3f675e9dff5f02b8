//! The right to copy a munk without its garbage.

use super::chunk::Chunk;
use super::munk::Munk;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::{AcqRel, Release};

/// A munk that is being copied. Dropping this ends the copy.
pub struct Cleaning {
    pub chunk: Arc<Chunk>,
    pub munk: Arc<Munk>,
}

impl Cleaning {
    /// Begins a copy; `None` if another thread copies the munk. Under the chunk's lock.
    pub fn begin(chunk: &Arc<Chunk>, munk: &Arc<Munk>) -> Option<Self> {
        if chunk.cleaning.swap(true, AcqRel) {
            return None;
        }
        munk.begin_copy();
        Some(Self { chunk: chunk.clone(), munk: munk.clone() })
    }
}

impl Drop for Cleaning {
    fn drop(&mut self) {
        self.munk.end_copy();
        self.chunk.cleaning.store(false, Release);
    }
}
