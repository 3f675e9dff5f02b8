//! The records: 14-byte keys and 800-byte values, as in EvenDB §5.3.1.

use crate::generator::Random;

/// Bytes of a key: YCSB's key of a 32-bit number, with a 4-byte prefix and ten decimal digits.
pub const KEY_BYTES: usize = 14;

/// Bytes of a value.
pub const VALUE_BYTES: usize = 800;

/// Bytes of a record that count as the user's.
pub const RECORD_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;

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
