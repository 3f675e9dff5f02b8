//! Tables of one job that are made durable together, before anything names them.
//!
//! Each sync of a new file ends a transaction of the file system's journal, and waits for it and for the bytes. If
//! several are synced one behind the other, the first one ends it for all, and the device has written most of the
//! bytes while the job went on.
//!
//! A table keeps its file open until then: only so a failure to write it out is reported.

use crate::sync::Arc;
use crate::types::error::{Error, Result};
use crate::vfs::VfsFile;
use std::cell::RefCell;
use std::path::PathBuf;

/// Number of tables that wait for their sync at most: each keeps a file open.
const TABLES_MAX: usize = 16;

/// Finished tables whose bytes are not durable yet.
pub struct SyncTogether {
    tables: RefCell<Vec<(Arc<dyn VfsFile>, PathBuf)>>,
    tables_max: usize,
}

impl SyncTogether {
    /// For a job of a store that may have this number of files in use.
    pub fn new(in_use_max: usize) -> Self {
        Self { tables: RefCell::default(), tables_max: (in_use_max / 2).clamp(1, TABLES_MAX) }
    }

    /// Adds a table. If there are many, all are synced now.
    pub fn add(&self, file: Arc<dyn VfsFile>, path: PathBuf) -> Result<()> {
        let count = {
            let mut tables = self.tables.borrow_mut();
            tables.push((file, path));
            tables.len()
        };
        if count < self.tables_max { Ok(()) } else { self.sync() }
    }

    /// Makes all tables durable. After an error none of them may be used.
    pub fn sync(&self) -> Result<()> {
        let tables = self.tables.take();
        tables.into_iter().try_for_each(|(file, path)| {
            canary!(UNSYNCED_TABLE else file.sync_data())
                .map_err(|source| Error::sync_unreferenced(&path, source))
        })
    }
}
