//! Loads and evictions over time, of chunks that consist of a size and a score.

use super::budget::Budget;
use super::residents::{EXCESS_BYTES_MAX, EXCESS_FRACTION, RESIDENTS_PER_USE, Rank, Resident};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Weak;

const MIB: u64 = 1 << 20;

/// A chunk that consists of sizes and a score.
struct Chunk {
    budget: Arc<Budget>,
    live_bytes: AtomicU64,
    score: AtomicU64,
    /// 0 without a munk.
    munk_bytes: AtomicU64,
    looks: AtomicU64,
    evictions: AtomicU64,
}

/// Weak, since a budget that kept the chunk would be kept by it.
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
        self.budget.resident.counter().fetch_add(bytes.wrapping_sub(before), Relaxed);
    }

    fn is_in_memory(&self) -> bool {
        self.munk_bytes.load(Relaxed) > 0
    }

    /// Loads it if it is admitted; true if it was.
    fn load(self: &Arc<Self>) -> bool {
        let score = self.score.load(Relaxed);
        let admitted = !self.is_in_memory()
            && self
                .budget
                .admits_resident(self.live_bytes(), |resident| score > resident + resident / 4 + 16);
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

/// One tick of maintenance, without loading: garbage is removed first, from eight munks at most.
fn maintain(budget: &Budget, chunks: &[Arc<Chunk>]) {
    let mut by_garbage: Vec<_> = chunks.iter().filter(|chunk| chunk.is_in_memory()).collect();
    by_garbage.sort_by_key(|chunk| std::cmp::Reverse(chunk.garbage_bytes()));
    for chunk in by_garbage.into_iter().take(8) {
        if budget.resident_excess_bytes() > 0 && chunk.garbage_bytes() > chunk.live_bytes() / 8 {
            chunk.resize(chunk.live_bytes());
        }
    }
    budget.evict_residents();
}

/// A minute and a half of puts, some of which insert so that all chunks double in size, and of
/// evenly spread gets.
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
                chunk.resize(chunk.live_bytes() + if garbage > chunk.live_bytes() / 2 { 0 } else { garbage });
                budget.evict_residents_if_crowded();
            }
            maintain(&budget, &chunks);
            if tick % 4 == 0 {
                chunks.iter().for_each(|chunk| chunk.score.store(1000 + random(&mut state, 200), Relaxed));
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
        assert!(budget.resident.used_bytes() > budget.resident_limit_bytes() / 100 * 60, "memory is used");
        assert!(loads - first_loads <= fit / 2, "{loads} loads, {first_loads} of them at first");
        assert!((fit / 4..3 * fit).contains(&(evictions as usize)), "{evictions} evictions where {fit} fit");
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
    // An evicted chunk does not come back, although it would find the one that has taken its place.
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
    let large = Chunk::new(&budget, 26 * MIB, 4000);
    assert!(beside > 8 && beside * MIB / 8 < 18 * MIB, "{beside}");
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
        let limit = budget.resident_limit_bytes();
        let excess_max = EXCESS_BYTES_MAX.min(limit / EXCESS_FRACTION);
        let (mut most, piece) = (0, 64 << 10);
        // No pass of maintenance takes place; only the most popular chunk is written to.
        for _ in 0..limit * 2 / piece {
            let written = &chunks[63];
            if !written.is_in_memory() {
                break;
            }
            written.resize(written.munk_bytes.load(Relaxed) + piece);
            most = most.max(budget.resident.used_bytes());
            budget.evict_residents_if_crowded();
            assert!(budget.resident.used_bytes() <= limit + excess_max);
        }
        assert!(most > limit && most <= limit + excess_max + piece, "{most} of {limit}");
        assert_eq!(sum(&chunks[..63], |chunk| chunk.evictions.load(Relaxed)), 63, "the least popular first");
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
        of_loads < 2 * RESIDENTS_PER_USE as u64 && of_uses < 2 * RESIDENTS_PER_USE as u64,
        "{of_loads}, {of_uses}"
    );
    // If all of them must go, they do, although the ranking is an old one.
    let least = &chunks[CHUNKS as usize / 2];
    least.score.store(0, Relaxed);
    for _ in 0..=CHUNKS as usize / RESIDENTS_PER_USE {
        assert!(!other.load());
    }
    budget
        .resident
        .counter()
        .fetch_add(budget.resident_limit_bytes() - budget.resident.used_bytes() + 1, Relaxed);
    budget.evict_residents();
    assert!(!least.is_in_memory() && sum(&chunks, |chunk| chunk.evictions.load(Relaxed)) == 1);
}
