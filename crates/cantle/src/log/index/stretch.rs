//! The index of operations that were written in key order, or nearly so.
//!
//! ```text
//!   op op op │ op op op │ … │ op op │ [block] … │ root │ filter │ part end
//!   ╰─stretch╯╰─stretch╯
//! ```
//!
//! Such operations have no index blocks. The root maps the last key of each *stretch* of operations
//! to the stretch itself, about 8 KiB of the log: 0.4 % of a log of short pairs, instead of 12 %. A
//! reader makes the block of a stretch when it needs it, and caches it like any other.
//!
//! In key order, a stretch can end where all operations so far are the beginning of the part, without
//! a gap. Writers that take turns are a few operations out of order: the stretch then ends a little
//! later. If it cannot end within 64 KiB, the operations up to the next such place have blocks.
//!
//! A writer that the operating system stops for a moment is late by one operation: a *stray*, which
//! stands far behind its neighbours. Its neighbours by key and those by place have a block each, and
//! the rest of the part does not depend on it.

use crate::block::{Block, BlockBuilder};
use crate::format::header::FileHeader;
use crate::log::index::indexed_part::encode_place;
use crate::log::index::memory_part::{MemoryHit, RecordPtr};
use crate::log::op::record::{LogOp, LogRecord};
use crate::records::record_head;
use crate::types::entry::Kind;
use crate::types::error::{Error, Result};
use crate::types::order::KeyOrder;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::Path;

/// A stretch ends at the first possible place from this length in bytes on, or from this fraction of
/// its part.
const STRETCH_BYTES: u64 = 8 << 10;
const STRETCH_FRACTION: u64 = 16;
/// Maximum length of a stretch, also as a fraction of its part: to make its block, all of it is
/// read.
const STRETCH_BYTES_MAX: u64 = 64 << 10;
const STRETCH_FRACTION_MAX: u64 = 8;

/// Maximum number of strays of a part that are known at the same time.
const STRAYS_MAX: usize = 64;

/// An operation on a key, by its key.
type Keyed = (Vec<u8>, MemoryHit);

/// Divides the operations of a part, in key order, into stretches.
pub struct Stretches {
    /// The end of the last stretch or group of blocks.
    start: u64,
    /// The bytes of the operations since then, and the greatest end of one.
    bytes: u64,
    end: u64,
    /// The operations since then; `None` if they are in blocks.
    held: Option<Vec<Keyed>>,
    /// Offsets and lengths in bytes of strays behind the end.
    strays: BTreeMap<u64, u32>,
    /// True if the operations since then are not those of a place: there was a stray among them, by
    /// key or by place.
    has_stray: bool,
    bytes_min: u64,
    bytes_max: u64,
}

/// The place that an operation has.
pub enum Step {
    None,
    /// The stretch at this place ends with the operation.
    Ended(RecordPtr),
    /// The stretch could not end: these operations, the last ones so far, have blocks, and so have
    /// the following ones.
    Broken(Vec<Keyed>),
    /// These operations, the last ones so far, have a block: there is a stray among them.
    Strayed(Vec<Keyed>),
    /// The operation is the last one in blocks.
    Resumed,
}

impl Stretches {
    /// The stretches of a part that lies here.
    pub fn new(start: u64, end: u64) -> Self {
        let part_bytes = end.saturating_sub(start);
        Self {
            start,
            bytes: 0,
            end: start,
            held: Some(Vec::new()),
            strays: BTreeMap::new(),
            has_stray: false,
            bytes_min: STRETCH_BYTES.min(part_bytes / STRETCH_FRACTION),
            bytes_max: STRETCH_BYTES_MAX.min(part_bytes / STRETCH_FRACTION_MAX),
        }
    }

    /// True if the next operation need not be in a block.
    pub fn is_open(&self) -> bool {
        self.held.is_some()
    }

    /// Adds the next operation in key order; without its key if readers need not find it.
    pub fn add(&mut self, key: Option<&[u8]>, hit: MemoryHit) -> Step {
        self.place(hit.place);
        if let (Some(held), Some(key)) = (&mut self.held, key) {
            held.push((key.to_vec(), hit));
        }
        if self.end - self.start != self.bytes {
            let is_too_long = self.bytes > self.bytes_max;
            return self.held.take_if(|_| is_too_long).map_or(Step::None, Step::Broken);
        }
        match &self.held {
            Some(_) if self.bytes > self.bytes_max => self.held.take().map_or(Step::None, Step::Broken),
            Some(_) if self.bytes >= self.bytes_min => self.finish(),
            Some(_) => Step::None,
            None => {
                self.begin();
                Step::Resumed
            }
        }
    }

