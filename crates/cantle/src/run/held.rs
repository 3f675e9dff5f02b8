//! Keys with their values that are held back until it is decided to which table they go. They are
//! copies in mapped memory, which is freed as a whole: thousands of short-lived values would leave
//! holes in the allocator's heap, and slices of the blocks that were read would pin whole blocks.
//! The memory is charged to merges.

use crate::memory::account::Account;
use crate::memory::charged::ChargedBuffer;
use crate::types::entry::Content;
use crate::types::entry::Kind;
use std::ops::Range;

/// Minimum size in bytes of a piece of memory. A longer copy has a piece of its own.
const PIECE_BYTES: usize = 512 << 10;

pub struct Held<'a> {
    account: &'a Account,
    pieces: Vec<ChargedBuffer>,
    /// Bytes used of the last piece.
    filled: usize,
    entries: Vec<Entry>,
    bytes: u64,
}

struct Entry {
    /// The place of key and value, which are adjacent: the number of the piece, and the key's range
    /// in it.
    piece: usize,
    key: Range<usize>,
    value_len: usize,
    version: u64,
    kind: Kind,
    /// True for the newest version of its key; the older ones follow.
    is_newest: bool,
}

/// Estimated bytes of an entry in a table.
pub fn entry_bytes(entry: &Content<'_>) -> u64 {
    (entry.key.len() + entry.value.len() + 8) as u64
}

impl<'a> Held<'a> {
    pub fn new(account: &'a Account) -> Self {
        Self { account, pieces: Vec::new(), filled: 0, entries: Vec::new(), bytes: 0 }
    }

    /// Takes all entries out, and leaves `self` empty.
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.account))
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Estimated bytes of all entries in a table.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Holds the versions of one key, newest first.
    pub fn push<'e>(&mut self, entries: impl Iterator<Item = Content<'e>>) {
        for (index, entry) in entries.enumerate() {
            self.bytes += entry_bytes(&entry);
            let key = self.copy(entry.key, entry.value);
            let piece = self.pieces.len().saturating_sub(1);
            let (value_len, version, kind) = (entry.value.len(), entry.version, entry.kind);
            self.entries.push(Entry { piece, key, value_len, version, kind, is_newest: index == 0 });
        }
    }

    /// The versions of each key, newest first, in key order.
    pub fn keys(&self) -> impl Iterator<Item = impl Iterator<Item = Content<'_>> + Clone> {
        let keys = self.entries.chunk_by(|_, next| !next.is_newest);
        keys.map(|entries| entries.iter().map(|entry| self.content(entry)))
    }

    fn content(&self, entry: &Entry) -> Content<'_> {
        let piece = self.pieces.get(entry.piece).map_or(&[][..], ChargedBuffer::as_ref);
        let (key, value) = piece[entry.key.start..entry.key.end + entry.value_len].split_at(entry.key.len());
        Content { key, version: entry.version, kind: entry.kind, value }
    }

    /// Copies both to the end of the last piece; returns the range of the key there.
    fn copy(&mut self, key: &[u8], value: &[u8]) -> Range<usize> {
        let len = key.len() + value.len();
        let room = self.pieces.last().map_or(0, |piece| piece.as_ref().len() - self.filled);
        if room < len {
            let piece_bytes = len.max(PIECE_BYTES);
            self.pieces
                .extend(ChargedBuffer::new(piece_bytes, self.account.charge_anyway(piece_bytes as u64)));
            self.filled = 0;
        }
        let start = self.filled;
        if let Some(piece) = self.pieces.last_mut() {
            let (to_key, to_value) = piece.buffer.as_mut()[start..start + len].split_at_mut(key.len());
            to_key.copy_from_slice(key);
            to_value.copy_from_slice(value);
            self.filled += len;
        }
        start..start + key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_comes_back_key_by_key() {
        let value = |len: usize| vec![len as u8; len];
        let lens = [0, 7, 300_000, 300_000, PIECE_BYTES + 1, 0, 3, PIECE_BYTES, 1];
        let values = lens.map(value);
        let content = |index: usize, key: &'static str| Content {
            key: key.as_bytes(),
            version: 100 - index as u64,
            kind: if lens[index] == 0 { Kind::Delete } else { Kind::Put },
            value: &values[index],
        };
        let keys: [&[(usize, &str)]; 5] = [
            &[(0, ""), (1, "")],
            &[(2, "a"), (3, "a"), (4, "a")],
            &[(5, "ab")],
            &[(6, "b"), (7, "b")],
            &[(8, "c")],
        ];
        let account = Account::new(u64::MAX);
        let mut held = Held::new(&account);
        assert!(held.is_empty() && held.keys().next().is_none());
        for versions in keys {
            held.push(versions.iter().map(|(index, key)| content(*index, key)));
        }
        assert!(!held.is_empty() && held.keys().count() == keys.len());
        let all =
            || keys.iter().flat_map(|versions| versions.iter().map(|(index, key)| content(*index, key)));
        assert_eq!(held.bytes(), all().map(|entry| entry_bytes(&entry)).sum::<u64>());
        for (found, versions) in held.keys().zip(keys) {
            assert_eq!(found.clone().count(), versions.len());
            for (found, (index, key)) in found.zip(versions) {
                let expected = content(*index, key);
                assert_eq!((found.key, found.version), (expected.key, expected.version));
                assert_eq!((found.kind, found.value), (expected.kind, expected.value));
            }
        }
        let lens: Vec<_> = held.pieces.iter().map(|piece| piece.as_ref().len()).collect();
        let own = [PIECE_BYTES + 2, PIECE_BYTES + 1];
        assert_eq!(lens, [PIECE_BYTES, PIECE_BYTES, own[0], PIECE_BYTES, own[1], PIECE_BYTES]);
        assert_eq!(account.used_bytes(), lens.iter().sum::<usize>() as u64);
        let taken = held.take();
        assert!(held.is_empty() && !taken.is_empty());
        drop(taken);
        assert_eq!(account.used_bytes(), 0);
    }
}
