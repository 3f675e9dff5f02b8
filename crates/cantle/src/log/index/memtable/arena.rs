//! Memory that grows piece by piece, never moves, and is freed as a whole.
//!
//! Offsets count *units*, the alignment of a link. The leading bits of an offset are the number of
//! its piece. There are four pieces to a doubling, each a quarter as long as all pieces before the
//! doubling, so that at most a fifth of the memory is unused.
//!
//! ```text
//!   offset    FIRST      5/4 FIRST    3/2 FIRST    7/4 FIRST    2 FIRST          …
//!             ├────────────┼────────────┼────────────┼────────────┼────────────────┼──
//!   piece           0            1            2            3              4
//! ```
//!
//! Invariants:
//! * No two allocations overlap, and none crosses the end of a piece. Offset 0 is never allocated.
//! * A piece is set before an allocation in it is returned, and stays until the arena is dropped.
//! * The account is charged with all pieces, with longer allocations beside them, and with the
//!   lists of both.
//!
//! Thread safety: several threads allocate by a compare-and-swap. A thread that needs a new piece
//! waits while another thread allocates one. Readers never wait: an offset reaches a reader by a
//! `Release` after the piece was set.
#![expect(unsafe_code, reason = "memory of any length, addressed by offsets")]

use crate::memory::pages::{Pages, asked_for};
use crate::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{Arc, Mutex};
use std::alloc::Layout;
use std::fmt;
use std::ptr::{NonNull, null_mut};

/// Bytes of a unit of offsets: the alignment of allocations.
pub const UNIT_BYTES: usize = align_of::<AtomicU32>();
/// The first offset, in units, as a power of two. It is also the number of units of the first four
/// pieces together: 1 KiB, 256 bytes each.
pub(super) const FIRST_BITS: u32 = 8;
/// The end of all offsets, in units, as a power of two: 8 GiB.
pub(super) const END_BITS: u32 = 31;
/// The number of pieces in a doubling, as a power of two.
const STEP_BITS: u32 = 2;
pub(super) const PIECES: usize = ((END_BITS - FIRST_BITS) << STEP_BITS) as usize;
/// Number of pieces, 4 KiB in all, whose pointers lie in the arena itself: most parts of logs are
/// not longer.
const NEAR_PIECES: usize = 2 << STEP_BITS;

type Piece = AtomicPtr<u8>;
type FarPieces = [Piece; PIECES - NEAR_PIECES];

/// The arena has no offsets left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the index of a part of a log takes more than 8 GiB of memory")
    }
}

/// An allocation: uninitialised memory that only the caller can access.
pub struct Allocation {
    pub offset: u32,
    pub start: NonNull<u8>,
}

pub struct Arena {
    /// The offset of the next allocation, if it fits there.
    next: AtomicU32,
    /// Null until the piece is allocated.
    near: [Piece; NEAR_PIECES],
    /// Null until one of them is allocated.
    far: AtomicPtr<FarPieces>,
    /// Pieces and longer allocations.
    pages: Mutex<Vec<Pages>>,
    bytes: AtomicU64,
    /// The account: memory of this arena and of others.
    total_bytes: Arc<AtomicU64>,
}

/// The place of an offset: the number of its piece, the piece's units, and the unit within the
/// piece.
pub(super) struct Spot {
    pub(super) piece: usize,
    pub(super) piece_units: u32,
    pub(super) within: u32,
}

impl Spot {
    /// The place of `offset`, which is at least the first.
    #[inline]
    pub(super) fn of(offset: u32) -> Self {
        let bits = offset.ilog2();
        let step = bits - STEP_BITS;
        // The leading bit of the offset counts as one doubling; the subtraction compensates for it.
        let piece = ((bits - FIRST_BITS) << STEP_BITS) + ((offset >> step) & ((1 << STEP_BITS) - 1));
        let piece_units = 1 << step;
        Self { piece: piece as usize, piece_units, within: offset & (piece_units - 1) }
    }
}

/// The first offset from `next` on that has `units` units after it in one piece. Pieces that are
/// too short are skipped, and not allocated.
pub(super) fn place(mut next: u32, units: u32) -> Result<u32, Full> {
    while next < 1 << END_BITS {
        let Spot { piece_units, within, .. } = Spot::of(next);
        let left = piece_units - within;
        if units <= left {
            return Ok(next);
        }
        next += left;
    }
    Err(Full)
}

fn layout(bytes: usize, align: usize) -> Layout {
    Layout::from_size_align(bytes, align).unwrap_or_else(|_| unreachable!("a piece fits in memory"))
}

