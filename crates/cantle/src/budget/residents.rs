//! The chunks in memory of all keyspaces and stores that share a memory budget: which of them is evicted, and for what.
//!
//! Munks take one part of the budget together. A munk is evicted in two cases, and then it is the least popular one, whichever
//! keyspace or store it belongs to:
//!
//! * Munks have grown beyond what they may take ([`Budget::evict_munks`]).
//! * A chunk is to be loaded and finds no room, and is clearly more popular ([`Budget::admits_munk`]).
//!
//! Chunks of about the same popularity do not take turns: a chunk that displaces none must leave some room to the munks that grow,
//! so that the memory of one that was evicted is not enough to load it again.
//!
//! Thread safety: everything may be called from any thread. One thread evicts at a time; others do without, as there is a next time
//! soon. Nobody waits here for the lock of a chunk, whose store may have a disk that hangs.

use super::budget::Budget;
use crate::sync::atomic::Ordering::Relaxed;

/// Percent of the munks' part that a chunk leaves free if it displaces none: a munk that is written to grows until it is copied.
const ROOM_PERCENT: u64 = 4;
/// Munks may exceed their part by this fraction of it, or so many bytes, between two looks of maintenance, 20 ms apart. A writer that
/// finds more evicts before it goes on.
const EXCESS_FRACTION: u64 = 16;
const EXCESS_BYTES_MAX: u64 = 16 << 20;
/// A ranking of fewer munks is made for each use, as it costs some microseconds; one of more serves once more for every so many.
const MUNKS_PER_USE: usize = 256;

/// A chunk that has a munk, or had one.
pub(crate) trait Resident: Send + Sync {
    /// Tells chunks apart.
    fn id(&self) -> usize;
    /// `None` once the chunk has no munk.
    fn rank(&self) -> Option<Rank>;
    /// Takes the munk away, unless somebody writes to it just now.
    fn evict(&self);
}

/// Tells in which order chunks are evicted: those that are not busy first, of these the one with the least score.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rank {
    /// Chunks that are being accessed go last: inserts in order go to one chunk, which is new and has no score yet, and without a munk
    /// would grow faster than it could be loaded again.
    pub is_busy: bool,
    pub score: u64,
    /// The memory of the munk.
    pub bytes: u64,
}

#[derive(Default)]
pub(super) struct Residents {
    /// The least popular first, as of the last ranking; behind them those that came since.
    ranked: Vec<Box<dyn Resident>>,
    /// The number of times that this ranking was used.
    uses: usize,
}

impl Residents {
    /// The chunks in memory, the least popular first.
    fn ranked(&mut self) -> &[Box<dyn Resident>] {
        self.uses += 1;
        if self.uses > self.ranked.len() / MUNKS_PER_USE {
            self.uses = 0;
            // Each is looked at once: they are accessed meanwhile, and an order that changes is none.
            let look = |resident: Box<dyn Resident>| Some((resident.rank()?, resident));
            let mut ranked: Vec<_> = self.ranked.drain(..).filter_map(look).collect();
            ranked.sort_by_key(|(rank, _)| (rank.is_busy, rank.score));
            self.ranked.extend(ranked.into_iter().map(|(_, resident)| resident));
        }
        &self.ranked
    }
}

impl Budget {
    /// A chunk has a munk now.
    pub(crate) fn add_resident(&self, resident: Box<dyn Resident>) {
        let mut residents = self.residents.lock();
        // Those that have no munk any more are forgotten now and then, even if nobody has to be evicted.
        residents.ranked();
        residents.ranked.retain(|other| other.id() != resident.id());
        residents.ranked.push(resident);
    }

