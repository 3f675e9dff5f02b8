//! Mappings that were freed and are kept for reuse.

use super::{HUGE_BYTES, resize, unmap};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Lower and upper bound, in bytes, of `BESIDE_BYTES`. The lower one also stays when idle mappings
/// are unmapped.
const BYTES_MIN: usize = 8 << 20;
const BYTES_MAX: usize = 32 << 20;
/// A budget allows this fraction of its bytes to be kept beside it, within the two bounds above.
const BESIDE_FRACTION: u64 = 12;

/// Time that [`kept_bytes`] waits for the lock. A holder needs some microseconds, unless the system
/// preempts it.
const LOCKED_MAX: Duration = Duration::from_millis(100);

/// The mappings that were freed last. Allocations and frees never wait for this lock, because in a
/// child that was forked while another thread held it, it stays locked for ever. A thread that does
/// not get it maps and unmaps.
static KEPT: Mutex<KeptMappings> = Mutex::new(KeptMappings::new());

/// Bytes that may be kept although no budget has room for them: the greatest of the budgets'
/// shares.
static BESIDE_BYTES: AtomicUsize = AtomicUsize::new(BYTES_MIN);
/// Bytes that all budgets allow [`Pages`](super::Pages), kept ones included, and the bytes of pages
/// in use.
static ROOM_BYTES: AtomicUsize = AtomicUsize::new(0);
static USED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The bytes that a budget allows [`Pages`](super::Pages) to take. The part that is not in use may
/// be kept. They count until this is dropped.
pub struct Room(AtomicUsize);

impl Room {
    /// No bytes yet, for a budget of `budget_bytes`.
    pub fn new(budget_bytes: u64) -> Self {
        BESIDE_BYTES.fetch_max(((budget_bytes / BESIDE_FRACTION) as usize).min(BYTES_MAX), Relaxed);
        Self(AtomicUsize::new(0))
    }

    pub fn set(&self, bytes: u64) {
        let before = self.0.swap(bytes as usize, Relaxed);
        // The addition wraps around if the number decreases.
        ROOM_BYTES.fetch_add((bytes as usize).wrapping_sub(before), Relaxed);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.set(0);
    }
}

fn bytes_max() -> usize {
    let free = ROOM_BYTES.load(Relaxed).saturating_sub(USED_BYTES.load(Relaxed));
    free.max(BESIDE_BYTES.load(Relaxed))
}

/// Adds to the bytes in use.
pub(super) fn count_used(bytes: usize) {
    USED_BYTES.fetch_add(bytes, Relaxed);
}

/// Subtracts from the bytes in use.
pub(super) fn count_unused(bytes: usize) {
    USED_BYTES.fetch_sub(bytes, Relaxed);
}

/// A mapping that is not in use.
pub(super) struct Mapping {
    pub start: NonNull<u8>,
    pub bytes: usize,
}

// SAFETY: a mapping is plain memory, bound to no thread.
unsafe impl Send for Mapping {}

struct KeptMappings {
    /// By length, the newest last, each with a number that grows in the order of freeing.
    by_len: BTreeMap<usize, VecDeque<(u64, Mapping)>>,
    next_number: u64,
    bytes: usize,
    /// Minimum of `bytes` since the last call of `give_up_idle`: this much was not needed in
    /// between.
    idle_bytes: usize,
}

impl KeptMappings {
    const fn new() -> Self {
        Self { by_len: BTreeMap::new(), next_number: 0, bytes: 0, idle_bytes: 0 }
    }

    /// The newest mapping of that length, as parts of it may still be in the processor's caches. If
    /// the length is long ([`is_long`]): the shortest mapping with at least `bytes`, or else the
    /// longest; the caller resizes it.
    fn take(&mut self, bytes: usize) -> Option<Mapping> {
        let len = if is_long(bytes) {
            // Mappings longer than a huge page are kept only if they are long.
            let longer = self.by_len.range(bytes..).next();
            let (len, _) = longer.or_else(|| self.by_len.range(HUGE_BYTES + 1..bytes).next_back())?;
            *len
        } else {
            bytes
        };
        self.remove(len, VecDeque::pop_back)
    }

