//! Whether everything that was written is in the journal.
//!
//! In a store that is not `Sync` a single write may ask to survive a loss of power. It goes to the journal, and one sync of
//! that makes it durable, if all writes before it are durable as well: a crash leaves a prefix. Else a checkpoint does that.
//!
//! Invariant: a write that the journal does not tell of marks its version before it is announced with it. So whoever is
//! announced with a greater version, or knows of the write, finds the mark.
//!
//! ```text
//!   write beside the journal                  write that asks to be durable
//!   ────────────────────────                  ─────────────────────────────
//!   mark v as not journaled                   claim a slot, FENCE, v' = GV
//!   claim a slot, FENCE, v = GV               FENCE
//!   (marked another v: again)                 read the mark
//! ```
//!
//! If v < v', GV was raised after the first read it and before the second did, so the first fence comes before the last one,
//! and the mark is found. Writes of one version are told apart by no snapshot; a later one of the same keys, or by whoever has
//! read what the first wrote, finds its mark as it finds what it wrote.
//!
//! Thread safety: everything may be called from any thread. `tests/loom_checkpoint.rs` is the model.

use super::clock::{Announced, Mvcc};
use super::pending::KeySpan;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, SeqCst},
    fence,
};

/// GV is raised between two reads of it as often as that only where snapshots are all that goes on.
const TRIES: usize = 64;

pub struct Unjournaled {
    /// The greatest version of a write that the journal does not tell of, or more; 0 if there is none.
    newest: AtomicU64,
}

impl Unjournaled {
    /// `newest`: a version below which, it included, there are such writes already.
    pub fn new(newest: u64) -> Self {
        Self { newest: AtomicU64::new(newest) }
    }

    /// Announces a write that the journal will not tell of.
    pub fn announce<'a>(&self, mvcc: &'a Mvcc, span: KeySpan) -> Announced<'a> {
        let mut version = mvcc.current();
        for _ in 0..TRIES {
            self.mark(version);
            let announced = mvcc.announce(span);
            if announced.version() == version {
                return announced;
            }
            // Nothing was written with it.
            version = announced.version();
        }
        // For good, as no version is known beforehand: from here on checkpoints make writes durable.
        self.mark(u64::MAX);
        mvcc.announce(span)
    }

    /// Whether only the journal tells of writes that no checkpoint of version `durable` covers. For a write that is announced, as far
    /// as others before it are concerned; for others a guess.
    pub fn is_none_beyond(&self, durable: u64) -> bool {
        fence(SeqCst);
        self.newest.load(Acquire) <= durable
    }

    fn mark(&self, version: u64) {
        if self.newest.load(Acquire) < version {
            self.newest.fetch_max(version, AcqRel);
        }
    }
}
