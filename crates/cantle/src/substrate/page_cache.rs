//! The witness of the page cache: proof that unsynced writes of a dead process are still there.
//!
//! The file `PAGECACHE` is one block, allocated and synced when the store is created. At each
//! opening it is overwritten in place with the epoch and the identity of the page cache
//! (`Vfs::page_cache_identity`). If the next opening finds the same identity, nothing was lost:
//! then all writes count, not only those of the last checkpoint. A failed sync revokes this before
//! it is reported, because pages are marked clean after the failure and may be dropped.
//!
//! ```text
//!   0            8        16      17       19           19+n     51+n   4092
//!   ├────────────┼────────┼───────┼────────┼────────────┼────────┼──────┼──────┤
//!   │ "CANTLEPC" │ epoch  │ state │ n (2)  │ identity   │ closed │ zero │crc32c│
//! ```
//!
//! Closing a store records the state of its manifest in the block, so that the next opening
//! recognises a manifest that was cut, or belongs to another time. By itself such a manifest would
//! look like one after a power failure.

use crate::sync::{Arc, Mutex};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{OpenMode, Vfs, VfsFile};
use std::path::{Path, PathBuf};

pub const VOUCH_FILE: &str = "PAGECACHE";
const MAGIC: [u8; 8] = *b"CANTLEPC";
const BLOCK_BYTES: usize = 4096;
/// Bits of the state.
const VOUCHED: u8 = 1;
const PREVIOUS_COUNTS: u8 = 2;
const REVOKED: u8 = 4;

pub struct PageCacheWitness {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    file: Arc<dyn VfsFile>,
    block: Mutex<Block>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Block {
    epoch: u64,
    vouched: bool,
    /// True if everything of the previous epoch counts. Needed if the process died between writing
    /// this block and recording its epoch in the manifest.
    previous_counts: bool,
    /// True if a sync failed: bytes of a file after its last sync may be readable, but may never
    /// become durable.
    revoked: bool,
    identity: Vec<u8>,
    closed: Closed,
}

/// The state of a store when it was closed; all zeros while it is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Closed {
    pub store: u128,
    /// The manifest's number.
    pub manifest: u64,
    /// Bytes of the manifest that were durable.
    pub bytes: u64,
}

impl Block {
    /// True if the block belongs to this page cache, and the page cache has an identity.
    fn is_of(&self, identity: &[u8]) -> bool {
        !identity.is_empty() && self.identity == identity
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BLOCK_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.epoch.to_le_bytes());
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        out.push(
            flag(self.vouched, VOUCHED)
                | flag(self.previous_counts, PREVIOUS_COUNTS)
                | flag(self.revoked, REVOKED),
        );
        out.extend_from_slice(&(self.identity.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.identity);
        out.extend_from_slice(&self.closed.store.to_le_bytes());
        out.extend_from_slice(&self.closed.manifest.to_le_bytes());
        out.extend_from_slice(&self.closed.bytes.to_le_bytes());
        out.resize(BLOCK_BYTES - 4, 0);
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// A block that does not decode vouches for nothing.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (fields, crc) = bytes.split_last_chunk::<4>()?;
        if bytes.len() != BLOCK_BYTES || *crc != crc32c::crc32c(fields).to_le_bytes() {
            return None;
        }
        let fields = fields.strip_prefix(&MAGIC)?;
        let (epoch, fields) = fields.split_first_chunk::<8>()?;
        let (&state, fields) = fields.split_first()?;
        let (len, fields) = fields.split_first_chunk::<2>()?;
        let (identity, fields) = fields.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
        let (store, fields) = fields.split_first_chunk::<16>()?;
        let (manifest, fields) = fields.split_first_chunk::<8>()?;
        let (bytes, _) = fields.split_first_chunk::<8>()?;
        let is = |bit: u8| state & bit != 0;
        Some(Self {
            epoch: u64::from_le_bytes(*epoch),
            vouched: is(VOUCHED),
            previous_counts: is(PREVIOUS_COUNTS),
            revoked: is(REVOKED),
            identity: identity.to_vec(),
            closed: Closed {
                store: u128::from_le_bytes(*store),
                manifest: u64::from_le_bytes(*manifest),
                bytes: u64::from_le_bytes(*bytes),
            },
        })
    }
}

/// The block and the identity of the current page cache, if there are any. If they cannot be read
/// for the moment, this is an error and no doubt: a store that was opened without them would lose
/// the writes of the dead process.
fn look(vfs: &dyn Vfs, dir: &Path) -> Result<Option<(Block, Vec<u8>)>> {
    let path = dir.join(VOUCH_FILE);
    let read = || -> std::io::Result<Option<Block>> {
        if vfs.metadata(&path)?.is_none() {
            return Ok(None);
        }
        let mut bytes = vec![0; BLOCK_BYTES];
        let read = vfs.open(&path, OpenMode::Read)?.read_at(&mut bytes, 0)?;
        Ok(Block::decode(&bytes[..read]))
    };
    let block = read().map_err(|e| Error::io(Attempt::Read, &path, e))?;
    // A page cache without an identity equals no other.
    let identity = identity_of(vfs, dir)?.unwrap_or_default();
    Ok(block.map(|block| (block, identity)))
}

