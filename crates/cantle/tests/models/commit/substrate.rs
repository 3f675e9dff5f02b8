//! The substrate of the model of commits: versions, checkpoints and the health of the store are
//! the library's own, the rest is reduced.

use super::Fault;
use super::disk::Disk;
use crate::journal::Journal;
use crate::manifest::Manifest;
use crate::mvcc::{Mvcc, Unjournaled};
use crate::substrate::checkpoint::{Checkpoints, DirtySet};
use crate::substrate::health;
use crate::substrate::parts::CheckpointParts;
use crate::sync::Arc;
use crate::types::durability::Durability;
use crate::types::error::{Error, Result};
use std::io;

pub struct Substrate {
    pub mvcc: Arc<Mvcc>,
    pub unjournaled: Unjournaled,
    pub batches: Batches,
    pub durability: Durability,
    pub journal: Journal,
    pub manifest: Manifest,
    pub dirty: DirtySet,
    pub parts: CheckpointParts,
    pub checkpoints: Checkpoints,
    pub health: Health,
    pub files: Files,
    pub read_only: bool,
    pub vouch: PageCacheWitness,
    pub reserve: Reserve,
}

impl Substrate {
    pub fn new(disk: &Arc<Disk>, durability: Durability, fault: Fault) -> Self {
        Self {
            mvcc: Arc::new(Mvcc::with_slots(1, 4)),
            unjournaled: Unjournaled::new(0),
            batches: Batches { batches: crate::mvcc::Batches::new(1), fault },
            durability,
            journal: Journal::new(disk.clone(), fault),
            manifest: Manifest::new(disk.clone()),
            dirty: DirtySet::default(),
            parts: CheckpointParts::default(),
            checkpoints: Checkpoints::new(0, 2),
            health: Health { health: health::Health::default(), fault },
            files: Files,
            read_only: false,
            vouch: PageCacheWitness(disk.clone()),
            reserve: Reserve,
        }
    }

    pub fn forget_gone(&self) {}
}

pub struct Batches {
    batches: crate::mvcc::Batches,
    fault: Fault,
}

impl Batches {
    pub fn take(&self) -> u64 {
        self.batches.take()
    }

    pub fn next(&self) -> u64 {
        self.batches.next() + u64::from(self.fault == Fault::SettlesTooMany)
    }
}

pub struct Health {
    health: health::Health,
    fault: Fault,
}

impl Health {
    pub fn fail(&self, reason: String) {
        let is_doubt = reason.starts_with("a batch that failed");
        if !(is_doubt && self.fault == Fault::ForgetsTheDoubt) {
            self.health.fail(reason);
        }
    }

    pub fn check_writable(&self) -> Result<()> {
        match self.fault {
            Fault::WritesAfterTheDoubt => Ok(()),
            _ => self.health.check_writable(),
        }
    }

    pub fn check_sound(&self) -> Result<()> {
        self.health.check_sound()
    }

    pub fn begin_close(&self) {
        self.health.begin_close();
    }
}

/// Only what a checkpoint asks for. Names are durable at once.
pub struct Files;

impl Files {
    pub fn sync_dir(&self) -> Result<()> {
        Ok(())
    }

    pub fn is_dir_dirty(&self) -> bool {
        false
    }

    pub fn in_use_max(&self) -> usize {
        usize::MAX
    }

    pub fn take_held(&self) -> Held {
        Held
    }

    pub fn mark_deletable(&self, _: Held) {}

    pub fn hold_again(&self, _: Held) {}

    pub fn peek_id(&self) -> u64 {
        0
    }
}

pub struct Held;

pub struct PageCacheWitness(Arc<Disk>);

impl PageCacheWitness {
    pub fn revoke(&self) -> io::Result<()> {
        self.0.revoke_witness();
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

/// An error of the device.
pub fn failure(attempt: crate::types::error::Attempt) -> Error {
    Error::io(attempt, "store", io::ErrorKind::Other.into())
}
