//! LMDB, through heed.

use super::{Durability, Engine, Opened, Pair, Settings, Spec};
use crate::failure::Result;
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use std::ops::Bound;

/// Address space, not memory: more bytes than any run writes.
const MAP_BYTES: usize = 1 << 40;

struct Lmdb {
    env: Env,
    database: Database<'static, Bytes, Bytes>,
}

/// Opens LMDB with its defaults, without read-ahead, which would read megabytes for a record on
/// some devices.
pub fn open(_: &Spec, settings: &Settings) -> Result<Opened> {
    std::fs::create_dir_all(&settings.dir)?;
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    let no_sync = settings.durability == Durability::Process;
    #[expect(unsafe_code, reason = "heed's interface")]
    // SAFETY: no other process opens or changes the files of a run's store while it is open, and
    // the flags keep the locking that LMDB has by default.
    let env = unsafe {
        options.flags(EnvFlags::NO_READ_AHEAD | if no_sync { EnvFlags::NO_SYNC } else { EnvFlags::empty() });
        options.open(&settings.dir)?
    };
    let transaction = env.write_txn()?;
    let database = env
        .create_databases_and_commit(transaction, |opener, transaction| -> heed::Result<_> {
            let database = opener.create_database::<Bytes, Bytes>(transaction, None)?;
            Ok(CommitOrAbort::<_, ()>::Commit(database))
        })?
        .unwrap_commit();
    Ok(Opened {
        engine: Box::new(Lmdb { env, database }),
        configuration: format!(
            "map of 1 TiB; MDB_NORDAHEAD{}; one transaction per write",
            if no_sync { "; MDB_NOSYNC" } else { "" }
        ),
        caveats: vec!["its cache is the page cache: it has no budget but the memory limit".into()],
        version: format!("LMDB {} (crate heed {})", heed_lmdb_version(), super::locked_version("heed")),
    })
}

fn heed_lmdb_version() -> String {
    let version = heed::lmdb_version();
    format!("{}.{}.{}", version.major, version.minor, version.patch)
}

impl Engine for Lmdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result {
        let mut transaction = self.env.write_txn()?;
        self.database.put(&mut transaction, key, value)?;
        Ok(transaction.commit()?)
    }

    fn delete(&self, key: &[u8]) -> Result {
        let mut transaction = self.env.write_txn()?;
        self.database.delete(&mut transaction, key)?;
        Ok(transaction.commit()?)
    }

    fn put_all(&self, pairs: &[Pair]) -> Result {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in pairs {
            self.database.put(&mut transaction, key, value)?;
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let transaction = self.env.read_txn()?;
        Ok(self.database.get(&transaction, key)?.map(read).is_some())
    }

    fn scan(&self, from: &[u8], to: Option<&[u8]>, rows: u64, read: &mut dyn FnMut(&[u8], &[u8])) -> Result {
        let transaction = self.env.read_txn()?;
        let bounds = (Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Excluded));
        for pair in self.database.range(&transaction, &bounds)?.take(usize::try_from(rows)?) {
            let (key, value) = pair?;
            read(key, value);
        }
        Ok(())
    }

    fn sync(&self) -> Result {
        Ok(self.env.force_sync()?)
    }

    fn close(self: Box<Self>) -> Result {
        let closing = self.env.prepare_for_closing();
        closing.wait();
        Ok(())
    }
}
