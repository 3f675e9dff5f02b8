//! The memory budget: one number, divided among accounts.
//!
//! Each use of memory has an account: its floor, its limit and its used bytes. Regions in memory,
//! rows and blocks share most of the budget, by a division that follows from the data and the reads
//! (`division.rs`). The rest is for the in-memory indexes of logs, write buffers, and memory
//! without an owner. The unused parts of the limits of rows, blocks and logs are lent to regions,
//! which can be evicted quickly. Memory of keyspaces and memtables is deducted from the
//! regions' limit too.
//!
//! Thread safety: everything may be called from any thread.

use super::division::Division;
use super::reads::Reads;
use super::residents::{self, Resident, Residents};
use super::stats::{MemoryAccount, MemoryStats};
use crate::cache::{BlockCache, rows::RowCache};
use crate::log::LogMemory;
use crate::memory::account::{Account, Charge};
use crate::memory::pages::{self, Room};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{Arc, Mutex};
use crate::vfs::ReadQueue;
use std::sync::OnceLock;

/// Bytes of the merges' limit that a load of regions may not borrow: room for two logs of regions
/// of the usual size.
const MERGE_SPARED_BYTES: u64 = 16 << 20;

/// The memory of one store, or of several stores that share it.
pub(crate) struct Budget {
    pub(crate) total_bytes: u64,
    /// The part of the budget that is not for memory in the allocator's heap.
    room: Room,
    pub(crate) blocks: BlockCache,
    pub(crate) rows: Arc<RowCache>,
    /// Regions that are in memory as a whole.
    pub(crate) resident: Account,
    /// Memory that regions being loaded will take.
    pub(crate) loading: Account,
    residents: Residents,
    /// Accounts of logs.
    pub(crate) logs: Arc<LogMemory>,
    /// Keyspaces, used or not.
    pub(crate) keyspaces: Account,
    /// For reads of many places at once through a ring, and the memory of that: charged once a store wants it.
    queue: Arc<ReadQueue>,
    queue_bytes: OnceLock<Option<Charge>>,
    /// Bytes of the limits of rows and blocks that were unused a moment ago.
    idle_bytes: AtomicU64,
    reads: Reads,
    /// Bytes of data of all stores that have a `DataShare`, and the part of it that is in layouts
    /// without regions in memory.
    data_bytes: AtomicU64,
    unresident_bytes: AtomicU64,
    /// Held while limits are changed, so that all limits belong to one division.
    divided: Mutex<Divided>,
    divisions: AtomicU64,
}

struct Divided {
    division: Division,
    /// The part of the reads that are gets, as of the last time with enough reads.
    gets_part: f64,
}

/// The size of one store's data: its part of the sum over all stores of a budget, until it is
/// dropped.
pub(crate) struct DataShare {
    budget: Arc<Budget>,
    bytes: AtomicU64,
    unresident_bytes: AtomicU64,
}

impl DataShare {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { budget, bytes: AtomicU64::new(0), unresident_bytes: AtomicU64::new(0) }
    }

    /// Sets the size of the store's data, and of the part of it that is in layouts without regions
    /// in memory.
    pub(crate) fn set(&self, bytes: u64, unresident_bytes: u64) {
        let set = |own: &AtomicU64, sum: &AtomicU64, bytes: u64| {
            // The sum wraps around, and so do differences.
            sum.fetch_add(bytes.wrapping_sub(own.swap(bytes, Relaxed)), Relaxed);
        };
        set(&self.bytes, &self.budget.data_bytes, bytes);
        set(&self.unresident_bytes, &self.budget.unresident_bytes, unresident_bytes);
    }
}

impl Drop for DataShare {
    fn drop(&mut self) {
        self.set(0, 0);
    }
}

