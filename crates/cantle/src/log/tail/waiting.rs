//! The end of a log while it waits to be written to the file.

use crate::log::tail::write_buffer::Lease;

/// The waiting bytes of one log, as they will stand in the file from `base` on.
pub(super) enum Waiting {
    /// Nothing waits: an append is written at once. `warm`: there was an append since the last
    /// checkpoint, so another one is worth a slot.
    Nowhere { warm: bool },
    /// The bytes survive the death of the process.
    Slot(Lease),
    /// The bytes are lost with the process.
    Memory { base: u64, bytes: Vec<u8> },
}

impl Waiting {
    /// Offset of the first byte that waits or would wait; `u64::MAX` if appends do not wait.
    pub fn base(&self) -> u64 {
        match self {
            Self::Nowhere { .. } => u64::MAX,
            Self::Slot(lease) => lease.base(),
            Self::Memory { base, .. } => *base,
        }
    }

    /// Appends bytes at `offset`, the end of the log. False, with nothing appended, if they cannot
    /// wait.
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

    /// The bytes to be written: all; in memory, only those before `len`. `None` if they are lost.
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

    /// Records that the first `len` bytes are in the file: all bytes, except in memory.
    pub fn set_drained(&mut self, len: usize) {
        match self {
            Self::Nowhere { .. } => {}
            Self::Slot(lease) => lease.set_drained(),
            Self::Memory { base, bytes } => {
                *base += len as u64;
                // Its memory is freed, too: many logs may never be written to again.
                *bytes = bytes.split_off(len);
            }
        }
    }

    /// Records that the file ends at `end`, and nothing waits.
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

    /// Number of bytes that wait in memory only.
    pub fn in_memory_bytes(&self) -> u64 {
        match self {
            Self::Nowhere { .. } | Self::Slot(_) => 0,
            Self::Memory { bytes, .. } => bytes.len() as u64,
        }
    }

    /// Drops the waiting bytes from `len` on; false if the slot of a process that dies may still
    /// have them.
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

    /// The length of the file that counts, in a log that ends at `len`: a failed drain may have
    /// left more bytes after it. Bytes that wait in memory are not written while they may be
    /// truncated.
    pub fn counted_in_file(&self, len: u64) -> u64 {
        match self {
            Self::Slot(lease) => len.min(lease.base()),
            Self::Nowhere { .. } | Self::Memory { .. } => len,
        }
    }
}