fn identity_of(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Vec<u8>>> {
    vfs.page_cache_identity(dir).map_err(|e| Error::io(Attempt::FindFileSystem, dir, e))
}

/// True if everything that the process of `epoch` wrote is known to be there still. False in doubt.
pub fn outlived(vfs: &dyn Vfs, dir: &Path, epoch: u64) -> Result<bool> {
    Ok(look(vfs, dir)?.is_some_and(|(block, identity)| {
        let is_same = block.is_of(&identity);
        canary!(IDENTITY_IGNORED => let is_same = true);
        is_same
            && ((block.epoch == epoch && block.vouched)
                || (block.epoch == epoch + 1 && block.previous_counts))
    }))
}

/// The facts that the block proves about the store's files.
#[derive(Debug, Default)]
pub struct Witnessed {
    /// No later epoch has written anything.
    pub epoch: u64,
    /// True if nothing written since this block was written can have been lost, neither by a power
    /// failure nor by a failed sync.
    pub is_intact: bool,
    pub closed: Closed,
}

/// The facts in the block, even if it vouches for nothing.
pub fn witnessed(vfs: &dyn Vfs, dir: &Path) -> Result<Witnessed> {
    Ok(look(vfs, dir)?.map_or_else(Witnessed::default, |(block, identity)| Witnessed {
        epoch: block.epoch,
        is_intact: block.is_of(&identity) && !block.revoked,
        closed: block.closed,
    }))
}

/// True if files may show bytes that the page cache will no longer write, because a sync failed.
/// True in doubt.
pub fn may_show_unsynced(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
    Ok(look(vfs, dir)?
        .is_none_or(|(block, identity)| identity.is_empty() || (block.identity == identity && block.revoked)))
}

impl PageCacheWitness {
    /// Begins an epoch, before the manifest records it. With `vouch` the block vouches for the page
    /// cache until a sync fails.
    pub fn begin(
        vfs: &Arc<dyn Vfs>,
        dir: &Path,
        epoch: u64,
        vouch: bool,
        previous_counts: bool,
    ) -> Result<Self> {
        let path = dir.join(VOUCH_FILE);
        let identity = identity_of(&**vfs, dir)?.filter(|identity| identity.len() < 1024);
        let known = identity.is_some();
        let identity = identity.unwrap_or_default();
        let block = Block {
            epoch,
            vouched: vouch && known,
            previous_counts: previous_counts && known,
            revoked: false,
            identity,
            closed: Closed::default(),
        };
        let begin = || -> std::io::Result<Arc<dyn VfsFile>> {
            let exists = vfs.metadata(&path)?.is_some();
            let file = vfs.open(&path, if exists { OpenMode::ReadWrite } else { OpenMode::CreateNew })?;
            file.write_at(&block.encode(), 0)?;
            if !exists {
                // Allocated and durable, so that a revocation needs no space.
                file.sync_data()?;
                // This also makes the marker of an unfinished repair durable.
                canary!(UNNAMED_REPAIR else vfs.sync_dir(dir))?;
            }
            Ok(file)
        };
        let file = begin().map_err(|e| Error::io(Attempt::Write, &path, e))?;
        Ok(Self { vfs: vfs.clone(), path, file, block: Mutex::new(block) })
    }

    /// True if the page cache has an identity, so that the block can vouch for it.
    pub fn is_possible(&self) -> bool {
        !self.block.lock().identity.is_empty()
    }

    /// Begins or stops to vouch for the page cache.
    pub fn set(&self, vouch: bool) -> Result<()> {
        let mut block = self.block.lock();
        block.vouched = vouch && !block.identity.is_empty() && !block.revoked;
        self.file.write_at(&block.encode(), 0).map_err(|e| Error::io(Attempt::Write, &self.path, e))
    }

    /// Records that the store was closed. If this is not durable, the block proves less, which does
    /// no harm.
    pub fn close(&self, closed: Closed) -> Result<()> {
        let mut block = self.block.lock();
        block.closed = closed;
        self.file.write_at(&block.encode(), 0).map_err(|e| Error::io(Attempt::Write, &self.path, e))
    }

    /// Stops to vouch for anything.
    pub fn revoke(&self) -> Result<()> {
        let mut block = self.block.lock();
        if block.revoked {
            return Ok(());
        }
        (block.vouched, block.previous_counts, block.revoked) = (false, false, true);
        let written = self.file.write_at(&block.encode(), 0).or_else(|error| {
            // Without the file nothing is vouched for either. If the removal is not durable, this
            // does no harm: a power loss changes the identity of the page cache.
            self.vfs.remove(&self.path).map_err(|_| error)
        });
        written.and_then(|()| self.file.sync_data()).map_err(|e| Error::io(Attempt::Write, &self.path, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::documented::assert_documented;

    #[test]
    fn the_documented_block_is_what_is_written() {
        let identity = b"7e6b1f62-5c0d-4d3a-9a53-0d6f2a8c1b47 254:0 ext4 4711".to_vec();
        let closed = Closed { store: 0x0123_4567_89ab_cdef_0011_2233_4455_6677, manifest: 1, bytes: 222 };
        let block =
            Block { epoch: 3, vouched: true, previous_counts: true, revoked: false, identity, closed };
        let bytes = block.encode();
        let page = include_str!("../../docs/format/pagecache.md");
        assert_documented(page, &bytes[..112], 0);
        assert!(bytes[112..4092].iter().all(|&byte| byte == 0));
        assert_documented(page, &bytes[4080..], 4080);
    }

    #[test]
    fn a_block_round_trips_and_any_flipped_bit_vouches_for_nothing() {
        let block = Block {
            epoch: 7,
            vouched: true,
            previous_counts: false,
            revoked: true,
            identity: b"boot/device".to_vec(),
            closed: Closed { store: 5, manifest: 6, bytes: 7 },
        };
        let bytes = block.encode();
        assert_eq!(Block::decode(&bytes), Some(block));
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[index] ^= 0x10;
            assert_eq!(Block::decode(&damaged), None, "byte {index}");
        }
        assert_eq!(Block::decode(&bytes[..100]), None);
    }
}
