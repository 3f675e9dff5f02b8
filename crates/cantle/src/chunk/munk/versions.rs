//! All versions of all keys, for a flush to disk (EvenDB §3.4).

use super::Munk;
use super::chain::is_decided;
use super::record::Record;

/// The records of a munk up to a version: keys in order, the versions of each from the newest to the oldest.
/// Records whose batch is not committed are left out.
///
/// Hold a snapshot of that version, or the chunk's lock: otherwise versions that puts drop
/// meanwhile may be missing.
pub struct Versions<'a> {
    munk: &'a Munk,
    upto: u64,
    slot: u32,
    record: Option<&'a Record>,
}

impl Munk {
    pub fn versions(&self, upto: u64) -> Versions<'_> {
        Versions { munk: self, upto, slot: 0, record: None }
    }
}

impl<'a> Iterator for Versions<'a> {
    type Item = &'a Record;

    fn next(&mut self) -> Option<&'a Record> {
        loop {
            while let Some(record) = self.record {
                self.record = record.older().get();
                if record.version() <= self.upto && is_decided(record) {
                    return Some(record);
                }
            }
            self.slot = match self.munk.slots.next(self.slot) {
                0 => {
                    // The iterator stays at the end: slot 0 would start it again.
                    return None;
                }
                slot => slot,
            };
            self.munk.slots.fetch_ahead(self.slot);
            self.record = self.munk.slots.newest(self.slot);
        }
    }
}
