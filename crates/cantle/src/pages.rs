//! Memory for the blocks and arrays of munks, the segments of rows and what is read of logs at once: large ones are mapped, so that they go back to the system as
//! soon as they are free, whatever the process's allocator keeps for itself; the largest are made of huge pages where the
//! system has them, as a search touches a few lines far apart.
//!
//! A few that were freed last are kept for the next that are wanted: while munks are copied to be rid of garbage, or evicted for
//! others that grow, as much is freed as allocated, and to fill new pages with zeros costs as much as the copy. Segments
//! come and go as often. What nobody wanted for a second or two goes back, but for a little.
//!
//! Under Miri nothing is mapped, so it checks the users of this memory; what maps and unmaps is run with AddressSanitizer
//! (`.ci/run`).
#![expect(unsafe_code, reason = "memory of any length")]

use parking_lot::Mutex;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Whether memory can be mapped.
const CAN_MAP: bool = cfg!(all(unix, not(miri)));
/// From here on memory is mapped that was not asked to be.
const MAPPED_BYTES_MIN: usize = 64 << 10;
/// Sizes that are few are multiples of this: of a page.
const SIZES_BYTES_MIN: usize = 4 << 10;
/// A huge page.
pub const HUGE_BYTES: usize = 2 << 20;
/// So much freed memory is kept, in the whole process, in any case and at most.
const KEPT_BYTES_MIN: usize = 8 << 20;
const KEPT_BYTES_MAX: usize = 32 << 20;

/// Who has what is kept has it for some microseconds, unless the system puts him aside.
const LOCKED_MAX: Duration = Duration::from_millis(100);

/// What was freed last. Nobody waits for it: in a child that was forked while another thread had the lock it stays locked for ever, and
/// who cannot have it maps and unmaps.
static KEPT: Mutex<Kept> = Mutex::new(Kept::new());

/// How much of it there may be.
static BYTES_MAX: AtomicUsize = AtomicUsize::new(KEPT_BYTES_MIN);

/// Memory that was freed and may be wanted again.
struct Kept {
    /// The newest at the end.
    mappings: Vec<Mapping>,
    bytes: usize,
    /// The least there was since the last look: so much nobody wanted.
    idle_bytes: usize,
}

impl Kept {
    const fn new() -> Self {
        Self { mappings: Vec::new(), bytes: 0, idle_bytes: 0 }
    }

    /// One of that length.
    fn take(&mut self, bytes: usize) -> Option<Mapping> {
        let index = self.mappings.iter().rposition(|mapping| mapping.bytes == bytes)?;
        self.bytes -= bytes;
        self.idle_bytes = self.idle_bytes.min(self.bytes);
        Some(self.mappings.remove(index))
    }

    /// Keeps it, and no more than `bytes_max` in all: those that were freed first are returned; or it is itself, if it is too
    /// large to be wanted again soon.
    fn keep(&mut self, mapping: Mapping, bytes_max: usize) -> Vec<Mapping> {
        if mapping.bytes > HUGE_BYTES {
            return vec![mapping];
        }
        self.bytes += mapping.bytes;
        self.mappings.push(mapping);
        self.give_up(self.bytes.saturating_sub(bytes_max))
    }

    /// Those of which nobody wanted any since the last look.
    fn give_up_idle(&mut self) -> Vec<Mapping> {
        let gone = self.give_up(self.idle_bytes.min(self.bytes.saturating_sub(KEPT_BYTES_MIN)));
        self.idle_bytes = self.bytes;
        gone
    }

    /// Those that were freed first, with at least so many bytes.
    fn give_up(&mut self, bytes: usize) -> Vec<Mapping> {
        let mut given = 0;
        let first = self.mappings.iter().take_while(|mapping| {
            let goes = given < bytes;
            given += if goes { mapping.bytes } else { 0 };
            goes
        });
        let count = first.count();
        self.bytes -= given;
        self.idle_bytes = self.idle_bytes.min(self.bytes);
        self.mappings.drain(..count).collect()
    }
}

/// At least so many bytes, of few sizes, four to a doubling: what one frees then fits another.
pub fn of_few_sizes(bytes: usize) -> usize {
    bytes.next_multiple_of(SIZES_BYTES_MIN.max(bytes.next_power_of_two() / 8))
}