    /// True if a chunk is to be loaded whose munk takes `bytes`. If it finds no room, the least popular of those whose score
    /// makes way for it are evicted; none if they would not be enough.
    pub(crate) fn admits_munk(&self, bytes: u64, makes_way: impl Fn(u64) -> bool) -> bool {
        let limit = self.munk_load_limit_bytes();
        let wanted = bytes + self.munk_bytes.load(Relaxed) + self.loading.used_bytes();
        if bytes > limit / 2 {
            return false;
        }
        if wanted <= limit / 100 * (100 - ROOM_PERCENT) {
            return true;
        }
        let Some(mut residents) = self.residents.try_lock() else { return false };
        // A chunk that displaces none does not fill the room that is to be left.
        let short_bytes = wanted.saturating_sub(limit).max(1);
        let (mut gone, mut freed_bytes) = (Vec::new(), 0);
        for resident in residents.ranked() {
            let Some(rank) = resident.rank() else { continue };
            if freed_bytes >= short_bytes || !makes_way(rank.score) {
                break;
            }
            freed_bytes += rank.bytes;
            gone.push(resident);
        }
        let is_enough = freed_bytes >= short_bytes;
        gone.iter().filter(|_| is_enough).for_each(|resident| resident.evict());
        is_enough
    }

    /// Has munks take no more than they may: the least popular are evicted.
    #[cold]
    pub(crate) fn evict_munks(&self) {
        let Some(mut residents) = self.residents.try_lock() else { return };
        for resident in residents.ranked() {
            if self.munk_excess_bytes() == 0 {
                return;
            }
            resident.evict();
        }
    }

