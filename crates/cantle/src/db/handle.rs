//! The handle to an open store.

use super::Stats;
use super::batch::WriteBatch;
use super::keyspace::{Keyspace, KeyspaceInner};
use super::open::keyspaces::Existing;
use super::snapshot::Snapshot;
use super::store::Store;
use crate::db::{KeyspaceOptions, Options, WriteOptions};
use crate::layout::stats::Report;
use crate::mvcc::KeySpan;
use crate::sync::Arc;
use crate::types::error::{Error, Result};
use std::path::Path;

/// Closes the store, unless that was done, when the last of `Db`, `Keyspace`, `Snapshot`, `Transaction`, `Range` and `Cursor` is gone.
pub(crate) struct Handle {
    pub(super) store: Arc<Store>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Err(error) = self.store.close() {
            tracing::error!(%error, "closing the store failed");
        }
    }
}

/// An open store. Cheap to clone; every method may be called from any thread at any time.
///
/// `Db`'s own operations work on the keyspace named `default`.
///
/// ```
/// # fn main() -> cantle::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("store");
/// let db = cantle::Db::open(path)?;
/// db.put("user1/2024", "hello")?;
/// assert_eq!(db.get("user1/2024")?.as_deref(), Some(&b"hello"[..]));
/// for pair in db.prefix("user1/").rev() {
///     let (key, value) = pair?;
///     println!("{key:?} {value:?}");
/// }
/// db.close()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Db {
    pub(super) handle: Arc<Handle>,
}