impl Budget {
    pub(crate) fn new(total_bytes: u64) -> Self {
        let division = Division::new(total_bytes, 0, (0.0, 0.0));
        let keyspaces = Account::new(total_bytes);
        let budget = Self {
            total_bytes,
            room: Room::new(total_bytes),
            blocks: BlockCache::new(division.blocks),
            rows: Arc::new(RowCache::new(division.rows)),
            resident: Account::new(division.resident),
            loading: Account::new(u64::MAX),
            residents: Residents::default(),
            logs: Arc::new(LogMemory::new(total_bytes)),
            keyspaces,
            queue: Arc::default(),
            queue_bytes: OnceLock::new(),
            idle_bytes: AtomicU64::new(0),
            reads: Reads::new(),
            data_bytes: AtomicU64::new(0),
            unresident_bytes: AtomicU64::new(0),
            divided: Mutex::new(Divided { division, gets_part: 0.0 }),
            divisions: AtomicU64::new(0),
        };
        budget.note_idle();
        budget.make_room();
        budget
    }

    /// The queue of all stores that read many places through a ring.
    pub(crate) fn read_queue(&self) -> Arc<ReadQueue> {
        self.queue_bytes.get_or_init(|| self.keyspaces.charge_anyway(ReadQueue::RING_BYTES));
        self.queue.clone()
    }

    /// Maximum of bytes that regions in memory may take: their share, and the unused parts of the
    /// others' limits.
    pub(crate) fn resident_limit_bytes(&self) -> u64 {
        self.resident_limit_while_logs_use(self.logs.used_bytes())
    }

    /// Maximum of bytes that regions may take after another one is loaded. Logs are merged from
    /// time to time, also to load a region. The memory of merges is not lent to regions here:
    /// otherwise each merge would evict a region, which would be loaded again as soon as the merge
    /// ends.
    pub(crate) fn resident_load_limit_bytes(&self) -> u64 {
        let merging = self.logs.merging_bytes();
        let kept = self.logs.used_bytes().saturating_sub(merging);
        let spared = self.logs.merges.limit_bytes().min(MERGE_SPARED_BYTES);
        self.resident_limit_while_logs_use(kept + merging.max(spared))
    }

    fn resident_limit_while_logs_use(&self, used: u64) -> u64 {
        let of_logs = idle(self.logs.share_bytes(), used);
        self.resident_share_bytes() + of_logs + self.idle_bytes.load(Relaxed)
    }

    /// Records the unused parts of the limits of rows and blocks. Called at every pass of
    /// maintenance: it asks each shard of their caches, which is too expensive for each write.
    pub(crate) fn note_idle(&self) {
        let rows = idle(self.rows.capacity_bytes(), self.rows.used_bytes());
        let blocks = idle(self.blocks.capacity_bytes(), self.blocks.used_bytes());
        self.idle_bytes.store(rows + blocks, Relaxed);
    }

    /// The share of regions, minus the memory of keyspaces and memtables: nothing else is as large
    /// and as quick to evict.
    fn resident_share_bytes(&self) -> u64 {
        let others = self.keyspaces.used_bytes() + self.logs.memtables.used_bytes();
        self.resident.limit_bytes().saturating_sub(others)
    }

    /// Bytes by which regions exceed their limit.
    #[inline]
    pub(crate) fn resident_excess_bytes(&self) -> u64 {
        let taken = self.resident.used_bytes();
        // The cheap check first, as each write asks. The memory of logs changes all the time.
        if taken <= self.resident_share_bytes() {
            return 0;
        }
        taken.saturating_sub(self.resident_limit_bytes())
    }

    /// Registers a region that is in memory now.
    pub(crate) fn add_resident(&self, resident: Box<dyn Resident>) {
        self.residents.add(resident);
    }

    /// True if a region should be loaded; see [`Residents::admits`].
    pub(crate) fn admits_resident(&self, bytes: u64, makes_way: impl Fn(u64) -> bool) -> bool {
        self.residents.admits(self, bytes, makes_way)
    }

    /// Evicts regions until they are within their limit.
    #[cold]
    pub(crate) fn evict_residents(&self) {
        self.residents.evict(self);
    }

