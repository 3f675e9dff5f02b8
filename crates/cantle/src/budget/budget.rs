//! One number for memory, and how it is divided.
//!
//! Munks, rows and blocks share most of the budget. Where data is not much more than memory, munks start with most of
//! it (EvenDB §5.1 gives them two thirds): a chunk is read in one piece, its records one by one. From there the division
//! *climbs*: now and then a little is moved from one of the three to another, and stays there if reads become cheaper
//! by it. So a workload without spatial locality ends with rows, one with it ends with munks. What logs index in memory,
//! what is being written and what has no owner take the rest; what logs do not use of theirs is lent to munks, which are
//! quick to give it back.
//!
//! Thread safety: everything may be called from any thread.

use super::MemoryStats;
use super::residents::Residents;
use crate::cache::{BlockCache, rows::RowCache};
use crate::log::LogMemory;
use crate::memory::account::Account;
use crate::memory::pages::{self, Room};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::sync::counter::Counter;
use crate::sync::time::{Instant, now};
use crate::sync::{Arc, Mutex};
use std::time::Duration;

/// Of the budget, in percent: what munks, rows and blocks share, and what of it is theirs at first.
const SHARED_PERCENT: u64 = 88;
const FIRST_PERCENTS: [u64; 3] = [80, 3, 5];
/// The most of the merges' limit that is kept from munks that are loaded: two logs of chunks of the usual size.
const MERGE_SPARED_BYTES: u64 = 16 << 20;
/// Nobody is left with less than this share: rows and munks must be able to show what they are worth, and blocks
/// hold the filters and indexes.
const SHARE_MIN: f64 = 0.03;
/// How much is moved at once.
const STEP: f64 = 0.08;
/// Reads become cheaper if the cost falls by this fraction at least: less may be chance.
const GAIN_MIN: f64 = 0.01;
/// How long a division is tried, and with how many reads at least.
const TRIAL: Duration = Duration::from_millis(1000);
const TRIAL_READS: u64 = 4096;
/// Before, what has more memory now takes it; if that takes longer than this, it has no use for it.
const FILLING_MAX: Duration = Duration::from_secs(6);
/// From here on it counts as taken.
const FILLED_PERCENT: u64 = 96;

/// What they begin with where data is `SCARCE_TIMES` the budget or more: hot rows lie in more chunks than munks could
/// hold. Up to `PLENTY_TIMES` it is the above, in between what lies between.
const FIRST_PERCENTS_SCARCE: [u64; 3] = [30, 38, 20];
const PLENTY_TIMES: f64 = 1.5;
const SCARCE_TIMES: f64 = 3.0;
/// Of a small budget more is for blocks: without the filters and indexes of tables every read is a long one.
const BLOCK_BYTES_FIRST: u64 = 8 << 20;

/// A small budget has none to spare beside that, however much data there is.
const SMALL_BYTES: u64 = 64 << 20;

/// What munks, rows and blocks begin with, given so much data.
fn first_parts(total_bytes: u64, live_bytes: u64) -> [u64; 3] {
    let [munks, rows, blocks] = FIRST_PERCENTS.map(|percent| total_bytes / 100 * percent);
    let more = BLOCK_BYTES_FIRST.min(total_bytes / 100 * 40).saturating_sub(blocks);
    let [munks, blocks] = [munks - more, blocks + more];
    if total_bytes < SMALL_BYTES {
        return [munks, rows, blocks];
    }
    let times = live_bytes as f64 / total_bytes as f64;
    let scarcity = ((times - PLENTY_TIMES) / (SCARCE_TIMES - PLENTY_TIMES)).clamp(0.0, 1.0);
    let scarce = FIRST_PERCENTS_SCARCE.map(|percent| total_bytes / 100 * percent);
    let between =
        |plenty: u64, scarce: u64| (plenty as f64 + (scarce as f64 - plenty as f64) * scarcity) as u64;
    [between(munks, scarce[0]), between(rows, scarce[1]), between(blocks, scarce[2])]
}

/// A chunk that is loaded costs as much as reading one block for so many of its bytes.
const LOADED_BYTES_PER_BLOCK: u64 = 32 << 10;

