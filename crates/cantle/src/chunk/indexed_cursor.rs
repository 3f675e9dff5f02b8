//! Walks an indexed part of a log through its index: the root, then its blocks.
//!
//! A chunk has many parts, of which those of a log that was written in key order hold a stretch of keys each. So a
//! cursor whose part's ends are known opens no block to stand at the first entry, or past the last: a scan opens the
//! index of the parts that it reads from, and of no others.

use super::context::Context;
use super::ends::Ends;
use super::indexed_part::{IndexedPart, decode_place};
use super::log_batch::{BATCH_BYTES, Batch, Wanted};
use super::log_piece::{Ahead, Piece, Reads};
use super::memory_part::Place;
use super::segment::{Parts, Segment};
use crate::entry::{EntryCursor, EntryRef, Kind};
use crate::error::Result;
use crate::format::codec::{Decoder, Malformed};
use crate::span::Span;
use crate::sync::Arc;
use crate::table::block::{Block, BlockCursor};
use bytes::Bytes;
use std::cmp::Ordering;
use std::sync::OnceLock;

/// A job that passes once over a log's parts.
pub struct OnePass {
    /// The keys that it is for.
    span: Span,
    /// The log in memory, when it is first needed; `None` if it is too long, or there is no memory for it then.
    whole: OnceLock<Option<Piece>>,
}

impl OnePass {
    /// `at_once`: whether the log is worth having in memory whole.
    pub fn new(span: Span, at_once: bool) -> Self {
        let whole = OnceLock::new();
        if !at_once {
            whole.get_or_init(|| None);
        }
        Self { span, whole }
    }
}

pub struct IndexedCursor {
    context: Arc<Context>,
    segment: Arc<Segment>,
    parts: Arc<Parts>,
    part: Arc<IndexedPart>,
    /// Opened when it is first needed.
    roots: Option<BlockCursor>,
    /// Positioned whenever the cursor is, unless it stands `at_first`.
    block: Option<(Place, BlockCursor)>,
    /// At the part's first entry, which its known ends tell, without a block.
    at_first: bool,
    /// Whether values are places, as they stand in the index, instead of what stands there.
    places: bool,
    /// If all values are wanted, one after the other.
    once: Option<Arc<OnePass>>,
    batch: Batch,
    ahead: Ahead,
}

impl IndexedCursor {
    /// `once`: for who passes once over all parts of the log. Else `reads` counts.
    pub fn new(
        context: Arc<Context>,
        segment: Arc<Segment>,
        parts: Arc<Parts>,
        part: Arc<IndexedPart>,
        once: Option<Arc<OnePass>>,
        reads: Reads,
    ) -> Self {
        Self {
            context,
            segment,
            parts,
            part,
            roots: None,
            block: None,
            at_first: false,
            places: false,
            once,
            batch: Batch::default(),
            ahead: Ahead::new(reads),
        }
    }

    /// The same, with places for values: for who makes another index of them.
    pub fn of_places(
        context: Arc<Context>,
        segment: Arc<Segment>,
        parts: Arc<Parts>,
        part: Arc<IndexedPart>,
    ) -> Self {
        Self { places: true, ..Self::new(context, segment, parts, part, None, Reads::default()) }
    }

    /// The part's ends, if they are known and of use: places stand in blocks.
    fn ends(&self) -> Option<&Ends> {
        self.part.ends.get().filter(|_| !self.places)
    }

    /// Nowhere, or at the first entry, with no block open.
    fn stand(&mut self, at_first: bool) {
        self.block = None;
        self.at_first = at_first;
    }

    /// Moves the cursor of the root, then opens the block that it points to.
    fn open_by(&mut self, position: impl FnOnce(&mut BlockCursor) -> Result<(), Malformed>) -> Result<()> {
        self.stand(false);
        let root = self.part.root;
        let roots = match &mut self.roots {
            Some(roots) => roots,
            empty => {
                let block = block_at(&self.context, &self.segment, &self.parts, root, self.once.as_deref())?;
                empty.insert(BlockCursor::new(block, self.context.order.clone()))
            }
        };
        position(roots).map_err(self.segment.malformed_block(root))?;
        if roots.entry().is_none() {
            return Ok(());
        }
        let place =
            decode_place(&mut Decoder::new(&roots.value())).map_err(self.segment.malformed_block(root))?;
        let block = block_at(&self.context, &self.segment, &self.parts, place, self.once.as_deref())?;
        self.block = Some((place, BlockCursor::new(block, self.context.order.clone())));
        Ok(())
    }

