//! Handles: numbers, written as pointers, of slots that are reused.
//!
//! A handle of C is not an address. It names a slot and the slot's *generation*, which grows each
//! time the slot is used anew. A handle that was freed, or never was one, is thus recognised
//! without reading any memory that it might point to. A slot whose generations are used up is not
//! used again, so no handle is ever given out twice. The top byte makes a handle an address that no
//! process has.
//!
//! ```text
//!   63     56 55            24 23      0
//!  | 0xca    | generation     | index  |
//! ```
//!
//! A thread that uses an object holds it by `arc-swap`'s guard. Freeing the handle meanwhile, in
//! another thread, is therefore safe: the object is dropped with the last guard. The guard writes
//! to no memory that other threads share, so handles do not make readers wait for one another.

use arc_swap::{ArcSwapOption, Guard};
use cantle_bindings::{Process, SLOTS_MAX, Slots};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const TAG: u64 = 0xca;
const TAG_SHIFT: u32 = 56;
const INDEX_BITS: u32 = 24;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
/// Maximum of the bits between tag and index: a slot is used this many times.
const GENERATION_MAX: u32 = u32::MAX;

const _: () = assert!(usize::BITS == 64, "a handle holds slot and generation in a pointer of 64 bits");
const _: () = assert!(SLOTS_MAX == 1 << INDEX_BITS);

/// An object that C has a handle to.
pub(crate) struct Entry {
    pub(crate) token: u64,
    /// The process that made the object, if the object is of no use in a child.
    pub(crate) process: Option<Process>,
    /// The name of its type in C.
    pub(crate) name: &'static str,
    pub(crate) object: Box<dyn Any + Send + Sync>,
}

pub(crate) type EntryGuard = Guard<Option<Arc<Entry>>>;

#[derive(Default)]
struct Slot {
    entry: ArcSwapOption<Entry>,
    /// Changed only by the thread that fills the slot.
    generation: AtomicU32,
}

/// True if a number has the top byte of tokens.
#[inline]
pub(crate) fn is_tagged(number: u64) -> bool {
    number >> TAG_SHIFT == TAG
}

pub(crate) struct Tokens(Slots<Slot>);

impl Tokens {
    pub(crate) const fn new() -> Self {
        Self(Slots::new(SLOTS_MAX))
    }

    /// Puts an object into a slot and returns its token; `None` if there are too many.
    pub(crate) fn insert(&self, entry: impl FnOnce(u64) -> Entry) -> Option<u64> {
        let (index, slot) = self.0.take()?;
        let generation = slot.generation.load(Relaxed) + 1;
        slot.generation.store(generation, Relaxed);
        let token = TAG << TAG_SHIFT | u64::from(generation) << INDEX_BITS | u64::from(index);
        slot.entry.store(Some(Arc::new(entry(token))));
        Some(token)
    }

    /// The object of a token, if it is there. It stays for as long as the guard does.
    #[inline]
    pub(crate) fn get(&self, token: u64) -> Option<EntryGuard> {
        if !is_tagged(token) {
            return None;
        }
        let guard = self.0.get((token & INDEX_MASK) as u32)?.entry.load();
        if guard.as_ref().is_some_and(|entry| entry.token == token) { Some(guard) } else { None }
    }

    /// Number of objects, exact if no thread adds or removes one meanwhile.
    pub(crate) fn count(&self) -> usize {
        let slots = (0..SLOTS_MAX).map_while(|index| self.0.get(index));
        slots.filter(|slot| slot.entry.load().is_some()).count()
    }

