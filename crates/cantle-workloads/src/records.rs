//! The records: 14-byte keys and 800-byte values, as in EvenDB §5.3.1, or of other [`Sizes`].

use crate::generator::Random;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a key: YCSB's key of a 32-bit number, with a 4-byte prefix and ten decimal digits.
pub const KEY_BYTES: usize = 14;

/// Bytes of a value.
pub const VALUE_BYTES: usize = 800;

/// Bytes of a record that count as the user's.
pub const RECORD_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;

/// Bytes of the keys and of the values of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sizes {
    /// Bytes of a key: 14 or more, so that every record has a key of its own.
    pub key_bytes: usize,
    /// Bytes of a value, on average. Each value begins with its key, or with as much of it as it is long.
    pub value_bytes: usize,
    /// Values are up to this many bytes longer and shorter than the average, evenly.
    #[serde(default)]
    pub spread_bytes: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { key_bytes: KEY_BYTES, value_bytes: VALUE_BYTES, spread_bytes: 0 }
    }
}

impl Sizes {
    /// Keys and values of these sizes.
    pub const fn new(key_bytes: usize, value_bytes: usize) -> Self {
        assert!(key_bytes >= KEY_BYTES && value_bytes >= key_bytes && value_bytes < POOL_BYTES);
        Self { key_bytes, value_bytes, spread_bytes: 0 }
    }

    /// The same with values of other lengths: up to this many bytes longer and shorter.
    pub const fn spread(self, spread_bytes: usize) -> Self {
        assert!(spread_bytes < self.value_bytes && self.value_bytes + spread_bytes < POOL_BYTES);
        Self { spread_bytes, ..self }
    }

    /// Bytes of the next value.
    pub fn next_value_bytes(self, random: &mut Random) -> usize {
        match self.spread_bytes {
            0 => self.value_bytes,
            spread => self.value_bytes - spread + random.below(2 * spread as u64 + 1) as usize,
        }
    }

    /// Bytes of a record that count as the user's, on average.
    pub const fn record_bytes(self) -> u64 {
        (self.key_bytes + self.value_bytes) as u64
    }

    /// Writes the key of a record into `into`: [`key`], with more zeros before the number in longer keys.
    pub fn key(self, record: u64, into: &mut Vec<u8>) {
        let key = key(record);
        into.clear();
        into.extend_from_slice(PREFIX);
        into.resize(self.key_bytes - (KEY_BYTES - PREFIX.len()), b'0');
        into.extend_from_slice(&key[PREFIX.len()..]);
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key_bytes, value_bytes, spread_bytes } = self;
        match spread_bytes {
            0 => write!(f, "{key_bytes}-{value_bytes}"),
            _ => write!(f, "{key_bytes}-{}to{}", value_bytes - spread_bytes, value_bytes + spread_bytes),
        }
    }
}

/// The largest number of records whose numbers have ten digits.
pub const RECORDS_MAX: u64 = 10_000_000_000;

const PREFIX: &[u8; 4] = b"user";