    fn remove(
        &mut self,
        len: usize,
        pop: impl FnOnce(&mut VecDeque<(u64, Mapping)>) -> Option<(u64, Mapping)>,
    ) -> Option<Mapping> {
        let of_len = self.by_len.get_mut(&len)?;
        let (_, mapping) = pop(of_len)?;
        if of_len.is_empty() {
            self.by_len.remove(&len);
        }
        self.bytes -= len;
        self.idle_bytes = self.idle_bytes.min(self.bytes);
        Some(mapping)
    }

    /// Keeps the mapping, and at most `bytes_max` in all. Returns the mappings to unmap: those that
    /// were freed first, or the mapping itself if it is too large to be needed again soon.
    fn keep(&mut self, mapping: Mapping, bytes_max: usize) -> Vec<Mapping> {
        if mapping.bytes > HUGE_BYTES && !is_long(mapping.bytes) {
            return vec![mapping];
        }
        self.bytes += mapping.bytes;
        let number = self.next_number;
        self.next_number += 1;
        self.by_len.entry(mapping.bytes).or_default().push_back((number, mapping));
        self.give_up_beyond(bytes_max)
    }

    fn give_up_beyond(&mut self, bytes_max: usize) -> Vec<Mapping> {
        self.give_up(self.bytes.saturating_sub(bytes_max))
    }

    /// Removes as many bytes as were not needed since the last call, those that were freed first.
    fn give_up_idle(&mut self) -> Vec<Mapping> {
        let gone = self.give_up(self.idle_bytes.min(self.bytes.saturating_sub(BYTES_MIN)));
        self.idle_bytes = self.bytes;
        gone
    }

    /// Removes the mappings that were freed first, until at least `bytes` are removed.
    fn give_up(&mut self, bytes: usize) -> Vec<Mapping> {
        let left_max = self.bytes.saturating_sub(bytes);
        let first = || {
            let oldest = |(len, of_len): (&usize, &VecDeque<(u64, Mapping)>)| Some((of_len.front()?.0, *len));
            let (_, len) = self.by_len.iter().filter_map(oldest).min()?;
            (self.bytes > left_max).then(|| self.remove(len, VecDeque::pop_front))?
        };
        std::iter::from_fn(first).collect()
    }
}

/// True if longer than a huge page and no multiple of one: a whole log that was read to be merged.
/// Two such mappings rarely have the same length.
fn is_long(bytes: usize) -> bool {
    bytes > HUGE_BYTES && !bytes.is_multiple_of(HUGE_BYTES)
}

/// A freed mapping of that length. If there is none, the caller maps a new one, so others may have
/// to be unmapped.
pub(super) fn take(bytes: usize) -> Option<NonNull<u8>> {
    let (taken, gone) = {
        let mut kept = KEPT.try_lock()?;
        let taken = kept.take(bytes);
        let gone = if taken.is_none() { kept.give_up_beyond(bytes_max()) } else { Vec::new() };
        (taken, gone)
    };
    gone.into_iter().for_each(unmap_mapping);
    let taken = taken?;
    if taken.bytes == bytes {
        return Some(taken.start);
    }
    let resized = resize(taken.start, taken.bytes, bytes);
    if resized.is_none() {
        unmap_mapping(taken);
    }
    resized
}

pub(super) fn keep(mapping: Mapping) {
    let gone = match KEPT.try_lock() {
        Some(mut kept) => kept.keep(mapping, bytes_max()),
        None => vec![mapping],
    };
    gone.into_iter().for_each(unmap_mapping);
}