    /// Takes an object out, unless another thread does; its token is invalid from now on.
    pub(crate) fn remove(&self, token: u64) -> Option<Arc<Entry>> {
        let current = self.get(token)?;
        let index = (token & INDEX_MASK) as u32;
        let previous = self.0.get(index)?.entry.compare_and_swap(&current, None);
        let same = |a: &Option<Arc<Entry>>, b: &Option<Arc<Entry>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        if !same(&previous, &current) {
            return None;
        }
        if token >> INDEX_BITS & u64::from(GENERATION_MAX) < u64::from(GENERATION_MAX) {
            self.0.give_back(index);
        }
        Guard::into_inner(previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{Acquire, Release},
    };

    fn entry(value: u32) -> impl FnOnce(u64) -> Entry {
        move |token| Entry { token, process: None, name: "number", object: Box::new(value) }
    }

    fn value(tokens: &Tokens, token: u64) -> Option<u32> {
        tokens
            .get(token)
            .and_then(|guard| guard.as_ref().and_then(|entry| entry.object.downcast_ref().copied()))
    }

    #[test]
    fn a_token_is_of_no_use_once_its_slot_was_freed_and_used_again() {
        let tokens = Tokens::new();
        let first = tokens.insert(entry(1)).unwrap();
        assert_eq!(value(&tokens, first), Some(1));
        assert!(tokens.remove(first).is_some());
        assert!(tokens.remove(first).is_none() && tokens.get(first).is_none());
        let second = tokens.insert(entry(2)).unwrap();
        assert_eq!(first & INDEX_MASK, second & INDEX_MASK, "the slot is used again");
        assert_eq!((value(&tokens, first), value(&tokens, second)), (None, Some(2)));
        assert!(tokens.remove(first).is_none());
        assert_eq!((value(&tokens, second), tokens.count()), (Some(2), 1));
    }

    #[test]
    fn a_slot_is_not_used_again_once_its_generations_are_used_up() {
        let tokens = Tokens::new();
        let first = tokens.insert(entry(1)).unwrap();
        tokens.remove(first);
        tokens.0.get(0).unwrap().generation.store(GENERATION_MAX - 1, Relaxed);
        let last = tokens.insert(entry(2)).unwrap();
        assert_eq!((last & INDEX_MASK, value(&tokens, last)), (0, Some(2)));
        assert!(tokens.remove(last).is_some() && tokens.get(last).is_none());
        let another = tokens.insert(entry(3)).unwrap();
        assert_eq!((another & INDEX_MASK, value(&tokens, last)), (1, None));
    }

    #[test]
    fn numbers_that_are_no_tokens_find_nothing() {
        let tokens = Tokens::new();
        let token = tokens.insert(entry(1)).unwrap();
        for wrong in
            [0, 1, 8, u64::MAX, token ^ 1 << 60, token + 1, token + (1 << INDEX_BITS), token | INDEX_MASK]
        {
            assert!(tokens.get(wrong).is_none() && tokens.remove(wrong).is_none(), "{wrong:x}");
        }
    }

    #[test]
    fn an_object_stays_while_somebody_holds_it() {
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let (tokens, gone) = (Tokens::new(), Arc::new(AtomicUsize::new(0)));
        let object = Box::new(Counted(gone.clone()));
        let token = tokens.insert(|token| Entry { token, process: None, name: "counted", object }).unwrap();
        let held = tokens.get(token).unwrap();
        drop(tokens.remove(token));
        assert_eq!(gone.load(Relaxed), 0);
        drop(held);
        assert_eq!(gone.load(Relaxed), 1);
    }

    /// Threads pass tokens around, and each token is freed by the first thread that tries to.
    #[test]
    fn of_many_threads_that_free_a_token_one_does() {
        let rounds = if cfg!(miri) { 20 } else { 5_000 };
        let (tokens, freed, made) = (Tokens::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        let shared: [AtomicU64; 8] = std::array::from_fn(|_| AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (tokens, freed, made, shared) = (&tokens, &freed, &made, &shared);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let number = (thread * rounds + round) as u32;
                        let token = tokens.insert(entry(number)).unwrap();
                        made.fetch_add(1, Relaxed);
                        assert_eq!(value(tokens, token), Some(number));
                        shared[round % 8].store(token, Release);
                        let other = shared[(round * 5 + thread) % 8].load(Acquire);
                        let _ = value(tokens, other);
                        freed.fetch_add(usize::from(tokens.remove(other).is_some()), Relaxed);
                        freed.fetch_add(usize::from(tokens.remove(token).is_some()), Relaxed);
                    }
                });
            }
        });
        assert_eq!(freed.into_inner(), made.into_inner());
    }
}
