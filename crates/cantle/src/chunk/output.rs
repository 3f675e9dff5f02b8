//! What a rebalance writes: one sorted table, or several where the chunk is to be split.
//!
//! When a table has grown so long that it may end, the following keys are held back until it would be too long; it ends
//! at the best place among them (`cut`).

use super::context::Context;
use super::cut::{BestCut, Cut, least_bytes, most_bytes, separator};
use super::munk::Content;
use crate::entry::Kind;
use crate::error::Result;
use crate::files::StoreFile;
use crate::format::header::FileKind;
use crate::substrate::{Grant, TableHandle};
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::table::TableBuilder;
use bytes::Bytes;

/// The versions of one key that are kept, newest first.
pub struct KeyEntries {
    pub key: Bytes,
    pub entries: Vec<KeptEntry>,
}

pub struct KeptEntry {
    /// Equal to the other entries' keys, though under some comparators not identical.
    pub key: Bytes,
    pub version: u64,
    pub kind: Kind,
    pub value: Bytes,
}

impl KeyEntries {
    fn contents(&self) -> impl Iterator<Item = Content<'_>> {
        self.entries.iter().map(|entry| Content {
            key: &entry.key,
            version: entry.version,
            kind: entry.kind,
            value: &entry.value,
        })
    }

    fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| (entry.key.len() + entry.value.len() + 8) as u64).sum()
    }
}

/// A finished table, and where the chunk of which it is begins.
pub struct Piece {
    /// `None` for the first: it begins where the rebalanced chunk does.
    pub start: Option<Bytes>,
    pub table: Arc<TableHandle>,
    /// The table was there before: it lies apart from what was merged, and moves as it is.
    pub reused: bool,
}

impl Piece {
    /// Removes a table that came to nothing.
    pub fn discard(&self, context: &Context) {
        if !self.reused {
            context.files.discard(&self.table.file);
        }
    }
}

/// When the estimate was too low, room is asked for in steps of this many bytes.
const ROOM_STEP_BYTES: u64 = 64 << 10;

pub struct Output<'a, 'r> {
    context: &'a Context,
    /// No version is below this one.
    base_version: u64,
    /// How long each table should be.
    target_bytes: u64,
    /// What may be written.
    grant: &'a mut Grant<'r>,
    pieces: Vec<Piece>,
    current: Option<Current>,
    /// Where the next table begins.
    start: Option<Bytes>,
    last_key: Option<Vec<u8>>,
    held: Vec<KeyEntries>,
    held_bytes: u64,
}

struct Current {
    file: Arc<StoreFile>,
    builder: TableBuilder,
    bytes: u64,
    stale_bytes: u64,
    newest_version: u64,
    growing: i64,
}

impl<'a, 'r> Output<'a, 'r> {
    pub fn new(context: &'a Context, base_version: u64, target_bytes: u64, grant: &'a mut Grant<'r>) -> Self {
        Self {
            context,
            base_version,
            target_bytes,
            grant,
            pieces: Vec::new(),
            current: None,
            start: None,
            last_key: None,
            held: Vec::new(),
            held_bytes: 0,
        }
    }

    /// Adds the versions of one key, lent: they are copied only if they are held back.
    pub fn add_lent(&mut self, entries: &[Content<'_>]) -> Result<()> {
        if self.is_direct() {
            return self.write(entries.iter().copied());
        }
        let Some(newest) = entries.first() else { return Ok(()) };
        let kept = |entry: &Content<'_>| KeptEntry {
            key: Bytes::copy_from_slice(entry.key),
            version: entry.version,
            kind: entry.kind,
            value: Bytes::copy_from_slice(entry.value),
        };
        let key = Bytes::copy_from_slice(newest.key);
        self.add(KeyEntries { key, entries: entries.iter().map(kept).collect() })
    }