    /// Does `position` in the present block; where that leaves it, goes on with the next block in a direction.
    fn move_by(
        &mut self,
        forward: bool,
        position: impl FnOnce(&mut BlockCursor) -> Result<(), Malformed>,
    ) -> Result<()> {
        let Some((place, block)) = &mut self.block else { return Ok(()) };
        position(block).map_err(self.segment.malformed_block(*place))?;
        while self.block.as_ref().is_some_and(|(_, block)| block.entry().is_none()) {
            self.open_by(if forward { BlockCursor::next } else { BlockCursor::prev })?;
            if let Some((place, block)) = &mut self.block {
                let moved = if forward { block.seek_to_first() } else { block.seek_to_last() };
                moved.map_err(self.segment.malformed_block(*place))?;
            }
        }
        Ok(())
    }

    /// As [`EntryCursor::seek_to_first`], with its block open.
    fn open_first(&mut self) -> Result<()> {
        self.open_by(BlockCursor::seek_to_first)?;
        self.move_by(true, BlockCursor::seek_to_first)
    }

    /// The value at this place, of the log in memory, or with those that are wanted next.
    fn value_once(&mut self, once: &OnePass, place: Place) -> Result<Bytes> {
        let whole = match once.whole.get() {
            Some(whole) => whole,
            None => {
                let read = Piece::of_indexed(&self.context, &self.segment, &self.parts)?;
                once.whole.get_or_init(|| read)
            }
        };
        if let Some(whole) = whole {
            return whole.value(&self.segment, &self.parts.header, place);
        }
        if let Some(value) = self.segment.read_recent_value(&self.parts.header, place)? {
            return Ok(value);
        }
        let key = self.entry().map(|entry| Bytes::copy_from_slice(entry.key)).unwrap_or_default();
        if !self.batch.reaches(&self.context.order, &key) {
            self.batch = Batch::default();
            let wanted = self.wanted_from(&key, once)?;
            self.batch = Batch::read(&self.context, &self.segment, &self.parts, wanted)?;
        }
        match self.batch.take(place) {
            Some(value) => Ok(value),
            None => self.ahead.value(&self.segment, &self.parts, place),
        }
    }

    /// The newest records of keys from this one on, about a batch of them: the older ones are hardly ever wanted.
    fn wanted_from(&self, key: &[u8], once: &OnePass) -> Result<Vec<Wanted>> {
        let (context, segment) = (self.context.clone(), self.segment.clone());
        let mut cursor = Self::of_places(context, segment, self.parts.clone(), self.part.clone());
        let (mut wanted, mut bytes) = (Vec::<Wanted>::new(), 0);
        cursor.seek(key)?;
        while let Some(entry) = cursor.entry().filter(|_| bytes < BATCH_BYTES) {
            if once.span.ends_before(&self.context.order, entry.key) {
                break;
            }
            let is_older = wanted.last().is_some_and(|last| last.key == entry.key);
            if entry.kind == Kind::Put && !is_older {
                let key = Bytes::copy_from_slice(entry.key);
                let Some(place) = cursor.place()? else { break };
                bytes += u64::from(place.len);
                wanted.push(Wanted { key, place });
            }
            cursor.next()?;
        }
        Ok(wanted)
    }

    fn place(&self) -> Result<Option<Place>> {
        if self.at_first {
            return Ok(self.ends().map(|ends| ends.first.place));
        }
        let Some((at, block)) = &self.block else { return Ok(None) };
        if block.entry().is_none() {
            return Ok(None);
        }
        decode_place(&mut Decoder::new(&block.value())).map(Some).map_err(self.segment.malformed_block(*at))
    }
}

fn block_at(
    context: &Context,
    segment: &Segment,
    parts: &Parts,
    place: Place,
    once: Option<&OnePass>,
) -> Result<Arc<Block>> {
    match once.and_then(|once| once.whole.get()) {
        Some(Some(whole)) => whole.block(segment, &parts.header, place),
        _ => segment.index_block(context, &parts.header, place),
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
        let order = &self.context.order;
        if let Some(ends) = self.ends() {
            let is_behind = order.compare(ends.last_key(), key) == Ordering::Less;
            if is_behind || order.compare(key, ends.first_key()) != Ordering::Greater {
                self.stand(!is_behind);
                return Ok(());
            }
        }
        // Blocks are filed under their last keys: the first at or behind the key is where it would be.
        self.open_by(|roots| roots.seek(key))?;
        self.move_by(true, |block| block.seek(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let order = &self.context.order;
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
        self.block.as_ref().and_then(|(_, block)| block.entry())
    }

    fn position(&self) -> u64 {
        // A place that does not decode is reported by `value`.
        self.place().ok().flatten().map_or(0, |place| place.offset)
    }

    fn value(&mut self) -> Result<Bytes> {
        if self.places {
            return Ok(self.block.as_ref().map(|(_, block)| block.value()).unwrap_or_default());
        }
        match self.place()? {
            Some(place) if self.entry().is_some_and(|entry| entry.kind == Kind::Put) => {
                match self.once.clone() {
                    Some(once) => self.value_once(&once, place),
                    None => self.ahead.value(&self.segment, &self.parts, place),
                }
            }
            _ => Ok(Bytes::new()),
        }
    }
}