/// How much to ask for, for so many bytes: what is mapped and may be kept is of few sizes. Of a mapping's end that nobody writes to
/// there is no memory.
pub fn asked_for(bytes: usize) -> usize {
    if (MAPPED_BYTES_MIN..HUGE_BYTES).contains(&bytes) { of_few_sizes(bytes) } else { bytes }
}

/// Has so much freed memory be kept, within bounds.
pub fn keep_up_to(bytes: u64) {
    BYTES_MAX.fetch_max((bytes as usize).min(KEPT_BYTES_MAX), Relaxed);
}

/// Gives back what nobody wanted since this was called last.
pub fn give_up_idle() {
    let gone = KEPT.try_lock().map(|mut kept| kept.give_up_idle());
    gone.into_iter().flatten().for_each(unmap_kept);
}

/// How much freed memory is kept, in the whole process; 0 if others have it for so long that it may be for ever.
pub fn kept_bytes() -> u64 {
    KEPT.try_lock_for(LOCKED_MAX).map_or(0, |kept| kept.bytes as u64)
}

/// A mapping that nobody uses.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is only memory.
unsafe impl Send for Mapping {}

/// Memory, uninitialised.
pub struct Pages {
    start: NonNull<u8>,
    layout: Layout,
    is_mapped: bool,
}

// SAFETY: it is only memory.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// `layout` has at least one byte, and the alignment of a page at most.
    pub fn new(layout: Layout) -> Self {
        Self::take(layout, CAN_MAP && layout.size() >= MAPPED_BYTES_MIN)
    }

    /// Mapped, however little it is, where memory can be.
    pub fn mapped(layout: Layout) -> Self {
        Self::take(layout, CAN_MAP)
    }

    fn take(layout: Layout, is_mapped: bool) -> Self {
        assert!(layout.size() > 0, "memory of no length");
        let start = if is_mapped {
            take_kept(layout.size()).or_else(|| map(layout.size()))
        } else {
            // SAFETY: it has a byte at least.
            NonNull::new(unsafe { alloc(layout) })
        };
        let Some(start) = start else { handle_alloc_error(layout) };
        Self { start, layout, is_mapped }
    }

    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub fn len(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.is_mapped {
            keep(Mapping { start: self.start, bytes: self.layout.size() });
        } else {
            // SAFETY: allocated with this layout, and nobody else's.
            unsafe { dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}

/// Memory to read a file into or to collect things in, with something in each byte.
pub struct Buffer {
    pages: Pages,
    len: usize,
}

impl Buffer {
    /// `None` for no bytes.
    pub fn new(bytes: usize) -> Option<Self> {
        let asked = asked_for(bytes);
        let layout = Layout::from_size_align(asked, 1).ok().filter(|layout| layout.size() > 0)?;
        let pages = Pages::new(layout);
        // What was mapped has what the system or a former holder left there.
        if !pages.is_mapped {
            // SAFETY: it has so many bytes.
            unsafe { pages.start.write_bytes(0, asked) };
        }
        Some(Self { pages, len: bytes })
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: so many initialised bytes, which go with `self`.
        unsafe { std::slice::from_raw_parts(self.pages.start.as_ptr(), self.len) }
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has them.
        unsafe { std::slice::from_raw_parts_mut(self.pages.start.as_ptr(), self.len) }
    }
}

/// One of that length that was freed.
fn take_kept(bytes: usize) -> Option<NonNull<u8>> {
    KEPT.try_lock()?.take(bytes).map(|mapping| mapping.start)
}

fn keep(mapping: Mapping) {
    let gone = match KEPT.try_lock() {
        Some(mut kept) => kept.keep(mapping, BYTES_MAX.load(Relaxed)),
        None => vec![mapping],
    };
    gone.into_iter().for_each(unmap_kept);
}

fn unmap_kept(mapping: Mapping) {
    unmap(mapping.start, mapping.bytes);
}

#[cfg(all(unix, not(miri)))]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    // A huge page begins at a multiple of its length: what lies before and behind is given back.
    let slack = if bytes.is_multiple_of(HUGE_BYTES) { HUGE_BYTES } else { 0 };
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping, at a place that the system chooses.
    let all = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes + slack, protection, flags) };
    let all = NonNull::new(all.ok()?.cast::<u8>())?;
    let before = all.align_offset(HUGE_BYTES) * usize::from(slack > 0);
    // SAFETY: within the mapping, as `before` is less than the slack.
    let start = unsafe { all.add(before) };
    if before > 0 {
        unmap(all, before);
    }
    if slack > before {
        // SAFETY: as above; `bytes` from here on the slack that is left begins.
        unmap(unsafe { start.add(bytes) }, slack - before);
    }
    if slack > 0 {
        // SAFETY: the mapping is ours. Without huge pages it serves as well.
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
    }
    Some(start)
}

