//! Builds one block after another.

use super::{KIND_BITS, RESTART_ENTRIES_MAX, shared_prefix};
use crate::format::codec::put_varint;
use crate::types::entry::Kind;

/// Collects the entries of a block.
///
/// Entries are added in order: keys ascending, the versions of a key newest first. Equal pairs of key and
/// version may follow one another and keep their order.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    base_version: u64,
    restart_entries: usize,
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    /// Number of entries since the last restart point, including it.
    since_restart: usize,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// Versions are stored as differences to `base_version`; no added version may be below it.
    pub(crate) fn new(base_version: u64) -> Self {
        Self::with_restarts(base_version, RESTART_ENTRIES_MAX)
    }

    /// With a restart point every `restart_entries` entries; 1 to [`RESTART_ENTRIES_MAX`].
    pub(crate) fn with_restarts(base_version: u64, restart_entries: usize) -> Self {
        Self {
            base_version,
            restart_entries: restart_entries.clamp(1, RESTART_ENTRIES_MAX),
            bytes: Vec::new(),
            restarts: Vec::new(),
            since_restart: 0,
            last_key: Vec::new(),
        }
    }

    /// Appends an entry. The block must stay within `BLOCK_BYTES_MAX`.
    pub(crate) fn add(&mut self, key: &[u8], version: u64, kind: Kind, value: &[u8]) {
        assert!(version >= self.base_version, "version {version} is below {}", self.base_version);
        let mut shared = 0;
        if self.restarts.is_empty() || self.since_restart == self.restart_entries {
            self.restarts.push(self.bytes.len() as u32);
            self.since_restart = 0;
        } else {
            shared = shared_prefix(&self.last_key, key);
        }
        self.since_restart += 1;
        put_varint(&mut self.bytes, (shared as u64) << KIND_BITS | kind as u64);
        put_varint(&mut self.bytes, (key.len() - shared) as u64);
        put_varint(&mut self.bytes, version - self.base_version);
        put_varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
    }

    /// Length of the block if it were finished now.
    pub(crate) fn size_bytes(&self) -> usize {
        self.bytes.len() + (self.restarts.len() + 1) * size_of::<u32>()
    }

    /// True if nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Returns the block. The builder starts over.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        for &restart in &self.restarts {
            self.bytes.extend_from_slice(&restart.to_le_bytes());
        }
        self.bytes.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        self.restarts.clear();
        self.since_restart = 0;
        self.last_key.clear();
        std::mem::take(&mut self.bytes)
    }
}