/// The key of a record; keys sort as their numbers do.
pub fn key(record: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    key[..4].copy_from_slice(PREFIX);
    let (mut rest, mut at) = (record, KEY_BYTES);
    while rest > 0 && at > 4 {
        at -= 1;
        key[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Size of the random bytes that values are cut from, made once per run. 1 MiB is far more than the
/// block in which a compressor searches for repetitions.
const POOL_BYTES: usize = 1 << 20;

/// Makes values that do not compress, at the cost of one copy, and recognises them.
pub struct Values {
    pool: Vec<u8>,
}

impl Values {
    /// Values of a seed.
    pub fn new(seed: u64) -> Self {
        let mut pool = vec![0; POOL_BYTES];
        Random::stream(seed, u64::MAX).fill(&mut pool);
        Self { pool }
    }

    /// Writes the next value of `record` into `value`: its key, which readers check, then random
    /// bytes.
    pub fn fill(&self, value: &mut [u8; VALUE_BYTES], record: u64, random: &mut Random) {
        let rest = VALUE_BYTES - KEY_BYTES;
        let start = random.below((POOL_BYTES - rest) as u64) as usize;
        value[..KEY_BYTES].copy_from_slice(&key(record));
        value[KEY_BYTES..].copy_from_slice(&self.pool[start..start + rest]);
    }

    /// Writes the next value for `key` into `value`: the key, or as much of it as there is room for, then random
    /// bytes.
    pub fn fill_for(&self, key: &[u8], value_bytes: usize, value: &mut Vec<u8>, random: &mut Random) {
        let rest = value_bytes.saturating_sub(key.len());
        let start = random.below((POOL_BYTES - rest) as u64) as usize;
        value.clear();
        value.extend_from_slice(&key[..key.len().min(value_bytes)]);
        value.extend_from_slice(&self.pool[start..start + rest]);
    }
}

/// True if `value` was written for `key`.
pub fn belongs(key: &[u8], value: &[u8]) -> bool {
    value.len() == VALUE_BYTES && value.starts_with(key) && key.len() == KEY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_a_prefix_and_ten_digits_and_sort_by_number() {
        assert_eq!(&key(0), b"user0000000000");
        assert_eq!(&key(1_234_567), b"user0001234567");
        assert_eq!(&key(RECORDS_MAX - 1), b"user9999999999");
        assert!(key(99) < key(100) && key(999_999) < key(1_000_000));
    }

    #[test]
    fn keys_and_values_have_the_sizes_that_a_data_set_asks_for() {
        let values = Values::new(3);
        for (key_bytes, value_bytes) in [(14, 800), (16, 128), (16, 1024), (16, 16 << 10), (23, 23)] {
            let sizes = Sizes::new(key_bytes, value_bytes);
            let (mut low, mut high, mut value) = (Vec::new(), Vec::new(), Vec::new());
            sizes.key(99, &mut low);
            sizes.key(RECORDS_MAX - 1, &mut high);
            assert!(low < high && low.len() == key_bytes && high.len() == key_bytes);
            assert!(low.starts_with(b"user0") && low.ends_with(b"0099"));
            values.fill_for(&low, value_bytes, &mut value, &mut Random::new(4));
            assert!(value.len() == value_bytes && value.starts_with(&low));
            assert_eq!(sizes.record_bytes(), (key_bytes + value_bytes) as u64);
        }
        let mut plain = Vec::new();
        Sizes::default().key(7, &mut plain);
        assert_eq!(plain, key(7), "the usual sizes have the usual keys");
        assert_eq!(Sizes::new(16, 128).to_string(), "16-128");
    }

    #[test]
    fn values_of_many_lengths_begin_with_as_much_of_their_key_as_there_is_room_for() {
        let (sizes, values) = (Sizes::new(23, 100).spread(99), Values::new(3));
        let (mut key, mut value, mut random) = (Vec::new(), Vec::new(), Random::new(4));
        sizes.key(99, &mut key);
        let mut lengths = Vec::new();
        for _ in 0..20_000 {
            let bytes = sizes.next_value_bytes(&mut random);
            values.fill_for(&key, bytes, &mut value, &mut random);
            assert!(value.len() == bytes && (value.starts_with(&key) || key.starts_with(&value)));
            lengths.push(bytes);
        }
        let mean = lengths.iter().sum::<usize>() / lengths.len();
        assert!((98..=102).contains(&mean), "{mean}");
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&1), Some(&199)));
        assert_eq!(sizes.to_string(), "23-1to199");
    }

    #[test]
    fn values_know_their_record_and_do_not_repeat() {
        let (values, mut random) = (Values::new(3), Random::new(4));
        let (mut first, mut second) = ([0; VALUE_BYTES], [0; VALUE_BYTES]);
        values.fill(&mut first, 7, &mut random);
        values.fill(&mut second, 7, &mut random);
        assert!(belongs(&key(7), &first) && belongs(&key(7), &second));
        assert_ne!(first, second);
        assert!(!belongs(&key(8), &first) && !belongs(&key(7), &first[1..]));
        let zeros = first.iter().filter(|&&byte| byte == 0).count();
        assert!(zeros < VALUE_BYTES / 10, "{zeros} zeros");
    }
}
