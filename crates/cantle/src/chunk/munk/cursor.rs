//! Walks the pairs of a munk that one version sees, in both directions.
#![expect(unsafe_code, reason = "keeps a record of the munk that it holds")]

use super::Munk;
use super::chain::visible;
use super::record::{Record, RecordPtr};
use super::search::Located;
use crate::sync::Arc;
use crate::types::entry::Kind;

/// A cursor over the pairs that are visible at one version. It returns keys and values borrowed
/// from the munk, which it holds, and keeps its position while others write.
///
/// A new cursor, and one past either end, is at no pair; from there `next` and `prev` do nothing.
pub struct MunkCursor {
    munk: Arc<Munk>,
    at: u64,
    /// The slot at the cursor's position; 0 for none.
    slot: u32,
    /// A record of `munk`.
    record: Option<RecordPtr>,
}

impl Munk {
    /// A cursor over the pairs visible at version `at`. With `u64::MAX`, those visible when the
    /// cursor reaches them.
    pub fn cursor(self: &Arc<Self>, at: u64) -> MunkCursor {
        MunkCursor { munk: self.clone(), at, slot: 0, record: None }
    }
}

impl MunkCursor {
    pub fn seek_to_first(&mut self) -> bool {
        self.skip_hidden_forward(self.munk.slots.next(0))
    }

    pub fn seek_to_last(&mut self) -> bool {
        self.skip_hidden_back(self.munk.last_slot())
    }

    /// Moves to the first pair at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> bool {
        let slot = match self.munk.locate(key) {
            Located::Found { slot, .. } => slot,
            Located::Gap { behind, .. } => behind,
        };
        self.skip_hidden_forward(slot)
    }

    /// Moves to the last pair before `key`.
    pub fn seek_before(&mut self, key: &[u8]) -> bool {
        let slot = match self.munk.locate(key) {
            Located::Found { slot, .. } => self.munk.slot_before(slot),
            Located::Gap { before, .. } => before,
        };
        self.skip_hidden_back(slot)
    }

    #[inline]
    pub fn next(&mut self) -> bool {
        self.slot != 0 && self.skip_hidden_forward(self.munk.slots.next(self.slot))
    }

    pub fn prev(&mut self) -> bool {
        self.slot != 0 && self.skip_hidden_back(self.munk.slot_before(self.slot))
    }

    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.record().map(Record::key)
    }

    #[inline]
    pub fn value(&self) -> Option<&[u8]> {
        self.record().map(Record::value)
    }

    /// The pair at the cursor's position, with its version.
    #[inline]
    pub fn record(&self) -> Option<&Record> {
        // SAFETY: a record of the munk that the cursor holds.
        self.record.map(|record| unsafe { record.get() })
    }

    /// Moves to the first visible pair from `slot` on.
    #[inline]
    fn skip_hidden_forward(&mut self, mut slot: u32) -> bool {
        self.munk.slots.fetch_ahead(slot);
        while slot != 0 && !self.take(slot) {
            slot = self.munk.slots.next(slot);
        }
        self.arrive(slot)
    }

    /// Moves to the last visible pair up to `slot`.
    fn skip_hidden_back(&mut self, mut slot: u32) -> bool {
        while slot != 0 && !self.take(slot) {
            slot = self.munk.slot_before(slot);
        }
        self.arrive(slot)
    }

    fn arrive(&mut self, slot: u32) -> bool {
        self.slot = slot;
        if slot == 0 {
            self.record = None;
        }
        slot != 0
    }

    #[inline]
    fn take(&mut self, slot: u32) -> bool {
        match visible(|| self.munk.slots.newest(slot), self.at) {
            Some(record) if record.kind() == Kind::Put => {
                self.record = Some(record.ptr());
                true
            }
            _ => false,
        }
    }
}
