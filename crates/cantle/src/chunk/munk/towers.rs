//! A skip list over the bypasses (Pugh 1990), so that a search need not walk a whole bypass. If
//! events arrive in the order of time under many prefixes, nearly all of a chunk's inserts are
//! between the same two sorted keys.
//!
//! Some slots have a *tower*, which on each of its levels has a link to the next tower that is as
//! high. A search follows the highest level as far as possible, then the one below, and walks the
//! list from the slot of the last tower.
//!
//! Invariants:
//! * A slot is in the list before its tower is linked. Slots and towers are never removed.
//! * On each level towers are linked in the order of the list. Tower 0 is before all of them and
//!   belongs to no slot.
//!
//! Thread safety: one writer; readers follow links with `Acquire`, which shows them the tower and its slot.

use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Number of levels. Each has an eighth of the towers of the one below: four levels suffice for 8⁵
/// slots and more.
const LEVELS: usize = 4;
const SLOTS_PER_TOWER: u32 = 8;

#[derive(Default)]
struct Tower {
    slot: AtomicU32,
    /// For each level, the next tower; 0 after the last.
    next: [AtomicU32; LEVELS],
}

/// The towers of a munk.
pub struct Towers {
    towers: Box<[Tower]>,
    built: AtomicU32,
}

impl Towers {
    /// Towers for up to `room` slots in bypasses.
    pub fn new(room: usize) -> Self {
        let towers = (0..Self::count_for(room)).map(|_| Tower::default()).collect();
        Self { towers, built: AtomicU32::new(0) }
    }

    /// Somewhat more than the expected number.
    fn count_for(room: usize) -> usize {
        1 + room / SLOTS_PER_TOWER as usize * 5 / 4
    }

    /// Memory of the towers for this many slots.
    pub fn bytes_of(room: usize) -> u64 {
        (Self::count_for(room) * size_of::<Tower>()) as u64
    }

    /// Number of towers built.
    pub fn len(&self) -> u64 {
        self.built.load(Relaxed).into()
    }

    pub fn bytes(&self) -> u64 {
        size_of_val(&*self.towers) as u64
    }

    /// Number of levels of the tower of the `nth` slot in a bypass, counted from 1; 0 for most
    /// slots. Pseudo-random, but deterministic: inserts that alternate regularly among several
    /// prefixes give towers to all of them.
    pub fn height_of(nth: u32) -> usize {
        let mixed = nth.wrapping_mul(0x9E37_79B9);
        let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85EB_CA6B);
        ((mixed ^ mixed >> 13).trailing_zeros() / SLOTS_PER_TOWER.trailing_zeros()).min(LEVELS as u32)
            as usize
    }

    /// The slot of the last tower for which `is_before` is true; 0 if there is none. `is_before` is
    /// true up to some place in the list, and false after it.
    pub fn last_slot_of(&self, mut is_before: impl FnMut(u32) -> bool) -> u32 {
        let mut at = 0;
        for level in (0..LEVELS).rev() {
            at = self.last_of(at, level, &mut is_before);
        }
        self.towers[at as usize].slot.load(Relaxed)
    }

    /// Follows one level from tower `at`.
    fn last_of(&self, mut at: u32, level: usize, mut is_before: impl FnMut(u32) -> bool) -> u32 {
        loop {
            let next = self.towers[at as usize].next[level].load(Acquire);
            if next == 0 || !is_before(self.towers[next as usize].slot.load(Relaxed)) {
                return at;
            }
            at = next;
        }
    }

    /// Builds a tower of `height` levels for a slot that is in the list, unless all towers are
    /// used. `is_before` is true for the slots before it. Only for the writer.
    pub fn build(&self, slot: u32, height: usize, mut is_before: impl FnMut(u32) -> bool) {
        let tower = self.built.load(Relaxed) + 1;
        if height == 0 || tower as usize >= self.towers.len() {
            return;
        }
        self.built.store(tower, Relaxed);
        let mut links = [&self.towers[0].next[0]; LEVELS];
        let mut at = 0;
        for level in (0..LEVELS).rev() {
            at = self.last_of(at, level, &mut is_before);
            links[level] = &self.towers[at as usize].next[level];
        }
        let new = &self.towers[tower as usize];
        new.slot.store(slot, Relaxed);
        for (link, next) in links.iter().zip(&new.next).take(height) {
            next.store(link.load(Relaxed), Relaxed);
        }
        // Each store publishes the tower, its slot, and its links on all levels.
        links.iter().take(height).for_each(|link| link.store(tower, Release));
    }
}
