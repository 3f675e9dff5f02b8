//! The new store, filled in batches.

use super::plan::PlannedKeyspace;
use super::report::RepairedKeyspace;
use crate::db::batch::WriteBatch;
use crate::db::foreign::UNFINISHED_FILE;
use crate::db::handle::Db;
use crate::db::keyspace::{Keyspace, METADATA_BYTES_MAX};
use crate::db::open::{bind, create_directories};
use crate::db::store::DEFAULT_KEYSPACE;
use crate::db::{KeyspaceOptions, Options};
use crate::layout::options::LayoutOptions;
use crate::layouts;
use crate::sync::Arc;
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{OpenMode, StdVfs, Vfs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum number of pairs and of bytes in a batch: few system calls, and little memory.
const BATCH_PAIRS: usize = 512;
const BATCH_BYTES: usize = 1 << 20;

pub(super) struct Target {
    /// As seen from the directory of the new store.
    pub vfs: Arc<dyn Vfs>,
    /// While this file exists the directory is no store, so that a repair that dies does not leave
    /// an incomplete one.
    marker: PathBuf,
    db: Db,
    keyspaces: BTreeMap<u32, (Keyspace, RepairedKeyspace)>,
    batch: WriteBatch,
    batch_bytes: usize,
    pub pairs: u64,
}

impl Target {
    pub fn create(path: &Path, options: &Options, planned: &BTreeMap<u32, PlannedKeyspace>) -> Result<Self> {
        let vfs = options.vfs.clone().unwrap_or_else(|| Arc::new(StdVfs));
        create_directories(&*vfs, path)?;
        let vfs = bind(&vfs, path)?;
        let marker = path.join(UNFINISHED_FILE);
        vfs.open(&marker, OpenMode::CreateNew).map_err(|e| Error::io(Attempt::Create, &marker, e))?;
        let synced = canary!(UNNAMED_REPAIR else vfs.sync_dir(path));
        synced.map_err(|e| Error::io(Attempt::SyncDirectory, path, e))?;
        let default = planned.values().find(|known| known.edit.name == DEFAULT_KEYSPACE);
        let mut options = Options {
            read_only: false,
            create_if_missing: true,
            fills_repair: true,
            monitor: false,
            ..options.clone()
        };
        if let Some(default) = default {
            options.default_keyspace = tuned(&options.default_keyspace, default);
        }
        let tuning = options.default_keyspace.clone();
        let db = options.open(path)?;
        let mut keyspaces = BTreeMap::new();
        for (&id, known) in planned {
            let edit = &known.edit;
            let keyspace = db.keyspace_with(&edit.name, tuned(&tuning, known))?;
            if (1..=METADATA_BYTES_MAX).contains(&edit.metadata.len()) {
                keyspace.set_metadata(&edit.metadata)?;
            }
            let repaired = RepairedKeyspace { name: edit.name.clone(), ..RepairedKeyspace::default() };
            keyspaces.insert(id, (keyspace, repaired));
        }
        Ok(Self { vfs, marker, db, keyspaces, batch: WriteBatch::new(), batch_bytes: 0, pairs: 0 })
    }

    pub fn put(&mut self, keyspace: u32, key: &[u8], value: &[u8]) -> Result<()> {
        let Some((handle, repaired)) = self.keyspaces.get_mut(&keyspace) else { return Ok(()) };
        let bytes = key.len() + value.len();
        self.batch.keyspace(handle).put(key, value);
        self.batch_bytes += bytes;
        self.pairs += 1;
        repaired.pairs += 1;
        repaired.bytes += bytes as u64;
        if self.batch.len() >= BATCH_PAIRS || self.batch_bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() { Ok(()) } else { self.db.write(batch) }
    }

    /// Makes everything durable, and turns the directory into a store.
    pub fn finish(mut self) -> Result<Vec<RepairedKeyspace>> {
        self.flush()?;
        self.db.close()?;
        self.vfs.remove(&self.marker).map_err(|e| Error::io(Attempt::Remove, &self.marker, e))?;
        let dir = self.marker.parent().unwrap_or(&self.marker);
        let synced = canary!(UNNAMED_REPAIR_END else self.vfs.sync_dir(dir));
        synced.map_err(|e| Error::io(Attempt::SyncDirectory, dir, e))?;
        Ok(self.keyspaces.into_values().map(|(_, repaired)| repaired).collect())
    }
}

/// The options for a keyspace of the repaired store, with its former layout and order.
fn tuned(tuning: &KeyspaceOptions, known: &PlannedKeyspace) -> KeyspaceOptions {
    let kind = layouts::factory_of(known.edit.layout).map(|factory| factory.kind());
    let given = tuning.layout.clone().filter(|layout| kind.is_none_or(|kind| kind == layout.kind()));
    let layout = given.or(kind.map(LayoutOptions::from));
    KeyspaceOptions { layout, order: Some(known.order.clone()), ..tuning.clone() }
}
