//! Statistics of background jobs.

use super::pool::Pool;

/// Number of jobs of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct JobStats {
    /// Jobs that wait for a background thread.
    pub waiting: u64,
    /// Jobs that background threads run.
    pub running: u64,
}

/// Background jobs by their urgency, the most urgent class first. The counts include all stores
/// that share the threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MaintenanceStats {
    /// Checkpoints.
    pub checkpoint: JobStats,
    /// Jobs of milliseconds that make room for writers. One thread runs nothing else.
    pub seal: JobStats,
    /// Merges of the youngest runs.
    pub level_0: JobStats,
    /// Merges of older runs: rebalances of chunks, and loads of chunks into memory.
    pub deep: JobStats,
    /// Jobs that can wait for all others: merges that users asked for, and the removal of unused
    /// files.
    pub asked: JobStats,
}

impl MaintenanceStats {
    /// The jobs of a pool at one moment.
    pub(crate) fn of(pool: &Pool) -> Self {
        let [checkpoint, seal, level_0, deep, asked] =
            pool.jobs().map(|jobs| JobStats { waiting: jobs.waiting as u64, running: jobs.running as u64 });
        Self { checkpoint, seal, level_0, deep, asked }
    }

    fn classes(&self) -> [JobStats; 5] {
        [self.checkpoint, self.seal, self.level_0, self.deep, self.asked]
    }

    /// Jobs of all classes that wait.
    pub(crate) fn queued(&self) -> u64 {
        self.classes().iter().map(|jobs| jobs.waiting).sum()
    }

    /// Jobs of all classes that background threads run.
    pub(crate) fn running(&self) -> u64 {
        self.classes().iter().map(|jobs| jobs.running).sum()
    }
}
