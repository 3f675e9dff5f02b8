//! The properties of a table.

use super::lineage::Lineage;
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
    /// The lowest version, range deletes included; the base version of the file if there is none.
    pub(crate) min_version: u64,
    /// The highest version, range deletes included; the base version of the file if there is none.
    pub(crate) max_version: u64,
    /// The first key; empty if there are no entries.
    pub(crate) smallest: Vec<u8>,
    /// The last key; empty if there are no entries.
    pub(crate) largest: Vec<u8>,
    /// Ranges with range deletes.
    pub(crate) ranges: u64,
}

impl TableMeta {
    /// Those of a table without entries.
    pub(super) fn empty(base_version: u64) -> Self {
        Self {
            file_bytes: 0,
            entries: 0,
            tombstones: 0,
            user_bytes: 0,
            min_version: base_version,
            max_version: base_version,
            smallest: Vec::new(),
            largest: Vec::new(),
            ranges: 0,
        }
    }

    /// Counts a version of the next entry or range.
    pub(super) fn add_version(&mut self, version: u64) {
        let is_first = self.entries == 0 && self.ranges == 0;
        self.min_version = if is_first { version } else { self.min_version.min(version) };
        self.max_version = self.max_version.max(version);
    }

    /// The properties block. It omits the file's length, which the file system knows.
    pub(super) fn encode(&self, base_version: u64, lineage: Option<&Lineage>) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.entries);
        put_varint(&mut out, self.tombstones);
        put_varint(&mut out, self.user_bytes);
        put_varint(&mut out, self.min_version.saturating_sub(base_version));
        put_varint(&mut out, self.max_version.saturating_sub(base_version));
        put_bytes(&mut out, &self.smallest);
        put_bytes(&mut out, &self.largest);
        if self.ranges > 0 || lineage.is_some() {
            put_varint(&mut out, self.ranges);
        }
        if let Some(lineage) = lineage {
            lineage.encode(&mut out);
        }
        out
    }

    /// Decodes the properties block of a file of this length and base version, with the lineage of
    /// the table, if it has one.
    pub(super) fn decode(
        bytes: &[u8],
        base_version: u64,
        file_bytes: u64,
    ) -> Result<(Self, Option<Lineage>), Malformed> {
        let mut decoder = Decoder::new(bytes);
        let version = |difference: u64| {
            base_version.checked_add(difference).ok_or(Malformed("a version exceeds 64 bits"))
        };
        let mut meta = Self {
            file_bytes,
            entries: decoder.varint()?,
            tombstones: decoder.varint()?,
            user_bytes: decoder.varint()?,
            min_version: version(decoder.varint()?)?,
            max_version: version(decoder.varint()?)?,
            smallest: decoder.bytes()?.to_vec(),
            largest: decoder.bytes()?.to_vec(),
            ranges: 0,
        };
        if !decoder.rest().is_empty() {
            meta.ranges = decoder.size()?;
        }
        let lineage = match decoder.rest().is_empty() {
            true => None,
            false => Some(Lineage::decode(&mut decoder)?),
        };
        decoder.finish()?;
        Ok((meta, lineage))
    }
}