    /// The same for a writer, if regions exceed their limit by far.
    #[inline]
    pub(crate) fn evict_residents_if_crowded(&self) {
        self.residents.evict_if_crowded(self);
    }

    /// Bytes of memory that the budget accounts for.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.blocks.used_bytes()
            + self.rows.used_bytes()
            + self.resident.used_bytes()
            + self.logs.used_bytes()
            + self.logs.memtables.used_bytes()
            + self.logs.write_buffer_used.used_bytes()
            + self.keyspaces.used_bytes()
    }

    pub(crate) fn stats(&self) -> MemoryStats {
        let account = |floor: u64, limit: u64, used: u64| MemoryAccount { floor, limit, used };
        // A share that is never redivided is its own floor.
        let fixed = |account: &Account, used: u64| MemoryAccount {
            floor: account.limit_bytes(),
            limit: account.limit_bytes(),
            used,
        };
        let [resident, rows, blocks] = self.divided.lock().division.floors(self.total_bytes);
        let logs = &self.logs;
        MemoryStats {
            resident: account(resident, self.resident_limit_bytes(), self.resident.used_bytes()),
            rows: account(rows, self.rows.capacity_bytes(), self.rows.used_bytes()),
            blocks: account(blocks, self.blocks.capacity_bytes(), self.blocks.used_bytes()),
            log_indexes: fixed(&logs.indexes, logs.indexes.used_bytes()),
            memtables: account(0, logs.memtables.limit_bytes(), logs.memtables.used_bytes()),
            log_views: fixed(&logs.views, logs.views.used_bytes()),
            merges: account(0, logs.merges.limit_bytes(), logs.merging_bytes()),
            write_buffer: fixed(&logs.write_buffer, logs.write_buffer_used.used_bytes()),
            keyspaces: account(0, self.keyspaces.limit_bytes(), self.keyspaces.used_bytes()),
            recent: account(0, logs.recent_limit_bytes(), logs.recent.bytes()),
            freed: pages::kept_bytes(),
            recent_reads: logs.recent.reads(),
            divisions: self.divisions.load(Relaxed),
            row_hits: self.rows.hits.get(),
            row_misses: self.rows.misses.get(),
        }
    }

    /// Counts gets, wherever they are served from.
    pub(crate) fn count_gets(&self, gets: u64) {
        self.reads.count_gets(gets);
    }

    /// Counts a scan, or a step of one into another region.
    pub(crate) fn count_scan(&self) {
        self.reads.count_scan();
    }

    /// Bytes of data of all stores that share the budget.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes.load(Relaxed)
    }

    /// True if a store has reported the size of its data.
    #[cfg(test)]
    pub(crate) fn knows_data(&self) -> bool {
        self.data_bytes() > 0
    }

    /// Called a few times a second: redivides by the data and the reads of that time, and unmaps
    /// idle freed memory.
    pub(crate) fn tick(&self) {
        pages::give_up_idle();
        self.divide(self.reads.gets_part());
    }

    /// `None` leaves the part of the gets as it was: a pause in the reads is no reason to evict
    /// rows.
    fn divide(&self, gets_part: Option<f64>) {
        let mut current = self.divided.lock();
        let gets_part = gets_part.unwrap_or(current.gets_part);
        let data_bytes = self.data_bytes();
        let unresident = self.unresident_bytes.load(Relaxed) as f64 / data_bytes.max(1) as f64;
        let division = Division::new(self.total_bytes, data_bytes, (gets_part, unresident.clamp(0.0, 1.0)));
        let differs = division.differs_from(&current.division);
        current.gets_part = gets_part;
        if !differs {
            return;
        }
        current.division = division;
        self.divisions.fetch_add(1, Relaxed);
        self.resident.set_limit_bytes(division.resident);
        self.rows.set_capacity_bytes(division.rows);
        self.blocks.set_capacity_bytes(division.blocks);
        self.note_idle();
        self.make_room();
    }

    /// Regions, rows and merges use pages. Freed pages may be kept in the unused parts of their
    /// limits until they are needed.
    fn make_room(&self) {
        let memtables = self.logs.memtables.used_bytes();
        let of_logs = self.logs.share_bytes() + self.logs.write_buffer.limit_bytes() + memtables;
        let in_heap = self.blocks.capacity_bytes() + of_logs;
        self.room.set(self.total_bytes.saturating_sub(in_heap));
    }
}

