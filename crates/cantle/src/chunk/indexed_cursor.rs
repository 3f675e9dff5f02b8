//! Walks an indexed part of a log through its index: the root, then its blocks.

use super::context::Context;
use super::indexed_part::decode_place;
use super::log_piece::{Ahead, Piece, Reads};
use super::memory_part::Place;
use super::segment::{Parts, Segment};
use crate::entry::{EntryCursor, EntryRef, Kind};
use crate::error::{Error, Result};
use crate::format::codec::{Decoder, Malformed};
use crate::sync::Arc;
use crate::table::block::{Block, BlockCursor};
use bytes::Bytes;
use std::sync::OnceLock;

/// A log that is read at once when it is first needed, if there is memory for it then.
pub type AtOnce = Arc<OnceLock<Option<Piece>>>;

pub struct IndexedCursor {
    context: Arc<Context>,
    segment: Arc<Segment>,
    parts: Arc<Parts>,
    roots: BlockCursor,
    root: Place,
    /// Positioned whenever the cursor is.
    block: Option<(Place, BlockCursor)>,
    /// Whether values are places, as they stand in the index, instead of what stands there.
    places: bool,
    /// The log, if it is to be read at once when the first value is asked for; else it is read as it is needed, and the
    /// index through the cache.
    at_once: Option<AtOnce>,
    ahead: Ahead,
}

impl IndexedCursor {
    /// `at_once`: if the log is to be read at once, for all cursors in its parts. Else `reads` counts.
    pub fn new(
        context: Arc<Context>,
        segment: Arc<Segment>,
        parts: Arc<Parts>,
        root: Place,
        at_once: Option<AtOnce>,
        reads: Reads,
    ) -> Result<Self> {
        let block = block_at(&context, &segment, &parts, root, at_once.as_ref())?;
        let roots = BlockCursor::new(block, context.order.clone());
        Ok(Self {
            context,
            segment,
            parts,
            roots,
            root,
            block: None,
            places: false,
            at_once,
            ahead: Ahead::new(reads),
        })
    }

    /// The same, with places for values: for who makes another index of them.
    pub fn of_places(
        context: Arc<Context>,
        segment: Arc<Segment>,
        parts: Arc<Parts>,
        root: Place,
    ) -> Result<Self> {
        Ok(Self { places: true, ..Self::new(context, segment, parts, root, None, Reads::default())? })
    }

    fn malformed(&self, place: Place) -> impl Fn(Malformed) -> Error + use<> {
        let path = self.segment.file.path.clone();
        move |what| Error::corruption(&path, place.offset, format!("an index block {}", what.0))
    }

    /// Opens the block that the root cursor points to; false if it points nowhere.
    fn open_block(&mut self) -> Result<bool> {
        self.block = None;
        if self.roots.entry().is_none() {
            return Ok(false);
        }
        let place =
            decode_place(&mut Decoder::new(&self.roots.value())).map_err(self.malformed(self.root))?;
        let block = block_at(&self.context, &self.segment, &self.parts, place, self.at_once.as_ref())?;
        self.block = Some((place, BlockCursor::new(block, self.context.order.clone())));
        Ok(true)
    }

    /// Does `position` in the present block; where that leaves it, goes on with the next block in a direction.
    fn move_by(
        &mut self,
        forward: bool,
        position: impl FnOnce(&mut BlockCursor) -> Result<(), Malformed>,
    ) -> Result<()> {
        let Some((place, block)) = &mut self.block else { return Ok(()) };
        let place = *place;
        let moved = position(block);
        moved.map_err(self.malformed(place))?;
        while self.block.as_ref().is_some_and(|(_, block)| block.entry().is_none()) {
            let moved = if forward { self.roots.next() } else { self.roots.prev() };
            moved.map_err(self.malformed(self.root))?;
            if self.open_block()?
                && let Some((place, block)) = &mut self.block
            {
                let place = *place;
                let moved = if forward { block.seek_to_first() } else { block.seek_to_last() };
                moved.map_err(self.malformed(place))?;
            }
        }
        Ok(())
    }

    /// The log in memory, if it is to be there.
    fn whole(&self) -> Result<Option<&Piece>> {
        let Some(at_once) = &self.at_once else { return Ok(None) };
        let whole = match at_once.get() {
            Some(whole) => whole,
            None => {
                let read = Piece::of_indexed(&self.context, &self.segment, &self.parts)?;
                at_once.get_or_init(|| read)
            }
        };
        Ok(whole.as_ref())
    }

    fn place(&self) -> Result<Option<Place>> {
        let Some((at, block)) = &self.block else { return Ok(None) };
        if block.entry().is_none() {
            return Ok(None);
        }
        decode_place(&mut Decoder::new(&block.value())).map(Some).map_err(self.malformed(*at))
    }
}

fn block_at(
    context: &Context,
    segment: &Segment,
    parts: &Parts,
    place: Place,
    at_once: Option<&AtOnce>,
) -> Result<Arc<Block>> {
    match at_once.and_then(|at_once| at_once.get()) {
        Some(Some(whole)) => whole.block(segment, &parts.header, place),
        _ => segment.index_block(context, &parts.header, place),
    }
}

impl EntryCursor for IndexedCursor {
    fn seek_to_first(&mut self) -> Result<()> {
        self.roots.seek_to_first().map_err(self.malformed(self.root))?;
        self.open_block()?;
        self.move_by(true, BlockCursor::seek_to_first)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.roots.seek_to_last().map_err(self.malformed(self.root))?;
        self.open_block()?;
        self.move_by(false, BlockCursor::seek_to_last)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        // Blocks are filed under their last keys: the first at or behind the key is where it would be.
        self.roots.seek(key).map_err(self.malformed(self.root))?;
        self.open_block()?;
        self.move_by(true, |block| block.seek(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.roots.seek(key).map_err(self.malformed(self.root))?;
        if self.roots.entry().is_none() {
            self.roots.seek_to_last().map_err(self.malformed(self.root))?;
        }
        self.open_block()?;
        self.move_by(false, |block| block.seek_before(key))
    }

    fn next(&mut self) -> Result<()> {
        self.move_by(true, BlockCursor::next)
    }

    fn prev(&mut self) -> Result<()> {
        self.move_by(false, BlockCursor::prev)
    }

    fn entry(&self) -> Option<EntryRef<'_>> {
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
                match self.whole()? {
                    Some(whole) => whole.value(&self.segment, &self.parts.header, place),
                    None => self.ahead.value(&self.segment, &self.parts, place),
                }
            }
            _ => Ok(Bytes::new()),
        }
    }
}
