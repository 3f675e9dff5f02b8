//! The files of one store, and a file of it. See the module for a file's life.

use super::claims::Claims;
use super::handles::{Handles, TablesMax};
use super::unsynced::Unsynced;
use crate::format::codec::NUMBER_MAX;
use crate::format::header::{FileHeader, FileKind};
use crate::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::{Arc, Mutex, RwLock};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{OpenMode, Vfs, VfsFile};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// The files of one store.
#[derive(Debug)]
pub struct Files {
    pub vfs: Arc<dyn Vfs>,
    pub dir: PathBuf,
    pub store: u128,
    /// The epoch that new files belong to.
    pub epoch: u64,
    handles: Handles,
    next: AtomicU64,
    /// True if a name was added or removed since the directory was last synced.
    dir_dirty: AtomicBool,
    held: Mutex<Held>,
    /// The sum of the bytes in `held` over all keyspaces.
    held_bytes: AtomicU64,
    pins: Mutex<Pins>,
    /// Deletable files that are still referenced.
    deletable: Mutex<HashMap<u64, FileKind>>,
    /// True if files are no longer opened or removed. Locked for reading by threads that do so.
    ended: RwLock<bool>,
    /// The process that opened the store: one that was forked from it removes nothing.
    process: u32,
    /// Discarded files are kept: an edit that may or may not be in the manifest may refer to them.
    keeps_discarded: AtomicBool,
    /// Tables that were unlinked, but that caches may still keep open.
    gone: Mutex<Vec<u64>>,
}

/// Obsolete files that wait for a checkpoint.
#[derive(Debug, Default)]
struct Held {
    files: Vec<Arc<StoreFile>>,
    /// Their bytes, by keyspace.
    bytes: HashMap<u32, Arc<AtomicU64>>,
    /// The least number of those that a checkpoint in progress has taken.
    taken: Option<u64>,
    /// When the directory was last synced, obsolete files with lower numbers had gone.
    synced_below: u64,
    /// The least number of a file that was removed since that sync began.
    removed: u64,
    /// True while files that no manifest names wait for their removal.
    has_orphans: bool,
    /// True once the store is closed: nothing is held any more.
    has_ended: bool,
}

impl Held {
    fn extend(&mut self, files: impl IntoIterator<Item = Arc<StoreFile>>) {
        if !self.has_ended {
            self.files.extend(files);
        }
    }

    fn bytes_of(&mut self, keyspace: u32) -> &Arc<AtomicU64> {
        self.bytes.entry(keyspace).or_insert_with(|| Arc::new(AtomicU64::new(0)))
    }
}

/// Files are unlinked only while there is no pin. One lock protects both: a thread that finds a pin
/// and leaves a file to the last unpin must not come after that.
#[derive(Debug)]
struct Pins {
    count: usize,
    waiting: Vec<(u64, PathBuf)>,
}

/// One file. Lives as long as it is read or referred to.
#[derive(Debug)]
pub struct StoreFile {
    pub id: u64,
    pub kind: FileKind,
    pub keyspace: u32,
    /// The epoch in which it was created: its entries are of that epoch, or survived the epochs
    /// before.
    pub epoch: u64,
    pub path: PathBuf,
    bytes: AtomicU64,
    /// Bytes of it that are counted as held. The same number is subtracted later, whatever the
    /// file's length is by then.
    held_bytes: AtomicU64,
    references: AtomicUsize,
    deletable: AtomicBool,
    /// Writes to it since its last sync.
    unsynced: Unsynced,
    /// The shares of its users.
    pub claims: Claims,
    files: Arc<Files>,
}

/// The name of a file in the store's directory.
pub fn file_name(kind: FileKind, id: u64) -> String {
    match kind {
        FileKind::Table => format!("{id:012}.table"),
        FileKind::Log => format!("{id:012}.log"),
        FileKind::Journal => format!("{id:012}.journal"),
        FileKind::Manifest => format!("MANIFEST-{id:012}"),
    }
}

/// The kind and number of a file with this name, if it is a name of the store's files.
pub fn parse_file_name(name: &str) -> Option<(FileKind, u64)> {
    let (digits, kind) = if let Some(digits) = name.strip_prefix("MANIFEST-") {
        (digits, FileKind::Manifest)
    } else if let Some(digits) = name.strip_suffix(".table") {
        (digits, FileKind::Table)
    } else if let Some(digits) = name.strip_suffix(".log") {
        (digits, FileKind::Log)
    } else if let Some(digits) = name.strip_suffix(".journal") {
        (digits, FileKind::Journal)
    } else {
        return None;
    };
    // No file of a store has a greater number.
    let id = digits.parse().ok().filter(|&id| id <= NUMBER_MAX)?;
    (file_name(kind, id) == name).then_some((kind, id))
}

