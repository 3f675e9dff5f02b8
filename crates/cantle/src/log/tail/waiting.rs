//! The end of a log while it waits to be written to the file.

use crate::log::tail::write_buffer::Lease;

/// The waiting bytes of one log, as they will stand in the file, from `base` on.
pub(super) enum Waiting {
    /// Nothing: an append is written at once. `warm`: there was one since the last checkpoint, so that
    /// another is worth a slot.
    Nowhere { warm: bool },
    /// Safe from the death of the process.
    Slot(Lease),
    /// Gone with the process.
    Memory { base: u64, bytes: Vec<u8> },
}

impl Waiting {
    /// The place of the first byte that waits or would; `u64::MAX` where none does.
    pub fn base(&self) -> u64 {
        match self {
            Self::Nowhere { .. } => u64::MAX,
            Self::Slot(lease) => lease.base(),
            Self::Memory { base, .. } => *base,
        }
    }

    /// Appends bytes at `offset`, where the log ends; false, and nothing was appended, if they cannot wait.
    pub fn push(&mut self, more: &[u8], records: u64, offset: u64) -> bool {
        match self {
            Self::Nowhere { .. } => false,
            Self::Slot(lease) => {
                debug_assert_eq!(lease.end(), offset, "appends to the end");
                lease.push(more, records)
            }
            Self::Memory { base, bytes } => {
                debug_assert_eq!(*base + bytes.len() as u64, offset, "appends to the end");
                bytes.extend_from_slice(more);
                true
            }
        }
    }

    /// `len` bytes at `at`, if all of them wait.
    pub fn read(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        match self {
            Self::Nowhere { .. } => None,
            Self::Slot(lease) => lease.read(at, len),
            Self::Memory { base, bytes } => {
                let start = usize::try_from(at.checked_sub(*base)?).ok()?;
                Some(bytes.get(start..start.checked_add(len)?)?.to_vec())
            }
        }
    }

    /// The bytes to be written: all; in memory, those before `len`. `None` if they are lost.
    pub fn before(&self, len: u64) -> Option<Vec<u8>> {
        match self {
            Self::Nowhere { .. } => Some(Vec::new()),
            Self::Slot(lease) => lease.buffered(),
            Self::Memory { base, bytes } => {
                let count = len.saturating_sub(*base).min(bytes.len() as u64) as usize;
                Some(bytes[..count].to_vec())
            }
        }
    }

    /// The first `len` bytes are in the file: all, but of what waits in memory.
    pub fn set_drained(&mut self, len: usize) {
        match self {
            Self::Nowhere { .. } => {}
            Self::Slot(lease) => lease.set_drained(),
            Self::Memory { base, bytes } => {
                *base += len as u64;
                // Its memory goes, too: many logs may never be written to again.
                *bytes = bytes.split_off(len);
            }
        }
    }

    /// The file ends at `end`, and nothing waits.
    pub fn set_base(&mut self, end: u64) {
        match self {
            Self::Nowhere { .. } => {}
            Self::Slot(lease) => lease.set_base(end),
            Self::Memory { base, bytes } => {
                debug_assert!(bytes.is_empty(), "all was drained before");
                *base = end;
            }
        }
    }

    /// The bytes that wait in memory alone.
    pub fn in_memory_bytes(&self) -> u64 {
        match self {
            Self::Nowhere { .. } | Self::Slot(_) => 0,
            Self::Memory { bytes, .. } => bytes.len() as u64,
        }
    }

    /// Forgets what waits from `len` on; false if a dead process may leave it there.
    pub fn truncate(&mut self, len: u64) -> bool {
        match self {
            Self::Nowhere { .. } => true,
            Self::Slot(lease) => lease.truncate(len),
            Self::Memory { base, bytes } => {
                bytes.truncate(len.saturating_sub(*base).min(bytes.len() as u64) as usize);
                true
            }
        }
    }

    /// The length of the file that counts, in a log that ends at `len`: behind it a drain that failed may
    /// have left more. None of the bytes that wait in memory is written while it may be taken back.
    pub fn counted_in_file(&self, len: u64) -> u64 {
        match self {
            Self::Slot(lease) => len.min(lease.base()),
            Self::Nowhere { .. } | Self::Memory { .. } => len,
        }
    }
}