impl Db {
    /// Opens the store in directory `path` with the default options, creating it if there is none.
    ///
    /// # Errors
    ///
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open(path)
    }

    pub(crate) fn open_with(path: &Path, options: Options) -> Result<Self> {
        let store = super::open::open(path, options)?;
        Ok(Self { handle: Arc::new(Handle { store }) })
    }

    #[cfg(test)]
    pub(crate) fn tick_for_test(&self) {
        crate::maintenance::Ticker::tick(&*self.handle.store);
    }

    /// The keyspace that the operations work on.
    pub(crate) fn own(&self) -> &Arc<KeyspaceInner> {
        &self.handle.store.default
    }

    /// Applies a batch: all of it or nothing, seen whole or not at all, over any keys and keyspaces. Fails as
    /// [`put`](Self::put) does, and with [`InvalidArgument`](crate::Error::InvalidArgument) if the batch exceeds
    /// [`BATCH_BYTES_MAX`](crate::BATCH_BYTES_MAX); then none of it was written.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::new())
    }

    /// Applies a batch that may ask for more durability than the store's. Where everything before it is durable, one sync of the
    /// journal makes it so, which others that wait for that share; else, and where it goes to several logs, a checkpoint follows,
    /// which others share as well. If a checkpoint fails, as on a full disk, the batch is there all the same, as durable as any
    /// other write, and the error is [`NotDurable`](crate::Error::NotDurable); a later checkpoint or [`sync`](Self::sync) makes up for it.
    /// If a sync fails, the store is read-only from then on.
    pub fn write_with(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        self.handle.store.write_batch(batch, options.durability)
    }

    /// The store as it is now, for as long as the snapshot lives (EvenDB §3.2). Waits for writes that are under way,
    /// a matter of microseconds.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.handle, KeySpan::ALL)
    }

    /// The keyspace of this name, with the settings that it has; created with the defaults if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for names that are not 1 to 255 bytes long, [`Error::NoKeyspace`] if the keyspace would have to
    /// be created in a read-only store.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.keyspace_if(name, Existing::AsItIs)
    }

    /// The keyspace of this name, created with these options if there is none. An existing one must have the same layout and
    /// comparator, or these are not given; the other settings take effect, save for `default`, which has those given at opening.
    ///
    /// # Errors
    ///
    /// [`Error::OptionMismatch`], which names both values, for another comparator or layout; [`Error::InvalidArgument`] for options out of
    /// their range; otherwise as [`keyspace`](Self::keyspace).
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.keyspace_if(name, Existing::With(options))
    }

    /// Creates a keyspace.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`] if there is one of this name, which is left as it is; otherwise as
    /// [`keyspace_with`](Self::keyspace_with).
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.keyspace_if(name, Existing::Refused(options))
    }

    fn keyspace_if(&self, name: &str, existing: Existing) -> Result<Keyspace> {
        let inner = self.handle.store.keyspace(name, existing)?;
        Ok(Keyspace { handle: self.handle.clone(), inner })
    }

    /// The names of all keyspaces, in order.
    pub fn keyspaces(&self) -> Result<Vec<String>> {
        self.handle.store.check_open()?;
        Ok(self.handle.store.all_keyspaces().iter().map(|keyspace| keyspace.name.clone()).collect())
    }

    /// Drops a keyspace with everything in it. Its space comes back once no snapshot reads it. `default` cannot be
    /// dropped ([`Error::InvalidArgument`]).
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.handle.store.drop_keyspace(name)
    }

    /// Makes everything that was acknowledged before durable, by a checkpoint (EvenDB §3.5). Callers at the same time
    /// share one.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`] leaves the store as it was. A sync that fails turns it read-only: see
    /// [`Error::ReadOnly`].
    pub fn sync(&self) -> Result<()> {
        let _call = self.handle.store.begin_call()?;
        self.handle.store.check_writable()?;
        self.handle.store.substrate.checkpoint()
    }

    /// Writes a consistent copy of the store into a new or empty directory: a store that opens. Tables are shared
    /// by hard links where both are on one file system. The store may be used meanwhile. Of a store that is opened for
    /// reading the backup holds all that reads see, also what was recovered in memory; nothing is written to the
    /// store's own directory, which may lie on a read-only file system. It survives the loss of power once this returns: copies of more
    /// than 64 logs are made durable by a sync of their whole file system, where that is one that tells of failures (ext4, XFS, Btrfs and
    /// tmpfs since Linux 5.8), else by one sync each.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`] and [`Error::NotAStore`] if the directory is not empty.
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.handle.store.backup(dir.as_ref())
    }

    /// Counters and sizes. Takes microseconds.
    pub fn stats(&self) -> Stats {
        self.handle.store.stats()
    }

    /// Reads and checks every file. Damage is in the report, not an error.
    pub fn verify(&self) -> Result<Report> {
        self.handle.store.verify()
    }

    /// Makes everything durable, closes the store and releases its lock: it may be opened again at once, in this process
    /// or another. Calls of other threads that write come to their end first. Other handles (clones, keyspaces,
    /// snapshots, ranges, cursors, transactions) may be left; they give [`Error::Closed`] from now on, while values
    /// that they have returned stay valid. In a process that was forked from the one that opened the store this gives
    /// [`Error::Closed`] and leaves the store as it is.
    ///
    /// It is closed even if this fails: then what was written since the last checkpoint may be lost. [`Error::ReadOnly`] says
    /// that the store had turned read-only before that, be it in the background, and why.
    pub fn close(&self) -> Result<()> {
        let store = &self.handle.store;
        if store.substrate.health.is_closed() || store.process != std::process::id() {
            return Err(Error::Closed);
        }
        self.handle.store.close()
    }

    /// Removes the store in directory `path`, damaged or not, with everything in it; of the options only the file system
    /// counts. Files that are not the store's stay, and so does the directory. No error if there is no store.
    ///
    /// # Errors
    ///
    /// [`Locked`](crate::Error::Locked) if it is open, [`NotAStore`](crate::Error::NotAStore) for a file or another
    /// kind of store, [`Io`](crate::Error::Io) if a file cannot be removed: then the store does not open any more,
    /// and removing it can be tried again.
    pub fn destroy(path: impl AsRef<Path>, options: Options) -> Result<()> {
        super::destroy(&options, path.as_ref())
    }

    /// The store's directory.
    pub fn path(&self) -> &Path {
        &self.handle.store.path
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("path", &self.handle.store.path).finish_non_exhaustive()
    }
}
