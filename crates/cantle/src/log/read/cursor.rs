//! Walks an indexed part of a log through its index: the root, then its blocks.
//!
//! A chunk has many parts. In a log that was written in key order, each of them holds a stretch of
//! keys. A cursor with known ends therefore opens no block to stand at the first entry or past the
//! last: a scan opens only the indexes of the parts that it reads from, and for the others it keeps
//! nothing but the position.

use crate::block::BlockCursor;
use crate::format::codec::{Decoder, Malformed};
use crate::log::index::ends::Ends;
use crate::log::index::indexed_part::{IndexedPart, decode_place};
use crate::log::index::memory_part::RecordPtr;
use crate::log::read::ahead::{ReadAhead, ReadBuffer};
use crate::log::read::batch::{BATCH_BYTES, FileOrderReads, WantedRecord};
use crate::log::read::pass::{LogWalk, OnePass};
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::types::entry::{EntryCursor, EntryRef, Kind};
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use bytes::Bytes;
use std::cmp::Ordering;

pub struct IndexedCursor {
    log: Arc<LogWalk>,
    /// The part's number among the log's.
    part: usize,
    /// At the part's first entry, which is known from its ends without a block.
    at_first: bool,
    /// True if the cursor returns places, as in the index, instead of the values at these places.
    places: bool,
    /// Allocated when something is opened or read.
    open: Option<Box<Open>>,
}

/// The blocks and buffers of a cursor.
struct Open {
    roots: Option<BlockCursor>,
    /// Positioned whenever the cursor is, unless it is `at_first`.
    block: Option<(RecordPtr, BlockCursor)>,
    batch: FileOrderReads,
    ahead: ReadAhead,
}

impl IndexedCursor {
    /// A cursor over the log's part of this number.
    pub fn new(log: Arc<LogWalk>, part: usize) -> Self {
        Self { log, part, at_first: false, places: false, open: None }
    }

    /// A cursor with places instead of values, to build another index from.
    pub fn of_places(log: Arc<LogWalk>, part: usize) -> Self {
        Self { places: true, ..Self::new(log, part) }
    }

    fn part(&self) -> &IndexedPart {
        &self.log.parts.indexed[self.part]
    }

    fn order(&self) -> &KeyOrder {
        &self.log.env.order
    }

    fn open(&mut self) -> (&LogWalk, &mut Open) {
        let log = &self.log;
        let open = self.open.get_or_insert_with(|| {
            let ahead = ReadAhead::new(log.reads.clone());
            Box::new(Open { roots: None, block: None, batch: FileOrderReads::default(), ahead })
        });
        (log, open)
    }

    fn block(&self) -> Option<&(RecordPtr, BlockCursor)> {
        self.open.as_ref()?.block.as_ref()
    }

    /// The part's ends, if they are known and can be used: places are only in blocks.
    fn ends(&self) -> Option<&Ends> {
        self.part().ends.get().filter(|_| !self.places)
    }

    /// Positions the cursor nowhere, or at the first entry, with no block open.
    fn stand(&mut self, at_first: bool) {
        if let Some(open) = &mut self.open {
            open.block = None;
        }
        self.at_first = at_first;
    }

    /// Moves the cursor of the root, then opens the block that it points to.
    fn open_by(&mut self, position: impl FnOnce(&mut BlockCursor) -> Result<(), Malformed>) -> Result<()> {
        self.stand(false);
        let root = self.part().root;
        let (log, open) = self.open();
        let roots = match &mut open.roots {
            Some(roots) => roots,
            empty => empty.insert(log.index_block(root)?),
        };
        position(roots).map_err(log.segment.malformed_block(root))?;
        if roots.entry().is_none() {
            return Ok(());
        }
        let place =
            decode_place(&mut Decoder::new(&roots.value())).map_err(log.segment.malformed_block(root))?;
        open.block = Some((place, log.index_block(place)?));
        Ok(())
    }

