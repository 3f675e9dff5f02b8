//! The choice of chunks in memory (EvenDB §4; YoDB weighs operations by their type).
//!
//! A chunk's *score* is its decayed count of accesses, or by other rules the time of the last
//! access. A chunk is loaded when it was read more often than by a single read or scan, and there
//! is room, or its score is clearly greater than those of the least popular chunks in memory, which
//! are then evicted. The chunks in memory are those of all keyspaces and stores that share the
//! budget, which lists and evicts them (`budget/residents.rs`).

use crate::budget::{Rank, Resident};
use crate::chunk::Chunks;
use crate::chunk::chunk::Chunk;
use crate::chunk::munk;
use crate::chunk::policy;
use crate::chunk::rules::Popularity;
use crate::maintenance::Class;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::Weak;

/// Minimum score of a chunk that is loaded, even if there is room: one scan (counted as 8 gets) or
/// a few gets do not load it.
const SCORE_MIN: u64 = 32;
/// Number of ticks after an access, about a third of a second, during which a chunk counts as being
/// accessed: its writer may have been interrupted by other threads.
const BUSY_TICKS: u64 = 16;
/// Maximum number of chunks loaded at a time.
const LOADS_MAX: u64 = 2;
/// Number of ticks, about a second, before a load is tried again after a failure: the chunk may be
/// written to faster than it can be read, or wait for the rebalance that splits it.
const LOAD_PAUSE_TICKS: u64 = 48;
/// Maximum number of chunks checked in one turn.
const CHUNKS_PER_TURN: usize = 1024;
/// Maximum number of munks copied in one turn because of their garbage: some milliseconds, plus
/// waiting for a writer at the end of each.
const CLEANED_PER_TURN: usize = 8;

impl Chunks {
    fn popularity(&self) -> Popularity {
        self.context.options().rules.popularity
    }

    fn score(&self, chunk: &Chunk) -> u64 {
        self.popularity().score(chunk.score(), chunk.last_access())
    }

    /// Registers a chunk that has a munk now.
    pub(in crate::chunk) fn add_resident(&self, chunk: &Arc<Chunk>) {
        let in_memory = InMemory { chunks: self.this.clone(), chunk: Arc::downgrade(chunk) };
        self.context.substrate.budget.add_resident(Box::new(in_memory));
        let mut residents = self.jobs.residents.lock();
        // A chunk that was evicted and loaded again since the last call counts once.
        residents.retain(|other| other.as_ptr() != Arc::as_ptr(chunk));
        residents.push(Arc::downgrade(chunk));
    }

    /// The chunks of this keyspace that are in memory: few of all its chunks.
    pub(in crate::chunk) fn residents(&self) -> Vec<Arc<Chunk>> {
        let has_munk = |chunk: &Arc<Chunk>| chunk.munk.load().is_some();
        let mut residents = self.jobs.residents.lock();
        residents.retain(|chunk| chunk.upgrade().is_some_and(|chunk| has_munk(&chunk)));
        residents.iter().filter_map(Weak::upgrade).collect()
    }

    /// Submits loads of popular chunks. Called every few ticks.
    pub(in crate::chunk) fn choose_munks(&self) {
        if self.jobs.loading.used_bytes() >= LOADS_MAX {
            return;
        }
        let mut candidates = self.candidates();
        candidates.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        // If there was no room for a chunk, there is none for a less popular one of its size. This
        // avoids ranking the chunks in memory for each.
        let mut refused_bytes = u64::MAX;
        for (score, chunk) in candidates {
            if self.jobs.loading.used_bytes() >= LOADS_MAX {
                return;
            }
            if self.is_inserted_in_order(&chunk) {
                // The chunk grows faster than it could be loaded.
                self.submit_tail_split(&chunk);
                continue;
            }
            let needed = munk_bytes(&chunk);
            if self.is_oversized(&chunk) {
                // It is split first, if that is worth rewriting it: files that were sorted before
                // were not split then.
                let sizes = chunk.funk.load().sizes();
                if sizes.log_bytes > sizes.table_bytes {
                    self.submit(&chunk);
                }
                continue;
            }
            if needed >= refused_bytes {
                continue;
            }
            match self.make_way(needed, score) {
                true => self.submit_load(&chunk, needed),
                false => refused_bytes = needed,
            }
        }
    }

    /// True if a chunk is too large to be loaded, but its parts would not be.
    pub(in crate::chunk) fn is_oversized(&self, chunk: &Chunk) -> bool {
        live(chunk).0 > crate::chunk::residency::load::CHUNKS_MAX * self.limits().chunk_bytes
    }

