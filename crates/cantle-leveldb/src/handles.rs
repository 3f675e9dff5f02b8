//! The objects that callers hold: numbers that look like pointers.
//!
//! ```text
//!   bit 46 … 43   42 … 24      23 … 4         3 … 0
//!   kind          use          slot           0
//! ```
//!
//! A handle is looked up, never dereferenced. A handle that was destroyed does not match its slot
//! any more, until the slot has been used half a million times again. Handles are even and have 47
//! bits, as pointers have, since programs in other languages keep flags in the remaining bits.
//!
//! Thread safety: everything may be called from any thread. A thread that destroys an object must
//! be its only user at that moment. This is LevelDB's contract, and the reason why a look-up needs
//! no count of users.

use cantle_bindings::Slots;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

const SLOT_SHIFT: u32 = 4;
const USE_SHIFT: u32 = 24;
const KIND_SHIFT: u32 = 43;
/// Maximum number of objects of a kind, or of databases: a slot's number has 20 bits.
pub const SLOTS_MAX: u32 = 1 << 20;
const SLOT_MASK: u64 = SLOTS_MAX as u64 - 1;
const USE_MASK: u64 = (1 << 19) - 1;

const _: () = assert!(usize::BITS == 64, "a handle needs the room of a pointer of 64 bits");

/// The type of the object that a handle names.
#[derive(Clone, Copy)]
pub enum Kind {
    Database = 1,
    Iterator = 2,
    Snapshot = 3,
    WriteBatch = 4,
    Options = 5,
    ReadOptions = 6,
    WriteOptions = 7,
    Comparator = 8,
    FilterPolicy = 9,
    Cache = 10,
    Env = 11,
    /// The kind of a handle that never names an object.
    NoSnapshot = 12,
}

/// The handle of one use of a slot.
pub fn encode(kind: Kind, slot: u32, uses: u32) -> u64 {
    let uses = u64::from(uses) & USE_MASK;
    (kind as u64) << KIND_SHIFT | uses << USE_SHIFT | u64::from(slot) << SLOT_SHIFT
}

/// The slot that a handle names, if the handle is of this kind.
#[inline]
pub fn slot_of(kind: Kind, handle: u64) -> Option<u32> {
    let slot = (handle >> SLOT_SHIFT & SLOT_MASK) as u32;
    (handle >> KIND_SHIFT == kind as u64).then_some(slot)
}

/// A handle in the type that callers see.
pub fn to_pointer<C>(handle: u64) -> *mut C {
    without_provenance_mut(handle as usize)
}

/// All objects of one type.
pub struct Handles<T> {
    kind: Kind,
    slots: Slots<Slot<T>>,
}

struct Slot<T> {
    /// The handle of the object in this slot, or 0.
    handle: AtomicU64,
    object: AtomicPtr<T>,
    uses: AtomicU32,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { handle: AtomicU64::new(0), object: AtomicPtr::new(null_mut()), uses: AtomicU32::new(0) }
    }
}

impl<T: Send + Sync> Handles<T> {
    pub const fn new(kind: Kind) -> Self {
        Self::with_limit(kind, SLOTS_MAX)
    }

    /// As `new`, with at most `max` objects.
    pub const fn with_limit(kind: Kind, max: u32) -> Self {
        assert!(max <= SLOTS_MAX, "a handle has no room for the slot's number");
        Self { kind, slots: Slots::new(max) }
    }

    /// Stores an object and returns its handle; null if all slots of this kind are in use.
    pub fn insert<C>(&self, object: T) -> *mut C {
        let Some((number, slot)) = self.slots.take() else { return null_mut() };
        let handle = encode(self.kind, number, slot.uses.fetch_add(1, Relaxed));
        slot.object.store(Box::into_raw(Box::new(object)), Relaxed);
        slot.handle.store(handle, Release);
        to_pointer(handle)
    }

    fn slot(&self, handle: u64) -> Option<(u32, &Slot<T>)> {
        let number = slot_of(self.kind, handle)?;
        Some((number, self.slots.get(number)?))
    }

    /// The object, if the handle is of this kind and was not destroyed.
    ///
    /// # Safety
    ///
    /// No thread destroys the object while the reference is in use.
    #[inline]
    pub unsafe fn get<C>(&self, handle: *const C) -> Option<&T> {
        let handle = handle.addr() as u64;
        let (_, slot) = self.slot(handle)?;
        if slot.handle.load(Acquire) != handle {
            return None;
        }
        // SAFETY: the slot has this handle, so `insert` stored an object in it and `remove` did not
        // take it. The caller promises that `remove` does not run now either.
        Some(unsafe { &*slot.object.load(Relaxed) })
    }

    /// Removes and returns the object, if the handle is of this kind and was not destroyed.
    pub fn remove<C>(&self, handle: *const C) -> Option<Box<T>> {
        let handle = handle.addr() as u64;
        let (number, slot) = self.slot(handle)?;
        slot.handle.compare_exchange(handle, 0, AcqRel, Relaxed).ok()?;
        // SAFETY: the pointer came from a box, and the exchange gave it to this thread alone.
        let object = unsafe { Box::from_raw(slot.object.swap(null_mut(), Relaxed)) };
        self.slots.give_back(number);
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_lives_until_it_is_removed_and_is_not_taken_for_another() {
        let handles: Handles<String> = Handles::new(Kind::Iterator);
        let others: Handles<String> = Handles::new(Kind::Snapshot);
        let first: *mut u8 = handles.insert("first".into());
        let other: *mut u8 = others.insert("other".into());
        // SAFETY: no thread removes them during the calls.
        unsafe {
            assert_eq!(handles.get(first).unwrap(), "first");
            assert!(handles.get(other).is_none() && others.get(first).is_none());
            assert!(handles.get(std::ptr::null::<u8>()).is_none());
            assert!(handles.get(&raw const handles).is_none());
        }
        assert_eq!(*handles.remove(first).unwrap(), "first");
        assert!(handles.remove(first).is_none());
        // The slot is used again, and the old handle still differs from the new one.
        let second: *mut u8 = handles.insert("second".into());
        assert_eq!(
            slot_of(Kind::Iterator, first.addr() as u64),
            slot_of(Kind::Iterator, second.addr() as u64)
        );
        assert_ne!(first, second);
        // SAFETY: as above.
        unsafe { assert!(handles.get(first).is_none()) };
        assert!(handles.remove(first).is_none());
        assert_eq!(*handles.remove(second).unwrap(), "second");
        drop(others.remove(other));
    }

    #[test]
    fn handles_fit_where_pointers_do() {
        let last = encode(Kind::Env, SLOT_MASK as u32, u32::MAX);
        assert!(last < 1 << 47 && last.is_multiple_of(16));
        assert_eq!(slot_of(Kind::Env, last), Some(SLOT_MASK as u32));
        assert!(encode(Kind::Database, 0, 0) >= 4096);
    }
}