    /// Calls `position` on the present block. If that leaves the block, goes on to the next one in
    /// the direction.
    fn move_by(
        &mut self,
        forward: bool,
        position: impl FnOnce(&mut BlockCursor) -> Result<(), Malformed>,
    ) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let Some((place, block)) = &mut open.block else { return Ok(()) };
        position(block).map_err(self.log.segment.malformed_block(*place))?;
        while self.block().is_some_and(|(_, block)| block.entry().is_none()) {
            self.open_by(if forward { BlockCursor::next } else { BlockCursor::prev })?;
            let (log, open) = self.open();
            if let Some((place, block)) = &mut open.block {
                let moved = if forward { block.seek_to_first() } else { block.seek_to_last() };
                moved.map_err(log.segment.malformed_block(*place))?;
            }
        }
        Ok(())
    }

    /// As [`EntryCursor::seek_to_first`], with the block open.
    fn open_first(&mut self) -> Result<()> {
        self.open_by(BlockCursor::seek_to_first)?;
        self.move_by(true, BlockCursor::seek_to_first)
    }

    /// The value at this place, for a job that passes once: from the log in memory, or read
    /// together with the values needed next.
    fn value_once(&mut self, log: &LogWalk, once: &OnePass, place: RecordPtr) -> Result<Bytes> {
        once.read.fetch_add(u64::from(place.len), Relaxed);
        let whole = match once.whole.get() {
            Some(whole) => whole,
            None => {
                let read = ReadBuffer::of_indexed(&log.env, &log.segment, &log.parts)?;
                once.whole.get_or_init(|| read)
            }
        };
        if let Some(whole) = whole {
            return whole.value(&log.segment, &log.parts.header, place);
        }
        if let Some(value) = log.segment.read_value_in_memory(&log.parts.header, place)? {
            return Ok(value);
        }
        let key = self.entry().map(|entry| Bytes::copy_from_slice(entry.key)).unwrap_or_default();
        if !self.open().1.batch.reaches(&log.env.order, &key) {
            self.open().1.batch = FileOrderReads::default();
            let wanted = self.wanted_from(&key, once)?;
            self.open().1.batch = FileOrderReads::read(&log.env, &log.segment, &log.parts, wanted)?;
        }
        let (_, open) = self.open();
        match open.batch.take(place) {
            Some(value) => Ok(value),
            None => open.ahead.value(&log.segment, &log.parts, place),
        }
    }

    /// The newest records of the keys from this one on, about a batch of them. Older versions are
    /// rarely needed.
    fn wanted_from(&self, key: &[u8], once: &OnePass) -> Result<Vec<WantedRecord>> {
        let mut cursor = Self::of_places(self.log.clone(), self.part);
        let (mut wanted, mut bytes) = (Vec::<WantedRecord>::new(), 0);
        cursor.seek(key)?;
        while let Some(entry) = cursor.entry().filter(|_| bytes < BATCH_BYTES) {
            if once.span.ends_before(self.order(), entry.key) {
                break;
            }
            let is_older = wanted.last().is_some_and(|last| last.key == entry.key);
            if entry.kind == Kind::Put && !is_older {
                let key = Bytes::copy_from_slice(entry.key);
                let Some(place) = cursor.place()? else { break };
                if place.len > once.longest {
                    cursor.next()?;
                    continue;
                }
                bytes += u64::from(place.len);
                wanted.push(WantedRecord { key, place });
            }
            cursor.next()?;
        }
        Ok(wanted)
    }

    /// The place of the record of the entry under the cursor.
    pub fn place(&self) -> Result<Option<RecordPtr>> {
        if self.at_first {
            return Ok(self.ends().map(|ends| ends.first.place));
        }
        let Some((at, block)) = self.block() else { return Ok(None) };
        if block.entry().is_none() {
            return Ok(None);
        }
        decode_place(&mut Decoder::new(block.value_bytes()))
            .map(Some)
            .map_err(self.log.segment.malformed_block(*at))
    }
}

impl EntryCursor for IndexedCursor {
    fn seek_to_first(&mut self) -> Result<()> {
        if self.ends().is_some() {
            self.stand(true);
            return Ok(());
        }
        self.open_first()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.open_by(BlockCursor::seek_to_last)?;
        self.move_by(false, BlockCursor::seek_to_last)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let order = self.order();
        if let Some(ends) = self.ends() {
            let is_behind = order.compare(ends.last_key(), key) == Ordering::Less;
            if is_behind || order.compare(key, ends.first_key()) != Ordering::Greater {
                self.stand(!is_behind);
                return Ok(());
            }
        }
        // The root has blocks by their last keys: the key would be in the first block at or after
        // it.
        self.open_by(|roots| roots.seek(key))?;
        self.move_by(true, |block| block.seek(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let order = self.order();
        if self.ends().is_some_and(|ends| order.compare(key, ends.first_key()) != Ordering::Greater) {
            self.stand(false);
            return Ok(());
        }
        self.open_by(|roots| {
            roots.seek(key)?;
            if roots.entry().is_some() { Ok(()) } else { roots.seek_to_last() }
        })?;
        self.move_by(false, |block| block.seek_before(key))
    }

    fn next(&mut self) -> Result<()> {
        if self.at_first {
            self.open_first()?;
        }
        self.move_by(true, BlockCursor::next)
    }

    fn prev(&mut self) -> Result<()> {
        if self.at_first {
            self.stand(false);
        }
        self.move_by(false, BlockCursor::prev)
    }

    fn entry(&self) -> Option<EntryRef<'_>> {
        if self.at_first {
            return self.ends().map(Ends::first_entry);
        }
        self.block().and_then(|(_, block)| block.entry())
    }

    fn position(&self) -> u64 {
        // A place that does not decode is reported by `value`.
        self.place().ok().flatten().map_or(0, |place| place.offset)
    }

    fn value(&mut self) -> Result<Bytes> {
        if self.places {
            return Ok(self.block().map(|(_, block)| block.value()).unwrap_or_default());
        }
        match self.place()? {
            Some(place) if self.entry().is_some_and(|entry| entry.kind == Kind::Put) => {
                let log = self.log.clone();
                match &log.once {
                    Some(once) => self.value_once(&log, once, place),
                    None => self.open().1.ahead.value(&log.segment, &log.parts, place),
                }
            }
            _ => Ok(Bytes::new()),
        }
    }
}
