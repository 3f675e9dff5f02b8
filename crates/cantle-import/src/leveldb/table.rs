//! A table: sorted entries in blocks, and an index of the blocks.
//!
//! ```text
//!   table     blocks of entries │ filter │ its index │ index block │ footer (48)
//!   block     bytes, perhaps compressed │ method (1) │ checksum of both (4)
//!   index     for each block a key at or behind its last and before the next block's first │ its handle
//!   handle    offset, length without method and checksum (varints)
//!   footer    handle of the filter's index │ handle of the index │ zeros │ magic number (8)
//! ```
//!
//! Filters are not read: all entries are.

use super::block::{Block, Pair};
use super::coding::{Decoder, masked_crc};
use super::compression::{UNPACKED_BYTES_MAX, unpack};
use super::entry::{DELETION, Entry, VALUE, in_order, split_key, unknown_type};
use super::file::SourceFile;
use super::manifest::TableFile;
use super::reading::Reading;
use crate::error::{Damage, Result};
use std::cmp::Ordering;

pub(crate) const FOOTER_BYTES: usize = 48;
pub(crate) const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// The magic number of RocksDB's tables.
const ROCKSDB_MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
/// Method and checksum.
const TRAILER_BYTES: u64 = 5;

#[derive(Debug, Clone, Copy)]
struct Handle {
    offset: u64,
    length: u64,
}

fn handle(decoder: &mut Decoder<'_>) -> Option<Handle> {
    Some(Handle { offset: decoder.varint64()?, length: decoder.varint64()? })
}

/// Offset and length of the index, by what the footer has before the magic number.
pub(crate) fn index_handle(footer: &[u8]) -> Option<(u64, u64)> {
    let mut decoder = Decoder::new(footer);
    let (_, index) = handle(&mut decoder).zip(handle(&mut decoder))?;
    Some((index.offset, index.length))
}

/// The last entry that was read: what follows is behind it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    key: Vec<u8>,
    sequence: u64,
    begun: bool,
}

impl Place {
    fn is_before(&self, key: &[u8], sequence: u64) -> bool {
        !self.begun || in_order((&self.key, self.sequence), (key, sequence)) == Ordering::Less
    }

    fn set(&mut self, key: &[u8], sequence: u64) {
        self.key.clear();
        self.key.extend_from_slice(key);
        (self.sequence, self.begun) = (sequence, true);
    }
}

/// Reads the entries of a table in their order.
#[derive(Debug)]
pub(crate) struct Table {
    file: SourceFile,
    /// As the manifest has them.
    known: TableFile,
    /// The key in the index, without sequence, and the place of each block.
    blocks: std::vec::IntoIter<(Vec<u8>, Handle)>,
    /// The block that is read, and the keys that lie in it: behind the first, up to the second.
    block: Option<(Handle, Block)>,
    bounds: (Vec<u8>, Vec<u8>),
    place: Place,
}

impl Table {
    /// Opens a table; none if it is damaged as a whole, and was noted. Its entries are to be
    /// behind `place`. The file is open while it is read only, unless it `stays_open`.
    pub fn open(
        mut file: SourceFile,
        known: TableFile,
        place: Place,
        stays_open: bool,
        reading: &mut Reading,
    ) -> Result<Option<Self>> {
        match index(&file, &known, reading)? {
            Ok(blocks) => {
                if !stays_open {
                    file.close();
                }
                let bounds = (known.smallest.clone(), known.smallest.clone());
                Ok(Some(Self { blocks: blocks.into_iter(), block: None, bounds, file, known, place }))
            }
            Err((offset, what)) => {
                let damage = Damage::new(&file.path, offset, what);
                reading.damage(damage.of_keys(known.smallest, known.largest))?;
                Ok(None)
            }
        }
    }

    /// The place where it ended, for the table that follows.
    pub fn into_place(self) -> Place {
        self.place
    }

    pub fn next(&mut self, reading: &mut Reading) -> Result<Option<Entry>> {
        loop {
            let Some((handle, block)) = &mut self.block else {
                let Some((last, handle)) = self.blocks.next() else { return Ok(None) };
                self.bounds = (std::mem::take(&mut self.bounds.1), last);
                match read_block(&self.file, self.known.bytes, handle, reading)?.and_then(Block::new) {
                    Ok(block) => self.block = Some((handle, block)),
                    Err(what) => reading.damage(self.damage(handle, what))?,
                }
                continue;
            };
            let handle = *handle;
            match block
                .next()
                .and_then(|pair| pair.map(|pair| decode(pair, &self.place, &self.known)).transpose())
            {
                Ok(Some(entry)) => {
                    self.place.set(&entry.key, entry.sequence);
                    return Ok(Some(entry));
                }
                Ok(None) => self.block = None,
                Err(what) => {
                    self.block = None;
                    reading.damage(self.damage(handle, what))?;
                }
            }
        }
    }

