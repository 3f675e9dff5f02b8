//! Slots that are found by number, are reused, and never move or go away: the handles of Cantle's C
//! interfaces point to them.
//!
//! Slots lie in blocks, each with twice as many slots as the one before. The library that has the
//! handles defines the content of a slot, and how a freed handle is distinguished from the present
//! one of its slot.
//!
//! Nothing here takes a lock: a process may fork at any moment, and a lock that another thread
//! holds then is held for ever in the child. Thread safety: everything may be called from any
//! thread.

use once_cell::race::OnceBox;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Number of slots of the first block.
const FIRST_BLOCK: u32 = 64;
/// Number of blocks: enough for `SLOTS_MAX` slots.
const BLOCKS: usize = 19;
/// Maximum number of slots.
pub const SLOTS_MAX: u32 = 1 << 24;

const _: () = assert!(FIRST_BLOCK as u64 * ((1 << BLOCKS) - 1) > SLOTS_MAX as u64);

/// A growing set of slots, up to the maximum that it was created with.
pub struct Slots<S> {
    blocks: [OnceBox<Vec<Slot<S>>>; BLOCKS],
    max: u32,
    /// Number of slots that were ever used.
    used: AtomicU32,
    /// The number of the first free slot plus one, in the lower half. The upper half is raised by
    /// every change, so that a concurrent change is noticed.
    free: AtomicU64,
}

struct Slot<S> {
    content: S,
    /// For a free slot: the number of the next one in the list, plus one.
    next_free: AtomicU32,
}

impl<S: Default> Slots<S> {
    /// No slots yet; there will be at most `max` of them, and never more than [`SLOTS_MAX`].
    pub const fn new(max: u32) -> Self {
        assert!(max <= SLOTS_MAX, "the blocks have not so many");
        let blocks = [const { OnceBox::new() }; BLOCKS];
        Self { blocks, max, used: AtomicU32::new(0), free: AtomicU64::new(0) }
    }

    /// The slot of this number, if there ever was one, in use or not.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&S> {
        self.slot(number).map(|slot| &slot.content)
    }

    /// Takes a slot for the caller alone, with the content that its previous user left; `None` if
    /// all slots are in use.
    pub fn take(&self) -> Option<(u32, &S)> {
        let number = self.pop_free().or_else(|| self.take_unused())?;
        Some((number, self.get(number)?))
    }

    /// Frees a slot for others. The caller has taken it, and calls this once.
    pub fn give_back(&self, number: u32) {
        let Some(slot) = self.slot(number) else { return };
        let mut head = self.free.load(Relaxed);
        loop {
            slot.next_free.store(head as u32, Relaxed);
            match self.free.compare_exchange_weak(head, changed(head, number + 1), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    #[inline]
    fn slot(&self, number: u32) -> Option<&Slot<S>> {
        let (block, within) = place(number)?;
        self.blocks.get(block)?.get()?.get(within)
    }

    fn take_unused(&self) -> Option<u32> {
        let more = |used| (used < self.max).then_some(used + 1);
        let number = self.used.fetch_update(AcqRel, Acquire, more).ok()?;
        let (block, _) = place(number)?;
        self.blocks[block].get_or_init(|| {
            let slots = (0..FIRST_BLOCK << block)
                .map(|_| Slot { content: S::default(), next_free: AtomicU32::new(0) });
            Box::new(slots.collect())
        });
        Some(number)
    }

    fn pop_free(&self) -> Option<u32> {
        let mut head = self.free.load(Acquire);
        loop {
            let number = (head as u32).checked_sub(1)?;
            let next = self.slot(number)?.next_free.load(Relaxed);
            match self.free.compare_exchange_weak(head, changed(head, next), AcqRel, Acquire) {
                Ok(_) => return Some(number),
                Err(now) => head = now,
            }
        }
    }
}

/// The head of the list after a change.
fn changed(head: u64, first: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(first)
}

/// The block of a slot, and its index in the block.
#[inline]
fn place(number: u32) -> Option<(usize, usize)> {
    let counted = number.checked_add(FIRST_BLOCK)?;
    let block = counted.ilog2() - FIRST_BLOCK.ilog2();
    Some((block as usize, (counted - (FIRST_BLOCK << block)) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn places_are_those_of_blocks_that_double() {
        let places = [0, 63, 64, 191, 192].map(|number| place(number).unwrap());
        assert_eq!(places, [(0, 0), (0, 63), (1, 0), (1, 127), (2, 0)]);
        assert_eq!(place(SLOTS_MAX - 1).unwrap().0, BLOCKS - 1);
        assert!(place(u32::MAX).is_none());
    }

    #[test]
    fn slots_keep_their_numbers_and_what_is_in_them_and_are_used_again() {
        let slots: Slots<AtomicU32> = Slots::new(1001);
        assert!(slots.get(0).is_none());
        for expected in 0..1000 {
            let (number, slot) = slots.take().unwrap();
            assert_eq!(number, expected);
            slot.store(number, Relaxed);
        }
        assert!((0..1000).all(|number| slots.get(number).unwrap().load(Relaxed) == number));
        slots.give_back(7);
        slots.give_back(3);
        assert_eq!([3, 7, 1000].map(|_| slots.take().unwrap().0), [3, 7, 1000]);
        assert_eq!(slots.get(3).unwrap().load(Relaxed), 3);
        assert!(slots.take().is_none() && slots.get(u32::MAX).is_none() && slots.get(SLOTS_MAX).is_none());
    }

    #[test]
    fn of_many_threads_each_has_its_slots_alone() {
        let rounds = if cfg!(miri) { 20 } else { 5_000 };
        let slots: Slots<AtomicBool> = Slots::new(SLOTS_MAX);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..rounds {
                        let taken: Vec<_> = (0..=round % 5).map(|_| slots.take().unwrap()).collect();
                        assert!(taken.iter().all(|(_, is_taken)| !is_taken.swap(true, AcqRel)));
                        for (number, is_taken) in taken {
                            is_taken.store(false, Release);
                            slots.give_back(number);
                        }
                    }
                });
            }
        });
        assert!(slots.used.into_inner() <= 20, "slots are used again");
    }
}
