//! The index of a part that was written in key order.
//!
//! ```text
//!   op op op │ op op op │ … │ op op │ root │ filter │ part end
//!   ╰─stretch╯╰─stretch╯
//! ```
//!
//! Such a part has no index blocks. Its root maps the last key of each *stretch* of operations to the
//! stretch itself, about 8 KiB of the log: 0.4 % of a log of short pairs, instead of 12 %. A reader
//! makes the block of a stretch when it needs it, and caches it like any other.

use crate::block::{Block, BlockBuilder};
use crate::format::header::FileHeader;
use crate::log::index::indexed_part::encode_place;
use crate::log::index::memory_part::{MemoryPart, RecordPtr};
use crate::log::op::record::{LogOp, LogRecord};
use crate::log::segment::Segment;
use crate::records::record_head;
use crate::types::entry::Kind;
use crate::types::error::{Error, Result};
use bytes::Bytes;
use std::cmp::Ordering;

/// A stretch ends with the operation that reaches this length in bytes.
pub const STRETCH_BYTES: u32 = 8 << 10;
/// Maximum length of a record in a stretch: to make a block, all of the stretch is read.
const RECORD_BYTES_MAX: u32 = 64 << 10;

/// True if the records of this part, from `start` to `end`, are operations in the order of their
/// keys, each key once, with nothing between them.
pub fn is_in_key_order(part: &MemoryPart, start: u64, end: u64) -> bool {
    let (mut offset, mut last_key) = (start, Vec::new());
    let is_ordered = part.all(|key, hit| {
        let follows = hit.place.offset == offset && hit.place.len <= RECORD_BYTES_MAX;
        let is_first = offset == start;
        offset = offset.saturating_add(u64::from(hit.place.len));
        // The part is in the order of keys already, so only equal ones are to be told apart.
        let is_new = is_first || last_key != key;
        last_key.clear();
        last_key.extend_from_slice(key);
        follows && is_new
    });
    is_ordered && offset == end && part.tombstones().is_empty()
}

impl Segment {
    /// The index block of the stretch at `place`, made from its records in `bytes`.
    pub fn block_of_stretch(&self, header: &FileHeader, place: RecordPtr, bytes: &Bytes) -> Result<Block> {
        let mut builder = BlockBuilder::new(header.base_version);
        let (mut at, mut last_key, mut value) = (0, None::<Vec<u8>>, Vec::new());
        while at < bytes.len() {
            let offset = place.offset + at as u64;
            let (head, len) = record_head(header, &self.file.path, offset, &bytes[at..])?;
            let op = operation(head, header.base_version);
            let op = op.map_err(|what| Error::corruption(&self.file.path, offset, what))?;
            let follows = |last: &Vec<u8>| self.order.compare(last, op.key) == Ordering::Less;
            if last_key.as_ref().is_some_and(|last| !follows(last)) {
                let what = "an operation of a stretch is not in the order of keys";
                return Err(Error::corruption(&self.file.path, offset, what));
            }
            value.clear();
            // At most the length of the bytes at hand.
            encode_place(RecordPtr { offset, len: len as u32 }, &mut value);
            builder.add(op.key, op.version, op.kind, &value);
            let last = last_key.get_or_insert_default();
            last.clear();
            last.extend_from_slice(op.key);
            at += len;
        }
        Block::parse(Bytes::from(builder.finish()), header.base_version).map_err(self.malformed_block(place))
    }
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

    #[test]
    fn a_log_in_key_order_has_a_short_index() {
        let (_, env) = env();
        let keys: Vec<u64> = (0..5000).collect();
        let index_bytes = |search| {
            env.options.store(crate::log::env::LogOptions { search, ..env.options() });
            let part = sealed(&env, &log_of(&env, &keys, 130));
            assert_eq!(part.is_in_key_order(), search == LogSearch::Stretches);
            part.bytes() - (part.end - part.start)
        };
        let [dense, short] = [LogSearch::Indexed, LogSearch::Stretches].map(index_bytes);
        // The rest is the filter.
        let filter_bytes = 5000 * 10 / 8;
        assert!(short < filter_bytes * 3 / 2 && dense > 7 * filter_bytes, "{dense} {short}");
    }

    #[test]
    fn everything_else_has_a_whole_index() {
        let (_, env) = env();
        assert!(sealed(&env, &log_of(&env, &[1, 2, 3], 10)).is_in_key_order());
        assert!(!sealed(&env, &log_of(&env, &[1, 3, 2], 10)).is_in_key_order(), "another order");
        assert!(!sealed(&env, &log_of(&env, &[1, 2, 2], 10)).is_in_key_order(), "two versions");
        assert!(!sealed(&env, &log_of(&env, &[1, 2, 3], 70_000)).is_in_key_order(), "long values");
        let log = log_of(&env, &[1, 2, 3], 10);
        let failed = log.append(&env, (9, 0), &[(Kind::Put, b"z", b"")]).unwrap();
        log.revoke(&env, &failed).unwrap();
        assert!(!sealed(&env, &log).is_in_key_order(), "a revoked write");
        let log = log_of(&env, &[1, 2, 3], 10);
        let bounds = crate::format::bounds::encode_bounds(&crate::types::bounds::Bounds::of(&..));
        write(&env, &log, 9, &[(Kind::DeleteRange, b"", &bounds)]);
        assert!(!sealed(&env, &log).is_in_key_order(), "a range delete");
    }

    #[test]
    fn a_cursor_walks_stretches_in_both_directions_after_an_opening_too() {
        let (disk, env) = env();
        let keys: Vec<u64> = (0..900).map(|number| 2 * number).collect();
        let log = log_of(&env, &keys, 100);
        assert!(sealed(&env, &log).is_in_key_order());
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
        let whole = log.segment.block_of_stretch(&header, place, &bytes.clone().into()).unwrap();
        assert!(whole.heap_bytes() > 50 * 8);
        for at in (0..bytes.len()).step_by(3) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            // Damage in a value is found when the value is read.
            if let Ok(block) = log.segment.block_of_stretch(&header, place, &damaged.into()) {
                assert_eq!(block.heap_bytes(), whole.heap_bytes(), "at {at}");
            }
        }
    }
}