    /// Counts an operation at this place.
    fn place(&mut self, place: RecordPtr) {
        let is_far = place.offset > self.end.saturating_add(self.bytes_max);
        if is_far && self.strays.len() < STRAYS_MAX {
            self.strays.insert(place.offset, place.len);
            self.has_stray = true;
            return;
        }
        self.bytes += u64::from(place.len);
        self.end = self.end.max(place.offset.saturating_add(u64::from(place.len)));
        // Strays that the end has come to.
        while let Some(stray) = self.strays.first_entry().filter(|stray| *stray.key() <= self.end) {
            let len = u64::from(*stray.get());
            self.bytes += len;
            self.end = self.end.max(stray.key().saturating_add(len));
            self.has_stray = true;
            stray.remove();
        }
    }

    /// Ends the last stretch.
    pub fn finish(&mut self) -> Step {
        let stretch = RecordPtr { offset: self.start, len: self.bytes as u32 };
        let is_whole = self.end - self.start == self.bytes;
        match self.held.take().filter(|held| !held.is_empty()) {
            Some(held) if is_whole && self.has_stray => {
                self.begin();
                Step::Strayed(held)
            }
            Some(_) if is_whole => {
                self.begin();
                Step::Ended(stretch)
            }
            Some(held) => Step::Broken(held),
            None => Step::None,
        }
    }

    fn begin(&mut self) {
        (self.start, self.bytes, self.held) = (self.end, 0, Some(Vec::new()));
        self.has_stray = false;
    }
}

/// The index block of the stretch that stands at `offset` of a log, made from its records.
pub fn block_of_stretch(
    (header, path): (&FileHeader, &Path),
    order: &KeyOrder,
    offset: u64,
    bytes: &[u8],
) -> Result<Block> {
    let mut ops: Vec<(LogOp<'_>, RecordPtr)> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let offset = offset + at as u64;
        let (head, len) = record_head(header, path, offset, &bytes[at..])?;
        let op = operation(head, header.base_version);
        let op = op.map_err(|what| Error::corruption(path, offset, what))?;
        // At most the length of the bytes at hand.
        ops.push((op, RecordPtr { offset, len: len as u32 }));
        at += len;
    }
    order.sort_by(&mut ops, |(a, of_a), (b, of_b)| {
        order.compare(a.key, b.key).then(b.version.cmp(&a.version)).then(of_b.offset.cmp(&of_a.offset))
    });
    // The latest of a key's operations at one version hides the others.
    ops.dedup_by(|(b, _), (a, _)| a.version == b.version && a.key == b.key);
    let (mut builder, mut value) = (BlockBuilder::new(header.base_version), Vec::new());
    for (op, place) in ops {
        value.clear();
        encode_place(place, &mut value);
        builder.add(op.key, op.version, op.kind, &value);
    }
    let block = Block::parse(Bytes::from(builder.finish()), header.base_version);
    block.map_err(|what| Error::corruption(path, offset, format!("the block of a stretch {}", what.0)))
}