/// What a read costs by how it was served, about in microseconds. Memory is the unit of comparison and costs none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    /// A block or a record was read from a file. Blocks that the cache misses are counted by it.
    File = 10,
    /// A get looked through files whose blocks were cached.
    Blocks = 1,
    /// A scan merged the files of a chunk.
    Merge = 20,
}

fn shares_of(parts: [u64; 3]) -> [f64; 3] {
    let shared = parts.iter().sum::<u64>().max(1) as f64;
    parts.map(|part| part as f64 / shared)
}

/// The memory of one store, or of several that share it.
pub(crate) struct Budget {
    pub(crate) total_bytes: u64,
    /// Of it, what is not for what lies in the allocator's heap.
    room: Room,
    pub(crate) blocks: BlockCache,
    pub(crate) rows: Arc<RowCache>,
    /// Memory of all munks.
    pub(crate) munk_bytes: Arc<AtomicU64>,
    munk_limit_bytes: AtomicU64,
    /// Memory that munks will take which are being loaded.
    pub(crate) loading: Account,
    pub(super) residents: Mutex<Residents>,
    /// Accounts of logs.
    pub(crate) logs: Arc<LogMemory>,
    /// Keyspaces, whether or not they are used.
    pub(crate) keyspaces: Account,
    costs: Counter,
    reads: Counter,
    trial: Mutex<Trial>,
    moves: AtomicU64,
    /// Somebody wants the division to climb.
    climbs: AtomicBool,
    /// Bytes of data of all stores that have a `DataShare`.
    data_bytes: AtomicU64,
}

/// How much data one store has: its part of the sum over all stores of a budget, until it is dropped.
pub(crate) struct DataShare {
    budget: Arc<Budget>,
    bytes: AtomicU64,
}

impl DataShare {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { budget, bytes: AtomicU64::new(0) }
    }

    /// The store has so much now.
    pub(crate) fn set(&self, bytes: u64) {
        // The sum wraps around, and so do differences.
        let more = bytes.wrapping_sub(self.bytes.swap(bytes, Relaxed));
        self.budget.data_bytes.fetch_add(more, Relaxed);
    }
}

impl Drop for DataShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

struct Trial {
    climber: Climber,
    /// Whether what the climber began with was chosen by the data.
    knows_data: bool,
    /// When the division became what it is.
    moved: Instant,
    /// Whether it is still waited for that it is made use of.
    filling: bool,
    begun: Instant,
    costs: u64,
    reads: u64,
    /// The beginning of all observations.
    first: Instant,
}

impl Budget {
    pub(crate) fn new(total_bytes: u64) -> Self {
        let parts = first_parts(total_bytes, 0);
        let [munks, rows, blocks] = parts;
        let first = shares_of(parts);
        let budget = Self {
            total_bytes,
            room: Room::new(total_bytes),
            blocks: BlockCache::new(blocks),
            rows: Arc::new(RowCache::new(rows)),
            munk_bytes: Arc::default(),
            munk_limit_bytes: AtomicU64::new(munks),
            loading: Account::new(u64::MAX),
            residents: Mutex::default(),
            logs: Arc::new(LogMemory::new(total_bytes)),
            keyspaces: Account::new(u64::MAX),
            costs: Counter::default(),
            reads: Counter::default(),
            trial: Mutex::new(Trial {
                climber: Climber::new(first),
                knows_data: false,
                moved: now(),
                filling: false,
                begun: now(),
                costs: 0,
                reads: 0,
                first: now(),
            }),
            moves: AtomicU64::new(0),
            climbs: AtomicBool::new(false),
            data_bytes: AtomicU64::new(0),
        };
        budget.make_room();
        budget
    }

    /// What munks may take: their share, and what logs do not use of theirs.
    pub(crate) fn munk_limit_bytes(&self) -> u64 {
        self.munk_limit_while_logs_use(self.logs.used_bytes())
    }

    /// What munks may take once another is loaded. Logs are merged now and then, to load a munk for one: what that takes is
    /// no munk's, or each would drive out another, which is loaded again as soon as it is over.
    pub(crate) fn munk_load_limit_bytes(&self) -> u64 {
        let merging = self.logs.merging_bytes();
        let kept = self.logs.used_bytes().saturating_sub(merging);
        let spared = self.logs.merges.limit_bytes().min(MERGE_SPARED_BYTES);
        self.munk_limit_while_logs_use(kept + merging.max(spared))
    }

