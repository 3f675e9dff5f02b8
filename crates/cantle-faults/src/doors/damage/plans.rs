//! Which damages are done to a store.

use super::harm::Harm;
use super::shapes::{End, Shape};
use crate::files::{Kind, names, read};
use crate::rng::Rng;

/// Of the zeros that end a reserved file so many lengths are cut at, by chance.
const ZEROS_CUT: u64 = 24;
/// More than is buffered in these stores.
const BUFFERED: u64 = 4096 + 2048;
/// What the short form draws of a kind, for each shape.
const FLIPS: u64 = 3000;
const OTHERS: u64 = 160;

/// The damages to all shapes, by the shapes' places. `chance`: none is every bit once, else what is drawn and whether that is much.
pub fn all(shapes: &[Shape], seed: u64, chance: Option<bool>) -> Vec<(usize, Harm)> {
    let mut cases = Vec::new();
    for (index, shape) in shapes.iter().enumerate() {
        let mut harms = Vec::new();
        // One source of chance for each kind: what is drawn of one doesn't depend on how much is drawn of another.
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
        // Nobody knows how much of it there is time for: every kind of file has its share of whatever it is.
        shuffle(&mut cases, &mut Rng::new(seed ^ 0x5_4aff1e));
    }
    cases
}

fn shuffle(cases: &mut [(usize, Harm)], rng: &mut Rng) {
    for last in (1..cases.len()).rev() {
        cases.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

/// How long a file is without the zeros at its end.
fn used_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |at| at as u64 + 1)
}

/// At every byte; in the short form not of what is damaged alike wherever it is cut.
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
        // The block of the page cache and the head of the write buffer are one: whatever else their length is, they are not read.
        let one = if matches!(Kind::of(file), Kind::PageCache | Kind::WriteBuffer) { 4096 } else { 0 };
        let cut = |len| Harm::Cut { file: file.clone(), len };
        harms.extend((0..used.min(one)).step_by(step(29)).map(cut));
        // Most of a slot is what was drained from it; and after a loss of power nobody reads it.
        let is_write_buffer = Kind::of(file) == Kind::WriteBuffer;
        let every_end = if !is_write_buffer {
            used
        } else if shape.end == End::Killed {
            used.min(BUFFERED)
        } else {
            one
        };
        // The same files as those of the closed one.
        let is_again = shape.end == End::Booted;
        harms.extend((one..every_end).step_by(step(if is_again { 7 } else { 1 })).map(cut));
        harms.extend((every_end.max(one)..used).step_by(step(97)).map(cut));
        let zeros = (0..ZEROS_CUT).filter(|_| used < len).map(|_| used + rng.below(len - used));
        harms.extend(zeros.map(|len| Harm::Cut { file: file.clone(), len }));
    }
}

/// By files, so that a long one does not draw all; of what zeros reserve only a little.
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

/// Of one file or two.
fn swap(files: &[(String, Vec<u8>)], rng: &mut Rng) -> Option<Harm> {
    let mut draw = || &files[rng.below(files.len() as u64) as usize];
    let ((file, a), (other, b)) = (draw(), draw());
    let unit = [16, 64, 256, 512][rng.below(4) as usize];
    let (most_a, most_b) = (used_bytes(a).checked_sub(unit)?, used_bytes(b).checked_sub(unit)?);
    let at = rng.below(most_a + 1) / unit * unit;
    // Often at the same place: a block of another file that belongs just there.
    let other_at = if rng.below(2) == 0 && at <= most_b { at } else { rng.below(most_b + 1) / unit * unit };
    if file == other && at.abs_diff(other_at) < unit {
        return None;
    }
    Some(Harm::Swap { file: file.clone(), at, other: other.clone(), other_at, bytes: unit })
}

/// Each file gone, twice there, and with each other of its kind in its place: of this store, its past, and another store.
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
