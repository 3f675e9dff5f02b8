//! Which chunks are in memory (EvenDB §4; YoDB weighs operations by their type).
//!
//! A chunk's *score* is its decayed count of accesses, or by other rules the time of the last one. A chunk
//! is loaded when it was read more often than a passing read or scan does, and there is room, or it is clearly more
//! popular than the least popular chunks in memory, which are then evicted.

use super::Chunks;
use super::chunk::Chunk;
use super::munk::{self, Munk};
use super::policy;
use super::rules::Popularity;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// A chunk that is accessed less is not worth loading, though there be room: one scan (counted as 8 gets) or a few
/// gets do not load it.
const SCORE_MIN: u64 = 32;
/// A chunk that was accessed so many ticks ago is being accessed: about a third of a second, as who writes to it may have been put
/// aside for others' work.
const BUSY_TICKS: u64 = 16;
/// Chunks loaded at a time.
const LOADS_MAX: usize = 2;
/// A chunk that could not be loaded is not tried again for about a second: it may be written to faster than it can be
/// read, or wait for the rebalance that splits it.
const LOAD_PAUSE_TICKS: u64 = 48;
/// Chunks looked at in one turn.
const CHUNKS_PER_TURN: usize = 1024;
/// Munks copied in one turn for the sake of their garbage: some milliseconds, and what waiting for a writer at the end
/// of each takes.
const CLEANED_PER_TURN: usize = 8;
/// What an evicted chunk leaves is no room for others of about its popularity for so long, some two seconds: munks that are
/// written to have grown, and will grow into it.
const CROWDED_TICKS: u64 = 100;
/// Where nothing is displaced, so much must be left: a munk that is written to grows until it is cleaned.
const ROOM_PERCENT: u64 = 4;

/// Munks that exceed their share by this fraction of it, or so many bytes, grow faster than maintenance looks: who writes
/// to one evicts others first.
const EXCESS_FRACTION: u64 = 16;
const EXCESS_BYTES_MAX: u64 = 16 << 20;

impl Chunks {
    fn popularity(&self) -> Popularity {
        self.context.options().rules.popularity
    }

    fn score(&self, chunk: &Chunk) -> u64 {
        self.popularity().score(chunk.score(), chunk.last_access())
    }

    /// A chunk that has a munk now.
    pub(super) fn add_resident(&self, chunk: &Arc<Chunk>) {
        let mut residents = self.jobs.residents.lock();
        // Evicted and loaded again before anybody looked: counted once.
        residents.retain(|other| other.as_ptr() != Arc::as_ptr(chunk));
        residents.push(Arc::downgrade(chunk));
    }

    /// The munks there are.
    pub(super) fn resident_munks(&self) -> Vec<Arc<Munk>> {
        let residents = self.jobs.residents.lock();
        residents.iter().filter_map(|chunk| chunk.upgrade()?.munk.load_full()).collect()
    }

    /// Has what is popular loaded. Called every few ticks.
    pub(super) fn choose_munks(&self) {
        self.yield_to_others();
        if self.jobs.loading.load(Relaxed) >= LOADS_MAX {
            return;
        }
        let mut candidates = self.candidates();
        candidates.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        for (score, chunk) in candidates {
            if self.jobs.loading.load(Relaxed) >= LOADS_MAX {
                return;
            }
            if self.is_inserted_in_order(&chunk) {
                // It grows faster than it could be loaded.
                self.submit_end_split(&chunk);
                continue;
            }
            let needed = munk_bytes(&chunk);
            if self.is_oversized(&chunk) {
                // It is split first, if that is worth writing it anew: what was sorted before was not split then.
                let sizes = chunk.funk.load().sizes();
                if sizes.log_bytes > sizes.table_bytes {
                    self.submit(&chunk);
                }
                continue;
            }
            if self.make_way(needed, score) {
                self.submit_load(&chunk, needed);
            }
        }
    }

    /// Whether a chunk is too large to be loaded, and would not be if it were split.
    pub(super) fn is_oversized(&self, chunk: &Chunk) -> bool {
        live(chunk).0 > super::load::CHUNKS_MAX * self.limits().chunk_bytes
    }