    /// Chunks that are popular enough to be loaded.
    pub(in crate::chunk) fn candidates(&self) -> Vec<(u64, Arc<Chunk>)> {
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

    /// True if a chunk with this score, whose munk will take `bytes`, is to be loaded. Evicts the
    /// chunks that it displaces.
    fn make_way(&self, bytes: u64, score: u64) -> bool {
        // Chunks that are being loaded count twice at present: no chunk is evicted because of that.
        let may_displace = self.jobs.loading.used_bytes() == 0;
        let makes_way = |resident| may_displace && self.popularity().displaces(score, bytes, resident);
        self.context.substrate.budget.admits_resident(bytes, makes_way)
    }

    /// Keeps munks within their limit. First removes their garbage: a chunk that is evicted because
    /// of other chunks' garbage would be loaded again.
    pub(in crate::chunk) fn keep_munks_within_budget(&self) {
        let budget = &self.context.substrate.budget;
        let are_over = || budget.resident_excess_bytes() > 0;
        if !are_over() {
            return;
        }
        let garbage = |chunk: &Chunk| chunk.munk.load().as_ref().map_or(0, |munk| munk.garbage_bytes());
        let mut residents = self.residents();
        residents.sort_by_cached_key(|chunk| std::cmp::Reverse(garbage(chunk)));
        for chunk in residents.iter().take(CLEANED_PER_TURN).take_while(|_| are_over()) {
            self.try_clean_munk(chunk);
        }
        budget.evict_residents();
    }

    fn submit_load(&self, chunk: &Arc<Chunk>, bytes: u64) {
        if self.released.load(Acquire) {
            return;
        }
        // Until it is loaded, or the pause is over, it is no candidate: other chunks would be
        // evicted for it again.
        chunk.put_off_load(self.jobs.ticks.load(Relaxed) + LOAD_PAUSE_TICKS);
        // Charged while the load is under way, until this is dropped, with any outcome.
        let budget = &self.context.substrate.budget;
        let load = [(&*self.jobs.loading, 1), (&budget.loading, bytes)]
            .map(|(account, amount)| account.charge_anyway(amount));
        let (this, chunk) = (self.this.clone(), chunk.clone());
        self.context.substrate.pool.submit(Class::Deep, move || {
            let _load = load;
            let Some(chunks) = this.upgrade() else { return };
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

/// A chunk in memory, as registered with the budget. It holds neither the chunk nor the store.
struct InMemory {
    chunks: Weak<Chunks>,
    chunk: Weak<Chunk>,
}

impl Resident for InMemory {
    fn id(&self) -> usize {
        self.chunk.as_ptr().addr()
    }

    fn rank(&self) -> Option<Rank> {
        let (chunks, chunk) = (self.chunks.upgrade()?, self.chunk.upgrade()?);
        let bytes = chunk.munk.load().as_ref()?.bytes();
        let is_busy = chunk.last_access() + BUSY_TICKS >= chunks.jobs.ticks.load(Relaxed);
        Some(Rank { is_busy, score: chunks.score(&chunk), bytes })
    }

    fn evict(&self) {
        if let (Some(chunks), Some(chunk)) = (self.chunks.upgrade(), self.chunk.upgrade()) {
            chunks.try_evict_munk(&chunk);
        }
    }
}

/// Approximate memory of the chunk's munk, if it is loaded.
pub fn munk_bytes(chunk: &Chunk) -> u64 {
    let (bytes, pairs) = live(chunk);
    munk::bytes_of(bytes, pairs)
}

/// Approximate bytes and number of the chunk's live pairs.
pub fn live(chunk: &Chunk) -> (u64, u64) {
    let sizes = chunk.funk.load().sizes();
    // The values come from files and may be wrong: they are limited to possible ones.
    let bytes = sizes.user_bytes.saturating_sub(sizes.garbage_bytes).min(1 << 48);
    let counted = sizes.entries as f64 * bytes as f64 / sizes.user_bytes.max(1) as f64;
    // The entries of a log of an earlier epoch are not counted until it is read.
    let pairs = if sizes.entries == 0 { bytes / policy::ENTRY_BYTES } else { counted as u64 };
    (bytes, pairs.min(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Db;
    use crate::chunk::test_support::{chunks_in, chunks_of};
    use crate::vfs::MemVfs;
    use crate::{ChunkOptions, KeyspaceOptions, Options};

    /// Munks are loaded and evicted by the test only. The background does neither, and sorts no
    /// log, which would hold a munk twice for a while. Nothing depends on the time: the test calls
    /// for the ticks, which halve scores.
    fn open(budget_bytes: u64, munks: u64) -> (Db, Arc<Chunks>) {
        let keyspace = KeyspaceOptions::new()
            .layout(ChunkOptions::new().munks(false).chunk_bytes(1 << 20).log_bytes(u64::MAX));
        let options = Options::new().memory_budget(budget_bytes).default_keyspace(keyspace);
        let db = options.vfs(Arc::new(MemVfs::new())).open("store").unwrap();
        let chunks = chunks_of(&db);
        for number in 0..munks * 1000 {
            db.put(format!("{number:08}"), [1; 1000]).unwrap();
        }
        db.compact_range(..).unwrap();
        // Otherwise the budget would be divided anew during a test.
        while !chunks.context.substrate.budget.knows_data() {
            db.tick_for_test();
        }
        chunks.context.substrate.pool.stop_ticking();
        (db, chunks)
    }

    #[test]
    fn garbage_goes_before_a_chunk_is_evicted() {
        let (db, chunks) = open(24 << 20, 14);
        let budget = &chunks.context.substrate.budget;
        chunks.index.view().iter().for_each(|(_, chunk)| assert!(chunks.load_munk(chunk).unwrap()));
        assert!(budget.resident.used_bytes() < budget.resident_limit_bytes());
        let mut number = 0;
        while budget.resident.used_bytes() <= budget.resident_limit_bytes() {
            db.put(format!("{number:08}"), [2; 1000]).unwrap();
            number = (number + 7) % 14_000;
        }
        chunks.keep_munks_within_budget();
        assert!(budget.resident.used_bytes() <= budget.resident_limit_bytes());
        assert_eq!(chunks.context.counters.munk_evictions.get(), 0);
        assert!(chunks.index.view().iter().all(|(_, chunk)| chunk.munk.load().is_some()));
    }

    /// Loads one chunk after the other as long as there is room, like maintenance; returns their
    /// number.
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
        let room = budget.resident_load_limit_bytes() - budget.resident.used_bytes();
        assert!(room >= budget.resident_load_limit_bytes() / 25, "{room}");
        let before = budget.resident_limit_bytes();
        let _merging = budget.logs.merges.charge(budget.total_bytes / 16).unwrap();
        assert!(budget.resident_limit_bytes() < before, "it was lent to munks");
        chunks.keep_munks_within_budget();
        assert_eq!(chunks.context.counters.munk_evictions.get(), 0);
    }

    /// A turn of maintenance, about a second after the one before.
    fn look(chunks: &Chunks) {
        chunks.jobs.ticks.fetch_add(LOAD_PAUSE_TICKS, Relaxed);
        chunks.keep_munks_within_budget();
        chunks.choose_munks();
        while chunks.jobs.loading.used_bytes() > 0 {
            std::thread::yield_now();
        }
    }

    /// As if gets and scans had read it this often since its counts were halved last.
    fn read(chunks: &Chunks, chunk: &Chunk, score: u64) {
        (chunk.score()..score).step_by(8).for_each(|_| chunk.touch_scan(&chunks.jobs.ticks));
    }

    fn resident(chunks: &Chunks) -> usize {
        chunks.index.view().iter().filter(|(_, chunk)| chunk.munk.load().is_some()).count()
    }

    #[test]
    fn chunks_of_about_the_same_popularity_do_not_take_turns_while_munks_are_written_to() {
        let (db, chunks) = open(24 << 20, 32);
        let counters = &chunks.context.counters;
        let turn = |number: u64| {
            db.tick_for_test();
            for (place, (_, chunk)) in chunks.index.view().iter().enumerate() {
                read(&chunks, chunk, 1000 + (place as u64 * 7 + number * 31) % 200);
            }
            for put in 0..150 {
                db.put(format!("{:08}", (number * 150 + put) * 7919 % 32_000), [2; 1000]).unwrap();
            }
            look(&chunks);
        };
        // Until the indexes of logs use nearly their whole share: the unused rest is lent to munks.
        (0..400).for_each(turn);
        let (loads, fit) = (counters.munk_loads.get(), resident(&chunks));
        assert!((8..32).contains(&fit) && loads >= fit as u64, "{loads} loads of {fit}");
        (400..700).for_each(turn);
        let (later, evictions) = (counters.munk_loads.get() - loads, counters.munk_evictions.get());
        assert!(counters.munk_rebalances.get() > 10, "garbage was to be copied away");
        assert!(later <= 4 && evictions <= fit as u64, "{later} loads later, {evictions} evictions of {fit}");
    }

    /// Two stores share a budget, and one of them has additional keyspaces that need no memory.
    #[test]
    fn a_hot_keyspace_gets_the_memory_of_one_that_is_read_now_and_then() {
        let resources = crate::Resources::new(28 << 20, 1);
        let keyspace = KeyspaceOptions::new()
            .layout(ChunkOptions::new().munks(false).chunk_bytes(1 << 20).log_bytes(u64::MAX));
        let stores = ["first", "second"].map(|name| {
            let options = Options::new().resources(resources.clone()).default_keyspace(keyspace.clone());
            let db = options.vfs(Arc::new(MemVfs::new())).open(name).unwrap();
            for number in 0..16_000 {
                db.put(format!("{number:08}"), [1; 1000]).unwrap();
            }
            db.compact_range(..).unwrap();
            db
        });
        let idle: Vec<_> = (0..20)
            .map(|number| chunks_in(&stores[1].keyspace_with(&number.to_string(), keyspace.clone()).unwrap()))
            .collect();
        let [first, second] = stores.each_ref().map(chunks_of);
        while !first.context.substrate.budget.knows_data() {
            stores[0].tick_for_test();
        }
        first.context.substrate.pool.stop_ticking();
        let read_all = |chunks: &Chunks, score| {
            chunks.index.view().iter().for_each(|(_, chunk)| read(chunks, chunk, score));
        };
        let looks = || {
            look(&first);
            idle.iter().for_each(|chunks| look(chunks));
            look(&second);
        };
        for _ in 0..30 {
            read_all(&first, 200);
            looks();
        }
        // Some chunks of the second, which were written to.
        let fit = resident(&first) + resident(&second);
        assert!((8..32).contains(&fit), "{fit}");
        for (hot, warm) in [(&second, &first), (&first, &second)] {
            warm.index.view().iter().for_each(|(_, chunk)| (0..8).for_each(|_| chunk.decay()));
            for _ in 0..30 {
                read_all(warm, 200);
                read_all(hot, 10_000);
                looks();
            }
            assert!(resident(hot) + 2 >= fit, "{} of {fit}", resident(hot));
        }
        let evictions = [&first, &second].map(|chunks| chunks.context.counters.munk_evictions.get());
        assert!(evictions.iter().sum::<u64>() <= 3 * fit as u64, "{evictions:?} of {fit}");
    }

    #[test]
    fn who_writes_faster_than_maintenance_looks_makes_room_himself() {
        let (db, chunks) = open(24 << 20, 8);
        let budget = &chunks.context.substrate.budget;
        chunks.index.view().iter().for_each(|(_, chunk)| assert!(chunks.load_munk(chunk).unwrap()));
        // The background does not evict if keyspaces have no munks.
        let mut most = 0;
        for number in 8000..40_000 {
            db.put(format!("{:08}", number % 8000 * 10 + number / 8000), [2; 1000]).unwrap();
            most = most.max(budget.resident.used_bytes());
        }
        let limit = budget.resident_limit_bytes();
        assert!(most > limit, "nothing was short: {most}");
        // While a munk is sorted anew, it is in memory twice.
        assert!(most < limit + limit / 16 + (4 << 20), "{most} of {limit}");
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

    /// Inserts in order go to a new chunk, which has fewer accesses recorded than any other.
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
        let rank = |chunk: &Arc<Chunk>| {
            let in_memory = InMemory { chunks: chunks.this.clone(), chunk: Arc::downgrade(chunk) };
            in_memory.rank().map(|rank| (rank.is_busy, rank.score)).unwrap()
        };
        // Maintenance goes on, and may have been interrupted itself.
        loop {
            chunks.jobs.ticks.store(begun + aside, Relaxed);
            let view = chunks.index.view();
            let others: Vec<_> =
                view.iter().filter(|(_, chunk)| chunk.id != written.id).map(|(_, c)| rank(c)).collect();
            let last = rank(&written);
            if chunks.jobs.ticks.load(Relaxed) <= begun + aside + 3 {
                assert!(others.len() > 20 && others.iter().all(|other| *other < last), "{others:?} {last:?}");
                return;
            }
        }
    }

    #[test]
    fn chunks_may_be_accessed_while_they_are_ranked() {
        let (_db, chunks) = open(64 << 20, 32);
        chunks.index.view().iter().for_each(|(_, chunk)| assert!(chunks.load_munk(chunk).unwrap()));
        chunks.jobs.ticks.store(1000, Relaxed);
        std::thread::scope(|scope| {
            let ranking = scope.spawn(|| {
                (0..3_000).for_each(|_| {
                    assert!(!chunks.context.substrate.budget.admits_resident(20 << 20, |_| false))
                })
            });
            let ticks = [0, 1000].map(crate::sync::atomic::AtomicU64::new);
            for tick in ticks.iter().cycle().take_while(|_| !ranking.is_finished()) {
                chunks.index.view().iter().for_each(|(_, chunk)| chunk.touch_write(1, tick));
            }
        });
    }
}
