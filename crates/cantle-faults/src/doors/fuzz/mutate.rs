//! Bytes that are almost valid.

use crate::rng::Rng;

/// Numbers at which parsers tend to fail.
const NUMBERS: [&[u8]; 8] = [
    &[0],
    &[0xff],
    &[0x80, 0x80, 0x80, 0x80, 0x10],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    &[0, 0, 0, 0, 0, 0, 0, 0x80],
    b"\"\n",
];

/// One of the seeds, with some bytes changed.
pub fn mutated(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let draw = |rng: &mut Rng| &seeds[rng.below(seeds.len() as u64) as usize];
    let mut bytes = draw(rng).clone();
    for _ in 0..1 + rng.below(6) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        let end = (at + 1 + rng.below(16) as usize).min(bytes.len());
        let kept = at.min(end);
        match rng.below(8) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            2 if at < bytes.len() => bytes[at] = rng.next() as u8,
            3 => {
                let number = NUMBERS[rng.below(NUMBERS.len() as u64) as usize];
                let end = (at + number.len()).min(bytes.len());
                bytes.splice(at..end, number.iter().copied());
            }
            4 => drop(bytes.drain(kept..end)),
            5 => {
                let again = bytes[kept..end].to_vec();
                bytes.splice(at..at, again);
            }
            6 => {
                let other = draw(rng);
                let from = rng.below(other.len() as u64 + 1) as usize;
                let to = (from + rng.below(64) as usize).min(other.len());
                let end = (at + to - from).min(bytes.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            _ if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(1 + rng.below(3) as u8),
            _ => {}
        }
    }
    bytes
}
