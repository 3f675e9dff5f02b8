//! Entries: the versions of keys as tables and logs hold them, and the cursors that walk them.

use crate::types::error::Result;
use bytes::Bytes;

/// The kind of an entry: its effect on the key. The numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The key was deleted at this version. The value is empty.
    Delete = 0,
    /// The key has this value since this version.
    Put = 1,
    /// Every key from this one up to the key in the value, which is excluded, was deleted. In logs
    /// only.
    DeleteRange = 2,
    /// The same as a put; the value is a reference to the record that has the key's value
    /// (`records::Reference`). In tables only.
    PutApart = 3,
}

impl Kind {
    /// The kind of an operation with this number, if this version of the format has one.
    pub fn from_u8(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Delete),
            1 => Some(Self::Put),
            2 => Some(Self::DeleteRange),
            // 3 is in tables only. 4 is reserved for values with a time of expiry.
            _ => None,
        }
    }

    /// The same for an entry of a table, or of the index of a log.
    pub fn in_table(number: u8) -> Option<Self> {
        if number == Self::PutApart as u8 { Some(Self::PutApart) } else { Self::from_u8(number) }
    }

    /// True if the key has a value.
    pub fn is_put(self) -> bool {
        matches!(self, Self::Put | Self::PutApart)
    }
}

/// One version of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// The version at which the entry was written.
    pub version: u64,
    /// The effect on the key.
    pub kind: Kind,
}

/// Walks the entries of one source in order: keys ascending, and the versions of a key newest first.
///
/// After an error the cursor is not positioned; seek again. A new cursor is not positioned either.
pub trait EntryCursor: Send {
    /// To the first entry.
    fn seek_to_first(&mut self) -> Result<()>;
    /// To the last entry: the oldest version of the greatest key.
    fn seek_to_last(&mut self) -> Result<()>;
    /// To the newest version of the first key at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// To the oldest version of the last key strictly before `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;
    /// True if a seek has to wait for a slow device before it knows the place of a key, as far as is known. With `begin`,
    /// the device begins to read. A hint, as [`Self::announce`], which comes next.
    fn announce_index(&mut self, begin: bool) -> bool {
        let _ = begin;
        false
    }
    /// True if a seek of `key`, in either direction, will wait for a slow device, as far as is known. With
    /// `begin`, the device begins to read. A hint: the caller seeks next, and failures are left to that seek.
    fn announce(&mut self, key: &[u8], begin: bool) -> bool {
        let _ = (key, begin);
        false
    }
    /// One entry forward. No-op when not positioned.
    fn next(&mut self) -> Result<()>;
    /// One entry back. No-op when not positioned.
    fn prev(&mut self) -> Result<()>;
    /// The entry under the cursor, or `None` past either end.
    fn entry(&self) -> Option<EntryRef<'_>>;
    /// Position of the entry among the entries and range deletes of its source: a range delete covers
    /// entries with lower positions, and an entry is newer than one of the same version with a lower
    /// position. 0 in sources that keep one entry for a version and have no range deletes.
    fn position(&self) -> u64 {
        0
    }
    /// The value of the entry under the cursor, fetched if it is kept apart from the key. Must only
    /// be called when `entry()` is `Some`.
    fn value(&mut self) -> Result<Bytes>;
}

/// A borrowed entry with its value, as merges and writers pass it on.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    pub key: &'a [u8],
    pub version: u64,
    pub kind: Kind,
    pub value: &'a [u8],
}

/// Size in bytes from which a key with its value counts as large. A chunk of 8 MiB has at most 512
/// such pairs.
pub const LARGE_BYTES: u32 = 16 << 10;

/// The bytes of a put that count as large, if those from this size on do: all of them, or 0.
pub fn large_part(user_bytes: u64, large_from: u32) -> u64 {
    if user_bytes >= large_from.into() { user_bytes } else { 0 }
}