/// Unmaps the bytes that were not needed since the last call.
pub fn give_up_idle() {
    let gone = KEPT.try_lock().map(|mut kept| kept.give_up_idle());
    gone.into_iter().flatten().for_each(unmap_mapping);
}

/// Bytes that are kept; 0 if the lock stays taken for so long that it may be for ever ([`KEPT`]).
pub fn kept_bytes() -> u64 {
    KEPT.try_lock_for(LOCKED_MAX).map_or(0, |kept| kept.bytes as u64)
}

fn unmap_mapping(mapping: Mapping) {
    unmap(mapping.start, mapping.bytes);
}

#[cfg(test)]
mod tests {
    use super::super::{MAPPED_BYTES_MIN, Pages};
    use super::*;
    use std::alloc::Layout;

    /// Whole logs that are merged one after the other: no two have the same length.
    #[test]
    fn of_long_ones_the_nearest_length_is_taken() {
        let mut kept = KeptMappings::new();
        let mapping = |bytes| Mapping { start: NonNull::dangling(), bytes };
        let len = |pages: usize| HUGE_BYTES + pages * 4096;
        let lens = [HUGE_BYTES, 2 * HUGE_BYTES, len(1), len(3), len(600)];
        let gone: Vec<_> = lens.iter().flat_map(|len| kept.keep(mapping(*len), BYTES_MAX)).collect();
        assert_eq!(
            gone.iter().map(|mapping| mapping.bytes).collect::<Vec<_>>(),
            [2 * HUGE_BYTES],
            "of huge pages"
        );
        let mut taken = |bytes| kept.take(bytes).map(|mapping| mapping.bytes);
        assert_eq!(taken(2 * HUGE_BYTES), None, "these have to be huge pages");
        assert_eq!(taken(len(2)), Some(len(3)), "the shortest that is long enough");
        assert_eq!(taken(len(700)), Some(len(600)), "or the longest");
        assert_eq!([taken(len(9)), taken(len(9))], [Some(len(1)), None]);
        assert_eq!(taken(HUGE_BYTES), Some(HUGE_BYTES));
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_long_one_is_made_longer_and_shorter_and_keeps_what_it_has() {
        let len = |pages: usize| HUGE_BYTES + pages * 4096 + 1;
        let start = super::super::map(len(1)).unwrap();
        // SAFETY: within the mapping, which is this test's, as below.
        unsafe { start.add(len(1) - 1).write(7) };
        let longer = resize(start, len(1), len(500)).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { (longer.add(len(1) - 1).read(), longer.add(len(500) - 1).read()) }, (7, 0));
        let shorter = resize(longer, len(500), len(1)).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { shorter.add(len(1) - 1).read() }, 7);
        unmap(shorter, len(1));
    }

    /// As in a child that was forked while another thread held the lock.
    #[test]
    #[cfg(all(unix, not(miri)))]
    fn who_wants_memory_or_frees_it_waits_for_no_lock() {
        let kept = KEPT.lock();
        drop(Pages::new(Layout::from_size_align(MAPPED_BYTES_MIN, 8).unwrap()));
        assert_eq!(kept_bytes(), 0, "nobody knows");
        drop(kept);
    }

    #[test]
    #[cfg(all(unix, not(miri)))]
    fn what_is_freed_is_used_again() {
        // A length that no other test uses; but other tests may replace the mappings kept in
        // between.
        let layout = Layout::from_size_align(MAPPED_BYTES_MIN + 12_345 * 8, 8).unwrap();
        let is_used_again = || {
            let start = Pages::new(layout).start();
            Pages::new(layout).start() == start
        };
        // The system may have preempted the holder of the lock.
        let begun = crate::sync::time::now();
        while !is_used_again() {
            assert!(begun.elapsed() < Duration::from_secs(30));
            std::thread::yield_now();
        }
    }

    #[test]
    fn those_that_were_freed_first_go_first_whatever_their_length() {
        let mut kept = KeptMappings::new();
        let lens = [4, 1, 4, 2, 1, 4].map(|units| units << 12);
        let mapping = |bytes| Mapping { start: NonNull::dangling(), bytes };
        lens.iter().for_each(|len| assert!(kept.keep(mapping(*len), BYTES_MIN).is_empty()));
        let gone: Vec<_> = kept.give_up(6 << 12).iter().map(|mapping| mapping.bytes).collect();
        assert_eq!(gone, lens[..3]);
        assert!(kept.take(1 << 12).is_some() && kept.take(1 << 12).is_none());
        assert_eq!(kept.bytes, 6 << 12);
        assert_eq!(kept.give_up(usize::MAX).len(), 2);
        assert!(kept.by_len.is_empty() && kept.bytes == 0);
    }

    /// Other tests of the process have budgets and memory as well, but little beside this room.
    #[test]
    #[cfg(all(unix, not(miri)))]
    fn what_a_budget_has_left_is_kept_until_it_is_used() {
        const ROOM_BYTES: usize = 1 << 40;
        let room = Room::new(0);
        let used = USED_BYTES.load(Relaxed);
        room.set(ROOM_BYTES as u64);
        let free = bytes_max();
        assert!(free > ROOM_BYTES / 2, "{free}, {used} in use");
        count_used(ROOM_BYTES / 2);
        assert!(bytes_max() < free - ROOM_BYTES / 4, "what is in use is not kept as well");
        count_unused(ROOM_BYTES / 2);
        let layout = Layout::from_size_align(HUGE_BYTES, 8).unwrap();
        let begun = crate::sync::time::now();
        // Another test may hold the lock, or give up idle mappings.
        let is_kept = || {
            drop((0..2 * BYTES_MAX / HUGE_BYTES).map(|_| Pages::new(layout)).collect::<Vec<_>>());
            kept_bytes() > BYTES_MAX as u64
        };
        while !is_kept() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", kept_bytes());
        }
        drop(room);
        // A length that no kept mapping has: mappings are unmapped to make room for it.
        while kept_bytes() > BYTES_MAX as u64 {
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", kept_bytes());
            drop(Pages::new(Layout::from_size_align(MAPPED_BYTES_MIN + 8 * 54_321, 8).unwrap()));
        }
    }

    #[test]
    fn what_nobody_wants_goes_and_what_is_wanted_again_and_again_stays() {
        let mut kept = KeptMappings::new();
        let bytes_max = 6 * BYTES_MIN;
        let mapping = |bytes| Mapping { start: NonNull::dangling(), bytes };
        let count = BYTES_MIN / HUGE_BYTES;
        assert!((0..4 * count).all(|_| kept.keep(mapping(HUGE_BYTES), bytes_max).is_empty()));
        assert!(kept.give_up_idle().is_empty(), "they have just come");
        for _ in 0..3 {
            // All but the bytes that are always kept are needed in between.
            let taken: Vec<_> = (0..3 * count).map(|_| kept.take(HUGE_BYTES).unwrap()).collect();
            assert!(taken.into_iter().all(|mapping| kept.keep(mapping, bytes_max).is_empty()));
        }
        assert_eq!(kept.give_up_idle().len(), count, "so much was never wanted");
        assert_eq!(kept.give_up_idle().len(), 2 * count, "nobody wanted any since");
        assert_eq!((kept.bytes, kept.by_len[&HUGE_BYTES].len()), (BYTES_MIN, count));
        assert!(kept.give_up_idle().is_empty());
        let gone: usize = (0..9 * count).map(|_| kept.keep(mapping(HUGE_BYTES), bytes_max).len()).sum();
        assert_eq!((gone, kept.bytes), (4 * count, bytes_max), "no more than may be");
        assert_eq!(
            kept.keep(mapping(2 * HUGE_BYTES), bytes_max).len(),
            1,
            "too large to be wanted again soon"
        );
    }
}