    /// Damage of the block whose keys are within the bounds.
    fn damage(&self, handle: Handle, what: String) -> Damage {
        let (from, to) = &self.bounds;
        Damage::new(&self.file.path, handle.offset, what).of_keys(from.clone(), to.clone())
    }
}

fn decode((key, value): Pair<'_>, place: &Place, known: &TableFile) -> Result<Entry, String> {
    let (user, sequence, kind) = split_key(key)?;
    let value = match kind {
        VALUE => Some(value.to_vec()),
        DELETION => None,
        other => return Err(unknown_type(other)),
    };
    if !place.is_before(user, sequence) {
        return Err(format!(
            "the key \"{}\" is not behind the one before",
            user[..user.len().min(64)].escape_ascii()
        ));
    }
    if user < &known.smallest[..] || user > &known.largest[..] {
        return Err(format!(
            "the key \"{}\" is outside of what the manifest says of the table",
            user[..user.len().min(64)].escape_ascii()
        ));
    }
    Ok(Entry { key: user.to_vec(), sequence, value })
}

/// The blocks of a table, or what is wrong with it and where.
type Index = Result<Vec<(Vec<u8>, Handle)>, (u64, String)>;

fn index(file: &SourceFile, known: &TableFile, reading: &mut Reading) -> Result<Index> {
    if file.length < known.bytes {
        let what = format!("the file ends here, and the manifest says that it has {} bytes", known.bytes);
        return Ok(Err((file.length, what)));
    }
    let Some(footer_offset) = known.bytes.checked_sub(FOOTER_BYTES as u64) else {
        return Ok(Err((0, format!("a table of {} bytes has no footer", known.bytes))));
    };
    let mut footer = [0; FOOTER_BYTES];
    let read = file.read_at(&mut footer, footer_offset)?;
    reading.bytes += read as u64;
    let (handles, magic) = footer.split_at(FOOTER_BYTES - 8);
    match Decoder::new(magic).fixed64() {
        Some(MAGIC) if read == FOOTER_BYTES => {}
        Some(ROCKSDB_MAGIC) => {
            return Ok(Err((footer_offset, "the table was written by RocksDB, not by LevelDB".into())));
        }
        _ => return Ok(Err((footer_offset, "the table's footer has no magic number".into()))),
    }
    let Some((offset, length)) = index_handle(handles) else {
        return Ok(Err((footer_offset, "the footer's handles cannot be read".into())));
    };
    let place = Handle { offset, length };
    let at = |what| Err((place.offset, what));
    let mut block = match read_block(file, known.bytes, place, reading)?.and_then(Block::new) {
        Ok(block) => block,
        Err(what) => return Ok(at(what)),
    };
    let mut blocks = Vec::new();
    loop {
        match block.next() {
            Ok(None) => return Ok(Ok(blocks)),
            Err(what) => return Ok(at(what)),
            Ok(Some((key, value))) => {
                let Some(handle) = handle(&mut Decoder::new(value)) else {
                    return Ok(at("the index has a handle that cannot be read".into()));
                };
                match split_key(key) {
                    Ok((user, ..)) => blocks.push((user.to_vec(), handle)),
                    Err(what) => return Ok(at(what)),
                }
            }
        }
    }
}

/// The bytes of a block, checked and unpacked, or what is wrong with them.
fn read_block(
    file: &SourceFile,
    table_bytes: u64,
    handle: Handle,
    reading: &mut Reading,
) -> Result<Result<Vec<u8>, String>> {
    let Handle { offset, length } = handle;
    let end = length.checked_add(TRAILER_BYTES).and_then(|length| offset.checked_add(length));
    if end.is_none_or(|end| end > table_bytes) {
        return Ok(Err(format!("a block of {length} bytes would go on behind the table's end")));
    }
    // A file with holes may be as long as it likes.
    if length > UNPACKED_BYTES_MAX {
        return Ok(Err(format!("a block of {length} bytes is longer than any that LevelDB writes")));
    }
    let whole = (length + TRAILER_BYTES) as usize;
    let mut bytes = vec![0; whole];
    let read = file.read_at(&mut bytes, offset)?;
    reading.bytes += read as u64;
    if read < bytes.len() {
        return Ok(Err("the file ends in the middle of a block".into()));
    }
    let Some((sealed, checksum)) = bytes.split_last_chunk::<4>() else {
        return Ok(Err("a block has no checksum".into()));
    };
    if masked_crc(sealed) != u32::from_le_bytes(*checksum) {
        return Ok(Err("a block's checksum is wrong".into()));
    }
    let kind = sealed.last().copied().unwrap_or_default();
    bytes.truncate(whole - TRAILER_BYTES as usize);
    Ok(unpack(kind, bytes))
}

#[cfg(test)]
#[path = "table_tests.rs"]
pub(crate) mod tests;
