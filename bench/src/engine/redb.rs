//! redb. Its writes survive either a loss of power or nothing; there is no third kind.

use super::{Durability, Engine, Opened, Pair, Settings, Spec};
use crate::failure::Result;
use redb::{Database, ReadableDatabase, TableDefinition, WriteTransaction};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("default");

/// Interval between durable commits if not every one must be durable: that of Cantle's checkpoints.
const DURABLE_EVERY: Duration = Duration::from_secs(5);

struct Redb {
    db: Database,
    durability: Durability,
    durable_at: Mutex<Instant>,
}

/// Opens redb with its defaults and the run's memory.
pub fn open(_: &Spec, settings: &Settings) -> Result<Opened> {
    std::fs::create_dir_all(&settings.dir)?;
    let mut builder = Database::builder();
    builder.set_cache_size(usize::try_from(settings.budget_bytes)?);
    let db = builder.create(settings.dir.join("data.redb"))?;
    let store = Redb { db, durability: settings.durability, durable_at: Mutex::new(Instant::now()) };
    // Readers need the table to exist.
    let transaction = store.db.begin_write()?;
    transaction.open_table(TABLE)?;
    transaction.commit()?;
    let caveats = match settings.durability {
        Durability::Process => vec![
            "a write survives the end of the process only once the next durable commit, at most 5 s later, is done: \
             redb has nothing between that and a sync for each write"
                .into(),
        ],
        Durability::Sync => Vec::new(),
    };
    Ok(Opened {
        engine: Box::new(store),
        configuration: format!("cache size {}; one transaction per write", settings.budget_bytes),
        caveats,
        version: format!("redb {}", super::locked_version("redb")),
    })
}

impl Redb {
    /// A transaction that is durable if every one must be, or if the last durable one is older than
    /// the interval.
    fn begin(&self) -> Result<WriteTransaction> {
        let mut transaction = self.db.begin_write()?;
        let mut durable_at = self.durable_at.lock().unwrap_or_else(PoisonError::into_inner);
        if self.durability == Durability::Process && durable_at.elapsed() < DURABLE_EVERY {
            transaction.set_durability(redb::Durability::None)?;
        } else {
            *durable_at = Instant::now();
        }
        Ok(transaction)
    }
}

impl Engine for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result {
        let transaction = self.begin()?;
        transaction.open_table(TABLE)?.insert(key, value)?;
        Ok(transaction.commit()?)
    }

    fn delete(&self, key: &[u8]) -> Result {
        let transaction = self.begin()?;
        transaction.open_table(TABLE)?.remove(key)?;
        Ok(transaction.commit()?)
    }

    fn put_all(&self, pairs: &[Pair]) -> Result {
        let transaction = self.begin()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for (key, value) in pairs {
                table.insert(key.as_slice(), value.as_slice())?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        Ok(table.get(key)?.map(|value| read(value.value())).is_some())
    }

    fn scan(&self, from: &[u8], to: Option<&[u8]>, rows: u64, read: &mut dyn FnMut(&[u8], &[u8])) -> Result {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        let range = match to {
            Some(to) => table.range(from..to)?,
            None => table.range(from..)?,
        };
        for pair in range.take(usize::try_from(rows)?) {
            let (key, value) = pair?;
            read(key.value(), value.value());
        }
        Ok(())
    }

    fn sync(&self) -> Result {
        // An empty durable commit makes the commits before it durable, too.
        Ok(self.db.begin_write()?.commit()?)
    }

    fn close(self: Box<Self>) -> Result {
        self.sync()
    }
}
