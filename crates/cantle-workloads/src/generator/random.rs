//! A small seeded generator of random numbers, the same on every machine.

/// SplitMix64: one addition and a mixing function per number, a full period of 2^64, and good
/// enough for choosing keys. Not for secrets.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

/// Weyl constant of SplitMix64: 2^64 divided by the golden ratio, made odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The mixing function of SplitMix64: a bijection of 64-bit numbers.
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed.wrapping_add(STEP)) }
    }

    /// The sequence of one thread (or phase, or purpose) of a seed: streams do not follow one
    /// another.
    pub fn stream(seed: u64, stream: u64) -> Self {
        Self::new(mix(seed) ^ mix(stream.wrapping_mul(STEP).wrapping_add(1)))
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A number in `0..bound` (`bound` at least 1) by multiplication: the bias is below `bound /
    /// 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Fills `bytes` with random bits.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let word = self.bits().to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_bounds_and_average_to_the_middle() {
        let mut random = Random::new(1);
        let mut sum = 0.0;
        for _ in 0..100_000 {
            let unit = random.unit();
            assert!((0.0..1.0).contains(&unit));
            sum += unit;
            assert!(random.below(10) < 10);
            assert_eq!(random.below(1), 0);
        }
        assert!((sum / 100_000.0 - 0.5).abs() < 0.01);
    }

    #[test]
    fn streams_of_a_seed_differ() {
        let first = |stream| Random::stream(42, stream).bits();
        assert_ne!(first(0), first(1));
        assert_ne!(first(1), first(2));
        assert_eq!(first(1), Random::stream(42, 1).bits());
    }

    #[test]
    fn fill_covers_odd_lengths() {
        let mut bytes = [0u8; 13];
        Random::new(5).fill(&mut bytes);
        assert!(bytes.iter().filter(|&&b| b == 0).count() < 4);
    }
}
