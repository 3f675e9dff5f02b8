//! Distributions of keys, bounds, and values.

use super::order::Order;
use super::random::Random;
use cantle::KEY_BYTES_MAX;
use std::ops::Bound;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// A few hundred short neighbours.
    Dense,
    /// Composite keys after a long common prefix.
    Prefixed,
    /// Any bytes, with many 0x00 and 0xff, the empty key included.
    Bytes,
    /// Two dozen keys of up to 64 KiB and a byte, one in fifty of 1 MiB.
    Huge,
    /// Letters of both cases.
    Letters,
    /// Numbers from a wide range.
    Spread,
}

impl Keys {
    pub const ALL: [Self; 6] =
        [Self::Dense, Self::Prefixed, Self::Bytes, Self::Spread, Self::Letters, Self::Huge];

    pub fn key(self, random: &mut Random) -> Vec<u8> {
        match self {
            Self::Dense => format!("{:03}", random.below(800)).into_bytes(),
            Self::Prefixed => {
                let (user, time) = (random.below(20), random.below(60));
                format!("{}/user{user:03}/{time:05}", "the same for all ".repeat(12)).into_bytes()
            }
            Self::Bytes => {
                let length = random.below(6);
                (0..length).map(|_| random.pick(&[0x00, 0x00, 0x01, 0x61, 0xfe, 0xff, 0xff])).collect()
            }
            Self::Huge => {
                let length = match random.chance(2) {
                    true => KEY_BYTES_MAX,
                    false => random.pick(&[65_537, 65_536, 65_535, 40_000, 300, 1, 0]),
                };
                let mut key = vec![0xab; length];
                if let Some(last) = key.last_mut() {
                    *last = random.below(4) as u8;
                }
                key
            }
            Self::Letters => {
                let length = 1 + random.below(3);
                (0..length).map(|_| random.pick(b"abcdefABCDEF")).collect()
            }
            Self::Spread => {
                (random.below(1500) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()
            }
        }
    }

    /// Keys in any order: none, one or many, some of them several times.
    pub fn batch(self, random: &mut Random) -> Vec<Vec<u8>> {
        let count = match random.below(8) {
            0 => 0,
            1 => 1,
            2..6 => 2 + random.below(20),
            _ => 20 + random.below(100),
        };
        // A comparator of the lab takes long for long keys.
        let count = if self == Self::Huge { count.min(8) } else { count };
        let mut keys: Vec<Vec<u8>> = Vec::with_capacity(count);
        while keys.len() < count {
            let is_again = !keys.is_empty() && random.chance(10);
            keys.push(if is_again { random.pick(&keys) } else { self.key(random) });
        }
        match random.below(4) {
            0 => keys.sort(),
            1 => keys.sort_by(|a, b| b.cmp(a)),
            _ => {}
        }
        keys
    }

    /// A prefix of some keys.
    pub fn prefix(self, random: &mut Random) -> Vec<u8> {
        let mut key = self.key(random);
        let length = match self {
            Self::Prefixed => key.len() - random.below(10),
            _ => random.below(key.len().min(4) + 1),
        };
        key.truncate(length);
        key
    }

    /// Bounds of all kinds, including reversed and empty ones.
    pub fn bounds(self, order: Order, random: &mut Random) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let (a, mut b) = (self.key(random), self.key(random));
        if random.chance(10) {
            b = a.clone();
        }
        let (a, b) = if random.chance(85) && order.cmp(&a, &b).is_gt() { (b, a) } else { (a, b) };
        let mut bound = |key| match random.below(10) {
            0..5 => Bound::Included(key),
            5..8 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        };
        (bound(a), bound(b))
    }
}

/// A value of at most `bytes_max` bytes that contains the number of the operation that wrote it.
pub fn value(random: &mut Random, bytes_max: usize, number: u64) -> Vec<u8> {
    let length = match random.below(10) {
        0 => 0,
        1 => bytes_max,
        2..5 => random.below(bytes_max / 8 + 2),
        _ => random.below(bytes_max + 1),
    };
    let mut value = Vec::with_capacity(length + 8);
    while value.len() < length {
        value.extend_from_slice(&number.to_le_bytes());
        if random.chance(30) {
            value.extend_from_slice(&random.next().to_le_bytes());
        }
    }
    value.truncate(length);
    value
}
