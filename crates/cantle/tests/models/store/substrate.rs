//! The library's substrate of checkpoints, reduced: versions, files, manifest and journal work, the
//! rest does nothing.

use super::Fault;
use super::disk::{Disk, DiskVfs, Manifest};
use crate::files::Files;
use crate::mvcc::{Batches, KeySpan, Mvcc, SnapshotGuard};
use crate::substrate::checkpoint::{Checkpoints, DirtySet};
use crate::substrate::parts::CheckpointParts;
use crate::sync::Arc;
use crate::types::error::{Error, Result};

pub struct Substrate {
    pub files: Arc<Files>,
    pub manifest: Manifest,
    pub journal: Journal,
    pub mvcc: Versions,
    pub dirty: DirtySet,
    pub parts: CheckpointParts,
    pub checkpoints: Checkpoints,
    pub batches: Batches,
    pub health: Health,
    pub read_only: bool,
    pub vouch: PageCacheWitness,
    pub reserve: Reserve,
    pub disk: Arc<Disk>,
}

impl Substrate {
    pub fn new(disk: Arc<Disk>, fault: Fault) -> Self {
        let vfs = Arc::new(DiskVfs(disk.clone()));
        Self {
            files: Arc::new(Files::new(vfs, "store".into(), 0, 1, 1)),
            manifest: Manifest::new(disk.clone()),
            journal: Journal(disk.clone()),
            mvcc: Versions { mvcc: Arc::new(Mvcc::with_slots(1, 4)), fault },
            dirty: DirtySet::default(),
            parts: CheckpointParts::default(),
            checkpoints: Checkpoints::new(0, 1),
            batches: Batches::new(1),
            health: Health,
            read_only: false,
            vouch: PageCacheWitness,
            reserve: Reserve,
            disk,
        }
    }

    pub fn forget_gone(&self) {}
}

/// The library's versions, in the form that checkpoints use.
pub struct Versions {
    pub mvcc: Arc<Mvcc>,
    fault: Fault,
}

pub struct CheckpointSnapshot {
    version: u64,
    /// Held until it is dropped.
    _guard: Option<SnapshotGuard>,
}

impl Versions {
    pub fn own_snapshot(&self, span: KeySpan) -> CheckpointSnapshot {
        let span = if self.fault == Fault::RecordsBeforeWaiting { KeySpan::EMPTY } else { span };
        let guard = self.mvcc.own_snapshot(span);
        let version = guard.version();
        let guard = Some(guard).filter(|_| self.fault != Fault::CheckpointIsNoSnapshot);
        CheckpointSnapshot { version, _guard: guard }
    }
}

impl CheckpointSnapshot {
    pub fn version(&self) -> u64 {
        self.version
    }
}

pub struct Journal(Arc<Disk>);

impl Journal {
    pub fn rotate(&self, _: u64) -> Result<()> {
        self.0.sync_journal();
        Ok(())
    }

    pub fn first_needed(&self, _: u64, _: u64) -> u64 {
        0
    }

    pub fn retire(&self, _: u64, _: u64) {}
}

pub struct Health;

impl Health {
    pub fn check_sound(&self) -> Result<()> {
        Ok(())
    }

    pub fn fail(&self, reason: String) {
        panic!("{reason}");
    }
}

pub struct PageCacheWitness;

impl PageCacheWitness {
    pub fn revoke(&self) -> std::result::Result<(), Error> {
        Ok(())
    }
}

pub struct Reserve;

impl Reserve {
    pub fn with<T>(&self, run: impl FnOnce() -> T) -> T {
        run()
    }

    pub fn is_full(&self) -> bool {
        false
    }

    pub fn maintain(&self) {}
}