    /// Chunks that are popular enough to be loaded.
    pub(super) fn candidates(&self) -> Vec<(u64, Arc<Chunk>)> {
        let view = self.index.view();
        let from = self.jobs.munk_look.lock().take();
        let mut chunks = view.iter_from_or_first(from.as_deref());
        let tick = self.jobs.ticks.load(Relaxed);
        let candidate = |chunk: &Arc<Chunk>| {
            let popular = chunk.score() >= SCORE_MIN && chunk.munk.load().is_none() && !chunk.is_changing();
            (popular && chunk.may_be_loaded(tick)).then(|| (self.score(chunk), chunk.clone()))
        };
        let candidates =
            chunks.by_ref().take(CHUNKS_PER_TURN).filter_map(|(_, chunk)| candidate(chunk)).collect();
        *self.jobs.munk_look.lock() = chunks.next().map(|(key, _)| key.clone());
        candidates
    }

    /// Whether so many bytes fit into the budget, once chunks are evicted that a chunk with this score displaces.
    fn make_way(&self, needed: u64, score: u64) -> bool {
        let budget = &self.context.substrate.budget;
        let limit = budget.munk_load_limit_bytes();
        if needed > limit / 2 {
            return false;
        }
        let taken = || budget.munk_bytes.load(Relaxed) + self.jobs.loading_bytes.load(Relaxed);
        if taken() + needed <= limit / 100 * (100 - ROOM_PERCENT) {
            return self.replaces_evicted(score, needed);
        }
        // What is being loaded counts twice for now: nobody is evicted for that.
        if self.jobs.loading.load(Relaxed) > 0 {
            return false;
        }
        let residents = self.residents();
        let mut gone = Vec::new();
        let mut freed = 0;
        for (resident_score, chunk) in residents {
            // Who displaces nobody does not fill the room that is to be left.
            if !gone.is_empty() && taken() + needed <= limit + freed {
                break;
            }
            if !self.popularity().displaces(score, needed, resident_score) {
                break;
            }
            freed += chunk.munk.load().as_ref().map_or(0, |munk| munk.bytes());
            gone.push(chunk);
        }
        if gone.is_empty() || taken() + needed > limit + freed {
            budget.demand_munk(score);
            return false;
        }
        gone.iter().for_each(|chunk| self.try_evict_munk(chunk));
        true
    }

    /// Whether a chunk with this score would have displaced the one that was evicted last to make room for what others grew by,
    /// or that is a while ago.
    fn replaces_evicted(&self, score: u64, bytes: u64) -> bool {
        let evicted = self.jobs.evicted.lock();
        evicted.as_ref().is_none_or(|evicted| {
            let is_over = self.jobs.ticks.load(Relaxed) > evicted.tick + CROWDED_TICKS;
            is_over || self.popularity().displaces(score, bytes, evicted.score)
        })
    }

    /// Evicts a chunk that one of another keyspace, or of another store with the same budget, displaces.
    fn yield_to_others(&self) {
        let budget = &self.context.substrate.budget;
        let demand = budget.take_munk_demand();
        if demand == 0 {
            return;
        }
        let least = self.residents().into_iter().next();
        let displaces = |chunk: &Chunk, score| self.popularity().displaces(demand, munk_bytes(chunk), score);
        match least.filter(|(score, chunk)| displaces(chunk, *score)) {
            Some((_, chunk)) => self.try_evict_munk(&chunk),
            // Somebody else may. Nobody will for ever: who demands does so again, as long as he does.
            None => budget.demand_munk(demand / 2),
        }
    }

    /// Has munks take no more than they may: without their garbage, if that will do, as a chunk that is evicted for
    /// others' garbage would be loaded again.
    pub(super) fn evict_least_popular(&self) {
        let budget = &self.context.substrate.budget;
        let over = || budget.munk_excess_bytes() > 0;
        if !over() {
            return;
        }
        let residents = self.residents();
        let garbage = |chunk: &Chunk| chunk.munk.load().as_ref().map_or(0, |munk| munk.garbage_bytes());
        let mut by_garbage: Vec<_> = residents.iter().map(|(_, chunk)| (garbage(chunk), chunk)).collect();
        by_garbage.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        for (_, chunk) in by_garbage.into_iter().take(CLEANED_PER_TURN) {
            self.try_clean_munk(chunk);
            if !over() {
                return;
            }
        }
        self.evict_while_over(residents);
    }

