//! Memory for the blocks and arrays of munks, the segments of rows and what is read of logs at once: large ones are mapped, so that they go back to the system as
//! soon as they are free, whatever the process's allocator keeps for itself; the largest are made of huge pages where the
//! system has them, as a search touches a few lines far apart.
//!
//! What was freed last is kept for the next that is wanted ([`kept`]): while munks are copied to be rid of garbage, or evicted for
//! others that grow, as much is freed as allocated, and to fill new pages with zeros costs as much as the copy; where the
//! host of a virtual machine has taken them back, many times as much. Segments
//! come and go as often, and what whole logs were read into, which is made as long as the next one ([`resize`]). As much is kept
//! as budgets have left, and a little beside them; what nobody wanted for a second or two goes back, but for a little.
//!
//! Under Miri nothing is mapped, so it checks the users of this memory; what maps and unmaps is run with AddressSanitizer
//! (`.ci/run`).
#![expect(unsafe_code, reason = "memory of any length")]

mod kept;

pub use kept::{Room, give_up_idle, kept_bytes};

use kept::{Mapping, count_unused, count_used, keep, take};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Whether memory can be mapped.
const CAN_MAP: bool = cfg!(all(unix, not(miri)));
/// From here on memory is mapped that was not asked to be.
const MAPPED_BYTES_MIN: usize = 64 << 10;
/// Sizes that are few are multiples of this: of a page.
const SIZES_BYTES_MIN: usize = 4 << 10;
/// A huge page.
pub const HUGE_BYTES: usize = 2 << 20;
/// At least so many bytes, of few sizes, four to a doubling: what one frees then fits another.
pub fn of_few_sizes(bytes: usize) -> usize {
    bytes.next_multiple_of(SIZES_BYTES_MIN.max(bytes.next_power_of_two() / 8))
}

/// How much to ask for, for so many bytes: what is mapped and may be kept is of few sizes. Of a mapping's end that nobody writes to
/// there is no memory.
pub fn asked_for(bytes: usize) -> usize {
    if (MAPPED_BYTES_MIN..HUGE_BYTES).contains(&bytes) { of_few_sizes(bytes) } else { bytes }
}

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
        Self::allocate(layout, CAN_MAP && layout.size() >= MAPPED_BYTES_MIN)
    }

    /// Mapped, however little it is, where memory can be.
    pub fn mapped(layout: Layout) -> Self {
        Self::allocate(layout, CAN_MAP)
    }

    fn allocate(layout: Layout, is_mapped: bool) -> Self {
        assert!(layout.size() > 0, "memory of no length");
        count_used(layout.size());
        let start = if is_mapped {
            take(layout.size()).or_else(|| map(layout.size()))
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
        count_unused(self.layout.size());
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
        Self::allocate(bytes, asked_for(bytes), Pages::new)
    }

    /// Mapped, however little it is, where memory can be: for what stays for a while among much that comes and goes.
    pub fn mapped(bytes: usize) -> Option<Self> {
        // What is too large to be kept is as long as it has to be, and not of huge pages by chance.
        let asked = if bytes < HUGE_BYTES { of_few_sizes(bytes) } else { bytes };
        Self::allocate(bytes, asked, Pages::mapped)
    }

    /// What it takes, which is more than it holds.
    pub fn memory_bytes(&self) -> u64 {
        self.pages.len() as u64
    }

    fn allocate(bytes: usize, asked: usize, pages: impl FnOnce(Layout) -> Pages) -> Option<Self> {
        let layout = Layout::from_size_align(asked, 1).ok().filter(|layout| layout.size() > 0)?;
        let pages = pages(layout);
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

/// Another length of what was mapped, which may lie elsewhere then; what it had is there still. `None` where that is not possible: it
/// is as it was.
#[cfg(all(target_os = "linux", not(miri)))]
fn resize(start: NonNull<u8>, bytes: usize, wanted_bytes: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{MremapFlags, mremap};
    // SAFETY: mapped by `map`, and nobody else's.
    let resized = unsafe { mremap(start.as_ptr().cast(), bytes, wanted_bytes, MremapFlags::MAYMOVE) };
    NonNull::new(resized.ok()?.cast::<u8>())
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn resize(_: NonNull<u8>, _: usize, _: usize) -> Option<NonNull<u8>> {
    None
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
}