/// The unused part of a limit, in steps, so that no region is evicted because another use needs a
/// little for a moment.
fn idle(limit_bytes: u64, used_bytes: u64) -> u64 {
    let step = (limit_bytes / 8).max(1);
    limit_bytes.saturating_sub(used_bytes.div_ceil(step) * step)
}

impl residents::Usage for Budget {
    fn limit(&self) -> u64 {
        self.resident_limit_bytes()
    }

    fn load_limit(&self) -> u64 {
        self.resident_load_limit_bytes()
    }

    fn taken(&self) -> u64 {
        self.resident.used_bytes()
    }

    fn loading(&self) -> u64 {
        self.loading.used_bytes()
    }

    fn excess(&self) -> u64 {
        self.resident_excess_bytes()
    }
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").field("total_bytes", &self.total_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::rows::Rows;

    fn parts(budget: &Budget) -> [u64; 3] {
        [budget.resident.limit_bytes(), budget.rows.capacity_bytes(), budget.blocks.capacity_bytes()]
    }

    fn divided(live_bytes: u64, gets: f64) -> [u64; 3] {
        let Division { resident, rows, blocks, .. } = Division::new(1 << 30, live_bytes, (gets, 0.0));
        [resident, rows, blocks]
    }

    #[test]
    fn the_division_follows_the_data_of_all_stores() {
        let budget = Arc::new(Budget::new(1 << 30));
        assert_eq!(parts(&budget), divided(0, 0.0));
        let stores = [(); 4].map(|()| DataShare::new(budget.clone()));
        for store in &stores {
            store.set(1 << 40, 0);
            store.set(1 << 29, 0);
        }
        budget.divide(Some(1.0));
        assert_eq!(parts(&budget), divided(4 << 29, 1.0));
        assert_ne!(parts(&budget), divided(1 << 29, 1.0), "no store alone is too large");
        assert_eq!(budget.stats().divisions, 1);
        drop(stores);
        assert_eq!(budget.data_bytes(), 0, "a store that is closed has none");
        budget.divide(Some(1.0));
        assert_eq!(parts(&budget), divided(0, 0.0));
    }

    /// A store without `chunk` has no regions: blocks have their memory.
    #[test]
    fn data_without_regions_leaves_their_memory_to_blocks() {
        let budget = Arc::new(Budget::new(1 << 30));
        let [resident, rows_before, _] = parts(&budget);
        let data = DataShare::new(budget.clone());
        data.set(4 << 30, 4 << 30);
        budget.divide(Some(0.0));
        let [none, rows, blocks] = parts(&budget);
        assert!(none == 0 && rows == rows_before);
        assert!(blocks > resident / 2 && blocks + budget.logs.memtables.limit_bytes() < (1 << 30) / 100 * 90);
        data.set(4 << 30, 2 << 30);
        budget.divide(Some(0.0));
        assert!(parts(&budget)[0].abs_diff(resident / 2) < 1 << 20);
        budget.logs.memtables.counter().store(100 << 20, Relaxed);
        assert_eq!(budget.resident_share_bytes(), parts(&budget)[0] - (100 << 20));
    }

