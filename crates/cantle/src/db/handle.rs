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

/// Closes the store, unless it is closed already, when the last `Db`, `Keyspace`, `Snapshot`,
/// `Transaction`, `Range` and `Cursor` is dropped.
pub(crate) struct Handle {
    pub(super) store: Arc<Store>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Err(error) = self.store.close() {
            tracing::error!(%error, "cannot close the store");
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
    /// The same as those of [`Options::open`].
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

    /// Applies a batch atomically, over any keys and keyspaces: either all of its operations take
    /// effect or none, and readers see all of them or none.
    ///
    /// # Errors
    ///
    /// The same as those of [`put`](Self::put), and
    /// [`InvalidArgument`](crate::Error::InvalidArgument) if the batch exceeds
    /// [`BATCH_BYTES_MAX`](crate::BATCH_BYTES_MAX); then none of it was written.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::new())
    }

    /// Applies a batch with options, such as more durability than the store's.
    ///
    /// More durability costs a sync. If the batch goes to one log, and everything written before it
    /// is durable, one sync of the journal makes the batch durable. Otherwise a checkpoint follows
    /// the write. Concurrent callers share such a sync or checkpoint.
    ///
    /// # Errors
    ///
    /// The same as those of [`write`](Self::write), and [`NotDurable`](crate::Error::NotDurable) if
    /// the checkpoint fails, for example because the disk is full. The batch has taken effect then,
    /// and is as durable as any other write; a later checkpoint or [`sync`](Self::sync) makes it
    /// durable. If a sync fails, the store is read-only from then on.
    pub fn write_with(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        self.handle.store.write_batch(batch, options.durability)
    }

    /// Takes a snapshot: a consistent view of all keyspaces as they are now (EvenDB §3.2). Waits
    /// some microseconds for the writes that are under way.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.handle, KeySpan::ALL)
    }

    /// Returns the keyspace of this name, with its present settings. If there is none, creates it
    /// with the default options.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for names that are not 1 to 255 bytes long, [`Error::NoKeyspace`]
    /// if the keyspace would have to be created in a read-only store.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.keyspace_if(name, Existing::AsItIs)
    }

    /// Returns the keyspace of this name. If there is none, creates it with these options. If it
    /// exists, the layout and the comparator must be the existing ones or not be given. The other
    /// settings take effect, except in `default`, which keeps those given at opening
    /// ([`Options::default_keyspace`]).
    ///
    /// # Errors
    ///
    /// [`Error::OptionMismatch`], which names both values, for another comparator or layout;
    /// [`Error::InvalidArgument`] for options out of their range; otherwise the same as those of
    /// [`keyspace`](Self::keyspace).
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.keyspace_if(name, Existing::With(options))
    }

    /// Creates a keyspace.
    ///
    /// If the checkpoint that makes it durable fails, as on a full disk, the keyspace may have been created
    /// all the same: then a second call finds it.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`] if there is a keyspace of this name, which stays as it is;
    /// otherwise the same as those of [`keyspace_with`](Self::keyspace_with).
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.keyspace_if(name, Existing::Refused(options))
    }

    fn keyspace_if(&self, name: &str, existing: Existing) -> Result<Keyspace> {
        let inner = self.handle.store.keyspace(name, existing)?;
        Ok(Keyspace { handle: self.handle.clone(), inner })
    }

    /// Returns the names of all keyspaces, in ascending order.
    pub fn keyspaces(&self) -> Result<Vec<String>> {
        self.handle.store.check_open()?;
        Ok(self.handle.store.all_keyspaces().iter().map(|keyspace| keyspace.name.clone()).collect())
    }

    /// Drops a keyspace and everything in it. The disk space is freed once no open snapshot reads
    /// the keyspace. The keyspace `default` cannot be dropped ([`Error::InvalidArgument`]).
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.handle.store.drop_keyspace(name)
    }

    /// Makes all writes durable that were acknowledged before this call, by a checkpoint (EvenDB
    /// §3.5). Concurrent callers share one checkpoint.
    ///
    /// # Errors
    ///
    /// After [`Error::NoSpace`] the store is as before. A failed sync turns the store read-only:
    /// see [`Error::ReadOnly`].
    pub fn sync(&self) -> Result<()> {
        let _call = self.handle.store.begin_call()?;
        self.handle.store.check_writable()?;
        self.handle.store.substrate.checkpoint()
    }

    /// Writes a consistent copy of the store into a new or empty directory. The copy is a complete
    /// store. The store may be used meanwhile. If both directories are on one file system, the two
    /// stores share the files of tables by hard links.
    ///
    /// A backup of a store that is opened read-only contains everything that reads see, including
    /// writes that were recovered in memory only. Nothing is written to the store's own directory,
    /// which may be on a read-only file system.
    ///
    /// The backup survives a power failure once this returns. Copies of more than 64 logs are made
    /// durable by one sync of their whole file system, if this file system reports failures of such
    /// a sync (ext4, XFS, Btrfs and tmpfs since Linux 5.8). Otherwise each copy is synced by
    /// itself.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`] if the directory holds a store, [`Error::NotAStore`] if it holds
    /// anything else.
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.handle.store.backup(dir.as_ref())
    }

    /// Returns counters and sizes of the store. Takes microseconds.
    pub fn stats(&self) -> Stats {
        self.handle.store.stats()
    }

    /// Reads and checks every file of the store. Damage is listed in the report, and is not an
    /// error.
    pub fn verify(&self) -> Result<Report> {
        self.handle.store.verify()
    }

    /// Makes everything durable, closes the store and releases its lock: the store may be opened
    /// again at once, in this process or another. Waits until calls of other threads that write
    /// have returned. Other handles (clones, keyspaces, snapshots, ranges, cursors, transactions)
    /// may still exist; they return [`Error::Closed`] from now on. Values that they have returned
    /// stay valid. In a process that was forked from the one that opened the store, this returns
    /// [`Error::Closed`] and leaves the store as it is.
    ///
    /// # Errors
    ///
    /// The store is closed even if this fails: then writes since the last checkpoint may be lost.
    /// [`Error::ReadOnly`] says that the store had turned read-only before, possibly in the
    /// background, and gives the reason.
    pub fn close(&self) -> Result<()> {
        let store = &self.handle.store;
        if store.substrate.health.is_closed() || store.process != std::process::id() {
            return Err(Error::Closed);
        }
        self.handle.store.close()
    }

    /// Removes the store in directory `path`, damaged or not, and everything in it. Only the file
    /// system among the options has an effect. The directory stays, and so do files that are not
    /// the store's. Succeeds if there is no store.
    ///
    /// # Errors
    ///
    /// [`Locked`](crate::Error::Locked) if the store is open,
    /// [`NotAStore`](crate::Error::NotAStore) for a file or another kind of store,
    /// [`Io`](crate::Error::Io) if a file cannot be removed. After the last the store cannot be
    /// opened any more; call this again to remove the rest.
    pub fn destroy(path: impl AsRef<Path>, options: Options) -> Result<()> {
        super::destroy(&options, path.as_ref())
    }

    /// The store's directory, as the caller gave it.
    pub fn path(&self) -> &Path {
        &self.handle.store.path
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("path", &self.handle.store.path).finish_non_exhaustive()
    }
}
