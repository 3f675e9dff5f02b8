//! What every part of one keyspace in the chunk layout works with.

use super::edit::ChunkEdit;
#[cfg(debug_assertions)]
use super::geometry::Model;
use super::memory_part::MemoryPart;
use super::options::ChunkOptions;
use crate::cache::rows::Rows;
use crate::manifest::Edit;
use crate::memory::account::Charge;
use crate::substrate::Substrate;
use crate::substrate::stage::Stage;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicI64, AtomicU64};
use crate::sync::counter::Counter;
use crate::sync::on_use::OnUse;
use crate::sync::time::Instant;
use crate::table::TableOptions;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use arc_swap::{ArcSwap, Guard};
use std::ops::Deref;
use std::time::Duration;

/// What a keyspace takes that has one chunk and one log and was not accessed since it was opened, in bytes, as the fault lab
/// measures it (`tests/idle_keyspaces.rs`).
const KEYSPACE_BYTES: u64 = 2_750;

/// Counters of one keyspace since opening.
#[derive(Debug, Default)]
pub struct Counters {
    pub user_bytes_written: Counter,
    pub log_bytes_written: Counter,
    pub table_bytes_written: Counter,
    pub writes: Counter,
    pub gets: Counter,
    pub scans: Counter,
    pub scans_munk: Counter,
    pub scans_log_view: Counter,
    pub scan_log_reads: Counter,
    pub munk_loads: Counter,
    pub munk_evictions: Counter,
    pub munk_rebalances: Counter,
    pub munk_splits: Counter,
    pub munk_flushes: Counter,
    pub gets_munk: Counter,
    pub gets_row: Counter,
    pub gets_log_memory: Timed,
    pub gets_log_index: Timed,
    pub gets_table: Timed,
    pub gets_absent: Timed,
    pub filter_skips: Counter,
    pub parts_passed_over: Counter,
    pub filter_false_positives: Counter,
    pub rebalances: Counter,
    pub splits: Counter,
    pub end_splits: Counter,
    pub merges: Counter,
    pub edits_refused: Counter,
    pub log_batches: Counter,
    pub log_batch_bytes: Counter,
    pub chunks_dropped: Counter,
}

/// What is counted and takes its time.
#[derive(Debug, Default)]
pub struct Timed {
    pub count: Counter,
    nanos: Counter,
}

impl Timed {
    /// One that has begun then, and ends now.
    pub fn add_since(&self, begun: Instant) {
        self.count.add(1);
        self.nanos.add(begun.elapsed().as_nanos() as u64);
    }

    /// How long all of them took together.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.nanos.get())
    }
}

/// Sums over all chunks, kept up to date under the locks of the chunks that change.
#[derive(Default)]
pub struct Totals {
    pub log_bytes: AtomicI64,
    pub table_bytes: AtomicI64,
    pub user_bytes: AtomicI64,
    pub garbage_bytes: AtomicI64,
    /// Puts in files that were not dropped, replaced ones too.
    pub puts: AtomicI64,
    /// Tables that are being written.
    pub growing_bytes: AtomicI64,
    /// Of files that chunks share, what is in nobody's share any more.
    pub unclaimed_bytes: AtomicI64,
    /// Obsolete files that wait for a checkpoint; counted by `Files`.
    pub held_bytes: Arc<AtomicU64>,
}

/// The substrate, and what is the keyspace's own.
pub struct Context {
    pub substrate: Arc<Substrate>,
    pub keyspace: u32,
    pub order: KeyOrder,
    options: ArcSwap<ChunkOptions>,
    pub totals: Totals,
    /// Made by the first access.
    pub counters: OnUse<Counters>,
    /// `None` under a comparator whose equal keys may differ: rows are found by their bytes.
    pub rows: Option<Rows>,
    /// What it takes of the budget.
    _taken: Option<Charge>,
    /// Held while the manifest is told, so that it has seen the same edits.
    #[cfg(debug_assertions)]
    pub model: crate::sync::Mutex<Model>,
}

impl Context {
    pub fn new(substrate: Arc<Substrate>, keyspace: u32, order: KeyOrder, options: ChunkOptions) -> Self {
        let options = ArcSwap::from_pointee(options);
        let rows = order.hashable().then(|| Rows::new(substrate.budget.rows.clone()));
        let totals = Totals { held_bytes: substrate.files.held_bytes_of(keyspace), ..Totals::default() };
        let counters = OnUse::default();
        let taken = substrate.budget.keyspaces.charge_anyway(KEYSPACE_BYTES);
        Self {
            substrate,
            keyspace,
            order,
            options,
            totals,
            counters,
            rows,
            _taken: taken,
            #[cfg(debug_assertions)]
            model: crate::sync::Mutex::default(),
        }
    }

    pub fn options(&self) -> Guard<Arc<ChunkOptions>> {
        self.options.load()
    }

    /// How its tables are written.
    pub fn table_options(&self) -> TableOptions {
        let compression = self.options().compression;
        TableOptions { compression, order: self.order.clone(), ..TableOptions::default() }
    }

    /// From the next rebalance on.
    pub fn set_options(&self, options: ChunkOptions) {
        self.options.store(Arc::new(options));
    }

    /// Where appends wait now, if they do. Drains find room while there is plenty.
    pub fn stage(&self) -> Option<&Arc<Stage>> {
        self.substrate.stage.as_ref().filter(|_| self.options().stage && self.reserve.has_plenty())
    }

    /// An index in memory, which counts in the store's budget.
    pub fn memory_part(&self) -> MemoryPart {
        MemoryPart::new(self.order.clone(), self.budget.logs.indexes.counter().clone())
    }

    /// Tells the manifest of what came of the order of keys. Where that has failed nothing of it may be found.
    pub fn publish(&self, edit: &ChunkEdit) -> Result<()> {
        self.order.check()?;
        self.tell(edit)
    }

    /// The same for what takes something back.
    pub fn tell(&self, edit: &ChunkEdit) -> Result<()> {
        #[cfg(debug_assertions)]
        let mut model = self.model.lock();
        #[cfg(debug_assertions)]
        let after = model.after(&self.order, edit);
        self.manifest.append(&[Edit::Layout { keyspace: self.keyspace, payload: edit.encode() }])?;
        #[cfg(debug_assertions)]
        {
            *model = after;
        }
        Ok(())
    }

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