    #[test]
    fn the_division_follows_the_reads() {
        let budget = Arc::new(Budget::new(1 << 30));
        let data = DataShare::new(budget.clone());
        data.set(4 << 30, 0);
        budget.tick();
        assert_eq!(parts(&budget), divided(0, 0.0), "nobody reads");
        budget.count_gets(1 << 20);
        budget.tick();
        assert_eq!(parts(&budget), divided(4 << 30, 1.0));
        (0..1 << 20).for_each(|_| budget.count_scan());
        budget.count_gets(1 << 20);
        budget.tick();
        let mixed = parts(&budget);
        assert!(mixed[0] > divided(4 << 30, 1.0)[0], "scans want regions");
        budget.divide(None);
        assert_eq!(parts(&budget), mixed, "nobody reads any more");
    }

    #[test]
    fn what_may_be_loaded_does_not_depend_on_what_is_merged() {
        for total_bytes in [24 << 20, 192 << 20, 1 << 30] {
            let budget = Budget::new(total_bytes);
            let loadable = budget.resident_load_limit_bytes();
            assert!(loadable > total_bytes / 100 * 40 && loadable < budget.resident_limit_bytes());
            let merging =
                budget.logs.merges.charge(budget.logs.merges.limit_bytes().min(MERGE_SPARED_BYTES)).unwrap();
            assert_eq!(budget.resident_load_limit_bytes(), loadable);
            assert!(budget.resident_limit_bytes() >= loadable);
            drop(merging);
            budget.logs.indexes.counter().store(budget.logs.indexes.limit_bytes() * 2, Relaxed);
            assert_eq!(budget.resident_load_limit_bytes(), budget.resident_limit_bytes(), "nothing is lent");
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
        assert_eq!(budget.stats().merges.used, budget.used_bytes());
        assert!(budget.logs.recent_limit_bytes() <= recent.saturating_sub(limit / 3), "{recent}");
        let of_logs = budget.logs.indexes.limit_bytes() + budget.logs.views.limit_bytes();
        assert!(
            budget.logs.recent_limit_bytes() + limit < of_logs,
            "together they keep to the share of logs"
        );
        drop((all, little, held));
        assert_eq!((budget.used_bytes(), budget.logs.recent_limit_bytes()), (0, recent));
        // The ring of the stores that share the budget is charged once.
        let queue = budget.read_queue();
        assert!(Arc::ptr_eq(&queue, &budget.read_queue()));
        assert_eq!(budget.used_bytes(), ReadQueue::RING_BYTES);
    }

    #[test]
    fn what_is_idle_is_lent_to_regions() {
        const MIB: u64 = 1 << 20;
        let budget = Arc::new(Budget::new(1 << 30));
        let [resident, rows, blocks] = parts(&budget);
        let all = budget.resident_limit_bytes();
        assert!(all <= 1 << 30 && all > (1 << 30) / 100 * 95, "nobody else has taken anything: {all}");
        let taken = budget.logs.indexes.limit_bytes() + MIB;
        budget.logs.indexes.counter().store(taken, Relaxed);
        let without_logs = budget.resident_limit_bytes();
        assert!((all - taken - 16 * MIB..=all - taken).contains(&without_logs), "{without_logs}");
        budget.logs.indexes.counter().store(0, Relaxed);

        let data = DataShare::new(budget.clone());
        data.set(4 << 30, 0);
        budget.divide(Some(1.0));
        assert!(budget.resident.limit_bytes() < resident && budget.rows.capacity_bytes() > rows);
        assert_eq!(budget.resident_limit_bytes(), all, "rows have more now and have not taken it yet");
        let cached = Rows::new(budget.rows.clone());
        for number in 0..200_000u64 {
            let key = number.to_be_bytes();
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if let Some(stamp) = cached.stamp(hash) {
                cached.insert(&key, hash, stamp, &[1; 1000]);
            }
        }
        budget.note_idle();
        let (used, limit) = (budget.rows.used_bytes(), budget.resident_limit_bytes());
        assert!(used > 100 * MIB, "{used}");
        assert!(
            limit + used <= all && limit + used > all - rows.max(blocks) * 2,
            "{limit} and {used} of {all}"
        );
    }
}
