//! Finds one key in a block without copying a key.

use super::{Block, entry_order, shared_prefix};
use crate::format::codec::Malformed;
use crate::types::entry::Kind;
use crate::types::order::KeyOrder;
use std::cmp::Ordering;
use std::ops::Range;

/// Walks from the first entry at or after (target, version), as long as the entries have the
/// target's key.
///
/// In bytewise order, keys are not put together. The walk knows that it is below the target, and
/// the number of leading bytes that it has in common with it. With these, the suffix of each
/// further entry decides.
pub(crate) struct Probe<'a> {
    block: &'a Block,
    order: &'a KeyOrder,
    target: &'a [u8],
    /// Offset at which the next entry begins.
    next: usize,
    /// Length of the last entry's key.
    key_bytes: usize,
    /// Number of leading bytes that the last entry's key has in common with the target. Bytewise
    /// order only.
    matched: usize,
    /// The last entry's key. Other orders only.
    key: Vec<u8>,
}

/// An entry that a probe found.
#[derive(Debug, Clone)]
pub(crate) struct Hit {
    /// True if the key is the target; otherwise it is greater.
    pub(crate) is_target: bool,
    /// The entry's version.
    pub(crate) version: u64,
    /// The entry's kind.
    pub(crate) kind: Kind,
    /// The range of the value, for [`Block::slice`].
    pub(crate) value: Range<usize>,
}

impl<'a> Probe<'a> {
    /// Finds the first entry at or after (`target`, `version`), `None` if there is none, and
    /// returns the probe to continue from it.
    #[inline]
    pub(crate) fn find(
        block: &'a Block,
        order: &'a KeyOrder,
        target: &'a [u8],
        version: u64,
    ) -> Result<(Self, Option<Hit>), Malformed> {
        let next = block.restart_before(order, target, version)?;
        let mut probe = Self { block, order, target, next, key_bytes: 0, matched: 0, key: Vec::new() };
        loop {
            match probe.step()? {
                Some((Ordering::Less, _)) => {}
                Some((Ordering::Equal, hit)) if hit.version > version => {}
                found => return Ok((probe, found.map(|(_, hit)| hit))),
            }
        }
    }

    /// The entry after the last one. Must not be called after an entry of a greater key.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Hit>, Malformed> {
        Ok(self.step()?.map(|(_, hit)| hit))
    }

    /// Decodes an entry and orders its key against the target.
    #[inline]
    fn step(&mut self) -> Result<Option<(Ordering, Hit)>, Malformed> {
        let Some(entry) = self.block.entry_at(self.next)? else { return Ok(None) };
        if entry.shared > self.key_bytes {
            return Err(Malformed("an entry shares more than the key before it has"));
        }
        self.next = entry.value.end;
        self.key_bytes = entry.shared + entry.suffix.len();
        let suffix = &self.block.bytes[entry.suffix];
        let ordering = if let KeyOrder::Bytewise = self.order {
            if entry.shared > self.matched {
                // The previous key is below the target, and this key repeats the byte that makes it
                // so.
                Ordering::Less
            } else {
                // The shared bytes agree with the target, so the suffix decides.
                let rest = &self.target[entry.shared..];
                self.matched = entry.shared + shared_prefix(suffix, rest);
                suffix.cmp(rest)
            }
        } else {
            self.key.truncate(entry.shared);
            self.key.extend_from_slice(suffix);
            entry_order(self.order, &self.key, 0, self.target, 0)
        };
        let is_target = ordering == Ordering::Equal;
        Ok(Some((ordering, Hit { is_target, version: entry.version, kind: entry.kind, value: entry.value })))
    }
}
