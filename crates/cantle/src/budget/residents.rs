//! The regions in memory of all keyspaces and stores that share a memory budget, and the choice of
//! those to evict.
//!
//! All regions share one part of the budget. A region is evicted in two cases, and then it is the
//! least popular one of all keyspaces and stores:
//!
//! * Regions have grown beyond their limit ([`Residents::evict`]).
//! * A region should be loaded, finds no room, and is clearly more popular ([`Residents::admits`]).
//!
//! Regions of about the same popularity do not evict one another in turn. A region that displaces
//! none must leave some room for those that grow, so the memory of one evicted region is not enough
//! to load it again.
//!
//! Thread safety: everything may be called from any thread. One thread evicts at a time; others
//! skip eviction, as there is another chance soon. No thread waits here for the lock of a region,
//! whose store may have a disk that hangs.

use crate::sync::Mutex;
use crate::sync::waits::{self, Cause};

/// Percent of the regions' part that a load leaves free if it displaces no region: a region that is
/// written to grows until it is copied.
const ROOM_PERCENT: u64 = 4;
/// Maximum excess of regions over their part, between two passes of maintenance 20 ms apart: this
/// fraction of it, and at most `EXCESS_BYTES_MAX` bytes. A writer that finds more evicts before it
/// continues.
pub(super) const EXCESS_FRACTION: u64 = 16;
pub(super) const EXCESS_BYTES_MAX: u64 = 16 << 20;
/// A ranking of n regions serves for n divided by this number of uses, and a small one is made for
/// each use, as it costs some microseconds.
pub(super) const RESIDENTS_PER_USE: usize = 256;

/// A region that is in memory, or was.
pub(crate) trait Resident: Send + Sync {
    /// Identity of the region.
    fn id(&self) -> usize;
    /// `None` once the region is not in memory.
    fn rank(&self) -> Option<Rank>;
    /// Evicts the region, unless a thread is writing to it.
    fn evict(&self);
}

/// The order of eviction: regions that are not busy first, and of these the one with the least
/// score.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rank {
    /// Regions that are being accessed are evicted last. Inserts in key order go to one region,
    /// which is new and has no score yet, and which would grow faster on disk than it could be
    /// loaded again.
    pub is_busy: bool,
    pub score: u64,
    /// Memory that the region takes, in bytes.
    pub bytes: u64,
}

/// Limit and use of the memory of all regions together, in bytes.
pub(crate) trait Usage {
    fn limit(&self) -> u64;
    /// The limit that applies after another region is loaded.
    fn load_limit(&self) -> u64;
    /// Bytes that regions in memory take.
    fn taken(&self) -> u64;
    /// Bytes that regions being loaded will take.
    fn loading(&self) -> u64;
    /// Bytes taken beyond the limit.
    fn excess(&self) -> u64;
}

#[derive(Default)]
pub(crate) struct Residents {
    ranking: Mutex<Ranking>,
}

#[derive(Default)]
struct Ranking {
    /// The least popular first, as of the last ranking; after them the regions added since.
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
            // Each region is ranked once per sort: regions are accessed meanwhile, and a sort needs
            // a constant order.
            let look = |resident: Box<dyn Resident>| Some((resident.rank()?, resident));
            let mut ranked: Vec<_> = self.ranked.drain(..).filter_map(look).collect();
            ranked.sort_by_key(|(rank, _)| (rank.is_busy, rank.score));
            self.ranked.extend(ranked.into_iter().map(|(_, resident)| resident));
        }
        &self.ranked
    }
}

impl Residents {
    /// Registers a region that is in memory now.
    pub(crate) fn add(&self, resident: Box<dyn Resident>) {
        let mut ranking = self.ranking.lock();
        // Regions that have left memory are removed from time to time, even if none has to be
        // evicted.
        ranking.ranked();
        ranking.ranked.retain(|other| other.id() != resident.id());
        ranking.ranked.push(resident);
    }

    /// True if a region of `bytes` should be loaded. If there is no room, the least popular regions
    /// whose score makes way for it are evicted; none is, if they would not be enough.
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
        // A region that displaces none must not fill the room that is to be left.
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

    /// Evicts the least popular regions until all are within their limit.
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

    /// The same for a writer, if regions exceed their limit by far. Without this, a store that
    /// grows quickly would take much more than its budget between two passes of maintenance. The
    /// writer holds no lock.
    #[inline]
    pub(crate) fn evict_if_crowded(&self, usage: &impl Usage) {
        let excess = usage.excess();
        if excess > 0 && excess > EXCESS_BYTES_MAX.min(usage.limit() / EXCESS_FRACTION) {
            waits::timed(Cause::Allocation, || self.evict(usage));
        }
    }
}
