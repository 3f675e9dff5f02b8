//! The images that a loss of power could leave of a file system.

use crate::rng::Rng;
use cantle::vfs::{CrashPlan, MemVfs, PendingChange, PendingKind, Survival, Tail};

/// Random images on top of the enumerated ones.
const RANDOM: u64 = 4;

/// Offsets at which a write is torn: after its first sector, in its middle, before its last sector,
/// and at pages of 4 KiB.
fn tears(offset: u64, len: u64) -> impl Iterator<Item = u64> {
    const SECTOR: u64 = 512;
    const PAGE: u64 = 4096;
    // Boundaries of the file, as offsets in the write.
    let boundary = move |unit: u64, at: u64| ((offset + at) / unit * unit).checked_sub(offset);
    let sectors =
        [boundary(SECTOR, SECTOR), boundary(SECTOR, len / 2), boundary(SECTOR, len.saturating_sub(1))];
    let pages = [boundary(PAGE, PAGE), boundary(PAGE, len / 2), boundary(PAGE, len.saturating_sub(1))];
    let mut tears: Vec<u64> =
        sectors.into_iter().chain(pages).flatten().filter(|&at| at > 0 && at < len).collect();
    tears.sort_unstable();
    tears.dedup();
    tears.into_iter()
}

/// Ways to lose power now. Some may leave the same image.
pub fn plans(memory: &MemVfs, seed: u64) -> Vec<CrashPlan> {
    let pending = memory.pending();
    let mut plans = Vec::new();
    let mut add = |names, data, tail| plans.push(CrashPlan { seed, names, data, tail });
    use Survival::{Before, Everything, Nothing, Only, Torn, Without};
    for names in [Nothing, Everything] {
        add(names, Nothing, Tail::Cut);
        for tail in [Tail::Cut, Tail::Zeros, Tail::Garbage] {
            add(names, Everything, tail);
        }
    }
    for PendingChange { number, kind } in pending {
        add(Before(number), Before(number), Tail::Cut);
        match kind {
            PendingKind::Name => {
                for data in [Nothing, Everything] {
                    add(Without(number), data, Tail::Cut);
                    add(Only(number), data, Tail::Cut);
                }
            }
            PendingKind::Length => {
                add(Everything, Without(number), Tail::Zeros);
                add(Everything, Only(number), Tail::Zeros);
            }
            PendingKind::Write { offset, len } => {
                for tail in [Tail::Cut, Tail::Zeros, Tail::Garbage] {
                    add(Everything, Without(number), tail);
                }
                add(Everything, Only(number), Tail::Zeros);
                for bytes in tears(offset, len) {
                    for tail in [Tail::Cut, Tail::Zeros, Tail::Garbage] {
                        add(Everything, Torn { number, bytes }, tail);
                    }
                }
            }
            // The file is as long as its mapping, so it does not grow.
            PendingKind::Store { offset, len } => {
                add(Everything, Only(number), Tail::Cut);
                add(Everything, Without(number), Tail::Cut);
                for bytes in tears(offset, len) {
                    add(Everything, Torn { number, bytes }, Tail::Cut);
                }
            }
        }
    }
    let mut rng = Rng::new(seed);
    plans.extend((0..RANDOM).map(|_| CrashPlan::random(rng.next())));
    plans
}
