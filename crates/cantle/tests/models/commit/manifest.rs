//! The manifest's part in the model of commits: the record of a checkpoint, and the state that
//! recovery reads.

use crate::model::disk::Disk;
use crate::mvcc::{DeadBatches, RecoveryTable};
use crate::sync::{Arc, Mutex, MutexGuard};
use crate::types::error::Result;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy)]
pub struct SegmentEdit {
    pub file: u64,
    pub len: u64,
}

#[derive(Debug, Clone, Default)]
pub struct CheckpointEdit {
    pub version: u64,
    pub ceiling: u64,
    pub next_file: u64,
    pub next_keyspace: u32,
    pub next_batch: u64,
    pub first_journal: u64,
    pub durable_bytes: u64,
    pub segments: Vec<SegmentEdit>,
    pub parts: Vec<(u32, Vec<u8>)>,
}

#[derive(Debug, Clone, Default)]
pub struct StartEdit {
    pub epoch: u64,
    pub first_version: u64,
    pub recovery_table: RecoveryTable,
    pub dead_batches: DeadBatches,
}

pub struct State {
    pub checkpoint: CheckpointEdit,
    pub start: StartEdit,
    pub keyspaces: BTreeMap<u32, KeyspaceState>,
}

pub struct KeyspaceState {
    pub layout: LayoutState,
}

/// Files of one epoch.
pub struct LayoutState {
    pub epoch: u64,
}

impl LayoutState {
    pub fn files(&self, visit: &mut dyn FnMut(u64, (), u64)) {
        visit(0, (), self.epoch);
    }
}

/// The manifest, with the same lock as the original.
pub struct Manifest {
    disk: Arc<Disk>,
    inner: Mutex<()>,
}

pub struct Locked<'a> {
    disk: &'a Disk,
    inner: MutexGuard<'a, ()>,
}

impl Manifest {
    pub fn new(disk: Arc<Disk>) -> Self {
        Self { disk, inner: Mutex::new(()) }
    }

    pub fn lock(&self) -> Locked<'_> {
        Locked { disk: &self.disk, inner: self.inner.lock() }
    }
}

impl Locked<'_> {
    pub fn checkpoint(self, edit: CheckpointEdit) -> Result<()> {
        self.disk.append_checkpoint(edit);
        drop(self.inner);
        self.disk.sync_checkpoint();
        Ok(())
    }
}
