//! The reads of one get in several files: those that memory answers are made when they are needed, the others
//! at the same time.
//!
//! A read waits for a device if neither a cache nor a read that does not wait ([`VfsFile::read_now_at`]) answers it.
//! Some file systems cannot read without waiting. There, any block that is in no cache counts as one on the device.
//! Until the first such read this costs a get as much as [`Directly`](super::Directly): what the other reads need is
//! made only then.
//!
//! Thread safety: it belongs to one thread.

use super::together::APART_BYTES;
use super::{Fetch, Place, Together, Unfetched};
use crate::cache::{BlockCache, CacheValue};
use crate::sync::Arc;
use crate::sync::time::now;
use crate::types::error::Result;
use crate::vfs::{ReadQueue, VfsFile};
use bytes::Bytes;
use std::cell::OnceCell;

#[derive(Default)]
pub(crate) struct InParallel(OnceCell<Together>);

impl InParallel {
    /// Makes the reads that wait, and notes their time. Returns their number.
    pub(crate) fn read(&self, queue: &ReadQueue) -> usize {
        let begun = now();
        let reading = queue.depth.begin();
        let places = self.0.get().map_or(0, |batch| batch.read(queue));
        drop(reading);
        queue.depth.note(places, begun.elapsed());
        places
    }

    /// Leaves loads that nobody has finished to other threads. Called before anything that may wait for one.
    pub(crate) fn end_leads(&self) {
        if let Some(batch) = self.0.get() {
            batch.end_leads();
        }
    }
}

/// The bytes at a place, if the operating system has all of them in memory.
fn read_now(file: &dyn VfsFile, place: Place) -> Option<Bytes> {
    let mut buffer = vec![0; usize::try_from(place.len).ok()?];
    let read = file.read_now_at(&mut buffer, place.offset).ok()??;
    (read == buffer.len()).then(|| buffer.into())
}

impl Fetch for InParallel {
    type Stop = Unfetched;

    fn bytes(
        &self,
        place: Place,
        open: impl FnOnce() -> Result<Arc<dyn VfsFile>>,
        read: impl FnOnce() -> Result<Bytes>,
    ) -> Result<Bytes, Unfetched> {
        match self.0.get() {
            Some(batch) if batch.knows(place) || place.len > APART_BYTES => {
                return batch.bytes(place, open, read);
            }
            // Nothing waits yet that a long read would delay.
            None if place.len > APART_BYTES => return Ok(read()?),
            _ => {}
        }
        let file = match (open(), self.0.get()) {
            (Ok(file), _) => file,
            // The process may have too many files open.
            (Err(_), Some(_)) => return Err(Unfetched::Apart),
            (Err(_), None) => return Ok(read()?),
        };
        match read_now(&*file, place) {
            Some(bytes) => Ok(bytes),
            None => self.0.get_or_init(Together::default).bytes(place, || Ok(file), read),
        }
    }

    fn before_long_read(&self) -> Result<(), Unfetched> {
        if self.0.get().is_some() { Err(Unfetched::Apart) } else { Ok(()) }
    }

    #[inline]
    fn entry(
        &self,
        cache: &BlockCache,
        file: u64,
        offset: u64,
        load: impl FnOnce() -> Result<CacheValue, Unfetched>,
    ) -> Result<CacheValue, Unfetched> {
        if let Some(batch) = self.0.get() {
            return batch.entry(cache, file, offset, load);
        }
        let loaded = cache.get_or_load(file, offset, load);
        if let (Err(Unfetched::Requested), Some(batch)) = (&loaded, self.0.get()) {
            batch.requested_for(cache, file, offset);
        }
        loaded
    }
}
