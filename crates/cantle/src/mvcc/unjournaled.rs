//! The newest version that is missing in the journal.
//!
//! In a store that is not `Sync`, a single write may ask to survive a loss of power. It is appended
//! to the journal, and one sync of the journal makes it durable, if all writes before it are
//! durable as well: a crash leaves a prefix. Otherwise a checkpoint makes it durable.
//!
//! Invariant: a write that is not in the journal marks its version before it is announced with that
//! version. Therefore a writer that is announced with a greater version, or knows of the write,
//! finds the mark.
//!
//! ```text
//!   write beside the journal                  write that asks to be durable
//!   ────────────────────────                  ─────────────────────────────
//!   mark v as not journaled                   claim a slot, FENCE, v' = GV
//!   claim a slot, FENCE, v = GV               FENCE
//!   (marked another v: again)                 read the mark
//! ```
//!
//! If v < v', GV was raised after the first write read it and before the second did. Therefore the
//! first fence comes before the last one, and the second write finds the mark. No snapshot
//! separates two writes of one version. A later write of the same keys, or one by a thread that has
//! read the first write's entries, finds the mark as it finds those entries.
//!
//! Thread safety: everything may be called from any thread. `tests/loom_checkpoint.rs` is the
//! model.

use super::clock::{Announced, Mvcc};
use super::pending::KeySpan;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, SeqCst},
    fence,
};

/// Number of attempts to announce with a marked version. GV is raised that often in between only if
/// nothing but snapshots goes on.
const TRIES: usize = 64;

pub struct Unjournaled {
    /// At least the greatest version of a write that is not in the journal; 0 if there is none.
    newest: AtomicU64,
}

impl Unjournaled {
    /// `newest`: a version up to which, inclusive, such writes may exist already.
    pub fn new(newest: u64) -> Self {
        Self { newest: AtomicU64::new(newest) }
    }

    /// Announces a write that will not be in the journal.
    pub fn announce<'a>(&self, mvcc: &'a Mvcc, span: KeySpan) -> Announced<'a> {
        let mut version = mvcc.current();
        for _ in 0..TRIES {
            self.mark(version);
            let announced = mvcc.announce(span);
            if announced.version() == version {
                return announced;
            }
            // Nothing was written with the marked version.
            version = announced.version();
        }
        // For good, as the version cannot be known in advance: from here on checkpoints make writes
        // durable.
        self.mark(u64::MAX);
        mvcc.announce(span)
    }

    /// True if every write that a checkpoint of version `durable` does not cover is in the journal.
    /// Exact for a caller whose write is announced, with respect to the writes before it; a guess
    /// for other callers.
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
