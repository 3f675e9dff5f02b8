//! The reads of a get: each made when it is needed, or requested and made together with others.
//!
//! A get finds out what to read next from what it has read: a filter, an index, a block. Code that looks
//! up a key is written once, over a [`Fetch`]. With [`Directly`] it waits for each read. With [`Together`]
//! it leaves the place and stops ([`Unfetched::Requested`]). When the places of many gets have been read at
//! the same time, each get begins again and comes one read further. Up to there all is in memory, so that
//! beginning again takes little time beside a read. With [`InParallel`] one get does so with the files that it
//! searches.

mod in_parallel;
mod together;
#[cfg(test)]
mod together_tests;

pub(crate) use in_parallel::InParallel;
pub(crate) use together::{Many, Together};

use crate::cache::{BlockCache, CacheValue};
use crate::sync::Arc;
use crate::types::error::{Error, Result};
use crate::vfs::VfsFile;
use bytes::Bytes;

/// A place in a file of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// The file's number.
    pub(crate) file: u64,
    /// Offset in the file, in bytes.
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) len: u64,
}

/// A way to read.
pub(crate) trait Fetch {
    /// The reason why a get stops.
    type Stop: From<Error>;

    /// The bytes at a place of the file that `open` returns. `read` reads them now: all of them, or fewer
    /// if the file ends and the caller checks that.
    fn bytes(
        &self,
        place: Place,
        open: impl FnOnce() -> Result<Arc<dyn VfsFile>>,
        read: impl FnOnce() -> Result<Bytes>,
    ) -> Result<Bytes, Self::Stop>;

    /// Called before a long read that is not made by [`Self::bytes`].
    fn before_long_read(&self) -> Result<(), Self::Stop>;

    /// The entry of the cache for this offset of a file. `load` makes it by [`Self::bytes`], if it is not
    /// cached; it must not ask for another entry.
    fn entry(
        &self,
        cache: &BlockCache,
        file: u64,
        offset: u64,
        load: impl FnOnce() -> Result<CacheValue, Self::Stop>,
    ) -> Result<CacheValue, Self::Stop>;
}

/// Waits for each read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Directly;

impl Fetch for Directly {
    type Stop = Error;

    fn bytes(
        &self,
        _: Place,
        _: impl FnOnce() -> Result<Arc<dyn VfsFile>>,
        read: impl FnOnce() -> Result<Bytes>,
    ) -> Result<Bytes> {
        read()
    }

    fn before_long_read(&self) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn entry(
        &self,
        cache: &BlockCache,
        file: u64,
        offset: u64,
        load: impl FnOnce() -> Result<CacheValue>,
    ) -> Result<CacheValue> {
        cache.get_or_load(file, offset, load)
    }
}

/// The reason why a get has no result, or none yet.
#[derive(Debug)]
pub(crate) enum Unfetched {
    /// The get failed.
    Failed(Error),
    /// The get waits for a read, and is to begin again when it has been made.
    Requested,
    /// The get needs a long read, or a resource that is short, and is to be made by itself.
    Apart,
}

impl From<Error> for Unfetched {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