impl Arena {
    /// An empty arena, whose memory counts in `total_bytes` until it is dropped.
    pub fn new(total_bytes: Arc<AtomicU64>) -> Self {
        Self {
            next: AtomicU32::new(1 << FIRST_BITS),
            near: std::array::from_fn(|_| Piece::new(null_mut())),
            far: AtomicPtr::new(null_mut()),
            pages: Mutex::new(Vec::new()),
            bytes: AtomicU64::new(0),
            total_bytes,
        }
    }

    /// Charges bytes that lie beside the arena and are freed with it.
    pub fn charge(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.total_bytes.fetch_add(bytes, Relaxed);
    }

    /// Memory of at least one byte and at most a page, aligned to a unit.
    pub fn allocate(&self, bytes: usize) -> Result<Allocation, Full> {
        debug_assert!((1..=8192).contains(&bytes), "longer memory is allocated apart");
        let units = bytes.div_ceil(UNIT_BYTES) as u32;
        let mut next = self.next.load(Relaxed);
        let offset = loop {
            let offset = place(next, units)?;
            match self.next.compare_exchange_weak(next, offset + units, Relaxed, Relaxed) {
                Ok(_) => break offset,
                Err(now) => next = now,
            }
        };
        let spot = Spot::of(offset);
        let piece = match self.piece(spot.piece).and_then(|piece| NonNull::new(piece.load(Acquire))) {
            Some(piece) => piece,
            None => self.make(&spot),
        };
        // SAFETY: the spot lies within its piece.
        let start = unsafe { piece.add(spot.within as usize * UNIT_BYTES) };
        Ok(Allocation { offset, start })
    }

    /// Memory of any length above 0, outside of the pieces; it lives as long as the arena. For
    /// allocations longer than a page.
    pub fn allocate_apart(&self, bytes: usize) -> NonNull<u8> {
        let pages = Pages::new(layout(asked_for(bytes), 1));
        let start = pages.start();
        self.keep(&mut self.pages.lock(), pages);
        start
    }

    /// The memory at an offset.
    ///
    /// # Safety
    /// The offset was allocated in this arena, by this thread or one that showed it to this one.
    #[inline]
    pub unsafe fn at(&self, offset: u32) -> NonNull<u8> {
        let spot = Spot::of(offset);
        let piece = self.piece(spot.piece).map_or(null_mut(), |piece| piece.load(Relaxed));
        debug_assert!(!piece.is_null(), "a piece is set before its offsets are known");
        // SAFETY: the caller's promise: the piece was set before the offset was shown, and the spot lies within it.
        unsafe { NonNull::new_unchecked(piece.add(spot.within as usize * UNIT_BYTES)) }
    }

    /// The pointer to a piece, allocated or not; `None` if it is far and the list of far pieces
    /// does not exist yet.
    #[inline]
    fn piece(&self, piece: usize) -> Option<&Piece> {
        if piece < NEAR_PIECES {
            return Some(&self.near[piece]);
        }
        // SAFETY: null, or set by `make` to a list that stays until the arena is dropped.
        let far = unsafe { self.far.load(Acquire).as_ref() };
        far.map(|far| &far[piece - NEAR_PIECES])
    }

    /// Allocates a piece, unless another thread did so meanwhile.
    #[cold]
    fn make(&self, spot: &Spot) -> NonNull<u8> {
        let mut pages = self.pages.lock();
        if spot.piece >= NEAR_PIECES && self.far.load(Relaxed).is_null() {
            self.charge(size_of::<FarPieces>() as u64);
            let far: Box<FarPieces> = Box::new(std::array::from_fn(|_| Piece::new(null_mut())));
            self.far.store(Box::into_raw(far), Release);
        }
        let piece = self.piece(spot.piece).unwrap_or_else(|| unreachable!("it was set just now"));
        if let Some(made) = NonNull::new(piece.load(Relaxed)) {
            return made;
        }
        let made = Pages::new(layout(spot.piece_units as usize * UNIT_BYTES, UNIT_BYTES));
        let start = made.start();
        self.keep(&mut pages, made);
        piece.store(start.as_ptr(), Release);
        start
    }

    fn keep(&self, all: &mut Vec<Pages>, pages: Pages) {
        self.charge((pages.len() + size_of::<Pages>()) as u64);
        all.push(pages);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.total_bytes.fetch_sub(self.bytes.load(Relaxed), Relaxed);
        let far = self.far.load(Acquire);
        if !far.is_null() {
            // SAFETY: made from a box by `make`, and the arena is being dropped, so nobody else
            // accesses it.
            drop(unsafe { Box::from_raw(far) });
        }
    }
}