impl Files {
    pub fn new(vfs: Arc<dyn Vfs>, dir: PathBuf, store: u128, epoch: u64, next: u64) -> Self {
        Self {
            vfs,
            dir,
            store,
            epoch,
            handles: Handles::new(),
            next: AtomicU64::new(next),
            // The store's former process may have died before it synced the directory.
            dir_dirty: AtomicBool::new(true),
            held: Mutex::new(Held::default()),
            held_bytes: AtomicU64::new(0),
            pins: Mutex::new(Pins { count: 0, waiting: Vec::new() }),
            deletable: Mutex::default(),
            ended: RwLock::new(false),
            process: std::process::id(),
            keeps_discarded: AtomicBool::new(false),
            gone: Mutex::new(Vec::new()),
        }
    }

    /// A number for a new file.
    pub fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// The number that the next file will get.
    pub fn peek_id(&self) -> u64 {
        self.next.load(Relaxed)
    }

    pub fn path(&self, kind: FileKind, id: u64) -> PathBuf {
        self.dir.join(file_name(kind, id))
    }

    /// Creates a file; the caller writes its header.
    pub fn create(
        self: &Arc<Self>,
        kind: FileKind,
        keyspace: u32,
        base_version: u64,
    ) -> Result<(Arc<StoreFile>, Arc<dyn VfsFile>, FileHeader)> {
        let id = self.next_id();
        let path = self.path(kind, id);
        let handle = self
            .handles
            .retrying(|| self.vfs.open(&path, OpenMode::CreateNew))
            .map_err(|e| Error::io(Attempt::Create, &path, e))?;
        // Set after the creation: a sync of the directory that began before the name was there does
        // not count.
        self.dir_dirty.store(true, Release);
        self.handles.insert(id, handle.clone());
        Ok((
            self.adopt(kind, id, keyspace, self.epoch, 0),
            handle,
            FileHeader { base_version, ..self.header_of(kind, keyspace, id) },
        ))
    }

    /// The header of a file that this epoch writes.
    pub fn header_of(&self, kind: FileKind, keyspace: u32, file: u64) -> FileHeader {
        FileHeader { kind, keyspace, store: self.store, file, epoch: self.epoch, base_version: 0 }
    }

    /// A file that exists already.
    pub fn adopt(
        self: &Arc<Self>,
        kind: FileKind,
        id: u64,
        keyspace: u32,
        epoch: u64,
        bytes: u64,
    ) -> Arc<StoreFile> {
        Arc::new(StoreFile {
            id,
            kind,
            keyspace,
            epoch,
            path: self.path(kind, id),
            bytes: AtomicU64::new(bytes),
            held_bytes: AtomicU64::new(0),
            references: AtomicUsize::new(0),
            deletable: AtomicBool::new(false),
            unsynced: Unsynced::default(),
            claims: Claims::default(),
            files: self.clone(),
        })
    }

    /// From now on discarded files are kept; the next opening finds out which files nothing refers
    /// to.
    pub fn keep_discarded(&self) {
        self.keeps_discarded.store(true, Release);
    }

    /// Undoes a creation: nothing refers to the file.
    pub fn discard(&self, file: &StoreFile) {
        if self.keeps_discarded.load(Acquire) {
            return;
        }
        self.handles.remove(file.id);
        self.unlink(file.id, &file.path);
    }

    /// Makes new names durable, if there are any.
    pub fn sync_dir(&self) -> Result<()> {
        if self.dir_dirty.swap(false, AcqRel) {
            let gone_below = self.least_obsolete();
            {
                let mut held = self.held.lock();
                held.synced_below = held.synced_below.min(held.removed);
                held.removed = u64::MAX;
            }
            let named = canary!(UNNAMED_FILES else self.sync_names());
            named.inspect_err(|_| self.dir_dirty.store(true, Release))?;
            self.held.lock().synced_below = gone_below;
        }
        Ok(())
    }

    /// The least number of the obsolete files that may still be in the directory.
    fn least_obsolete(&self) -> u64 {
        let next = self.peek_id();
        let deletable = self.deletable.lock().keys().min().copied();
        let held = self.held.lock();
        if held.has_orphans {
            return 0;
        }
        let least = held.files.iter().map(|file| file.id).min();
        [least, held.taken, deletable].into_iter().flatten().min().unwrap_or(next)
    }

