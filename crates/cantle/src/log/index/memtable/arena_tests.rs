//! The arena's offsets and memory.
#![expect(unsafe_code, reason = "writes to what was allocated")]

use super::arena::{Allocation, Arena, END_BITS, FIRST_BITS, Full, PIECES, Spot, UNIT_BYTES, place};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[test]
fn pieces_follow_one_another_without_a_gap() {
    let (mut offset, mut piece) = (1 << FIRST_BITS, 0);
    let mut lens = Vec::new();
    while offset < 1 << END_BITS {
        let spot = Spot::of(offset);
        assert_eq!((spot.piece, spot.within), (piece, 0));
        let last = Spot::of(offset + spot.piece_units - 1);
        assert_eq!((last.piece, last.within), (piece, spot.piece_units - 1));
        lens.push(spot.piece_units);
        (offset, piece) = (offset + spot.piece_units, piece + 1);
    }
    assert_eq!((piece, offset), (PIECES, 1 << END_BITS));
    assert_eq!(lens[..6], [64, 64, 64, 64, 128, 128]);
}

#[test]
fn what_does_not_fit_goes_to_the_first_piece_that_has_room() {
    let first = 1 << FIRST_BITS;
    assert_eq!(place(first, 64), Ok(first));
    assert_eq!(place(first + 1, 64), Ok(first + 64));
    assert_eq!(place(first + 1, 65), Ok(2 * first), "pieces of 64 units are passed over");
    assert_eq!(place((1 << END_BITS) - 1, 1), Ok((1 << END_BITS) - 1));
    assert_eq!(place((1 << END_BITS) - 1, 2), Err(Full));
    assert_eq!(place(1 << END_BITS, 1), Err(Full));
}

#[test]
fn allocations_do_not_overlap_and_their_memory_counts_until_it_is_freed() {
    let total: Arc<AtomicU64> = Arc::default();
    let arena = Arena::new(total.clone());
    assert_eq!(total.load(Relaxed), 0, "nothing is taken before it is needed");
    let lens: Vec<usize> = (0..if cfg!(miri) { 100 } else { 3_000 }).map(|n| 1 + n * 37 % 300).collect();
    let all: Vec<Allocation> = lens.iter().map(|len| arena.allocate(*len).unwrap()).collect();
    for (number, (allocation, len)) in all.iter().zip(&lens).enumerate() {
        // SAFETY: as long as requested, and only this test accesses it.
        unsafe { allocation.start.write_bytes(number as u8, *len) };
    }
    let apart = arena.allocate_apart(100_000);
    // SAFETY: as above.
    unsafe { apart.write_bytes(1, 100_000) };
    for (number, (allocation, len)) in all.iter().zip(&lens).enumerate() {
        // SAFETY: allocated here, and written just now.
        let bytes = unsafe { std::slice::from_raw_parts(arena.at(allocation.offset).as_ptr(), *len) };
        assert!(bytes.iter().all(|byte| *byte == number as u8));
        assert!(allocation.start.as_ptr().addr().is_multiple_of(UNIT_BYTES));
    }
    let used: usize = lens.iter().map(|len| len.next_multiple_of(UNIT_BYTES)).sum::<usize>() + 100_000;
    let taken = total.load(Relaxed) as usize;
    assert!((used..used * 5 / 4 + 9_000).contains(&taken), "{taken} for {used}");
    drop(arena);
    assert_eq!(total.load(Relaxed), 0);
}
