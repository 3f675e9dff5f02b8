//! Open tables.

use super::Table;
use crate::cache::BlockCache;
use crate::files::{Files, StoreFile};
use crate::sync::Arc;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use quick_cache::sync::Cache;

/// Tables that were read recently, with their footers decoded. A bounded number: each holds an open file.
pub struct Tables {
    open: Cache<u64, Arc<Table>>,
}

impl Tables {
    pub fn new(files: &Files) -> Self {
        Self { open: Cache::new(files.tables_max()) }
    }

    /// Keeps a table that was opened, of no more than there may be with as many stores as the process has now.
    fn keep(&self, id: u64, table: Arc<Table>, files: &Files) {
        let most = files.tables_max() as u64;
        if self.open.capacity() != most {
            self.open.set_capacity(most);
        }
        self.open.insert(id, table);
    }

    /// Closes a table that nothing current refers to any more.
    pub fn forget(&self, id: u64) {
        self.open.remove(&id);
    }

    pub fn clear(&self) {
        self.open.clear();
    }
}

/// A table that current structures refer to; opened when it is read.
#[derive(Debug)]
pub struct TableHandle {
    pub file: Arc<StoreFile>,
    /// Bytes of keys and values of its puts.
    pub user_bytes: u64,
    /// Of these, what only snapshots saw when it was written.
    pub stale_bytes: u64,
    /// Of these, those of entries that are large (`chunk::replaced`).
    pub large_bytes: u64,
    pub entries: u64,
    /// Snapshots below this version saw what is stale; 0 if none did since opening.
    pub pinned_below: u64,
    /// No entry's version is below this one; 0 where that is not known.
    pub base_version: u64,
    /// No entry's version is above this one; 0 in a table of an earlier epoch.
    pub newest_version: u64,
}

impl TableHandle {
    pub fn open(
        &self,
        tables: &Tables,
        files: &Files,
        order: &KeyOrder,
        cache: &BlockCache,
    ) -> Result<Arc<Table>> {
        if let Some(table) = tables.open.get(&self.file.id) {
            return Ok(table);
        }
        let handle = self.file.handle()?;
        let table = Table::open(
            handle,
            self.file.path.clone(),
            (files.store, self.file.id),
            order.clone(),
            cache.clone(),
        )?;
        let table = Arc::new(table);
        tables.keep(self.file.id, table.clone(), files);
        Ok(table)
    }
}
