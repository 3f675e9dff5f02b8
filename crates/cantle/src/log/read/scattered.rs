//! The records that a scan needs next, read together although they lie anywhere in the log.
//!
//! In key order the records of a log are scattered, unless they were written in that order. A scan knows the
//! places of the records that follow from the index, and so lets the device read several at once: two at
//! first, as the scan may be short, and twice as many each time, up to [`TOGETHER_MAX`].

use crate::log::env::LogEnv;
use crate::log::index::memory_part::RecordPtr;
use crate::log::read::ahead::ReadBuffer;
use crate::log::segment::Segment;
use crate::types::error::Result;
use std::collections::HashMap;

/// Maximum number of records that are read together.
const TOGETHER_MAX: usize = 32;
/// Maximum bytes of records that are read together. A log has dozens of parts, and a scan a cursor in each.
const TOGETHER_BYTES: u64 = 64 << 10;
/// Longer records are read alone.
const RECORD_BYTES_MAX: u32 = 16 << 10;

/// Records that were read and not taken yet.
#[derive(Default)]
pub struct Scattered {
    read: HashMap<u64, ReadBuffer>,
    /// Number of records of the last read.
    together: usize,
}

impl Scattered {
    /// The record at this place, if it was read. A scan needs each once.
    pub fn take(&mut self, place: RecordPtr) -> Option<ReadBuffer> {
        self.read.remove(&place.offset).filter(|read| read.contains(place))
    }

    /// Reads the record at this place together with those that follow it in the scan, of which `following`
    /// returns up to a number. `None` if it is to be read alone.
    pub fn read(
        &mut self,
        env: &LogEnv,
        segment: &Segment,
        place: RecordPtr,
        following: impl FnOnce(usize) -> Vec<RecordPtr>,
    ) -> Result<Option<ReadBuffer>> {
        let is_short = |place: &RecordPtr| place.len <= RECORD_BYTES_MAX;
        if !is_short(&place) {
            return Ok(None);
        }
        self.together = (2 * self.together).clamp(2, TOGETHER_MAX);
        let mut bytes = u64::from(place.len);
        let fits = |place: &RecordPtr| {
            bytes += u64::from(place.len);
            bytes <= TOGETHER_BYTES
        };
        let mut wanted = vec![place];
        wanted.extend(following(self.together - 1).into_iter().filter(is_short).take_while(fits));
        if wanted.len() == 1 {
            return Ok(None);
        }
        let spans: Vec<(u64, u64)> =
            wanted.iter().map(|place| (place.offset, u64::from(place.len))).collect();
        // The scan may have turned round: what is left was read in vain.
        self.read.clear();
        let mut read = ReadBuffer::read_all(env, segment, &spans)?.into_iter();
        let own = read.next().flatten();
        let others = wanted[1..].iter().zip(read).filter_map(|(place, read)| Some((place.offset, read?)));
        self.read.extend(others);
        Ok(own)
    }
}