    fn munk_limit_while_logs_use(&self, used: u64) -> u64 {
        let of_logs = self.logs.share_bytes();
        // In steps, as a chunk should not go for what a log needs for a moment.
        let step = (of_logs / 8).max(1);
        self.munk_share_bytes() + of_logs.saturating_sub(used.div_ceil(step) * step)
    }

    /// The munks' share, without what keyspaces take: nothing else is as large and as quick to go.
    fn munk_share_bytes(&self) -> u64 {
        let share = self.munk_limit_bytes.load(Relaxed);
        share.saturating_sub(self.keyspaces.used_bytes())
    }

    /// By how much munks exceed what they may take.
    #[inline]
    pub(crate) fn munk_excess_bytes(&self) -> u64 {
        let taken = self.munk_bytes.load(Relaxed);
        // Asked for each write: what logs take changes all the time.
        if taken <= self.munk_share_bytes() {
            return 0;
        }
        taken.saturating_sub(self.munk_limit_bytes())
    }

    /// Memory accounted for.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.blocks.used_bytes()
            + self.rows.used_bytes()
            + self.munk_bytes.load(Relaxed)
            + self.logs.used_bytes()
            + self.logs.write_buffer_used.used_bytes()
            + self.keyspaces.used_bytes()
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        MemoryStats {
            munk_limit: self.munk_limit_bytes(),
            munks: self.munk_bytes.load(Relaxed),
            row_limit: self.rows.capacity_bytes(),
            rows: self.rows.used_bytes(),
            block_limit: self.blocks.capacity_bytes(),
            blocks: self.blocks.used_bytes(),
            log_indexes: self.logs.indexes.used_bytes() + self.logs.views.used_bytes(),
            merges: self.logs.merging_bytes(),
            write_buffer: self.logs.write_buffer_used.used_bytes(),
            keyspaces: self.keyspaces.used_bytes(),
            freed: pages::kept_bytes(),
            recent: self.logs.recent.bytes(),
            recent_reads: self.logs.recent.reads(),
            moves: self.moves.load(Relaxed),
            row_hits: self.rows.hits.get(),
            row_misses: self.rows.misses.get(),
        }
    }

    /// Counts reads, however they are served.
    pub(crate) fn count_reads(&self, reads: u64) {
        self.reads.add(reads);
    }

    /// Notes what a read cost beyond memory.
    pub(crate) fn charge(&self, cost: Cost) {
        self.costs.add(cost as u64);
    }

    /// Notes that a chunk was loaded into memory.
    pub(crate) fn charge_load(&self, bytes: u64) {
        self.costs.add(bytes / LOADED_BYTES_PER_BLOCK * Cost::File as u64);
    }

    /// Whether munks, rows and blocks have taken what they may.
    fn is_filled(&self, part: usize) -> bool {
        let (used, limit) = match part {
            0 => (self.munk_bytes.load(Relaxed), self.munk_limit_bytes()),
            1 => (self.rows.used_bytes(), self.rows.capacity_bytes()),
            _ => (self.blocks.used_bytes(), self.blocks.capacity_bytes()),
        };
        used >= limit / 100 * FILLED_PERCENT
    }

    /// A keyspace profits if memory moves to where it pays. If none says so before the next tick, the division stays.
    pub(crate) fn let_climb(&self) {
        self.climbs.store(true, Relaxed);
    }

    /// Bytes of data of all stores that share the budget.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes.load(Relaxed)
    }

    /// True if the first division by what data there is took place; from then on only many reads change it.
    #[cfg(test)]
    pub(crate) fn knows_data(&self) -> bool {
        self.trial.lock().knows_data
    }

    /// To be called every second or two: judges the division that is being tried, and tries another; and gives back memory
    /// that was freed.
    pub(crate) fn tick(&self) {
        pages::give_up_idle();
        if !self.climbs.swap(false, Relaxed) {
            return;
        }
        let mut trial = self.trial.lock();
        if trial.filling {
            let filled = trial.climber.grown.is_none_or(|part| self.is_filled(part));
            if !filled && trial.moved.elapsed() < FILLING_MAX {
                return;
            }
            trial.filling = false;
            (trial.begun, trial.costs, trial.reads) = (now(), self.total_costs(), self.reads.get());
            return;
        }
        let costs = self.total_costs();
        let reads = self.reads.get();
        if !std::mem::replace(&mut trial.knows_data, true) {
            // Nothing is known of the reads yet, but how much data was there at the opening.
            let parts = first_parts(self.total_bytes, self.data_bytes());
            trial.climber = Climber::new(shares_of(parts));
            self.split_in_memory(parts);
            return;
        }
        let done = reads.saturating_sub(trial.reads);
        if done < TRIAL_READS || trial.begun.elapsed() < TRIAL {
            return;
        }
        let cost = costs.saturating_sub(trial.costs) as f64 / done as f64;
        let before = trial.climber.shares;
        let at = trial.first.elapsed().as_secs_f64();
        if trial.climber.observe(cost, at) {
            self.moves.fetch_add(1, Relaxed);
        }
        trial.filling = trial.climber.shares != before;
        let shared = (self.total_bytes / 100 * SHARED_PERCENT) as f64;
        self.split_in_memory(trial.climber.shares.map(|share| (shared * share) as u64));
        (trial.begun, trial.costs, trial.reads) = (now(), costs, reads);
        trial.moved = trial.begun;
    }

    fn split_in_memory(&self, [munks, rows, blocks]: [u64; 3]) {
        self.munk_limit_bytes.store(munks, Relaxed);
        self.rows.set_capacity_bytes(rows);
        self.blocks.set_capacity_bytes(blocks);
        self.make_room();
    }

    /// Munks, rows and merges use pages; what they leave of theirs, freed ones may take until they are wanted again.
    fn make_room(&self) {
        let of_logs = self.logs.share_bytes() + self.logs.write_buffer.limit_bytes();
        let in_heap = self.blocks.capacity_bytes() + of_logs;
        self.room.set(self.total_bytes.saturating_sub(in_heap));
    }

    fn total_costs(&self) -> u64 {
        self.costs.get() + self.blocks.misses() * Cost::File as u64
    }
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").field("total_bytes", &self.total_bytes).finish_non_exhaustive()
    }
}

