//! Removing the garbage of munks: the munk rebalance of EvenDB §3.4, but beside the writers.
//!
//! Under the chunk's lock, the copy is decided on, and recording of writes begins. The copy itself,
//! which takes milliseconds, is made while puts go on. Then it catches up with the recorded writes,
//! the last of them under the lock again ([`munk::copy`](crate::chunk::munk)). A put thus waits for
//! another thread's copy only during its end.

use crate::chunk::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::cleaning::Cleaning;
use crate::chunk::munk::room_for;
use crate::sync::Arc;

/// Minimum garbage in bytes that is worth a copy.
const GARBAGE_BYTES_MIN: u64 = 64 << 10;

/// Maximum number of writes that are caught up with under the lock: less than a millisecond of
/// work.
const LAST_RECORDS_MAX: usize = 512;
/// Maximum number of rounds in which a copy catches up beside its writers before it is abandoned.
const ROUNDS_MAX: usize = 8;

impl Chunks {
    /// Begins a copy of the chunk's munk, if it has much garbage. Under the chunk's lock, while no
    /// batch is undecided.
    pub(in crate::chunk) fn begin_cleaning(&self, chunk: &Arc<Chunk>) -> Option<Cleaning> {
        let munk = chunk.munk.load();
        let munk = munk.as_ref()?;
        let (garbage, live) = (munk.garbage_bytes(), munk.live_bytes());
        let budget = &self.context.substrate.budget;
        let rules = self.context.options().rules;
        let is_roomy = budget.resident.used_bytes() < budget.resident_limit_bytes() / 8 * 7;
        let due = if is_roomy { rules.roomy_munk } else { rules.tight_munk };
        if due.is_due(garbage, live) && garbage > GARBAGE_BYTES_MIN {
            Cleaning::begin(chunk, munk)
        } else {
            None
        }
    }

    /// Copies the munk without its garbage, and replaces it by the copy. The caller holds no
    /// chunk's lock.
    pub(in crate::chunk) fn clean(&self, cleaning: Cleaning) {
        let Cleaning { chunk, munk } = &cleaning;
        let copy = munk.rebalance(room_for(munk.len()), self.is_needed());
        for _ in 0..ROUNDS_MAX {
            let writer = chunk.writer.lock();
            let is_current = chunk.munk.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, munk));
            // If the munk was sorted anew, split or evicted meanwhile, the copy is abandoned, as it
            // is if writers are too fast or the copy has no room for their new keys. A later write
            // begins another one.
            let Some(written) = munk.take_written().filter(|_| is_current && !writer.retired) else { return };
            let last = (written.len() <= LAST_RECORDS_MAX).then_some(writer);
            if copy.catch_up(&written, self.is_needed()).is_err() {
                return;
            }
            if last.is_some() {
                chunk.munk.store(Some(Arc::new(copy)));
                self.context.counters.munk_rebalances.add(1);
                return;
            }
        }
    }

    /// For short memory: removes a smaller amount of garbage, too. Does nothing if the chunk's lock
    /// is held.
    pub(in crate::chunk) fn try_clean_munk(&self, chunk: &Arc<Chunk>) {
        let cleaning = {
            let Some(writer) = chunk.writer.try_lock() else { return };
            let munk = chunk.munk.load();
            let Some(munk) = munk.as_ref() else { return };
            if writer.retired || munk.garbage_bytes() <= GARBAGE_BYTES_MIN.max(munk.live_bytes() / 8) {
                return;
            }
            Cleaning::begin(chunk, munk)
        };
        if let Some(cleaning) = cleaning {
            self.clean(cleaning);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::munk::Munk;
    use crate::chunk::rules::{MunkGarbage, Rules};
    use crate::chunk::test_support::{adjust, chunks_of};
    use crate::sync::atomic::Ordering::Relaxed;
    use crate::vfs::MemVfs;
    use crate::{ChunkOptions, KeyspaceOptions, Options};
    use crate::{Db, WriteBatch};

    /// A store whose munks are copied for any garbage above the minimum, with one chunk that has a
    /// munk and garbage.
    fn open() -> (Db, Arc<Chunks>, Arc<Chunk>) {
        let options =
            Options::new().default_keyspace(KeyspaceOptions::new().layout(ChunkOptions::new().munks(false)));
        let db = options.vfs(Arc::new(MemVfs::new())).open("store").unwrap();
        let chunks = chunks_of(&db);
        let roomy_munk = MunkGarbage { munk_bytes_min: 1, garbage_part: 1, live_part: 8 };
        adjust(&chunks, |settings| settings.rules = Box::leak(Box::new(Rules { roomy_munk, ..Rules::OWN })));
        db.put("a", [1; 60_000]).unwrap();
        let chunk = chunks.index.find(b"a");
        assert!(chunks.load_munk(&chunk).unwrap());
        db.put("a", [2; 60_000]).unwrap();
        (db, chunks, chunk)
    }

    fn begin(chunks: &Chunks, chunk: &Arc<Chunk>) -> Option<Cleaning> {
        let _writer = chunk.writer.lock();
        chunks.begin_cleaning(chunk)
    }

    fn munk(chunk: &Chunk) -> Arc<Munk> {
        chunk.munk.load_full().expect("a munk")
    }

    #[test]
    fn what_is_written_beside_a_copy_is_in_it() {
        let (db, chunks, chunk) = open();
        assert!(begin(&chunks, &chunk).is_none(), "there is too little garbage");
        let cleaning = {
            // As if another thread made a copy, so that the puts below do not.
            chunk.cleaning.store(true, Relaxed);
            db.put("a", [3; 60_000]).unwrap();
            chunk.cleaning.store(false, Relaxed);
            begin(&chunks, &chunk).expect("there is garbage")
        };
        assert!(begin(&chunks, &chunk).is_none(), "one at a time");
        let original = munk(&chunk);
        db.put("a", "4").unwrap();
        db.put("b", "5").unwrap();
        chunks.clean(cleaning);
        assert!(!Arc::ptr_eq(&original, &munk(&chunk)));
        assert!(munk(&chunk).bytes() < original.bytes());
        for (key, value) in [("a", "4"), ("b", "5")] {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(value.as_bytes()));
        }
    }

    #[test]
    fn a_copy_of_a_munk_that_is_gone_takes_nobodys_place() {
        let (db, chunks, chunk) = open();
        chunk.cleaning.store(true, Relaxed);
        db.put("a", [3; 60_000]).unwrap();
        chunk.cleaning.store(false, Relaxed);
        let cleaning = begin(&chunks, &chunk).expect("there is garbage");
        chunks.evict_munk(&chunk);
        db.put("a", "4").unwrap();
        assert!(chunks.load_munk(&chunk).unwrap());
        chunks.clean(cleaning);
        assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"4"[..]));
    }

    #[test]
    fn batches_over_keyspaces_wait_for_no_lock_while_they_hold_others() {
        let (db, chunks, chunk) = open();
        let other = db.keyspace("other").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..2u8 {
                let (db, other) = (&db, &other);
                scope.spawn(move || {
                    for round in 0..1_000u16 {
                        let mut batch = WriteBatch::new();
                        batch.put("a", vec![thread; 20_000 + usize::from(round)]);
                        batch.keyspace(other).put("a", "1");
                        db.write(batch).unwrap();
                    }
                });
            }
        });
        assert!(chunks.context.counters.munk_rebalances.get() > 0);
        assert!(chunk.munk.load().is_some());
    }
}
