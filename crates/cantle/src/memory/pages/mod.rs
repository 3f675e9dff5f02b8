//! Memory for the blocks and arrays of munks, the segments of rows, and logs that are read whole.
//! Large allocations are mapped, so that their memory goes back to the system as soon as it is
//! free, whatever the process's allocator retains. The largest consist of huge pages if the system
//! has them, as a search touches a few lines far apart.
//!
//! Mappings that were freed last are kept for reuse ([`kept`]). While munks are copied to remove
//! garbage, or are evicted for others that grow, as much is freed as allocated, and filling new
//! pages with zeros costs as much as the copy; if the host of a virtual machine has reclaimed the
//! pages, many times as much. Segments come and go as often, and so do the buffers of whole logs,
//! which are resized to the length of the next one ([`resize`]). The kept bytes are bounded by the
//! room that is left in the budgets, and a little beside them. Bytes that were not needed for a
//! second or two are unmapped, except for a small rest.
//!
//! Under Miri nothing is mapped, so Miri checks the users of this memory. The code that maps and
//! unmaps is tested with AddressSanitizer (`.ci/run`).
#![expect(unsafe_code, reason = "memory of any length")]

mod kept;

pub use kept::{Room, give_up_idle, kept_bytes};

use kept::{Mapping, count_unused, count_used, keep, take};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// True if this platform can map memory.
const CAN_MAP: bool = cfg!(all(unix, not(miri)));
/// Size in bytes from which memory is mapped without a request. Smaller allocations fit the
/// allocator's heap.
const MAPPED_BYTES_MIN: usize = 64 << 10;
/// The few sizes of [`of_few_sizes`] are multiples of this: the length of a page.
const SIZES_BYTES_MIN: usize = 4 << 10;
/// Length of a huge page in bytes.
pub const HUGE_BYTES: usize = 2 << 20;
/// Rounds up to one of few sizes, four to a doubling, so that freed memory fits a later allocation.
pub fn of_few_sizes(bytes: usize) -> usize {
    bytes.next_multiple_of(SIZES_BYTES_MIN.max(bytes.next_power_of_two() / 8))
}

/// Bytes to ask for if `bytes` are needed: mappings that may be kept have one of few sizes. The
/// unused end of a mapping takes no memory, as nobody writes to it.
pub fn asked_for(bytes: usize) -> usize {
    if (MAPPED_BYTES_MIN..HUGE_BYTES).contains(&bytes) { of_few_sizes(bytes) } else { bytes }
}

/// Uninitialised memory.
pub struct Pages {
    start: NonNull<u8>,
    layout: Layout,
    is_mapped: bool,
}

// SAFETY: it is plain memory, bound to no thread.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// `layout` has at least one byte, and at most the alignment of a page.
    pub fn new(layout: Layout) -> Self {
        Self::allocate(layout, CAN_MAP && layout.size() >= MAPPED_BYTES_MIN)
    }

    /// Mapped, however small, if the platform can map memory.
    pub fn mapped(layout: Layout) -> Self {
        Self::allocate(layout, CAN_MAP)
    }

    fn allocate(layout: Layout, is_mapped: bool) -> Self {
        assert!(layout.size() > 0, "memory of no length");
        count_used(layout.size());
        let start = if is_mapped {
            take(layout.size()).or_else(|| map(layout.size()))
        } else {
            // SAFETY: the layout has at least one byte.
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
            // SAFETY: allocated with this layout, and nobody else owns it.
            unsafe { dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}

/// Initialised memory, to read a file into or to collect bytes in.
pub struct Buffer {
    pages: Pages,
    len: usize,
}

impl Buffer {
    /// `None` if `bytes` is 0.
    pub fn new(bytes: usize) -> Option<Self> {
        Self::allocate(bytes, asked_for(bytes), Pages::new)
    }

    /// Mapped, however small, if the platform can map memory: for a buffer that stays for a while
    /// among many that do not.
    pub fn mapped(bytes: usize) -> Option<Self> {
        // A buffer too large to be kept gets its exact length, so that it does not consist of huge
        // pages by chance.
        let asked = if bytes < HUGE_BYTES { of_few_sizes(bytes) } else { bytes };
        Self::allocate(bytes, asked, Pages::mapped)
    }

    /// Bytes of memory that it takes: at least its length.
    pub fn memory_bytes(&self) -> u64 {
        self.pages.len() as u64
    }

    fn allocate(bytes: usize, asked: usize, pages: impl FnOnce(Layout) -> Pages) -> Option<Self> {
        let layout = Layout::from_size_align(asked, 1).ok().filter(|layout| layout.size() > 0)?;
        let pages = pages(layout);
        // A mapping is initialised already: by the system, or by its former user.
        if !pages.is_mapped {
            // SAFETY: it has `asked` bytes.
            unsafe { pages.start.write_bytes(0, asked) };
        }
        Some(Self { pages, len: bytes })
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes, which live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.pages.start.as_ptr(), self.len) }
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.pages.start.as_ptr(), self.len) }
    }
}

#[cfg(all(unix, not(miri)))]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    // A huge page begins at a multiple of its length: the parts before and after it are unmapped.
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
        // SAFETY: as above; the rest of the slack begins `bytes` after `start`.
        unmap(unsafe { start.add(bytes) }, slack - before);
    }
    if slack > 0 {
        // SAFETY: the mapping is ours. Without huge pages it serves as well.
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
    }
    Some(start)
}

/// Changes the length of a mapping, which may move; its content is kept. `None` if that is
/// impossible, and then the mapping is unchanged.
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
