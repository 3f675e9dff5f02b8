//! Selection of the damages that are done to a store.

use super::harm::Harm;
use super::shapes::{End, Shape};
use crate::files::{Kind, names, read};
use crate::rng::Rng;

/// Number of random truncations within the zeros at the end of a reserved file.
const ZEROS_CUT: u64 = 24;
/// More bytes than are buffered in these stores.
const BUFFERED: u64 = 4096 + 2048;
/// Number of random damages of a kind, for each shape, in the short form.
const FLIPS: u64 = 3000;
const OTHERS: u64 = 160;

/// The damages to all shapes, with the index of the shape. With `chance` `None` every bit is
/// flipped once; else damages are random, many if it is true.
pub fn all(shapes: &[Shape], seed: u64, chance: Option<bool>) -> Vec<(usize, Harm)> {
    let mut cases = Vec::new();
    for (index, shape) in shapes.iter().enumerate() {
        let mut harms = Vec::new();
        // One random stream for each kind, so that its numbers do not depend on how many numbers
        // another kind drew.
        let draw = |kind: u64| Rng::new(seed ^ 0xda_6a6e ^ ((index as u64) << 32) ^ (kind << 40));
        let files: Vec<(String, Vec<u8>)> =
            names(&shape.vfs).into_iter().map(|name| (name.clone(), read(&shape.vfs, &name))).collect();
        if chance != Some(true) {
            cuts(shape, &files, chance.is_none(), &mut draw(0), &mut harms);
            whole_files(shape, &files, &mut harms);
        }
        flips(shape, &files, chance, &mut draw(1), &mut harms);
        let others = if chance == Some(false) { OTHERS } else { 20 * OTHERS };
        let mut rng = draw(2);
        for _ in 0..others {
            harms.extend(zeros(&files, &mut rng));
            harms.extend(swap(&files, &mut rng));
        }
        cases.extend(harms.into_iter().map(|harm| (index, harm)));
    }
    if chance != Some(false) {
        // In random order, so that every kind of file has its share even if the time ends early.
        shuffle(&mut cases, &mut Rng::new(seed ^ 0x5_4aff1e));
    }
    cases
}

fn shuffle(cases: &mut [(usize, Harm)], rng: &mut Rng) {
    for last in (1..cases.len()).rev() {
        cases.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

/// Length of a file without the zeros at its end.
fn used_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |at| at as u64 + 1)
}

/// Truncations at every byte. The short form leaves out most offsets at which the effect is the
/// same.
fn cuts(
    shape: &Shape,
    files: &[(String, Vec<u8>)],
    is_exhaustive: bool,
    rng: &mut Rng,
    harms: &mut Vec<Harm>,
) {
    let step = |step: usize| if is_exhaustive { 1 } else { step };
    for (file, bytes) in files {
        let (used, len) = (used_bytes(bytes), bytes.len() as u64);
        // The page cache's block and the write buffer's head are one unit each: with any other
        // length they are not read.
        let one = if matches!(Kind::of(file), Kind::PageCache | Kind::WriteBuffer) { 4096 } else { 0 };
        let cut = |len| Harm::Cut { file: file.clone(), len };
        harms.extend((0..used.min(one)).step_by(step(29)).map(cut));
        // Most of a slot has already been drained, and after a loss of power a write buffer is not
        // read.
        let is_write_buffer = Kind::of(file) == Kind::WriteBuffer;
        let every_end = if !is_write_buffer {
            used
        } else if shape.end == End::Killed {
            used.min(BUFFERED)
        } else {
            one
        };
        // The files are the same as those of the closed store.
        let is_again = shape.end == End::Booted;
        harms.extend((one..every_end).step_by(step(if is_again { 7 } else { 1 })).map(cut));
        harms.extend((every_end.max(one)..used).step_by(step(97)).map(cut));
        let zeros = (0..ZEROS_CUT).filter(|_| used < len).map(|_| used + rng.below(len - used));
        harms.extend(zeros.map(|len| Harm::Cut { file: file.clone(), len }));
    }
}

