//! The properties of a table.

use crate::format::codec::{Decoder, Malformed, put_bytes, put_varint};

/// Sizes and bounds of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableMeta {
    /// Length of the file.
    pub(crate) file_bytes: u64,
    /// Entries of all kinds.
    pub(crate) entries: u64,
    /// Entries that are no `Put`.
    pub(crate) tombstones: u64,
    /// Lengths of the keys and values of all `Put` entries.
    pub(crate) user_bytes: u64,
    /// The lowest version; the base version of the file if there are no entries.
    pub(crate) min_version: u64,
    /// The highest version; the base version of the file if there are no entries.
    pub(crate) max_version: u64,
    /// The first key; empty if there are no entries.
    pub(crate) smallest: Vec<u8>,
    /// The last key; empty if there are no entries.
    pub(crate) largest: Vec<u8>,
}

impl TableMeta {
    /// The properties block. It omits the file's length, which the file system knows.
    pub(super) fn encode(&self, base_version: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.entries);
        put_varint(&mut out, self.tombstones);
        put_varint(&mut out, self.user_bytes);
        put_varint(&mut out, self.min_version.saturating_sub(base_version));
        put_varint(&mut out, self.max_version.saturating_sub(base_version));
        put_bytes(&mut out, &self.smallest);
        put_bytes(&mut out, &self.largest);
        out
    }

    /// Decodes the properties block of a file of this length and base version.
    pub(super) fn decode(bytes: &[u8], base_version: u64, file_bytes: u64) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let version = |difference: u64| {
            base_version.checked_add(difference).ok_or(Malformed("a version exceeds 64 bits"))
        };
        let meta = Self {
            file_bytes,
            entries: decoder.varint()?,
            tombstones: decoder.varint()?,
            user_bytes: decoder.varint()?,
            min_version: version(decoder.varint()?)?,
            max_version: version(decoder.varint()?)?,
            smallest: decoder.bytes()?.to_vec(),
            largest: decoder.bytes()?.to_vec(),
        };
        decoder.finish()?;
        Ok(meta)
    }
}
