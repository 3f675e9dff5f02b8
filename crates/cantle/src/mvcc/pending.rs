//! The pending operations (PO): the announced writes, with their keys and versions (EvenDB §3.2).
//!
//! A fixed array of slots, one cache line pair each. A writer claims a free slot, usually the one that its
//! thread had last; a snapshot walks the slots that were ever used. A slot holds
//!
//! * `ticket`: odd while claimed, raised by one at each claim and each release, so no two uses look
//!   alike;
//! * `lo`, `hi`: the span of keys, of this use or (for an instant after a claim) of the previous
//!   one;
//! * `version`: a lower bound of the version of this use. Versions never decrease, so the previous
//!   use's version is such a bound until the owner stores its own.
//!
//! A mixture of two uses, which a waiter can see for an instant, is harmless. A waiter that finds
//! the older span has fenced before the owner did, so the owner's version is above the waiter's and
//! the owner need not be waited for. An older version is at most the owner's: "greater than the
//! waiter's" then holds for the owner as well.
//!
//! Thread safety: everything may be called from any thread. Stores into a claimed slot are `Release` and loads
//! `Acquire`, so that a waiter that stops waiting sees all that the awaited write did.

use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicU64, AtomicUsize, fence};
use crate::sync::{hint, thread, thread_local};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::time::Duration;

/// Maximum number of writes announced at once: several times the threads of a large machine, in 32
/// KiB of memory. If all slots are taken, the next writer yields until one is free.
pub const SLOTS: usize = 256;

thread_local! {
    /// The slot that this thread claimed last, in any store. It is probably free and in this
    /// thread's cache.
    static LAST_SLOT: Cell<usize> = const { Cell::new(0) };
}

/// An interval of keys, by their order-preserving eight-byte prefixes, both ends included.
///
/// May be wider than its keys: snapshots then wait for more writers than necessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySpan {
    /// The least prefix.
    pub lo: u64,
    /// The greatest prefix.
    pub hi: u64,
}

impl KeySpan {
    /// Every key; also for an order without prefixes.
    pub const ALL: Self = Self { lo: 0, hi: u64::MAX };
    /// No key.
    pub const EMPTY: Self = Self { lo: u64::MAX, hi: 0 };

    /// The keys with this prefix.
    pub fn key(prefix: u64) -> Self {
        Self { lo: prefix, hi: prefix }
    }

    /// The smallest span that contains both.
    pub fn hull(self, other: Self) -> Self {
        Self { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }

    /// True if a key can be in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.lo.max(other.lo) <= self.hi.min(other.hi)
    }
}

/// The slots of one store; see the module.
#[derive(Debug)]
pub struct Pending {
    slots: Box<[CachePadded<Slot>]>,
    /// Number of slots from the first one that were ever claimed. Only grows.
    used: CachePadded<AtomicUsize>,
}

#[derive(Debug)]
struct Slot {
    ticket: AtomicU64,
    lo: AtomicU64,
    hi: AtomicU64,
    version: AtomicU64,
}

impl Slot {
    fn new() -> Self {
        let [ticket, lo, hi, version] = [0, 0, 0, 0].map(AtomicU64::new);
        Self { ticket, lo, hi, version }
    }

    fn try_claim(&self) -> Option<u64> {
        let ticket = self.ticket.load(Relaxed);
        let free = ticket.is_multiple_of(2);
        (free && self.ticket.compare_exchange(ticket, ticket + 1, AcqRel, Relaxed).is_ok())
            .then_some(ticket + 1)
    }

    /// True if the owner may be a writer in `span` with a version of `upto` or less.
    fn concerns(&self, span: KeySpan, upto: u64) -> bool {
        let owner = KeySpan { lo: self.lo.load(Acquire), hi: self.hi.load(Acquire) };
        owner.overlaps(span) && self.version.load(Acquire) <= upto
    }
}

/// A use of a slot that a waiter has found pending.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    slot: usize,
    ticket: u64,
}