/// Bit flips, an equal number per file, so that a long file does not get all; few of them in
/// reserved zeros.
fn flips(
    shape: &Shape,
    files: &[(String, Vec<u8>)],
    chance: Option<bool>,
    rng: &mut Rng,
    harms: &mut Vec<Harm>,
) {
    let files: Vec<_> = files.iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
    let lens: Vec<u64> =
        files.iter().map(|(_, bytes)| (used_bytes(bytes) + 64).min(bytes.len() as u64)).collect();
    match chance {
        None => {
            for ((file, _), len) in files.iter().zip(&lens) {
                harms.extend((0..len * 8).map(|bit| Harm::Flip { file: file.clone(), bit }));
            }
        }
        Some(long) => {
            let flips = match shape.end {
                _ if long => 20 * FLIPS,
                End::Booted => FLIPS / 2,
                _ => FLIPS,
            };
            for _ in 0..flips {
                let index = rng.below(files.len() as u64) as usize;
                let bit = rng.below(lens[index] * 8);
                harms.push(Harm::Flip { file: files[index].0.clone(), bit });
            }
        }
    }
}

fn zeros(files: &[(String, Vec<u8>)], rng: &mut Rng) -> Option<Harm> {
    let (file, bytes) = &files[rng.below(files.len() as u64) as usize];
    let used = used_bytes(bytes);
    if used == 0 {
        return None;
    }
    let lens = [1, 8, 64, 512, 4096];
    let align = [1, 64, 512][rng.below(3) as usize];
    let from = rng.below(used) / align * align;
    let len = lens[rng.below(lens.len() as u64) as usize].min(bytes.len() as u64 - from);
    Some(Harm::Zero { file: file.clone(), from, bytes: len })
}

/// Exchanges two blocks of one file or two.
fn swap(files: &[(String, Vec<u8>)], rng: &mut Rng) -> Option<Harm> {
    let mut draw = || &files[rng.below(files.len() as u64) as usize];
    let ((file, a), (other, b)) = (draw(), draw());
    let unit = [16, 64, 256, 512][rng.below(4) as usize];
    let (most_a, most_b) = (used_bytes(a).checked_sub(unit)?, used_bytes(b).checked_sub(unit)?);
    let at = rng.below(most_a + 1) / unit * unit;
    // Often at the same offset, where a block of the other file would be expected.
    let other_at = if rng.below(2) == 0 && at <= most_b { at } else { rng.below(most_b + 1) / unit * unit };
    if file == other && at.abs_diff(other_at) < unit {
        return None;
    }
    Some(Harm::Swap { file: file.clone(), at, other: other.clone(), other_at, bytes: unit })
}

/// Each file is removed, copied, and replaced by each other of its kind: of this store, of its
/// past, and of another store.
fn whole_files(shape: &Shape, files: &[(String, Vec<u8>)], harms: &mut Vec<Harm>) {
    let foreign = names(&shape.foreign);
    for (file, _) in files {
        let kind = Kind::of(file);
        harms.push(Harm::Missing { file: file.clone() });
        let alike = |name: &&String| Kind::of(name) == kind && *name != file;
        let others = files.iter().map(|(name, _)| name).filter(alike);
        harms.extend(others.map(|by| Harm::Replaced { file: file.clone(), by: by.clone() }));
        let foreign = foreign.iter().filter(|name| Kind::of(name) == kind);
        harms.extend(foreign.map(|by| Harm::Foreign { file: file.clone(), by: by.clone() }));
        for (generation, older) in shape.older.iter().enumerate() {
            if names(older).contains(file) {
                harms.push(Harm::Older { file: file.clone(), generation });
            }
        }
        for name in [
            "000000000099.log",
            "000000000099.table",
            "000000000099.journal",
            "MANIFEST-000000000099",
            "WRITE-BUFFER.tmp",
        ] {
            harms.push(Harm::Doubled { file: file.clone(), name: name.to_owned() });
        }
    }
}