    fn evict_while_over(&self, residents: Vec<(u64, Arc<Chunk>)>) {
        for (score, chunk) in residents {
            if self.context.substrate.budget.munk_excess_bytes() == 0 {
                return;
            }
            *self.jobs.evicted.lock() = Some(Evicted { score, tick: self.jobs.ticks.load(Relaxed) });
            self.try_evict_munk(&chunk);
        }
    }

    /// For who has written to a munk, and holds no lock: has him wait for memory if there is far too little. Without this,
    /// a store that grows quickly would take much more than its budget between two looks of maintenance.
    #[inline]
    pub(super) fn evict_if_crowded(&self) {
        let budget = &self.context.substrate.budget;
        let excess = budget.munk_excess_bytes();
        if excess > 0 && excess > EXCESS_BYTES_MAX.min(budget.munk_limit_bytes() / EXCESS_FRACTION) {
            self.evict_for_writer();
        }
    }

    #[cold]
    fn evict_for_writer(&self) {
        // Others need not do the same; they are as fast as one can evict.
        let Some(_evicting) = self.jobs.evicting.try_lock() else { return };
        self.evict_while_over(self.residents());
    }

    /// The chunks in memory, the least popular first; but last those that are being accessed right now: inserts in order
    /// go to one chunk, which is new, and would grow on disk faster than it could be loaded again.
    fn residents(&self) -> Vec<(u64, Arc<Chunk>)> {
        let mut residents = self.jobs.residents.lock();
        residents.retain(|chunk| chunk.upgrade().is_some_and(|chunk| chunk.munk.load().is_some()));
        let now = self.jobs.ticks.load(Relaxed);
        // Looked at once: they are accessed meanwhile, and an order that changes is none.
        let rank = |chunk: Arc<Chunk>| (chunk.last_access() + BUSY_TICKS >= now, self.score(&chunk), chunk);
        let mut ranked: Vec<_> = residents.iter().filter_map(|chunk| chunk.upgrade()).map(rank).collect();
        drop(residents);
        ranked.sort_by_key(|(is_busy, score, _)| (*is_busy, *score));
        ranked.into_iter().map(|(_, score, chunk)| (score, chunk)).collect()
    }

    fn submit_load(&self, chunk: &Arc<Chunk>, bytes: u64) {
        if self.released.load(Acquire) {
            return;
        }
        // Until it is loaded, or waited for in vain, it is no candidate: others would make way for it again.
        chunk.put_off_load(self.jobs.ticks.load(Relaxed) + LOAD_PAUSE_TICKS);
        self.jobs.loading.fetch_add(1, AcqRel);
        self.jobs.loading_bytes.fetch_add(bytes, Relaxed);
        let (this, chunk) = (self.this.clone(), chunk.clone());
        self.context.substrate.pool.submit(move || {
            let Some(chunks) = this.upgrade() else { return };
            let _done = Loading { chunks: &chunks, bytes };
            let Some(_work) = chunks.context.substrate.begin_work() else { return };
            let loaded = chunks.load_munk(&chunk).unwrap_or_else(|error| {
                tracing::debug!(%error, chunk = chunk.id, "cannot load a chunk into memory");
                false
            });
            if !loaded {
                chunk.put_off_load(chunks.jobs.ticks.load(Relaxed) + LOAD_PAUSE_TICKS);
            }
        });
    }
}

/// A chunk that had to go as munks took more than they may.
#[derive(Debug)]
pub(super) struct Evicted {
    score: u64,
    tick: u64,
}

/// A load under way; no longer, however it ended, when this is dropped.
struct Loading<'a> {
    chunks: &'a Chunks,
    bytes: u64,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.chunks.jobs.loading.fetch_sub(1, AcqRel);
        self.chunks.jobs.loading_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// How much memory the chunk's munk will take, about.
pub fn munk_bytes(chunk: &Chunk) -> u64 {
    let (bytes, pairs) = live(chunk);
    munk::bytes_of(bytes, pairs)
}

