//! How the stores of the lab are opened.

use crate::rng::Rng;
use cantle::vfs::Vfs;
use cantle::{Db, Durability, KeyspaceOptions, Layout, Options};
use std::sync::Arc;
use std::time::Duration;

/// Where a store is in its file system.
pub const STORE: &str = "/store";

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Setup {
    pub layout: Layout,
    pub durability: Durability,
    pub checkpoint_interval: Duration,
    pub chunk_bytes: u64,
    pub log_bytes: u64,
    pub log_index: bool,
    pub threads: usize,
}

impl Setup {
    pub fn random(rng: &mut Rng, durability: Durability) -> Self {
        let intervals = [Duration::ZERO, Duration::from_millis(30), Duration::from_secs(3600)];
        Self {
            layout: Layout::default(),
            durability,
            checkpoint_interval: intervals[rng.below(3) as usize],
            chunk_bytes: 64 << 10,
            log_bytes: [4096, 16 << 10, 64 << 10][rng.below(3) as usize],
            log_index: rng.below(4) > 0,
            threads: 1 + rng.below(2) as usize,
        }
    }

    pub fn keyspace(&self) -> KeyspaceOptions {
        KeyspaceOptions::new()
            .layout(self.layout)
            .chunk_bytes(self.chunk_bytes)
            .log_bytes(self.log_bytes)
            .log_index(self.log_index)
            .filter_partitions(4)
    }

    pub fn options(&self, vfs: Arc<dyn Vfs>) -> Options {
        Options::new()
            .vfs(vfs)
            .memory_budget(4 << 20)
            .background_threads(self.threads)
            .durability(self.durability)
            .checkpoint_interval(self.checkpoint_interval)
            .default_keyspace(self.keyspace())
    }

    pub fn open(&self, vfs: Arc<dyn Vfs>) -> cantle::Result<Db> {
        self.options(vfs).open(STORE)
    }
}