/// Every way to move something from one share to another.
const WAYS: [(usize, usize); 6] = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)];
/// After every way was tried in vain, this many observations pass before the next attempt, at first and at most.
const REST_MIN: u32 = 2;
const REST_MAX: u32 = 32;

/// Climbs down a cost that it learns about one observation at a time.
///
/// Caches that fill make reads cheaper by themselves. So before something is moved for trial, it is observed how fast
/// costs fall without that, and a move must do better than they would have gone on to.
#[derive(Debug, Clone)]
struct Climber {
    /// Of munks, rows and blocks; their sum is 1.
    shares: [f64; 3],
    /// What things cost under these shares, and when.
    before: Option<(f64, f64)>,
    trying: Option<Attempt>,
    /// What has more than a moment ago.
    grown: Option<usize>,
    way: usize,
    /// Ways that failed in a row.
    failures: usize,
    rest: u32,
    resting: u32,
}

/// A move on trial.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    amount: f64,
    /// What things cost before, when that was, and by which factor a second they became cheaper.
    cost: f64,
    at: f64,
    drift: f64,
    /// For how long that was observed: it is not believed to go on for longer.
    observed: f64,
}

impl Climber {
    fn new(shares: [f64; 3]) -> Self {
        Self {
            shares,
            before: None,
            trying: None,
            grown: None,
            way: 0,
            failures: 0,
            rest: REST_MIN,
            resting: 0,
        }
    }

    fn shift(&mut self, amount: f64) {
        let (from, to) = WAYS[self.way];
        self.grown = Some(if amount > 0.0 { to } else { from });
        self.shares[from] -= amount;
        self.shares[to] += amount;
    }

