//! fjall.

use super::{Durability, Engine, Figures, Opened, Settings, Spec};
use crate::failure::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

struct Fjall {
    db: Database,
    keyspace: Keyspace,
    durability: Durability,
}

/// Opens fjall with its defaults, and the run's memory and threads.
pub fn open(_: &Spec, settings: &Settings) -> Result<Opened> {
    // As for RocksDB: four memtables in a quarter of the budget; fjall charges them separately from
    // its cache.
    let memtable = (settings.budget_bytes / 16).clamp(1 << 20, 64 << 20);
    let cache = settings.budget_bytes.saturating_sub(memtable * 4);
    let db = Database::builder(&settings.dir)
        .cache_size(cache)
        .worker_threads(settings.background_threads)
        .open()?;
    let keyspace = db.keyspace("default", || KeyspaceCreateOptions::default().max_memtable_size(memtable))?;
    Ok(Opened {
        engine: Box::new(Fjall { db, keyspace, durability: settings.durability }),
        configuration: format!(
            "cache_size {cache}; max_memtable_size {memtable}; worker_threads {}; \
             compression none",
            settings.background_threads
        ),
        caveats: Vec::new(),
        version: format!("fjall {}", super::locked_version("fjall")),
    })
}

impl Fjall {
    fn persist(&self) -> Result {
        match self.durability {
            // Every write reaches the kernel anyway.
            Durability::Process => Ok(()),
            Durability::Sync => Ok(self.db.persist(PersistMode::SyncData)?),
        }
    }
}

impl Engine for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result {
        self.keyspace.insert(key, value)?;
        self.persist()
    }

    fn delete(&self, key: &[u8]) -> Result {
        self.keyspace.remove(key)?;
        self.persist()
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.keyspace.get(key)?.map(|value| read(&value)).is_some())
    }

    fn scan(&self, from: &[u8], to: Option<&[u8]>, rows: u64, read: &mut dyn FnMut(&[u8], &[u8])) -> Result {
        let range = match to {
            Some(to) => self.keyspace.range(from..to),
            None => self.keyspace.range(from..),
        };
        for guard in range.take(usize::try_from(rows)?) {
            let (key, value) = guard.into_inner()?;
            read(&key, &value);
        }
        Ok(())
    }

    fn sync(&self) -> Result {
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }

    fn figures(&self) -> Figures {
        Figures::from([
            ("compactions_completed".into(), self.db.compactions_completed() as f64),
            ("time_compacting_s".into(), self.db.time_compacting().as_secs_f64()),
        ])
    }

    fn close(self: Box<Self>) -> Result {
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }
}