    /// All obsolete files with a lower number have gone from the directory for good.
    pub fn settled_below(&self) -> u64 {
        let least = self.least_obsolete();
        let held = self.held.lock();
        held.synced_below.min(held.removed).min(least)
    }

    /// Notes that files which no manifest names wait for their removal, or that all have gone.
    pub fn note_orphans(&self, are_left: bool) {
        let mut held = self.held.lock();
        held.synced_below = 0;
        held.has_orphans = are_left;
    }

    /// Maximum numbers of tables that may be open.
    pub fn tables_max(&self) -> TablesMax {
        self.handles.tables_max()
    }

    /// Number of files besides tables that a job may use at the same time.
    pub fn in_use_max(&self) -> usize {
        self.handles.in_use_max()
    }

    /// Makes the names of all files durable.
    pub fn sync_names(&self) -> Result<()> {
        let synced = self.handles.retrying(|| self.vfs.sync_dir(&self.dir));
        synced.map_err(|e| Error::io(Attempt::SyncDirectory, &self.dir, e))
    }

    /// Creates a file that will be renamed once it is complete.
    pub fn create_temporary(&self, path: &Path) -> io::Result<Arc<dyn VfsFile>> {
        self.handles.retrying(|| self.vfs.open(path, OpenMode::CreateNew))
    }

    /// Removes an unfinished file, under its temporary name or its final one.
    pub fn abandon(&self, temporary: &Path, renamed: &Path) {
        for path in [temporary, renamed] {
            if let Err(error) = self.vfs.remove(path) {
                tracing::debug!(path = %path.display(), %error, "there was no unfinished file to remove");
            }
        }
        self.dir_dirty.store(true, Release);
    }

    /// True if names changed since the directory was last synced.
    pub fn is_dir_dirty(&self) -> bool {
        self.dir_dirty.load(Acquire)
    }

    /// Bytes of obsolete files of all keyspaces that wait for a checkpoint.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Relaxed)
    }

    /// The counter of these bytes for one keyspace; each file counts for one keyspace only.
    pub fn held_bytes_of(&self, keyspace: u32) -> Arc<AtomicU64> {
        self.held.lock().bytes_of(keyspace).clone()
    }

    /// The files that became obsolete so far. Their removal is part of the next checkpoint record:
    /// once that is durable, they may be unlinked.
    pub fn take_held(&self) -> Vec<Arc<StoreFile>> {
        let mut held = self.held.lock();
        held.taken = held.files.iter().map(|file| file.id).min();
        std::mem::take(&mut held.files)
    }

    /// Holds files of the last checkpoint that nothing current refers to.
    pub fn hold(&self, files: Vec<Arc<StoreFile>>) {
        canary!(HELD_FILES_GONE => return self.mark_deletable(files));
        let mut held = self.held.lock();
        files.iter().for_each(|file| self.count_held(&mut held, file, file.bytes()));
        held.extend(files);
    }

    /// Holds files again whose checkpoint failed.
    pub fn hold_again(&self, files: Vec<Arc<StoreFile>>) {
        let mut held = self.held.lock();
        held.extend(files);
        held.taken = None;
    }

    /// Releases files that no checkpoint needs any more.
    pub fn mark_deletable(&self, files: Vec<Arc<StoreFile>>) {
        if files.is_empty() {
            return;
        }
        self.deletable.lock().extend(files.iter().map(|file| (file.id, file.kind)));
        let mut held = self.held.lock();
        held.taken = None;
        for file in &files {
            self.count_held(&mut held, file, 0);
            file.deletable.store(true, Release);
        }
        // Counters of dropped keyspaces are removed.
        held.bytes.retain(|_, bytes| Arc::strong_count(bytes) > 1 || bytes.load(Relaxed) > 0);
        // Removing a file takes other locks.
        drop(held);
        drop(files);
    }

    /// Counts `bytes` of a file as held from now on.
    fn count_held(&self, held: &mut Held, file: &StoreFile, bytes: u64) {
        // The counters wrap around, and so do differences.
        let more = bytes.wrapping_sub(file.held_bytes.swap(bytes, Relaxed));
        self.held_bytes.fetch_add(more, Relaxed);
        held.bytes_of(file.keyspace).fetch_add(more, Relaxed);
    }

    /// Tables that were unlinked since the last call. Their space is freed once no cache keeps them
    /// open.
    pub fn take_gone(&self) -> Vec<u64> {
        std::mem::take(&mut *self.gone.lock())
    }

    /// From here to `unpin` no file is unlinked, except those whose unlinking has begun: nothing
    /// refers to them any more, nor does the last checkpoint.
    pub fn pin(&self) {
        self.pins.lock().count += 1;
    }

    /// Ends a `pin`, and unlinks the files that waited for it.
    pub fn unpin(&self) {
        let waited = {
            let mut pins = self.pins.lock();
            pins.count -= 1;
            if pins.count == 0 { std::mem::take(&mut pins.waiting) } else { Vec::new() }
        };
        waited.iter().for_each(|(id, path)| self.unlink(*id, path));
    }

    /// Removes a file that nothing refers to, or leaves it to the last `unpin`.
    pub fn unlink(&self, id: u64, path: &Path) {
        if self.process != std::process::id() {
            return;
        }
        {
            let mut pins = self.pins.lock();
            if pins.count > 0 {
                pins.waiting.push((id, path.to_path_buf()));
                return;
            }
        }
        // Held until the end: `end` removes the files that are still deletable.
        let ended = self.ended.read();
        if *ended {
            return;
        }
        if let Err(error) = self.vfs.remove(path) {
            // If the file stays, the next opening removes it, as no manifest names it.
            tracing::warn!(path = %path.display(), %error, "cannot remove an obsolete file");
        }
        // The removal is durable with the next sync of the directory.
        let mut held = self.held.lock();
        held.removed = held.removed.min(id);
        drop(held);
        self.deletable.lock().remove(&id);
    }

    /// From here on no file is opened by its name or removed, even by a late reader or a late drop
    /// of a reference. Handles may be left, and a job that waits for a background thread, which
    /// other stores may keep busy, references the files of its chunk. Deletable files with such
    /// references are removed here, so that a closed store takes no space for them. Called before
    /// others may open the store.
    pub fn end(&self) {
        *self.ended.write() = true;
        // Files and what they hold refer to each other. The lock is released first: a file's end takes it.
        let held = {
            let mut held = self.held.lock();
            held.has_ended = true;
            std::mem::take(&mut held.files)
        };
        drop(held);
        let late = std::mem::take(&mut *self.deletable.lock());
        if self.process != std::process::id() || self.pins.lock().count > 0 {
            return;
        }
        for (id, kind) in late {
            let path = self.path(kind, id);
            if let Err(error) = self.vfs.remove(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove an obsolete file");
            }
        }
    }

    /// Closes every handle that is not in use.
    pub fn close_handles(&self) {
        self.handles.clear();
    }
}