/// The bytes of the chunk's pairs, and how many there are, about.
pub fn live(chunk: &Chunk) -> (u64, u64) {
    let sizes = chunk.funk.load().sizes();
    // What files claim is bounded by what can be.
    let bytes = sizes.user_bytes.saturating_sub(sizes.garbage_bytes).min(1 << 48);
    let counted = sizes.entries as f64 * bytes as f64 / sizes.user_bytes.max(1) as f64;
    // A log of an earlier epoch is not counted until it is read.
    let pairs = if sizes.entries == 0 { bytes / policy::ENTRY_BYTES } else { counted as u64 };
    (bytes, pairs.min(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::rules::SCORE_MARGIN;
    use super::*;
    use crate::Db;
    use crate::vfs::MemVfs;
    use crate::{KeyspaceOptions, Options};

    /// Munks come and go as the test says: the background neither loads and evicts, nor sorts a log, which would hold a
    /// munk twice for a while.
    fn open(budget_bytes: u64, munks: u64) -> (Db, Arc<Chunks>) {
        let keyspace = KeyspaceOptions::new().munks(false).chunk_bytes(1 << 20).log_bytes(u64::MAX);
        let options = Options::new().memory_budget(budget_bytes).default_keyspace(keyspace);
        let db = options.vfs(Arc::new(MemVfs::new())).open("store").unwrap();
        let chunks = db.chunks_for_test();
        for number in 0..munks * 1000 {
            db.put(format!("{number:08}"), [1; 1000]).unwrap();
        }
        db.compact_range(..).unwrap();
        // Else the budget is divided anew in the midst of a test.
        while !chunks.context.substrate.budget.knows_data() {
            db.tick_for_test();
        }
        (db, chunks)
    }

    #[test]
    fn garbage_goes_before_a_chunk_is_evicted() {
        let (db, chunks) = open(24 << 20, 8);
        let budget = &chunks.context.substrate.budget;
        chunks.index.view().iter().for_each(|(_, chunk)| assert!(chunks.load_munk(chunk).unwrap()));
        assert!(budget.munk_bytes.load(Relaxed) < budget.munk_limit_bytes());
        let mut number = 0;
        while budget.munk_bytes.load(Relaxed) <= budget.munk_limit_bytes() {
            db.put(format!("{number:08}"), [2; 1000]).unwrap();
            number = (number + 7) % 8000;
        }
        chunks.evict_least_popular();
        assert!(budget.munk_bytes.load(Relaxed) <= budget.munk_limit_bytes());
        assert_eq!(chunks.context.counters.munk_evictions.get(), 0);
        assert!(chunks.index.view().iter().all(|(_, chunk)| chunk.munk.load().is_some()));
    }

    /// Loads one chunk after the other as long as there is room, as maintenance does; says how many.
    fn load_all_that_fit(chunks: &Chunks) -> usize {
        let view = chunks.index.view();
        let loaded =
            |chunk: &&Arc<Chunk>| chunks.make_way(munk_bytes(chunk), 0) && chunks.load_munk(chunk).unwrap();
        view.iter().map(|(_, chunk)| chunk).filter(loaded).count()
    }

    #[test]
    fn a_log_that_is_merged_drives_no_chunk_out() {
        let (_db, chunks) = open(24 << 20, 24);
        let budget = &chunks.context.substrate.budget;
        let resident = load_all_that_fit(&chunks);
        assert!((8..24).contains(&resident), "{resident}");
        let room = budget.munk_load_limit_bytes() - budget.munk_bytes.load(Relaxed);
        assert!(room >= budget.munk_load_limit_bytes() / 100 * ROOM_PERCENT, "{room}");
        let before = budget.munk_limit_bytes();
        let _merging = budget.logs.merges.charge(budget.total_bytes / 16).unwrap();
        assert!(budget.munk_limit_bytes() < before, "it was lent to munks");
        chunks.evict_least_popular();
        assert_eq!(chunks.context.counters.munk_evictions.get(), 0);
    }

    #[test]
    fn what_an_evicted_chunk_leaves_is_no_room_for_one_like_it_until_later() {
        let (_db, chunks) = open(24 << 20, 24);
        let budget = &chunks.context.substrate.budget;
        load_all_that_fit(&chunks);
        // Munks have less for a moment, as if they had grown.
        let taken = budget.keyspaces.charge_anyway(4 << 20);
        chunks.evict_least_popular();
        drop(taken);
        assert!(chunks.context.counters.munk_evictions.get() > 0);
        let evicted_at = |tick| {
            chunks.jobs.evicted.lock().as_mut().unwrap().tick = tick;
        };
        let needed = 100 << 10;
        evicted_at(u64::MAX - CROWDED_TICKS);
        assert!(!chunks.make_way(needed, SCORE_MARGIN));
        assert!(chunks.make_way(needed, 1000), "one that is more popular");
        evicted_at(0);
        chunks.jobs.ticks.fetch_max(CROWDED_TICKS + 1, Relaxed);
        assert!(chunks.make_way(needed, SCORE_MARGIN));
    }

    #[test]
    fn who_writes_faster_than_maintenance_looks_makes_room_himself() {
        let (db, chunks) = open(24 << 20, 8);
        let budget = &chunks.context.substrate.budget;
        chunks.index.view().iter().for_each(|(_, chunk)| assert!(chunks.load_munk(chunk).unwrap()));
        // Nobody evicts in the background where keyspaces have no munks.
        let mut most = 0;
        for number in 8000..40_000 {
            db.put(format!("{:08}", number % 8000 * 10 + number / 8000), [2; 1000]).unwrap();
            most = most.max(budget.munk_bytes.load(Relaxed));
        }
        let limit = budget.munk_limit_bytes();
        assert!(most > limit, "nothing was short: {most}");
        // As one munk is sorted anew, it is there twice.
        assert!(most < limit + limit / EXCESS_FRACTION + (4 << 20), "{most} of {limit}");
        assert!(chunks.context.counters.munk_evictions.get() > 0);
    }

    #[test]
    fn a_chunk_that_is_to_be_loaded_is_no_candidate() {
        let (_db, chunks) = open(1 << 30, 1);
        let chunk = chunks.index.find(b"");
        let tick = chunks.jobs.ticks.load(Relaxed);
        assert!(chunk.may_be_loaded(tick));
        chunks.submit_load(&chunk, 1 << 20);
        assert!(!chunk.may_be_loaded(tick));
    }

    /// Inserts in order go to a new chunk, of which less is known than of any other.
    #[test]
    fn a_chunk_whose_writer_was_put_aside_for_a_moment_is_evicted_last() {
        let (_db, chunks) = open(256 << 20, 32);
        chunks.index.view().iter().for_each(|(_, chunk)| assert!(chunks.load_munk(chunk).unwrap()));
        let (begun, aside) = (1000, 10);
        let tick = crate::sync::atomic::AtomicU64::new(begun);
        let written = chunks.index.find(b"9");
        chunks.index.view().iter().filter(|(_, chunk)| chunk.id != written.id).for_each(|(_, chunk)| {
            chunk.touch_write(1000, &crate::sync::atomic::AtomicU64::new(begun - aside));
        });
        written.touch_write(1, &tick);
        // Maintenance goes on, and may have been put aside itself.
        loop {
            chunks.jobs.ticks.store(begun + aside, Relaxed);
            let residents = chunks.residents();
            if chunks.jobs.ticks.load(Relaxed) <= begun + aside + 3 {
                assert!(residents.len() > 20 && residents.last().unwrap().1.id == written.id);
                return;
            }
        }
    }

    #[test]
    fn chunks_may_be_accessed_while_they_are_ranked() {
        let (_db, chunks) = open(256 << 20, 32);
        chunks.index.view().iter().for_each(|(_, chunk)| assert!(chunks.load_munk(chunk).unwrap()));
        chunks.jobs.ticks.store(1000, Relaxed);
        std::thread::scope(|scope| {
            let ranking = scope.spawn(|| (0..3_000).for_each(|_| assert!(chunks.residents().len() > 20)));
            let ticks = [0, 1000].map(crate::sync::atomic::AtomicU64::new);
            for tick in ticks.iter().cycle().take_while(|_| !ranking.is_finished()) {
                chunks.index.view().iter().for_each(|(_, chunk)| chunk.touch_write(1, tick));
            }
        });
    }
}
