//! Work of all stores of a round.

use crate::layouts::OfChunk;
use crate::visit::Visit;
use cantle::Stats;

#[derive(Debug, Default)]
pub struct Totals {
    pub rebalances: u64,
    pub splits: u64,
    pub merges: u64,
    pub chunks_dropped: u64,
    pub munk_loads: u64,
    pub munk_evictions: u64,
    pub munk_flushes: u64,
    pub munk: u64,
    pub row: u64,
    pub scans_munk: u64,
    pub log_memory: u64,
    pub log_index: u64,
    pub table: u64,
    pub absent: u64,
    pub filter_skips: u64,
    pub checkpoints: u64,
    pub journal_syncs: u64,
    pub cache_hits: u64,
    pub chunks_max: u64,
    pub reopenings: u64,
    pub backups: u64,
    /// Stores that were removed, most of them backups.
    pub destroyed: u64,
    /// Pairs that pops outside of transactions removed.
    pub popped: u64,
    /// Swaps outside of transactions that found the value that they expected.
    pub swapped: u64,
    /// Transactions that were run again.
    pub run_again: u64,
    /// Snapshots, with the iterators on them, during whose life a rebalance, a split or a merge
    /// happened.
    pub outlived: u64,
    /// Batches of keys that were read from the store, from snapshots, and in transactions.
    pub batches: u64,
    pub batches_on_snapshots: u64,
    pub batches_in_transactions: u64,
    /// Keys of batches whose read failed, and the other keys of these batches.
    pub failed_in_batches: u64,
    pub read_beside_failed: u64,
    /// Places that were read through a ring of the kernel.
    pub reads_by_ring: u64,
    pub failed_calls: u64,
    pub failed_operations: u64,
    /// Failed operations that wrote, but could not make the write durable.
    pub failed_after_all: u64,
}

impl Totals {
    /// The counters of a store that is about to be closed.
    pub fn add(&mut self, stats: &Stats) {
        for keyspace in &stats.keyspaces {
            self.rebalances += keyspace.of_chunk().rebalances;
            self.splits += keyspace.of_chunk().splits;
            self.merges += keyspace.of_chunk().merges;
            self.chunks_dropped += keyspace.of_chunk().chunks_dropped;
            self.munk_loads += keyspace.of_chunk().munk_loads;
            self.munk_evictions += keyspace.of_chunk().munk_evictions;
            self.munk_flushes += keyspace.of_chunk().munk_flushes;
            self.munk += keyspace.gets_served.resident;
            self.row += keyspace.gets_served.row;
            self.scans_munk += keyspace.of_chunk().scans_munk;
            self.log_memory += keyspace.gets_served.log_memory;
            self.log_index += keyspace.gets_served.log_index;
            self.table += keyspace.gets_served.table;
            self.absent += keyspace.gets_served.absent;
            self.filter_skips += keyspace.filter_skips;
        }
        self.checkpoints += stats.checkpoints;
        self.journal_syncs += stats.journal_syncs;
        self.cache_hits += stats.cache_hits;
        self.reads_by_ring += stats.reads_by_io_uring;
        self.add_sizes(stats);
    }

    pub fn add_sizes(&mut self, stats: &Stats) {
        let chunks = stats.keyspaces.iter().map(|keyspace| keyspace.regions).max().unwrap_or(0);
        self.chunks_max = self.chunks_max.max(chunks);
    }

    pub fn join(&mut self, other: &Self) {
        self.rebalances += other.rebalances;
        self.splits += other.splits;
        self.merges += other.merges;
        self.chunks_dropped += other.chunks_dropped;
        self.munk_loads += other.munk_loads;
        self.munk_evictions += other.munk_evictions;
        self.munk_flushes += other.munk_flushes;
        self.munk += other.munk;
        self.row += other.row;
        self.scans_munk += other.scans_munk;
        self.log_memory += other.log_memory;
        self.log_index += other.log_index;
        self.table += other.table;
        self.absent += other.absent;
        self.filter_skips += other.filter_skips;
        self.checkpoints += other.checkpoints;
        self.journal_syncs += other.journal_syncs;
        self.cache_hits += other.cache_hits;
        self.chunks_max = self.chunks_max.max(other.chunks_max);
        self.reopenings += other.reopenings;
        self.backups += other.backups;
        self.destroyed += other.destroyed;
        self.popped += other.popped;
        self.swapped += other.swapped;
        self.run_again += other.run_again;
        self.outlived += other.outlived;
        self.batches += other.batches;
        self.batches_on_snapshots += other.batches_on_snapshots;
        self.batches_in_transactions += other.batches_in_transactions;
        self.failed_in_batches += other.failed_in_batches;
        self.read_beside_failed += other.read_beside_failed;
        self.reads_by_ring += other.reads_by_ring;
        self.failed_calls += other.failed_calls;
        self.failed_operations += other.failed_operations;
        self.failed_after_all += other.failed_after_all;
    }

    pub fn count(&self, visit: &Visit) {
        visit.count("rebalances", self.rebalances);
        visit.count("splits", self.splits);
        visit.count("merges", self.merges);
        visit.count("munk loads", self.munk_loads);
        visit.count("checkpoints", self.checkpoints);
        visit.count("reopenings", self.reopenings);
        visit.count("backups compared", self.backups);
        visit.count("stores destroyed", self.destroyed);
        visit.count("pairs popped", self.popped);
        visit.count("values swapped", self.swapped);
        visit.count("transactions run again", self.run_again);
        visit.count("held snapshots that outlived a move", self.outlived);
        visit.count("batches of keys read", self.batches);
        visit.count("batches of keys read from snapshots", self.batches_on_snapshots);
        visit.count("batches of keys read in transactions", self.batches_in_transactions);
        visit.count("keys of batches that failed", self.failed_in_batches);
        visit.count("keys of batches read beside those that failed", self.read_beside_failed);
        visit.count("places read by rings", self.reads_by_ring);
        visit.count("failed calls", self.failed_calls);
        visit.count("failed operations", self.failed_operations);
        visit.count("failed operations that wrote", self.failed_after_all);
    }

    /// Mechanisms that the door must exercise, but that never ran.
    pub fn missing(&self) -> Vec<&'static str> {
        let counts = [
            ("rebalances", self.rebalances),
            ("splits", self.splits),
            ("merges", self.merges),
            ("chunks_dropped", self.chunks_dropped),
            ("munk_loads", self.munk_loads),
            ("munk_flushes", self.munk_flushes),
            ("munk", self.munk),
            ("row", self.row),
            ("scans_munk", self.scans_munk),
            ("log_memory", self.log_memory),
            ("log_index", self.log_index),
            ("table", self.table),
            ("absent", self.absent),
            ("filter_skips", self.filter_skips),
            ("checkpoints", self.checkpoints),
            ("journal_syncs", self.journal_syncs),
            ("cache_hits", self.cache_hits),
            ("reopenings", self.reopenings),
            ("backups", self.backups),
            ("destroyed", self.destroyed),
            ("popped", self.popped),
            ("swapped", self.swapped),
            ("run_again", self.run_again),
            ("outlived", self.outlived),
            ("batches", self.batches),
            ("batches_on_snapshots", self.batches_on_snapshots),
            ("batches_in_transactions", self.batches_in_transactions),
            ("failed_in_batches", self.failed_in_batches),
            ("read_beside_failed", self.read_beside_failed),
            ("failed_calls", self.failed_calls),
            ("failed_operations", self.failed_operations),
        ];
        counts.into_iter().filter(|&(_, count)| count == 0).map(|(name, _)| name).collect()
    }
}
