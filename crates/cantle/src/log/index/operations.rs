//! The operations of a part in memory: the length that its index would have on disk.

use super::indexed_part::{NEAR_BYTES, NEAR_FRACTION, TOGETHER_MIN};
use super::memory_part::MemoryPart;
use crate::format::header::HEADER_BYTES;

/// Bytes of an operation in an index block beside its key: flags and lengths 3, the version 2 to 3, its place
/// 4 to 5, a share of the restart points and of the root.
const ENTRY_BYTES: u64 = 10;
/// Keys are whole at every restart point: a part of the bytes that neighbours share comes back.
const RESTART_FRACTION: u64 = 16;

/// Counts of the operations of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Operations {
    pub entries: u64,
    /// Bytes of the keys, and those of them that a key shares with the one before it.
    pub key_bytes: u64,
    pub shared_bytes: u64,
    /// Number of entries that do not stand near the one before them in key order.
    pub jumps: u64,
    pub record_bytes: u64,
}

impl Operations {
    /// Counts the operations of a log of this length that has one part. Only while nobody writes.
    pub fn of(part: &MemoryPart, log_bytes: u64) -> Self {
        let mut counts = Self { record_bytes: log_bytes.saturating_sub(HEADER_BYTES), ..Self::default() };
        let near = NEAR_BYTES.min(counts.record_bytes / NEAR_FRACTION);
        let (mut last_key, mut before) = (Vec::new(), None);
        part.for_each(|key, hit| {
            let shared = last_key.iter().zip(key).take_while(|(a, b)| a == b).count();
            counts.entries += 1;
            counts.key_bytes += key.len() as u64;
            counts.shared_bytes += shared as u64;
            let end = before.replace(hit.place.offset + u64::from(hit.place.len));
            counts.jumps += u64::from(end.is_some_and(|end: u64| hit.place.offset.abs_diff(end) > near));
            last_key.truncate(shared);
            last_key.extend_from_slice(&key[shared..]);
        });
        counts
    }

    /// True if they stand in the order of their keys, more or less: most have no place in an index.
    pub fn is_in_key_order(&self) -> bool {
        self.jumps <= self.entries / TOGETHER_MIN
    }

    /// Approximate bytes of an index that has them all, with a filter of this number of bits for each.
    pub fn index_bytes(&self, filter_bits: u32) -> u64 {
        let keys = self.key_bytes - self.shared_bytes + self.shared_bytes / RESTART_FRACTION;
        self.entries * ENTRY_BYTES + keys + self.entries * u64::from(filter_bits) / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::test_support::{log_env, new_log, write};
    use crate::sync::Arc;
    use crate::sync::random::Rng;
    use crate::types::entry::Kind;
    use crate::vfs::{MemVfs, Vfs};

    /// The estimate, and the bytes that the index has. The keys are random, or their decimal digits.
    fn indexes(key_bytes: usize, value_bytes: usize, is_text: bool) -> (Operations, u64) {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let env = log_env(&vfs, 1);
        let log = new_log(&env, false);
        let mut rng = Rng::new(1);
        for version in 1..8000 {
            let key = match is_text {
                true => format!("{:0key_bytes$}", rng.below(1_000_000)).into_bytes(),
                false => (0..key_bytes).map(|_| rng.below(256) as u8).collect(),
            };
            write(&env, &log, version, &[(Kind::Put, &key, &vec![7; value_bytes])]);
        }
        let memory = log.segment.loaded().unwrap().memory.clone().unwrap();
        let operations = Operations::of(&memory, log.segment.len());
        let before = log.segment.len();
        log.seal(&env).unwrap();
        (operations, log.segment.len() - before)
    }

    #[test]
    fn the_estimate_is_near_the_index_that_is_written() {
        for (key_bytes, value_bytes, is_text) in
            [(8, 8, false), (16, 32, false), (16, 128, false), (12, 20, true), (40, 40, true), (3, 0, false)]
        {
            let (operations, written) = indexes(key_bytes, value_bytes, is_text);
            let estimate = operations.index_bytes(10);
            println!("{key_bytes}/{value_bytes}: {estimate} for {written} of {operations:?}");
            assert!(!operations.is_in_key_order());
            assert!(estimate.abs_diff(written) <= written / 7, "{estimate} instead of {written}");
        }
    }

    #[test]
    fn an_index_has_an_entry_a_key_and_bits_for_each_operation() {
        let counts =
            Operations { entries: 1000, key_bytes: 16_000, shared_bytes: 1600, jumps: 0, record_bytes: 1 };
        assert_eq!(counts.index_bytes(8), 10_000 + 16_000 - 1600 + 100 + 1000);
        assert_eq!(counts.index_bytes(0), 10_000 + 16_000 - 1600 + 100);
    }
}