    fn written_bytes(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.bytes)
    }

    /// Whether what comes next goes to the table at once.
    fn is_direct(&self) -> bool {
        self.held.is_empty() && self.written_bytes() < least_bytes(self.target_bytes)
    }

    pub fn add(&mut self, entries: KeyEntries) -> Result<()> {
        let written = self.written_bytes();
        if self.is_direct() {
            return self.write(entries.contents());
        }
        self.held_bytes += entries.bytes();
        self.held.push(entries);
        if written + self.held_bytes >= most_bytes(self.target_bytes) { self.cut(written) } else { Ok(()) }
    }

    /// Writes what is held back and ends the last table.
    pub fn finish(mut self) -> Result<Vec<Piece>> {
        for entries in std::mem::take(&mut self.held) {
            self.write(entries.contents())?;
        }
        self.end_table()?;
        Ok(std::mem::take(&mut self.pieces))
    }

    /// Ends the table at the best place among the keys held back.
    fn cut(&mut self, written: u64) -> Result<()> {
        let mut best = BestCut::new(self.target_bytes, self.context.options().extensions);
        let mut bytes = written;
        for index in 0..self.held.len() {
            let previous = match index {
                0 => self.last_key.as_deref(),
                _ => Some(&self.held[index - 1].key[..]),
            };
            if let Some(previous) = previous {
                best.consider(&self.context.order, previous, &self.held[index].key, bytes, || index);
            }
            bytes += self.held[index].bytes();
        }
        let Some(Cut { place: index, shared, .. }) = best.take() else {
            // A single key fills the table: it goes on until there is another.
            let held = std::mem::take(&mut self.held);
            self.held_bytes = 0;
            return held.iter().try_for_each(|entries| self.write(entries.contents()));
        };
        let mut held = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        let rest = held.split_off(index);
        for entries in &held {
            self.write(entries.contents())?;
        }
        self.end_table()?;
        self.start = rest.first().map(|first| separator(&self.context.order, &first.key, shared));
        rest.into_iter().try_for_each(|entries| self.add(entries))
    }

    /// Writes the versions of one key, newest first.
    fn write<'e>(&mut self, entries: impl Iterator<Item = Content<'e>>) -> Result<()> {
        if self.current.is_none() {
            let (file, handle, header) =
                self.context.files.create(FileKind::Table, self.context.keyspace, self.base_version)?;
            let builder =
                TableBuilder::new(handle, file.path.clone(), header, self.context.options().table.clone());
            let builder = builder.inspect_err(|_| self.context.files.discard(&file))?;
            self.current =
                Some(Current { file, builder, bytes: 0, stale_bytes: 0, newest_version: 0, growing: 0 });
        }
        let Some(current) = &mut self.current else { return Ok(()) };
        let last_key = self.last_key.get_or_insert_default();
        for (index, entry) in entries.enumerate() {
            current.builder.add(entry.key, entry.version, entry.kind, entry.value)?;
            current.newest_version = current.newest_version.max(entry.version);
            let bytes = (entry.key.len() + entry.value.len()) as u64;
            if index > 0 && entry.kind == Kind::Put {
                current.stale_bytes += bytes;
            }
            current.bytes += bytes + 8;
            if index == 0 {
                last_key.clear();
                last_key.extend_from_slice(entry.key);
            }
        }
        let grown = current.builder.bytes_estimate() as i64 - current.growing;
        current.growing += grown;
        let growing_bytes = current.growing as u64;
        self.context.totals.growing_bytes.fetch_add(grown, Relaxed);
        let missing_bytes = growing_bytes.saturating_sub(self.grant.left_bytes());
        if missing_bytes > 0 {
            self.grant.extend(missing_bytes.next_multiple_of(ROOM_STEP_BYTES))?;
        }
        Ok(())
    }

    fn end_table(&mut self) -> Result<()> {
        let Some(Current { file, builder, stale_bytes, newest_version, growing, .. }) = self.current.take()
        else {
            return Ok(());
        };
        let finished = builder.finish(true);
        self.context.totals.growing_bytes.fetch_sub(growing, Relaxed);
        let meta = finished.inspect_err(|_| self.context.files.discard(&file))?;
        file.set_bytes(meta.file_bytes);
        self.grant.redeem(meta.file_bytes);
        self.context.counters.table_bytes_written.add(meta.file_bytes);
        let table = Arc::new(TableHandle {
            file,
            user_bytes: meta.user_bytes,
            stale_bytes,
            entries: meta.entries,
            base_version: self.base_version,
            newest_version,
        });
        self.pieces.push(Piece { start: self.start.take(), table, reused: false });
        Ok(())
    }
}

impl Drop for Output<'_, '_> {
    fn drop(&mut self) {
        // After an error: what was written is of no use.
        if let Some(current) = self.current.take() {
            self.context.totals.growing_bytes.fetch_sub(current.growing, Relaxed);
            self.context.files.discard(&current.file);
        }
        for piece in self.pieces.drain(..) {
            piece.discard(self.context);
        }
    }
}
