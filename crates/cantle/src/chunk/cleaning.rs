//! A copy of a munk that is to be made.

use super::chunk::Chunk;
use super::munk::Munk;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::{AcqRel, Release};

/// A munk that is to be copied; no longer to be when this is dropped.
pub struct Cleaning {
    pub chunk: Arc<Chunk>,
    pub munk: Arc<Munk>,
}

impl Cleaning {
    /// Unless somebody is at it. Under the chunk's lock.
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
