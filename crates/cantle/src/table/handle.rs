//! Open tables.

use super::Table;
use super::filter::FilterPlace;
use super::open_file::{HeldFiles, OpenFile};
use super::reader::Description;
use super::seek_reads::SeekReads;
use crate::cache::{BlockCache, CacheValue};
use crate::files::{Files, StoreFile};
use crate::filter::bloom;
use crate::memory::account::Account;
use crate::sync::Arc;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use quick_cache::sync::Cache;
use std::sync::OnceLock;

/// Tables that were read recently, with their footers decoded. Their number is bounded, as each
/// holds an open file. Tables in use are more, and a few of them hold theirs.
pub struct Tables {
    open: Cache<u64, Arc<Table>>,
    held: HeldFiles,
    /// The memory of the descriptions of tables, open or closed.
    descriptions: Account,
    pub seek_reads: Arc<SeekReads>,
}

impl Tables {
    /// `descriptions` is charged for descriptions of closed tables that stay in memory.
    pub fn new(files: &Files, descriptions: Account) -> Self {
        let open = Cache::new(files.tables_max().kept);
        Self { open, held: HeldFiles::default(), descriptions, seek_reads: Arc::default() }
    }

    /// Keeps an open table, within the maximum for the current number of stores in the process.
    fn keep(&self, id: u64, table: Arc<Table>, most: usize) {
        let most = most as u64;
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

/// A table that current structures refer to. It is opened when it is read.
#[derive(Debug)]
pub struct TableHandle {
    pub file: Arc<StoreFile>,
    /// Bytes of the keys and values of its puts.
    pub user_bytes: u64,
    /// The part of `user_bytes` that only snapshots saw when the table was written.
    pub stale_bytes: u64,
    /// The part of `user_bytes` that belongs to large entries (`chunk::replaced`).
    pub large_bytes: u64,
    pub entries: u64,
    /// Snapshots below this version see the stale entries; 0 if none has since opening.
    pub pinned_below: u64,
    /// The lowest version of its entries, or a lower one; 0 if unknown.
    pub base_version: u64,
    /// The highest version of its entries, or a higher one; 0 in a table of an earlier epoch.
    pub newest_version: u64,
    /// True if the table has range deletes. Gets skip none of these tables by its filter.
    pub has_deleted: bool,
    /// The logs that values of the table stand in, by their numbers.
    pub referred: Box<[Referred]>,
    pub description: Pinned,
}

/// A log to which a table refers for values ([`Kind::PutApart`](crate::types::entry::Kind::PutApart)).
#[derive(Debug, Clone)]
pub struct Referred {
    pub log: Arc<StoreFile>,
    /// Bytes of the records that the table refers to.
    pub bytes: u64,
}

/// The description of a table, made when it was first opened: footer, sizes and bounds. It stays
/// while the table is closed, so that the table is opened again without reading them.
#[derive(Debug, Clone, Default)]
pub struct Pinned(OnceLock<Arc<Description>>);

impl TableHandle {
    /// The log of this number, if the table refers to it.
    pub fn referred_log(&self, file: u64) -> Option<&Arc<StoreFile>> {
        let place = self.referred.binary_search_by_key(&file, |referred| referred.log.id).ok()?;
        Some(&self.referred[place].log)
    }

    /// True for a table that has a lineage and nothing else.
    pub fn is_empty(&self) -> bool {
        self.entries == 0 && !self.has_deleted
    }

    /// True if the table lacks the keys of this hash, as far as memory knows: a get then passes the table over
    /// without opening it, and most gets pass many over.
    pub fn is_known_to_lack(&self, cache: &BlockCache, hash: u64) -> bool {
        let Some(description) = self.description.0.get().filter(|_| !self.has_deleted) else { return false };
        let Some(FilterPlace { page, line, .. }) = description.filter.map(|filter| filter.place_of(hash))
        else {
            return false;
        };
        let excludes = |page: &CacheValue| matches!(page, CacheValue::Bytes(page) if !bloom::may_contain_in_line(page, line, hash));
        cache.get_if(self.file.id, page.offset, excludes).is_some()
    }

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
        let most = files.tables_max();
        let file = OpenFile::of(&self.file, &tables.held, most.held)?;
        let path = self.file.path.clone();
        let description = match self.description.0.get() {
            Some(description) => description.clone(),
            None => {
                let expected = (files.store, self.file.id);
                let read =
                    Arc::new(file.with(|file| Table::describe(file, &path, expected, &tables.descriptions))?);
                if read.is_short() {
                    // Another thread may have been first: both have read the same.
                    let _ = self.description.0.set(read.clone());
                }
                read
            }
        };
        let is_held = file.is_held();
        let table = Table::described(file, path, description, order.clone(), cache.clone());
        let table = Arc::new(table.with_seek_reads(tables.seek_reads.clone()));
        // A table without a descriptor is opened without a read, and may hold its file the next time.
        if is_held {
            tables.keep(self.file.id, table.clone(), most.kept);
        }
        Ok(table)
    }
}