#[cfg(all(unix, not(miri)))]
fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: mapped by `map`, and nobody else's.
    let unmapped = unsafe { rustix::mm::munmap(start.as_ptr().cast(), bytes) };
    debug_assert!(unmapped.is_ok(), "a mapping of our own");
}

#[cfg(not(all(unix, not(miri))))]
fn map(_: usize) -> Option<NonNull<u8>> {
    None
}

#[cfg(not(all(unix, not(miri))))]
fn unmap(_: NonNull<u8>, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_every_length_can_be_written_from_end_to_end() {
        for len in [1, 4096, MAPPED_BYTES_MIN - 1, MAPPED_BYTES_MIN, 100_001, HUGE_BYTES, 3 * HUGE_BYTES] {
            let pages = Pages::new(Layout::from_size_align(len, 8).unwrap());
            assert_eq!(pages.len(), len);
            for offset in [0, len / 2, len - 1] {
                // SAFETY: within the memory, which is this test's.
                unsafe { pages.start().add(offset).write(7) };
            }
        }
    }

    #[test]
    fn a_buffer_has_every_byte() {
        assert!(Buffer::new(0).is_none());
        for len in [1, MAPPED_BYTES_MIN, 100_001] {
            let mut buffer = Buffer::new(len).unwrap();
            buffer.as_mut()[len - 1] = 7;
            assert_eq!(buffer.as_ref().len(), len);
            assert_eq!(buffer.as_ref()[len - 1], 7);
        }
    }

    /// As in a child that was forked while another thread had it.
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
    fn what_is_freed_is_used_again_and_little_of_it_kept() {
        // A length that no other test uses; but they may fill what is kept in between.
        let layout = Layout::from_size_align(MAPPED_BYTES_MIN + 12_345 * 8, 8).unwrap();
        let is_used_again = || {
            let start = Pages::new(layout).start();
            Pages::new(layout).start() == start
        };
        // Who holds the lock meanwhile may have been put aside by the system.
        let begun = crate::sync::time::now();
        while !is_used_again() {
            assert!(begun.elapsed() < Duration::from_secs(30));
            std::thread::yield_now();
        }
        drop(
            (0..24).map(|_| Pages::new(Layout::from_size_align(HUGE_BYTES, 8).unwrap())).collect::<Vec<_>>(),
        );
        assert!((1..=KEPT_BYTES_MAX as u64).contains(&kept_bytes()));
        drop(Pages::new(Layout::from_size_align(2 * KEPT_BYTES_MAX, 8).unwrap()));
        assert!(KEPT.lock().bytes <= KEPT_BYTES_MAX);
    }

    #[test]
    fn what_nobody_wants_goes_and_what_is_wanted_again_and_again_stays() {
        let mut kept = Kept::new();
        let bytes_max = 6 * KEPT_BYTES_MIN;
        let mapping = |bytes| Mapping { start: NonNull::dangling(), bytes };
        let count = KEPT_BYTES_MIN / HUGE_BYTES;
        assert!((0..4 * count).all(|_| kept.keep(mapping(HUGE_BYTES), bytes_max).is_empty()));
        assert!(kept.give_up_idle().is_empty(), "they have just come");
        for _ in 0..3 {
            // All but as much as stays in any case is wanted in between.
            let taken: Vec<_> = (0..3 * count).map(|_| kept.take(HUGE_BYTES).unwrap()).collect();
            assert!(taken.into_iter().all(|mapping| kept.keep(mapping, bytes_max).is_empty()));
        }
        assert_eq!(kept.give_up_idle().len(), count, "so much was never wanted");
        assert_eq!(kept.give_up_idle().len(), 2 * count, "nobody wanted any since");
        assert_eq!((kept.bytes, kept.mappings.len()), (KEPT_BYTES_MIN, count));
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
