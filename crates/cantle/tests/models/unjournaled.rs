//! A write that is not in the journal, one that asks to be durable by the journal alone, and a
//! snapshot.

use crate::clock::{Announced, Mvcc};
use crate::models::join;
use crate::pending::KeySpan;
use crate::sync::Arc;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, Acquire};
use crate::sync::thread::spawn;
use crate::unjournaled::Unjournaled;

/// A way for a write to mark that it is not in the journal.
pub trait Marks: Send + Sync + 'static {
    fn new() -> Self;
    fn announce<'a>(&self, mvcc: &'a Mvcc) -> Announced<'a>;
    fn is_none(&self) -> bool;
}

impl Marks for Unjournaled {
    fn new() -> Self {
        Self::new(0)
    }

    fn announce<'a>(&self, mvcc: &'a Mvcc) -> Announced<'a> {
        Self::announce(self, mvcc, KeySpan::ALL)
    }

    fn is_none(&self) -> bool {
        self.is_none_beyond(0)
    }
}

/// Marks after it knows its version.
pub struct MarksLate(AtomicU64);

impl Marks for MarksLate {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn announce<'a>(&self, mvcc: &'a Mvcc) -> Announced<'a> {
        let announced = mvcc.announce(KeySpan::ALL);
        self.0.fetch_max(announced.version(), AcqRel);
        announced
    }

    fn is_none(&self) -> bool {
        self.0.load(Acquire) == 0
    }
}

/// Holds: if the write that asks to be durable finds that all others are in the journal, no
/// unjournaled write precedes it in the order of versions: a loss of power leaves a prefix.
pub fn a_durable_write_and_another<M: Marks>() {
    let mvcc = Arc::new(Mvcc::with_slots(1, 3));
    let marks = Arc::new(M::new());
    let other = {
        let (mvcc, marks) = (mvcc.clone(), marks.clone());
        spawn(move || marks.announce(&mvcc).version())
    };
    let snapshot = {
        let mvcc = mvcc.clone();
        spawn(move || drop(mvcc.snapshot(KeySpan::EMPTY)))
    };
    let announced = mvcc.announce(KeySpan::ALL);
    let (version, is_none) = (announced.version(), marks.is_none());
    drop(announced);
    join(snapshot);
    let other = join(other);
    assert!(!is_none || other >= version, "what is durable has a gap before it");
}