    /// The same for a writer, if there is far too little memory. Without this, a store that grows quickly would take much more than
    /// its budget between two looks of maintenance. The writer holds no lock.
    #[inline]
    pub(crate) fn evict_munks_if_crowded(&self) {
        let excess = self.munk_excess_bytes();
        if excess > 0 && excess > EXCESS_BYTES_MAX.min(self.munk_limit_bytes() / EXCESS_FRACTION) {
            self.evict_munks();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Arc;
    use crate::sync::atomic::AtomicU64;
    use std::sync::Weak;

    const MIB: u64 = 1 << 20;

    /// A chunk, of which only sizes and scores are there.
    struct Chunk {
        budget: Arc<Budget>,
        live_bytes: AtomicU64,
        score: AtomicU64,
        /// 0 without a munk.
        munk_bytes: AtomicU64,
        looks: AtomicU64,
        evictions: AtomicU64,
    }

    /// A budget that kept the chunk would be kept by it.
    struct InMemory(Weak<Chunk>);

    impl Resident for InMemory {
        fn id(&self) -> usize {
            self.0.as_ptr().addr()
        }

        fn rank(&self) -> Option<Rank> {
            let chunk = self.0.upgrade()?;
            chunk.looks.fetch_add(1, Relaxed);
            let bytes = chunk.munk_bytes.load(Relaxed);
            (bytes > 0).then(|| Rank { is_busy: false, score: chunk.score.load(Relaxed), bytes })
        }

        fn evict(&self) {
            if let Some(chunk) = self.0.upgrade().filter(|chunk| chunk.is_in_memory()) {
                chunk.resize(0);
                chunk.evictions.fetch_add(1, Relaxed);
            }
        }
    }

    impl Chunk {
        fn new(budget: &Arc<Budget>, live_bytes: u64, score: u64) -> Arc<Self> {
            Arc::new(Self {
                budget: budget.clone(),
                live_bytes: AtomicU64::new(live_bytes),
                score: AtomicU64::new(score),
                munk_bytes: AtomicU64::new(0),
                looks: AtomicU64::new(0),
                evictions: AtomicU64::new(0),
            })
        }

        fn resize(&self, bytes: u64) {
            let before = self.munk_bytes.swap(bytes, Relaxed);
            self.budget.munk_bytes.fetch_add(bytes.wrapping_sub(before), Relaxed);
        }

        fn is_in_memory(&self) -> bool {
            self.munk_bytes.load(Relaxed) > 0
        }

        /// Loads it if that may be; says whether.
        fn load(self: &Arc<Self>) -> bool {
            let score = self.score.load(Relaxed);
            let admitted = !self.is_in_memory()
                && self
                    .budget
                    .admits_munk(self.live_bytes(), |resident| score > resident + resident / 4 + 16);
            if admitted {
                self.resize(self.live_bytes());
                self.budget.add_resident(Box::new(InMemory(Arc::downgrade(self))));
            }
            admitted
        }

        fn live_bytes(&self) -> u64 {
            self.live_bytes.load(Relaxed)
        }

        fn garbage_bytes(&self) -> u64 {
            self.munk_bytes.load(Relaxed).saturating_sub(self.live_bytes())
        }
    }

    fn sum(chunks: &[Arc<Chunk>], of: impl Fn(&Chunk) -> u64) -> u64 {
        chunks.iter().map(|chunk| of(chunk)).sum()
    }

    /// SplitMix64.
    fn random(state: &mut u64, bound: u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) % bound
    }

    /// Maintenance in a tick, without loading: garbage goes first, of eight munks at most.
    fn maintain(budget: &Budget, chunks: &[Arc<Chunk>]) {
        let mut by_garbage: Vec<_> = chunks.iter().filter(|chunk| chunk.is_in_memory()).collect();
        by_garbage.sort_by_key(|chunk| std::cmp::Reverse(chunk.garbage_bytes()));
        for chunk in by_garbage.into_iter().take(8) {
            if budget.munk_excess_bytes() > 0 && chunk.garbage_bytes() > chunk.live_bytes() / 8 {
                chunk.resize(chunk.live_bytes());
            }
        }
        budget.evict_munks();
    }

    /// A minute and a half of puts, of which some insert so that all chunks come to twice their size, and of gets that are spread evenly.
    #[test]
    fn chunks_of_about_the_same_popularity_do_not_take_turns_while_munks_grow() {
        for (budget_mib, chunk_kib, seed) in [(16, 128, 1), (48, 6 << 10, 2), (32, 256, 3)] {
            let budget = Arc::new(Budget::new(budget_mib * MIB));
            let mut state = seed;
            let chunks: Vec<_> = (0..2 * budget_mib * 1024 / chunk_kib)
                .map(|_| Chunk::new(&budget, chunk_kib * 512 + random(&mut state, chunk_kib * 512), 0))
                .collect();
            let (mut loads, mut first_loads) = (0, 0);
            for tick in 0..4_500u64 {
                for chunk in &chunks {
                    let inserted = random(&mut state, chunk.live_bytes() / 3_250 + 1);
                    chunk.live_bytes.fetch_add(inserted, Relaxed);
                    chunk.is_in_memory().then(|| chunk.resize(chunk.munk_bytes.load(Relaxed) + inserted));
                }
                for chunk in chunks.iter().filter(|chunk| chunk.is_in_memory()) {
                    // A copy is due once a third is garbage.
                    let written = random(&mut state, chunk.live_bytes() / 50);
                    let garbage = chunk.garbage_bytes() + written;
                    chunk.resize(
                        chunk.live_bytes() + if garbage > chunk.live_bytes() / 2 { 0 } else { garbage },
                    );
                    budget.evict_munks_if_crowded();
                }
                maintain(&budget, &chunks);
                if tick % 4 == 0 {
                    chunks
                        .iter()
                        .for_each(|chunk| chunk.score.store(1000 + random(&mut state, 200), Relaxed));
                    loads += chunks.iter().filter(|chunk| chunk.load()).count();
                }
                if tick == 250 {
                    first_loads = loads;
                }
            }
            let fit = chunks.iter().filter(|chunk| chunk.is_in_memory()).count();
            let evictions = sum(&chunks, |chunk| chunk.evictions.load(Relaxed));
            println!(
                "{budget_mib} MiB: {fit} of {}, {first_loads} then {loads}, {evictions} evictions",
                chunks.len()
            );
            assert!(budget.munk_bytes.load(Relaxed) > budget.munk_limit_bytes() / 100 * 60, "memory is used");
            assert!(loads - first_loads <= fit / 2, "{loads} loads, {first_loads} of them at first");
            assert!(
                (fit / 4..3 * fit).contains(&(evictions as usize)),
                "{evictions} evictions where {fit} fit"
            );
        }
    }

    #[test]
    fn what_is_clearly_more_popular_gets_the_memory_of_others_whoever_has_it() {
        let budget = Arc::new(Budget::new(64 * MIB));
        let idle: Vec<_> = (0..100).map(|_| Chunk::new(&budget, MIB, 100)).collect();
        let fit = idle.iter().filter(|chunk| chunk.load()).count() as u64;
        assert!((40..64).contains(&fit), "{fit}");
        let hot: Vec<_> = (0..fit / 2).map(|_| Chunk::new(&budget, MIB, 1000)).collect();
        assert!(hot.iter().all(|chunk| chunk.load()), "at once");
        assert!(hot.iter().all(|chunk| chunk.is_in_memory()));
        // Who has made way does not come back, though it would find the one that has taken its place.
        assert!(!idle.iter().any(|chunk| chunk.load()));
        let gone = sum(&idle, |chunk| chunk.evictions.load(Relaxed));
        assert!(gone <= fit / 2, "{gone} for {}", fit / 2);
    }

    /// One large chunk that is read a little more than many small ones.
    #[test]
    fn nobody_is_evicted_for_a_chunk_that_is_not_loaded_after_all() {
        let budget = Arc::new(Budget::new(64 * MIB));
        let [hot, small]: [Vec<_>; 2] = [(8, 5 * MIB, 5000), (1000, MIB / 8, 100)]
            .map(|(chunks, bytes, score)| (0..chunks).map(|_| Chunk::new(&budget, bytes, score)).collect());
        assert!(hot.iter().all(|chunk| chunk.load()));
        let beside = small.iter().filter(|chunk| chunk.load()).count() as u64;
        let large = Chunk::new(&budget, 20 * MIB, 4000);
        assert!(beside > 8 && beside * MIB / 8 < 15 * MIB, "{beside}");
        assert!(!large.load());
        assert_eq!(sum(&small, |chunk| chunk.evictions.load(Relaxed)), 0);
    }

    #[test]
    fn munks_of_a_store_that_grows_quickly_keep_to_what_they_may_exceed() {
        for budget_mib in [16, 64, 1024] {
            let budget = Arc::new(Budget::new(budget_mib * MIB));
            let chunks: Vec<_> =
                (0..64).map(|score| Chunk::new(&budget, budget_mib * MIB / 100, score)).collect();
            assert!(chunks.iter().all(|chunk| chunk.load()));
            let limit = budget.munk_limit_bytes();
            let excess_max = EXCESS_BYTES_MAX.min(limit / EXCESS_FRACTION);
            let (mut most, piece) = (0, 64 << 10);
            // Maintenance does not come to it; only the most popular chunk is written to.
            for _ in 0..limit * 2 / piece {
                let written = &chunks[63];
                if !written.is_in_memory() {
                    break;
                }
                written.resize(written.munk_bytes.load(Relaxed) + piece);
                most = most.max(budget.munk_bytes.load(Relaxed));
                budget.evict_munks_if_crowded();
                assert!(budget.munk_bytes.load(Relaxed) <= limit + excess_max);
            }
            assert!(most > limit && most <= limit + excess_max + piece, "{most} of {limit}");
            assert_eq!(
                sum(&chunks[..63], |chunk| chunk.evictions.load(Relaxed)),
                63,
                "the least popular first"
            );
        }
    }

    #[test]
    fn ranking_many_munks_costs_little_each_time() {
        const CHUNKS: u64 = 10_000;
        let budget = Arc::new(Budget::new(64 * MIB));
        let chunks: Vec<_> = (0..CHUNKS).map(|_| Chunk::new(&budget, 4 << 10, 1000)).collect();
        assert!(chunks.iter().all(|chunk| chunk.load()));
        let looks = || sum(&chunks, |chunk| chunk.looks.load(Relaxed));
        let of_loads = looks() / CHUNKS;
        let other = Chunk::new(&budget, 20 * MIB, 1000);
        assert!((0..1000).all(|_| !other.load()));
        let of_uses = (looks() - of_loads * CHUNKS) / 1000;
        assert!(
            of_loads < 2 * MUNKS_PER_USE as u64 && of_uses < 2 * MUNKS_PER_USE as u64,
            "{of_loads}, {of_uses}"
        );
        // Where it is wanted, all goes, though the order be an old one.
        let least = &chunks[CHUNKS as usize / 2];
        least.score.store(0, Relaxed);
        for _ in 0..=CHUNKS as usize / MUNKS_PER_USE {
            assert!(!other.load());
        }
        budget.munk_bytes.fetch_add(budget.munk_limit_bytes() - budget.munk_bytes.load(Relaxed) + 1, Relaxed);
        budget.evict_munks();
        assert!(!least.is_in_memory() && sum(&chunks, |chunk| chunk.evictions.load(Relaxed)) == 1);
    }
}