    /// Judges by what reads cost under the present shares at this time, in seconds; tells whether a move turned out
    /// well.
    fn observe(&mut self, cost: f64, at: f64) -> bool {
        if let Some(attempt) = self.trying.take() {
            self.before = None;
            let expected = attempt.cost * attempt.drift.powf((at - attempt.at).min(attempt.observed));
            let better = cost < expected * (1.0 - GAIN_MIN);
            if better {
                (self.failures, self.rest) = (0, REST_MIN);
            } else {
                self.shift(-attempt.amount);
                self.way = (self.way + 1) % WAYS.len();
                self.failures += 1;
            }
            return better;
        }
        let Some((before, when)) = self.before.replace((cost, at)) else { return false };
        if self.failures >= WAYS.len() {
            self.failures = 0;
            (self.resting, self.rest) = (self.rest, (2 * self.rest).min(REST_MAX));
        }
        if self.resting > 0 {
            self.resting -= 1;
            return false;
        }
        let drift = if before > cost { (cost / before).powf(1.0 / (at - when)) } else { 1.0 };
        for _ in 0..WAYS.len() {
            let amount = STEP.min(self.shares[WAYS[self.way].0] - SHARE_MIN);
            if amount > STEP / 8.0 && cost > 0.0 {
                self.shift(amount);
                self.trying = Some(Attempt { amount, cost, at, drift, observed: at - when });
                break;
            }
            self.way = (self.way + 1) % WAYS.len();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn climb_while(cost: impl Fn([f64; 3], f64) -> f64) -> [f64; 3] {
        let mut climber = Climber::new([0.75, 0.1, 0.15]);
        for second in 0..400 {
            let shares = climber.shares;
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            assert!(shares.iter().all(|share| *share >= SHARE_MIN - 1e-9), "{shares:?}");
            climber.observe(cost(shares, f64::from(second)), f64::from(second));
        }
        climber.shares
    }

    fn climb(cost: impl Fn([f64; 3]) -> f64) -> [f64; 3] {
        climb_while(|shares, _| cost(shares))
    }

    #[test]
    fn chance_does_not_freeze_the_division() {
        let mut climber = Climber::new([0.75, 0.1, 0.15]);
        let (mut at, mut random) = (0.0, 1u64);
        for _ in 0..400 {
            // A trial takes several seconds, as what was given more is filled first.
            at += if climber.trying.is_some() { 7.0 } else { 1.0 };
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let noise = (random >> 40) as f64 / (1u64 << 24) as f64 - 0.5;
            climber.observe((10.0 - 8.0 * climber.shares[1]) * (1.0 + 0.02 * noise), at);
        }
        assert!(climber.shares[1] > 0.7, "{:?}", climber.shares);
    }

    #[test]
    fn what_becomes_cheaper_by_itself_proves_no_move() {
        let shares = climb_while(|[munks, ..], second| (10.0 - 2.0 * munks) * 0.97f64.powf(second));
        assert!(shares[0] >= 0.75, "while caches fill, every move seems to pay: {shares:?}");
    }

    #[test]
    fn memory_goes_where_it_pays() {
        let rows_pay = climb(|[_, rows, _]| 10.0 - 8.0 * rows);
        assert!(rows_pay[1] > 0.8, "{rows_pay:?}");
        let munks_pay = climb(|[munks, ..]| 10.0 - 8.0 * munks);
        assert!(munks_pay[0] > 0.8, "{munks_pay:?}");
        let blocks_pay = climb(|[.., blocks]| 10.0 - 8.0 * blocks);
        assert!(blocks_pay[2] > 0.8, "{blocks_pay:?}");
    }

    #[test]
    fn where_nothing_pays_it_rests_near_where_it_began() {
        let shares = climb(|_| 5.0);
        assert!((shares[0] - 0.75).abs() < 0.1, "{shares:?}");
        let idle = climb(|_| 0.0);
        assert_eq!(idle, [0.75, 0.1, 0.15], "without a cost there is nothing to gain");
    }

    /// What munks may take of a budget whose stores have so much data.
    fn munks_of(total_bytes: u64, stores: &[u64]) -> u64 {
        let budget = Arc::new(Budget::new(total_bytes));
        let shares: Vec<_> = stores.iter().map(|_| DataShare::new(budget.clone())).collect();
        for (share, live_bytes) in shares.iter().zip(stores) {
            share.set(1 << 40);
            share.set(*live_bytes);
        }
        budget.let_climb();
        budget.tick();
        budget.munk_limit_bytes()
    }

    #[test]
    fn the_more_data_there_is_the_less_munks_begin_with() {
        let begin = |live_bytes: u64| munks_of(1 << 30, &[live_bytes]) * 100 / (1 << 30);
        assert_eq!([0, 1 << 30, 2 << 30, 4 << 30].map(begin), [89, 89, 73, 39]);
        let little = munks_of(128 << 20, &[4 << 30]);
        assert!(little < (128 << 20) / 100 * 41, "with 128 MiB as with more");
        let before = Budget::new(1 << 20).munk_limit_bytes();
        let small = munks_of(1 << 20, &[1 << 30]);
        assert_eq!(small, before, "a small budget has none to spare beside its blocks");
    }

    #[test]
    fn the_data_of_stores_that_share_a_budget_is_added_up() {
        assert_eq!(munks_of(1 << 30, &[1 << 30; 4]), munks_of(1 << 30, &[4 << 30]));
        let budget = Arc::new(Budget::new(1 << 30));
        let share = DataShare::new(budget.clone());
        share.set(4 << 30);
        drop(share);
        assert_eq!(budget.data_bytes(), 0, "a store that is closed has none");
    }

    #[test]
    fn what_may_be_loaded_does_not_depend_on_what_is_merged() {
        for total_bytes in [24 << 20, 192 << 20, 1 << 30] {
            let budget = Budget::new(total_bytes);
            let loadable = budget.munk_load_limit_bytes();
            assert!(loadable > total_bytes / 100 * 40 && loadable < budget.munk_limit_bytes());
            let merging =
                budget.logs.merges.charge(budget.logs.merges.limit_bytes().min(MERGE_SPARED_BYTES)).unwrap();
            assert_eq!(budget.munk_load_limit_bytes(), loadable);
            assert!(budget.munk_limit_bytes() >= loadable);
            drop(merging);
            budget.logs.indexes.counter().store(budget.logs.indexes.limit_bytes() * 2, Relaxed);
            assert_eq!(budget.munk_load_limit_bytes(), budget.munk_limit_bytes(), "nothing is lent");
        }
    }

    #[test]
    fn what_merges_take_is_counted_and_leaves_less_for_what_was_appended_last() {
        let budget = Budget::new(192 << 20);
        let limit = budget.logs.merges.limit_bytes();
        let recent = budget.logs.recent_limit_bytes();
        let all = budget.logs.merges.charge(limit).unwrap();
        assert!(budget.logs.merges.charge(64 << 10).is_none(), "others have taken too much");
        let little = budget.logs.merges.charge_anyway(64 << 10).unwrap();
        let held = budget.logs.held.charge_anyway(2 << 20).unwrap();
        assert_eq!(budget.used_bytes(), limit + (64 << 10) + (2 << 20));
        assert_eq!(budget.stats().merges, budget.used_bytes());
        assert!(budget.logs.recent_limit_bytes() <= recent.saturating_sub(limit / 3), "{recent}");
        let of_logs = budget.logs.indexes.limit_bytes() + budget.logs.views.limit_bytes();
        assert!(
            budget.logs.recent_limit_bytes() + limit < of_logs,
            "together they keep to the share of logs"
        );
        drop((all, little, held));
        assert_eq!((budget.used_bytes(), budget.logs.recent_limit_bytes()), (0, recent));
    }

    #[test]
    fn a_budget_is_divided_whole() {
        let budget = Budget::new(1 << 30);
        let parts =
            || [budget.munk_limit_bytes(), budget.rows.capacity_bytes(), budget.blocks.capacity_bytes()];
        let sum: u64 = parts().iter().sum();
        assert!(sum <= 1 << 30 && sum > (1 << 30) / 100 * 95, "{sum}");
        assert!(parts()[0] > (1 << 30) / 100 * 80, "munks start with most of it");
        let used = budget.logs.indexes.limit_bytes() + (1 << 20);
        budget.logs.indexes.counter().store(used, Relaxed);
        let with_logs = parts().iter().sum::<u64>() + used;
        assert!(with_logs <= sum && with_logs > sum / 100 * 98, "what logs use is not lent");
    }
}