impl StoreFile {
    /// A handle, opened if need be. The caller keeps it for one operation only, as the number of
    /// open files is bounded.
    pub fn handle(&self) -> Result<Arc<dyn VfsFile>> {
        self.files
            .handles
            .get_or_open(self.id, || {
                let ended = self.files.ended.read();
                if *ended {
                    return Err(io::ErrorKind::NotFound.into());
                }
                let mode = if self.kind == FileKind::Log { OpenMode::ReadWrite } else { OpenMode::Read };
                self.files.vfs.open(&self.path, mode)
            })
            .map_err(|e| match e.kind() {
                _ if *self.files.ended.read() => Error::Closed,
                std::io::ErrorKind::NotFound => Error::corruption(&self.path, 0, "the file is missing"),
                _ => Error::io(Attempt::Open, &self.path, e),
            })
    }

    /// Writes to a log. Any failure to make this write durable is reported by a later `sync`.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.unsynced.write(&*self.handle()?, &self.path, bytes, offset)
    }

    /// Makes the bytes durable that were written to a log before the call.
    pub fn sync(&self) -> Result<()> {
        self.unsynced.sync(&self.path, || self.handle())
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    pub fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Relaxed);
    }

    /// A current structure refers to the file.
    pub fn retain(&self) {
        self.references.fetch_add(1, AcqRel);
    }

    /// True if a current structure refers to the file.
    pub fn is_referenced(&self) -> bool {
        self.references.load(Acquire) > 0
    }

    /// A current structure no longer refers to the file; true if that made it obsolete. Called
    /// after the edit that removes the reference was appended: a checkpoint that finds the file
    /// held must cover the edit.
    pub fn release(self: &Arc<Self>) -> bool {
        let last = self.references.fetch_sub(1, AcqRel) == 1;
        if last {
            let mut held = self.files.held.lock();
            self.files.count_held(&mut held, self, self.bytes());
            held.extend([self.clone()]);
        }
        last
    }
}

impl Drop for StoreFile {
    fn drop(&mut self) {
        if self.deletable.load(Acquire) {
            self.files.handles.remove(self.id);
            self.files.unlink(self.id, &self.path);
            self.files.dir_dirty.store(true, Release);
            if self.kind == FileKind::Table {
                self.files.gone.lock().push(self.id);
            }
        }
    }
}
