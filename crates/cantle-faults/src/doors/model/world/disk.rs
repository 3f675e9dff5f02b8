//! The file system of a configuration's store, and the calls that fail on it.

use super::super::random::Random;
use crate::rng::Rng;
use cantle::vfs::{Call, CrashPlan, Failure, FaultVfs, MemVfs, Operation, StdVfs, Verdict, Vfs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use tempfile::TempDir;

/// Number of reads per thousand that fail while batches of keys are read. A read that failed among
/// others is repeated once: about one in eleven fails twice.
const READS_PERMILLE: u64 = 300;

pub enum Disk {
    Memory(MemVfs),
    /// In memory; some calls fail during a write or an opening.
    Failing(MemVfs, FaultVfs, Arc<Failing>),
    Real(TempDir),
}

/// The calls that fail.
#[derive(Debug)]
pub struct Failing {
    /// Number of calls per thousand that fail at the moment.
    armed: AtomicU64,
    /// True if only reads fail at the moment.
    reads_only: AtomicBool,
    /// True after a failed sync: data that were not durable before may be lost with the process.
    sync_failed: AtomicBool,
    failed: AtomicU64,
    permille: u64,
    seed: u64,
    traces: bool,
}

/// Calls fail until this is dropped.
pub struct Armed(Arc<Failing>);

impl Drop for Armed {
    fn drop(&mut self) {
        self.0.armed.store(0, SeqCst);
    }
}

impl Failing {
    fn arm(self: &Arc<Self>, permille: u64, reads_only: bool) -> Armed {
        self.reads_only.store(reads_only, SeqCst);
        self.armed.store(permille, SeqCst);
        Armed(Arc::clone(self))
    }

    fn judge(&self, call: &Call<'_>) -> Verdict {
        // A store to a mapping cannot fail.
        let may_fail = match self.reads_only.load(SeqCst) {
            true => call.operation == Operation::ReadAt,
            false => call.operation != Operation::Store,
        };
        let permille = self.armed.load(SeqCst);
        if !may_fail || permille == 0 {
            return Verdict::Pass;
        }
        let mut random = Random::of_operation(self.seed, call.number);
        if random.below(1000) as u64 >= permille {
            return Verdict::Pass;
        }
        self.failed.fetch_add(1, SeqCst);
        if matches!(call.operation, Operation::SyncData | Operation::SyncDir) {
            self.sync_failed.store(true, SeqCst);
        }
        let short = Verdict::ShortWrite { bytes: random.below(200), failure: Failure::ENOSPC };
        let verdict = match random.below(8) {
            // One page, which the page cache takes completely or not at all.
            0..2 if call.operation == Operation::WriteAt && !call.path.ends_with("PAGECACHE") => short,
            0..4 => Verdict::Fail(Failure::EIO),
            4..6 => Verdict::Fail(Failure::ENOSPC),
            6 => Verdict::Fail(Failure::EMFILE),
            _ => Verdict::Fail(Failure::EINTR),
        };
        if self.traces {
            eprintln!(
                "       ! {:?} {} at {}: {verdict:?}",
                call.operation,
                call.path.display(),
                call.offset
            );
        }
        verdict
    }
}

impl Disk {
    pub fn new(real: bool, permille: u64, seed: u64, traces: bool) -> Self {
        match (real, permille) {
            (true, _) => Self::Real(tempfile::tempdir().unwrap()),
            (false, 0) => Self::Memory(MemVfs::new()),
            _ => Self::failing(MemVfs::without_history(), permille, seed, traces),
        }
    }

    fn failing(memory: MemVfs, permille: u64, seed: u64, traces: bool) -> Self {
        let failing = Arc::new(Failing {
            armed: AtomicU64::new(0),
            reads_only: AtomicBool::new(false),
            sync_failed: AtomicBool::new(false),
            failed: AtomicU64::new(0),
            permille,
            seed,
            traces,
        });
        let (fault, judge) = (FaultVfs::over_memory(memory.clone()), Arc::clone(&failing));
        fault.set_rule(move |call| judge.judge(call));
        Self::Failing(memory, fault, failing)
    }

    pub fn vfs(&self) -> Arc<dyn Vfs> {
        match self {
            Self::Memory(memory) => Arc::new(memory.clone()),
            Self::Failing(_, fault, _) => Arc::new(fault.clone()),
            Self::Real(_) => Arc::new(StdVfs),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        match self {
            Self::Real(dir) => dir.path().join(name),
            _ => PathBuf::from(name),
        }
    }

    /// The disk as the death of the process leaves it; `None` if that cannot be simulated.
    pub fn killed(&self) -> Option<Self> {
        match self {
            Self::Memory(memory) => Some(Self::Memory(memory.kill())),
            Self::Failing(memory, _, failing) => {
                let seed = Rng::new(failing.seed).next();
                Some(Self::failing(memory.kill(), failing.permille, seed, failing.traces))
            }
            Self::Real(_) => None,
        }
    }

    /// The disk as a loss of power leaves it that loses everything that was not made durable;
    /// `None` if that cannot be simulated.
    pub fn without_power(&self) -> Option<Self> {
        let Self::Memory(memory) = self else { return None };
        Some(Self::Memory(memory.crash(&CrashPlan::LOSE_UNSYNCED)))
    }

    /// True if calls may fail here.
    pub fn fails(&self) -> bool {
        matches!(self, Self::Failing(..))
    }

    pub fn arm(&self) -> Option<Armed> {
        let Self::Failing(_, _, failing) = self else { return None };
        Some(failing.arm(failing.permille, false))
    }

    /// Lets many reads fail, and no other calls.
    pub fn arm_reads(&self) -> Option<Armed> {
        let Self::Failing(_, _, failing) = self else { return None };
        Some(failing.arm(READS_PERMILLE, true))
    }

    /// Number of failed calls since the last call of this function.
    pub fn take_failed(&self) -> u64 {
        if let Self::Failing(_, _, failing) = self { failing.failed.swap(0, SeqCst) } else { 0 }
    }

    pub fn sync_failed(&self) -> bool {
        matches!(self, Self::Failing(_, _, failing) if failing.sync_failed.load(SeqCst))
    }

    /// All data are durable again.
    pub fn forget_failed_syncs(&self) {
        if let Self::Failing(_, _, failing) = self {
            failing.sync_failed.store(false, SeqCst);
        }
    }
}