impl Pending {
    /// With `slots` slots, all free.
    pub fn new(slots: usize) -> Self {
        assert!(slots > 0, "writers need a slot");
        Self {
            slots: (0..slots).map(|_| CachePadded::new(Slot::new())).collect(),
            used: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// Announces a write over `span` that has no version yet. Reads that the caller makes later are
    /// ordered after the announcement. Yields while every slot is taken.
    ///
    /// A thread that holds a claim must not claim another slot: if all threads did, none would get
    /// one.
    pub fn claim(&self, span: KeySpan) -> Claim<'_> {
        let (index, ticket) = self.claim_slot();
        let slot = &self.slots[index];
        slot.lo.store(span.lo, Release);
        slot.hi.store(span.hi, Release);
        if self.used.load(Acquire) <= index {
            self.used.fetch_max(index + 1, AcqRel);
        }
        // Either a waiter that fenced later finds this claim, or this writer reads the raised
        // version.
        fence(SeqCst);
        Claim { slot, ticket }
    }

    /// Tries the thread's last slot, then all slots from the first one, so that few slots are ever
    /// used.
    fn claim_slot(&self) -> (usize, u64) {
        let last = LAST_SLOT.with(Cell::get);
        let mut backoff = Backoff::default();
        loop {
            if let Some(ticket) = self.slots.get(last).and_then(|slot| slot.try_claim()) {
                return (last, ticket);
            }
            for (index, slot) in self.slots.iter().enumerate() {
                if let Some(ticket) = slot.try_claim() {
                    LAST_SLOT.with(|last| last.set(index));
                    return (index, ticket);
                }
            }
            backoff.pause();
        }
    }

    /// Waits for every announced write that may touch `span` with a version of `upto` or less.
    /// Before the call, the caller has raised the global version above `upto` and executed a
    /// `SeqCst` fence.
    ///
    /// Waits for at most one use of each slot, since the next use has a greater version.
    pub fn wait(&self, span: KeySpan, upto: u64) {
        if !span.overlaps(KeySpan::ALL) {
            return;
        }
        for slot in 0..self.used.load(Acquire) {
            let Some(seen) = self.look(slot, span, upto) else { continue };
            let mut backoff = Backoff::default();
            while !self.is_over(seen, span, upto) {
                backoff.pause();
            }
        }
    }

    pub(super) fn look(&self, slot: usize, span: KeySpan, upto: u64) -> Option<Seen> {
        let ticket = self.slots[slot].ticket.load(Acquire);
        (!ticket.is_multiple_of(2) && self.slots[slot].concerns(span, upto)).then_some(Seen { slot, ticket })
    }

    pub(super) fn is_over(&self, seen: Seen, span: KeySpan, upto: u64) -> bool {
        let slot = &self.slots[seen.slot];
        slot.ticket.load(Acquire) != seen.ticket || !slot.concerns(span, upto)
    }

    /// Number of slots that a waiter looks at.
    #[cfg(test)]
    pub fn used_count(&self) -> usize {
        self.used.load(Acquire)
    }
}

/// An announced write. Dropping it means that everything it wrote can be read, or that it wrote
/// nothing.
#[derive(Debug)]
#[must_use = "dropping it ends the announcement"]
pub struct Claim<'a> {
    slot: &'a Slot,
    ticket: u64,
}

impl Claim<'_> {
    /// Shows waiters the version of this write, which was read after the announcement.
    pub fn publish(&self, version: u64) {
        self.slot.version.store(version, Release);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.slot.ticket.store(self.ticket + 1, Release);
    }
}

/// Waits longer each time: spins for some microseconds, then yields, then sleeps.
#[derive(Debug, Default)]
struct Backoff {
    round: u32,
}

impl Backoff {
    /// Number of rounds that spin, each twice as long as the one before: 2^7 spins in all, about
    /// the time in which a running writer puts one pair.
    const SPIN_ROUNDS: u32 = 7;
    /// Number of the round after the last one that yields. By then a preempted writer has run,
    /// unless the machine is loaded.
    const YIELD_ROUNDS: u32 = 32;
    const SLEEP: Duration = Duration::from_micros(50);

    fn pause(&mut self) {
        if self.round < Self::SPIN_ROUNDS {
            for _ in 0..1 << self.round {
                hint::spin_loop();
            }
        } else if self.round < Self::SPIN_ROUNDS + Self::YIELD_ROUNDS {
            thread::yield_now();
        } else {
            thread::sleep(Self::SLEEP);
        }
        self.round = self.round.saturating_add(1);
    }
}
