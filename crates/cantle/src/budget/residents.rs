//! The regions in memory of all keyspaces and stores that share a memory budget: which of them is evicted, and for what.
//!
//! Regions take one part of the budget together. One is evicted in two cases, and then it is the least popular one, whichever
//! keyspace or store it belongs to:
//!
//! * Regions have grown beyond what they may take ([`Residents::evict`]).
//! * A region is to be loaded and finds no room, and is clearly more popular ([`Residents::admits`]).
//!
//! Regions of about the same popularity do not take turns: one that displaces none must leave some room to those that grow,
//! so that the memory of one that was evicted is not enough to load it again.
//!
//! Thread safety: everything may be called from any thread. One thread evicts at a time; others do without, as there is a next time
//! soon. Nobody waits here for the lock of a region, whose store may have a disk that hangs.

use crate::sync::Mutex;

/// Percent of the regions' part that one leaves free if it displaces none: a region that is written to grows until it is copied.
const ROOM_PERCENT: u64 = 4;
/// Regions may exceed their part by this fraction of it, or so many bytes, between two looks of maintenance, 20 ms apart. A writer that
/// finds more evicts before it goes on.
pub(super) const EXCESS_FRACTION: u64 = 16;
pub(super) const EXCESS_BYTES_MAX: u64 = 16 << 20;
/// A ranking of fewer regions is made for each use, as it costs some microseconds; one of more serves once more for every so many.
pub(super) const RESIDENTS_PER_USE: usize = 256;

/// A region that is in memory, or was.
pub(crate) trait Resident: Send + Sync {
    /// Tells regions apart.
    fn id(&self) -> usize;
    /// `None` once the region is not in memory.
    fn rank(&self) -> Option<Rank>;
    /// Takes the region out of memory, unless somebody writes to it just now.
    fn evict(&self);
}

/// Tells in which order regions are evicted: those that are not busy first, of these the one with the least score.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rank {
    /// Regions that are being accessed go last: inserts in order go to one region, which is new and has no score yet, and outside of memory
    /// would grow faster than it could be loaded again.
    pub is_busy: bool,
    pub score: u64,
    /// The memory that it takes.
    pub bytes: u64,
}

/// Limit and use of the memory of all regions together, in bytes.
pub(crate) trait Usage {
    fn limit(&self) -> u64;
    /// The limit once another region is loaded.
    fn load_limit(&self) -> u64;
    /// Taken by regions in memory.
    fn taken(&self) -> u64;
    /// Bytes that regions will take which are being loaded.
    fn loading(&self) -> u64;
    /// Taken beyond the limit.
    fn excess(&self) -> u64;
}

#[derive(Default)]
pub(crate) struct Residents {
    ranking: Mutex<Ranking>,
}

#[derive(Default)]
struct Ranking {
    /// The least popular first, as of the last ranking; behind them those that came since.
    ranked: Vec<Box<dyn Resident>>,
    /// The number of times that this ranking was used.
    uses: usize,
}

impl Ranking {
    /// The regions in memory, the least popular first.
    fn ranked(&mut self) -> &[Box<dyn Resident>] {
        self.uses += 1;
        if self.uses > self.ranked.len() / RESIDENTS_PER_USE {
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

impl Residents {
    /// A region is in memory now.
    pub(crate) fn add(&self, resident: Box<dyn Resident>) {
        let mut ranking = self.ranking.lock();
        // Those that are not in memory any more are forgotten now and then, even if nobody has to be evicted.
        ranking.ranked();
        ranking.ranked.retain(|other| other.id() != resident.id());
        ranking.ranked.push(resident);
    }

    /// True if a region is to be loaded that takes `bytes`. If it finds no room, the least popular of those whose score
    /// makes way for it are evicted; none if they would not be enough.
    pub(crate) fn admits(&self, usage: &impl Usage, bytes: u64, makes_way: impl Fn(u64) -> bool) -> bool {
        let limit = usage.load_limit();
        let wanted = bytes + usage.taken() + usage.loading();
        if bytes > limit / 2 {
            return false;
        }
        if wanted <= limit / 100 * (100 - ROOM_PERCENT) {
            return true;
        }
        let Some(mut ranking) = self.ranking.try_lock() else { return false };
        // One that displaces none does not fill the room that is to be left.
        let short_bytes = wanted.saturating_sub(limit).max(1);
        let (mut gone, mut freed_bytes) = (Vec::new(), 0);
        for resident in ranking.ranked() {
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

    /// Has regions take no more than they may: the least popular are evicted.
    #[cold]
    pub(crate) fn evict(&self, usage: &impl Usage) {
        let Some(mut ranking) = self.ranking.try_lock() else { return };
        for resident in ranking.ranked() {
            if usage.excess() == 0 {
                return;
            }
            resident.evict();
        }
    }

    /// The same for a writer, if there is far too little memory. Without this, a store that grows quickly would take much more than
    /// its budget between two looks of maintenance. The writer holds no lock.
    #[inline]
    pub(crate) fn evict_if_crowded(&self, usage: &impl Usage) {
        let excess = usage.excess();
        if excess > 0 && excess > EXCESS_BYTES_MAX.min(usage.limit() / EXCESS_FRACTION) {
            self.evict(usage);
        }
    }
}
