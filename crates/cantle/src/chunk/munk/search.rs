//! Search (EvenDB §3.1): halving the sorted prefix, then walking along a bypass.

use super::Munk;
use super::fetch::fetch;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;
use std::cmp::Ordering;

/// The place of a key, or the place where it would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Located {
    Found {
        slot: u32,
        /// Number of entries of a bypass that were walked.
        steps: u64,
    },
    Gap {
        /// The last slot with a smaller key; 0 if there is none.
        before: u32,
        /// The first slot with a greater key; 0 if there is none.
        behind: u32,
        steps: u64,
    },
}

/// Number of steps after which a walk uses the towers: most bypasses are shorter.
const STEPS_BEFORE_LEAP: u64 = 8;

impl Munk {
    /// The place of `key`, or the place where it would be.
    #[inline]
    pub(super) fn locate(&self, key: &[u8]) -> Located {
        let prefix = self.prefix.of(&self.order, key);
        let place = self.locate_by(key, prefix);
        if self.may_have_misled(prefix) { self.locate_by(key, None) } else { place }
    }

    #[inline]
    fn locate_by(&self, key: &[u8], prefix: Option<u64>) -> Located {
        match self.search_sorted(key, prefix) {
            Ok(slot) => Located::Found { slot, steps: 0 },
            Err(before) => self.walk(before, key, prefix),
        }
    }

    /// True if a search by prefixes may have met a key without a prefix, as one was inserted
    /// meanwhile.
    #[inline]
    fn may_have_misled(&self, prefix: Option<u64>) -> bool {
        prefix.is_some() && !self.order.has_prefixes()
    }

    /// The sorted slot of `key`, or the last one before it. Without a prefix, keys are compared.
    #[inline]
    fn search_sorted(&self, key: &[u8], prefix: Option<u64>) -> Result<u32, u32> {
        let Some(prefix) = prefix else { return self.search_within(0, self.slots.sorted() as usize, key) };
        let prefixes = self.slots.sorted_prefixes();
        let from = lower_bound(prefixes, prefix);
        let equals = |index: usize| prefixes.get(index).is_some_and(|other| other.load(Relaxed) == prefix);
        if !equals(from) {
            return Err(from as u32);
        }
        let mut to = from + 1;
        if equals(to) {
            to += prefixes[to..].partition_point(|other| other.load(Relaxed) == prefix);
        }
        // Keys with the same prefix are compared.
        self.search_within(from, to, key)
    }

    /// The same among the sorted slots after the first `from`, up to the first `to`.
    fn search_within(&self, mut from: usize, mut to: usize, key: &[u8]) -> Result<u32, u32> {
        while from < to {
            let middle = from.midpoint(to);
            match self.order.compare(self.slots.key(middle as u32 + 1), key) {
                Ordering::Less => from = middle + 1,
                Ordering::Equal => return Ok(middle as u32 + 1),
                Ordering::Greater => to = middle,
            }
        }
        Err(from as u32)
    }

    /// Walks the list from a slot before `key`.
    fn walk(&self, mut before: u32, key: &[u8], prefix: Option<u64>) -> Located {
        let mut steps = 0;
        loop {
            let slot = self.slots.next(before);
            let order = if slot == 0 { Ordering::Greater } else { self.compare(slot, key, prefix) };
            match order {
                Ordering::Less => before = slot,
                Ordering::Equal => return Located::Found { slot, steps },
                Ordering::Greater => return Located::Gap { before, behind: slot, steps },
            }
            steps += 1;
            if steps == STEPS_BEFORE_LEAP {
                before = self.leap(before, key, prefix, &mut steps);
            }
        }
    }

    /// The last slot before `key` that has a tower, if it is after `before`, a slot of a bypass;
    /// otherwise `before`.
    fn leap(&self, before: u32, key: &[u8], prefix: Option<u64>, steps: &mut u64) -> u32 {
        let near = self.towers.last_slot_of(|slot| {
            *steps += 1;
            self.compare(slot, key, prefix) == Ordering::Less
        });
        let prefix = prefix.map(|_| self.slots.prefix(before));
        let is_further = || self.compare(near, self.slots.key(before), prefix) == Ordering::Greater;
        if near != 0 && is_further() { near } else { before }
    }

    #[inline]
    pub(super) fn compare(&self, slot: u32, key: &[u8], prefix: Option<u64>) -> Ordering {
        let by_prefix = prefix.map_or(Ordering::Equal, |prefix| self.slots.prefix(slot).cmp(&prefix));
        by_prefix.then_with(|| self.order.compare(self.slots.key(slot), key))
    }

    /// The slot before a linked one; 0 if it is the first.
    pub(super) fn slot_before(&self, slot: u32) -> u32 {
        let prefix = self.order.has_prefixes().then(|| self.slots.prefix(slot));
        let before = self.slot_before_by(slot, prefix);
        if self.may_have_misled(prefix) { self.slot_before_by(slot, None) } else { before }
    }

    fn slot_before_by(&self, slot: u32, prefix: Option<u64>) -> u32 {
        let key = self.slots.key(slot);
        let mut before = if slot <= self.slots.sorted() {
            slot - 1
        } else {
            match self.search_sorted(key, prefix) {
                // The slot has become sorted since.
                Ok(sorted) => sorted - 1,
                Err(before) => before,
            }
        };
        let mut steps = 0;
        loop {
            let next = self.slots.next(before);
            if next == slot || next == 0 {
                return before;
            }
            before = next;
            steps += 1;
            if steps == STEPS_BEFORE_LEAP {
                before = self.leap(before, key, prefix, &mut steps);
            }
        }
    }

    /// The last slot; 0 if there is none.
    pub(super) fn last_slot(&self) -> u32 {
        let mut last = self.slots.sorted();
        loop {
            // Keys that were appended just now.
            match self.slots.next(last) {
                0 => return last,
                next => last = next,
            }
        }
    }
}

/// Number of the sorted prefixes that are smaller.
///
/// Without branches, of which half would be mispredicted. Instead, the two places that the next
/// step may read are prefetched: most of a munk's prefixes are not in the processor's cache, and
/// waiting for one after the other would take several times as long.
#[inline]
pub(super) fn lower_bound(prefixes: &[AtomicU64], prefix: u64) -> usize {
    let (mut from, mut len) = (0, prefixes.len());
    while len > 1 {
        let half = len / 2;
        let next = (len - half) / 2;
        fetch(prefixes.as_ptr().wrapping_add(from + next));
        fetch(prefixes.as_ptr().wrapping_add(from + half + next));
        from += usize::from(prefixes[from + half - 1].load(Relaxed) < prefix) * half;
        len -= half;
    }
    from + usize::from(len == 1 && prefixes[from].load(Relaxed) < prefix)
}
