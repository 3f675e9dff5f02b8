//! The environment of one keyspace in the chunk layout.

use crate::cache::rows::Rows;
use crate::chunk::edit::ChunkEdit;
#[cfg(debug_assertions)]
use crate::chunk::geometry::Model;
use crate::chunk::settings::Settings;
use crate::manifest::Edit;
use crate::memory::account::Charge;
use crate::run::env::RunEnv;
use crate::substrate::Substrate;
use crate::sync::Arc;
use crate::sync::counter::Counter;
use crate::sync::on_use::OnUse;
use crate::types::entry::LARGE_BYTES;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use arc_swap::{ArcSwap, Guard};
use crossbeam_utils::atomic::AtomicCell;
use std::ops::Deref;

/// Memory in bytes of a keyspace that has one chunk and one log and was not accessed since it was
/// opened, as measured by the fault lab (`tests/idle_keyspaces.rs`).
const KEYSPACE_BYTES: u64 = 2_700;

/// Counters of one keyspace since opening.
#[derive(Debug, Default)]
pub struct Counters {
    pub user_bytes_written: Counter,
    pub writes: Counter,
    pub gets: Counter,
    pub scans: Counter,
    pub scans_munk: Counter,
    pub munk_loads: Counter,
    pub munk_evictions: Counter,
    pub munk_rebalances: Counter,
    pub munk_splits: Counter,
    pub munk_flushes: Counter,
    pub gets_munk: Counter,
    pub gets_row: Counter,
    pub rebalances: Counter,
    pub splits: Counter,
    pub end_splits: Counter,
    pub merges: Counter,
    pub edits_refused: Counter,
    pub chunks_dropped: Counter,
}

/// The environment of the keyspace's runs and logs, and the chunk layout's own state.
pub struct Context {
    pub run: Arc<RunEnv>,
    pub substrate: Arc<Substrate>,
    options: ArcSwap<Settings>,
    /// Allocated at first access.
    pub counters: OnUse<Counters>,
    /// `None` under a comparator whose equal keys may differ in bytes: rows are found by their
    /// bytes.
    pub rows: Option<Rows>,
    /// The keyspace's own memory, charged to the budget.
    _charge: Option<Charge>,
    /// Held while an edit is appended to the manifest, so that both have the same edits.
    #[cfg(debug_assertions)]
    pub model: crate::sync::Mutex<Model>,
}

impl Context {
    pub fn new(substrate: Arc<Substrate>, keyspace: u32, order: KeyOrder, options: Settings) -> Self {
        let rows = order.hashable().then(|| Rows::new(substrate.budget.rows.clone()).used(options.row_cache));
        let charge = substrate.budget.keyspaces.charge_anyway(KEYSPACE_BYTES);
        let log = substrate.log_env(keyspace, order, options.of_logs(), LARGE_BYTES);
        let run = RunEnv {
            log: Arc::new(log),
            tables: substrate.tables.clone(),
            options: AtomicCell::new(options.of_runs()),
            counters: OnUse::default(),
        };
        Self {
            run: Arc::new(run),
            substrate,
            options: ArcSwap::new(options.shared()),
            counters: OnUse::default(),
            rows,
            _charge: charge,
            #[cfg(debug_assertions)]
            model: crate::sync::Mutex::default(),
        }
    }

    pub fn options(&self) -> Guard<Arc<Settings>> {
        self.options.load()
    }

    /// Replaces the options, from the next rebalance on.
    pub fn set_options(&self, options: Settings) {
        self.log.options.store(options.of_logs());
        self.run.options.store(options.of_runs());
        self.rows.iter().for_each(|rows| rows.set_used(options.row_cache));
        self.options.store(options.shared());
    }

    /// Appends an edit that depends on the order of keys to the manifest. Fails if the comparator
    /// has failed, as the edit may be wrong.
    pub fn publish(&self, edit: &ChunkEdit) -> Result<()> {
        self.order.check()?;
        self.tell(edit)
    }

    /// As `publish`, without checking the order: for edits that undo something.
    pub fn tell(&self, edit: &ChunkEdit) -> Result<()> {
        #[cfg(debug_assertions)]
        let mut model = self.model.lock();
        #[cfg(debug_assertions)]
        let after = model.after(&self.order, edit);
        let edit = Edit::Layout { keyspace: self.keyspace, payload: edit.encode() };
        self.substrate.manifest.append(&[edit])?;
        #[cfg(debug_assertions)]
        {
            *model = after;
        }
        Ok(())
    }
}

impl Deref for Context {
    type Target = RunEnv;
    fn deref(&self) -> &RunEnv {
        &self.run
    }
}