fn operation(head: &[u8], base_version: u64) -> Result<LogOp<'_>, &'static str> {
    match LogRecord::decode(head, base_version) {
        Ok(LogRecord::Op(op)) if op.kind != Kind::DeleteRange => Ok(op),
        Ok(_) => Err("a stretch has a record that is no operation on a key"),
        Err(_) => Err("an operation of a stretch does not decode"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::env::LogEnv;
    use crate::log::index::indexed_part::{IndexedPart, LogSearch};
    use crate::log::shared::SharedLog;
    use crate::log::test_support::{log_env, new_log, reopened, write};
    use crate::sync::Arc;
    use crate::types::entry::EntryCursor;
    use crate::vfs::{MemVfs, Vfs};

    fn env() -> (MemVfs, Arc<LogEnv>) {
        let disk = MemVfs::new();
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        (disk, log_env(&vfs, 1))
    }

    fn key(number: u64) -> Vec<u8> {
        format!("key {number:05}").into_bytes()
    }

    /// A log with puts of these keys, the values `bytes` long.
    fn log_of(env: &LogEnv, keys: &[u64], bytes: usize) -> SharedLog {
        let log = new_log(env, false);
        for (&number, version) in keys.iter().zip(1..) {
            write(env, &log, version, &[(Kind::Put, &key(number), &vec![number as u8; bytes])]);
        }
        log
    }

    fn sealed(env: &LogEnv, log: &SharedLog) -> Arc<IndexedPart> {
        log.seal(env).unwrap();
        log.segment.parts(env).unwrap().indexed[0].clone()
    }

    /// True if few operations have blocks: those take less than two bytes for each operation of the part, and
    /// would take some twenty.
    fn is_in_stretches(part: &IndexedPart) -> bool {
        part.root.len > 0 && part.root.offset - part.end <= 2 * part.entries
    }

    #[test]
    fn a_log_in_key_order_has_a_short_index() {
        let (_, env) = env();
        let keys: Vec<u64> = (0..5000).collect();
        let index_bytes = |search| {
            env.options.store(crate::log::env::LogOptions { search, ..env.options() });
            let part = sealed(&env, &log_of(&env, &keys, 130));
            assert_eq!(is_in_stretches(&part), search == LogSearch::Stretches);
            part.bytes() - (part.end - part.start)
        };
        let [dense, short] = [LogSearch::Indexed, LogSearch::Stretches].map(index_bytes);
        // The rest is the filter.
        let filter_bytes = 5000 * 10 / 8;
        assert!(short < filter_bytes * 3 / 2 && dense > 7 * filter_bytes, "{dense} {short}");
    }

    /// Writers that take turns write so, also if one of them is late.
    #[test]
    fn a_part_whose_neighbours_mostly_stand_together_counts_as_one_in_key_order() {
        let (_, env) = env();
        let in_turns = |turn: u64, count: u64| -> Vec<u64> {
            let number = |at| at / (2 * turn) * 2 * turn + at % 2 * turn + at % (2 * turn) / 2;
            (0..count).map(number).collect()
        };
        let part = sealed(&env, &log_of(&env, &in_turns(64, 4096), 1000));
        assert!(!is_in_stretches(&part) && part.is_in_key_order(), "{part:?}");
        assert_eq!(part.jumps, Some(32), "one for each turn of both");
        let mut late = in_turns(64, 4096);
        let one_turn: Vec<u64> = late.drain(1000..1064).collect();
        late.splice(3000..3000, one_turn);
        let part = sealed(&env, &log_of(&env, &late, 1000));
        assert!(!is_in_stretches(&part) && part.is_in_key_order(), "{part:?}");
        let scattered: Vec<u64> = (0..4096).map(|number| number * 1291 % 4096).collect();
        let part = sealed(&env, &log_of(&env, &scattered, 1000));
        assert!(!part.is_in_key_order() && part.jumps > Some(part.entries / 2), "{part:?}");
        let long = sealed(&env, &log_of(&env, &(0..30).collect::<Vec<_>>(), 70_000));
        assert!(long.is_in_key_order() && long.jumps == Some(0), "{long:?}");
        let scattered: Vec<u64> = (0..100).map(|number| number * 37 % 100).collect();
        let short = sealed(&env, &log_of(&env, &scattered, 10));
        assert!(!short.is_in_key_order(), "near is a part of a short log: {short:?}");
    }

    #[test]
    fn everything_else_has_a_whole_index() {
        let (_, env) = env();
        let keys: Vec<u64> = (0..100).collect();
        assert!(is_in_stretches(&sealed(&env, &log_of(&env, &keys, 10))));
        let backward: Vec<u64> = (0..3000).rev().collect();
        assert!(!is_in_stretches(&sealed(&env, &log_of(&env, &backward, 100))), "another order");
        assert!(!is_in_stretches(&sealed(&env, &log_of(&env, &keys[..30], 70_000))), "long values");
        // Nothing else lies within a stretch.
        let log = log_of(&env, &keys[..2], 10);
        let failed = log.append(&env, (9, 0), &[(Kind::Put, b"z", b"")]).unwrap();
        log.revoke(&env, &failed).unwrap();
        for &number in &keys[2..] {
            write(&env, &log, 100 + number, &[(Kind::Put, &key(number), b"value")]);
        }
        assert!(!is_in_stretches(&sealed(&env, &log)), "a revoked write");
        let log = new_log(&env, false);
        let bounds = crate::format::bounds::encode_bounds(&crate::types::bounds::Bounds::of(&..));
        write(&env, &log, 1, &[(Kind::DeleteRange, b"", &bounds)]);
        for &number in &keys {
            write(&env, &log, 2 + number, &[(Kind::Put, &key(number), b"value")]);
        }
        assert!(!is_in_stretches(&sealed(&env, &log)), "a range delete");
    }

    /// Several writers, one of which is late at times; several versions of a key, and a key that is
    /// written twice at one version.
    #[test]
    fn what_is_nearly_in_order_is_found_as_well() {
        let (_, env) = env();
        let mut keys: Vec<u64> = (0..4000).collect();
        (0..4000).step_by(5).skip(1).for_each(|at| keys.swap(at, at - 3));
        // Later than a stretch may be long, one and a hundred of them.
        let late = keys.remove(500);
        keys.insert(1500, late);
        let late: Vec<u64> = keys.drain(2000..2100).collect();
        keys.splice(3000..3000, late);
        let log = log_of(&env, &keys, 100);
        let again = key(3999);
        write(&env, &log, 9000, &[(Kind::Put, &again, b"first"), (Kind::Put, &again, b"second")]);
        let part = sealed(&env, &log);
        let dense_bytes = part.root.offset - part.end;
        assert!(
            dense_bytes > 1000 * 10 && dense_bytes < 1400 * 25,
            "{dense_bytes}: the thousand keys around the hundred, and a few"
        );
        let segment = log.segment.clone();
        let parts = segment.parts(&env).unwrap();
        let (env, reads) = (env.clone(), Default::default());
        let walk = crate::log::read::pass::LogWalk { env, segment, parts, once: None, reads };
        let mut cursor = crate::log::read::cursor::IndexedCursor::new(Arc::new(walk), 0);
        cursor.seek_to_first().unwrap();
        let mut found = Vec::new();
        while let Some(entry) = cursor.entry().map(|entry| (entry.key.to_vec(), entry.version)) {
            found.push((entry, cursor.value().unwrap()));
            cursor.next().unwrap();
        }
        let mut versions: Vec<(u64, u64)> = keys.into_iter().zip(1..).collect();
        versions.sort();
        let mut expected: Vec<_> = versions
            .iter()
            .map(|&(number, version)| ((key(number), version), Bytes::from(vec![number as u8; 100])))
            .collect();
        expected.insert(3999, ((again, 9000), Bytes::from_static(b"second")));
        assert!(found == expected);
    }

    /// Writers that are stopped now and then, each with an operation at hand.
    #[test]
    fn a_late_operation_costs_a_block_or_two() {
        let (_, env) = env();
        let mut keys: Vec<u64> = (0..4000).collect();
        for late in [100, 700, 701, 1500, 3100] {
            let at = keys.iter().position(|&key| key == late).unwrap();
            let key = keys.remove(at);
            keys.insert(at + 800, key);
        }
        let part = sealed(&env, &log_of(&env, &keys, 100));
        assert!(is_in_stretches(&part));
        let dense_bytes = part.root.offset - part.end;
        assert!((1..10 * 100 * 25).contains(&dense_bytes), "{dense_bytes}");
    }

    #[test]
    fn a_cursor_walks_stretches_in_both_directions_after_an_opening_too() {
        let (disk, env) = env();
        let keys: Vec<u64> = (0..900).map(|number| 2 * number).collect();
        let log = log_of(&env, &keys, 100);
        assert!(is_in_stretches(&sealed(&env, &log)));
        let checkpoint = log.segment.sync().unwrap();
        let vfs: Arc<dyn Vfs> = Arc::new(disk);
        let later = log_env(&vfs, 2);
        let segment = reopened(&later, checkpoint, 1, false);
        let parts = segment.parts(&later).unwrap();
        let walk = crate::log::read::pass::LogWalk {
            env: later.clone(),
            segment,
            parts,
            once: None,
            reads: Default::default(),
        };
        let mut cursor = crate::log::read::cursor::IndexedCursor::new(Arc::new(walk), 0);
        for number in (0..1800).step_by(7) {
            cursor.seek(&key(number)).unwrap();
            let expected = number.next_multiple_of(2);
            let found = cursor.entry().map(|entry| entry.key.to_vec());
            assert_eq!(found, (expected < 1800).then(|| key(expected)));
            if found.is_some() {
                assert_eq!(cursor.value().unwrap(), vec![expected as u8; 100]);
            }
            cursor.seek_before(&key(number)).unwrap();
            let before = (number + 1).checked_sub(2).map(|below| below / 2 * 2).filter(|_| number > 0);
            assert_eq!(cursor.entry().map(|entry| entry.key.to_vec()), before.map(key));
        }
    }

    #[test]
    fn a_damaged_stretch_is_an_error_and_no_wrong_key() {
        let (_, env) = env();
        let log = log_of(&env, &(0..50).collect::<Vec<_>>(), 300);
        let part = sealed(&env, &log);
        let (header, file) = (log.segment.parts(&env).unwrap().header, log.segment.file.handle().unwrap());
        let place = RecordPtr { offset: part.start, len: (part.end - part.start) as u32 };
        let mut bytes = vec![0; place.len as usize];
        file.read_at(&mut bytes, place.offset).unwrap();
        let path = log.segment.file.path.clone();
        let block_of = |bytes: &[u8]| block_of_stretch((&header, &path), &env.order, place.offset, bytes);
        let whole = block_of(&bytes).unwrap();
        assert!(whole.heap_bytes() > 50 * 8);
        for at in (0..bytes.len()).step_by(3) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            // Damage in a value is found when the value is read.
            if let Ok(block) = block_of(&damaged) {
                assert_eq!(block.heap_bytes(), whole.heap_bytes(), "at {at}");
            }
        }
    }
}
