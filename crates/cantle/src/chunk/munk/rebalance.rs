//! A munk that replaces others (EvenDB §3.4): sorted anew, without garbage, split, or joined.
//!
//! Sorting and splitting share the blocks and copy no value, so they are fast enough for the
//! chunk's lock. Readers of the old munk go on: nothing changes for them but links that skip
//! records which no reader needs.
#![expect(unsafe_code, reason = "links records; the munk keeps what it links")]

use super::build::MunkBuilder;
use super::chain::{Above, sift, without_last_deletes};
use super::record::{Record, RecordPtr};
use super::write::relink;
use super::{Munk, Writer};
use std::cmp::Ordering;

/// The records of a munk that go to a new one.
#[derive(Default)]
struct Heirs {
    newest: Vec<RecordPtr>,
    live_bytes: u64,
    /// For each block, true if it has one of these records.
    uses: Vec<bool>,
}

/// The places of a munk's blocks in memory.
struct BlockMap {
    /// Start, end, and the block's index, sorted.
    spans: Vec<(usize, usize, usize)>,
    /// Index of the last span found: records of neighbouring keys often lie together.
    last: usize,
}

impl BlockMap {
    fn new(writer: &Writer) -> Self {
        let blocks = writer.arena.blocks().iter().enumerate();
        let mut spans: Vec<_> = blocks.map(|(index, block)| (block.start(), block.end(), index)).collect();
        spans.sort_unstable();
        Self { spans, last: 0 }
    }

    fn index_of(&mut self, record: &Record) -> usize {
        let address = record.ptr().address();
        let (start, end, index) = self.spans[self.last];
        if (start..end).contains(&address) {
            return index;
        }
        self.last = self.spans.partition_point(|(start, ..)| *start <= address) - 1;
        self.spans[self.last].2
    }
}

impl Munk {
    /// A copy that shares blocks: sorted, with room for `room` new keys, without deleted keys, and
    /// without blocks that hold only garbage. The original is not written any more.
    ///
    /// No batch may be undecided, here and in a split or join.
    pub fn resort(&self, room: usize, needed: impl Fn(u64, u64) -> bool) -> Self {
        let mut munks = self.split::<&[u8]>(&[], |_| room, needed);
        munks.pop().unwrap_or_else(|| unreachable!("a split at no boundary gives one"))
    }

    /// A copy in new blocks, without garbage. Writers may go on meanwhile; see
    /// [`copy`](super::copy).
    pub fn rebalance(&self, room: usize, needed: impl Fn(u64, u64) -> bool) -> Self {
        Self::join(&[self], room, needed)
    }

    /// One munk with the records of several, whose keys follow one another in this order, in new
    /// blocks.
    pub fn join(munks: &[&Self], room: usize, needed: impl Fn(u64, u64) -> bool) -> Self {
        let first = munks[0];
        let live_bytes = munks.iter().map(|munk| munk.live_bytes()).sum();
        let mut builder = MunkBuilder::new(first.order.clone(), live_bytes, first.total_bytes.clone());
        for munk in munks {
            munk.for_each_kept(&needed, |records| {
                records.iter().for_each(|record| builder.push(record.content()));
            });
        }
        builder.finish(room)
    }

    /// The first phase of a split: one munk up to the first boundary, which is excluded, one from
    /// there up to the second, and so on. Each holds the blocks that it needs. A block at a
    /// boundary is shared until the munks are rebalanced.
    pub fn split<B: AsRef<[u8]>>(
        &self,
        boundaries: &[B],
        room: impl Fn(usize) -> usize,
        needed: impl Fn(u64, u64) -> bool,
    ) -> Vec<Self> {
        let mut writer = self.writer.lock();
        writer.decide(None);
        let mut blocks = BlockMap::new(&writer);
        let uses = vec![false; writer.arena.blocks().len()];
        let mut heirs = vec![Heirs { uses: uses.clone(), ..Heirs::default() }];
        self.for_each_kept(&needed, |records| {
            let key = records[0].key();
            while let Some(boundary) = boundaries.get(heirs.len() - 1)
                && self.order.compare(key, boundary.as_ref()) != Ordering::Less
            {
                heirs.push(Heirs { uses: uses.clone(), ..Heirs::default() });
            }
            let Some(heir) = heirs.last_mut() else { return };
            relink(records);
            for record in records {
                // The new munk does not hold the cells.
                record.forget_cell();
                heir.uses[blocks.index_of(record)] = true;
                heir.live_bytes += record.size();
            }
            heir.newest.push(records[0].ptr());
        });
        heirs.resize_with(boundaries.len() + 1, || Heirs { uses: uses.clone(), ..Heirs::default() });
        let munk = |(index, heir): (usize, Heirs)| {
            // If the munk was built in order, the block that is being filled has the last keys.
            let arena = writer.arena.share(&heir.uses, index == boundaries.len());
            // SAFETY: all records that can be reached are among `records` above, whose blocks the
            // arena holds.
            unsafe {
                Self::of(self.order.clone(), arena, &heir.newest, heir.live_bytes, room(heir.newest.len()))
            }
        };
        heirs.into_iter().enumerate().map(munk).collect()
    }

    /// Visits every key, with the bytes of its versions.
    pub fn for_each_key(&self, mut visit: impl FnMut(&[u8], u64)) {
        let mut slot = self.slots.next(0);
        while slot != 0 {
            let mut bytes = 0;
            let mut record = self.slots.newest(slot);
            while let Some(this) = record {
                bytes += this.size();
                record = this.older().get();
            }
            visit(self.slots.key(slot), bytes);
            slot = self.slots.next(slot);
        }
    }

    /// Visits the records that are still needed of every key that is not deleted, newest first.
    fn for_each_kept<'a>(&'a self, needed: impl Fn(u64, u64) -> bool, mut visit: impl FnMut(&[&'a Record])) {
        let mut records = Vec::new();
        let mut slot = self.slots.next(0);
        while slot != 0 {
            self.slots.fetch_ahead(slot);
            records.clear();
            sift(self.slots.newest(slot), Above::Nothing, &needed, |record, stays| {
                if stays {
                    records.push(record);
                }
            });
            records.truncate(without_last_deletes(&records));
            if !records.is_empty() {
                visit(&records);
            }
            slot = self.slots.next(slot);
        }
    }
}
