//! What every part of one keyspace in the chunk layout works with.

use crate::order::KeyOrder;
use crate::substrate::Substrate;
use crate::sync::Arc;
use crate::sync::atomic::AtomicU64;
use crate::table::TableOptions;
use std::ops::Deref;

/// The options of a keyspace as the layout uses them.
#[derive(Debug, Clone)]
pub struct ChunkOptions {
    pub chunk_bytes: u64,
    pub space_amplification: f64,
    pub log_bytes: Option<u64>,
    pub filter_partitions: u32,
    pub log_index: bool,
    pub table: TableOptions,
}

/// Counters of one keyspace since opening.
#[derive(Debug, Default)]
pub struct Counters {
    pub user_bytes_written: AtomicU64,
    pub log_bytes_written: AtomicU64,
    pub table_bytes_written: AtomicU64,
    pub writes: AtomicU64,
    pub gets: AtomicU64,
    pub scans: AtomicU64,
    pub gets_log_memory: AtomicU64,
    pub gets_log_index: AtomicU64,
    pub gets_log_search: AtomicU64,
    pub gets_table: AtomicU64,
    pub gets_absent: AtomicU64,
    pub filter_skips: AtomicU64,
    pub filter_false_positives: AtomicU64,
    pub rebalances: AtomicU64,
    pub splits: AtomicU64,
    pub merges: AtomicU64,
    pub chunks_dropped: AtomicU64,
}

/// The substrate, and what is the keyspace's own.
pub struct Context {
    pub substrate: Arc<Substrate>,
    pub keyspace: u32,
    pub order: KeyOrder,
    pub options: ChunkOptions,
    pub counters: Counters,
}

impl Context {
    pub fn epoch(&self) -> u64 {
        self.recovery.epoch
    }
}

impl Deref for Context {
    type Target = Substrate;
    fn deref(&self) -> &Substrate {
        &self.substrate
    }
}
