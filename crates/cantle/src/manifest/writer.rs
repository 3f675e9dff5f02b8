//! Appending to the manifest, and rewriting it.

use super::edit::{CheckpointEdit, Edit};
use super::state::{NewLayoutState, State, replay};
use crate::files::{Files, file_name};
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::format::limits::{RECORD_BYTES_MAX, check_record};
use crate::records::encode_record;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::waits::{self, Cause};
use crate::sync::{Arc, Mutex, MutexGuard};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{OpenMode, VfsFile};
use std::path::PathBuf;
use std::sync::OnceLock;

/// A manifest is rewritten once it exceeds this many bytes and twice the size of its state when it
/// was last rewritten or opened. This depends on the file only, so the length stays bounded over
/// any number of openings, and each byte of edits pays for one rewritten byte. The constant is some
/// hundred openings of a small store.
const REWRITE_BYTES_MIN: u64 = 32 << 10;
const REWRITE_GROWTH: u64 = 2;

type OnDoubt = Box<dyn Fn(String) + Send + Sync>;

/// The manifest of an open store.
pub struct Manifest {
    files: Arc<Files>,
    new_layout: NewLayoutState,
    inner: Mutex<Inner>,
    /// The file's length, for statistics.
    bytes: AtomicU64,
    /// Called with the reason, when an append fails and it is unknown if its edit is in the file.
    on_doubt: OnceLock<OnDoubt>,
}

struct Inner {
    path: PathBuf,
    file: Arc<dyn VfsFile>,
    header: FileHeader,
    len: u64,
    /// Number of bytes known to be durable.
    durable_bytes: u64,
    /// Size of its state when it was last rewritten or opened.
    base_bytes: u64,
    /// A failed append left bytes that could not be truncated.
    broken: bool,
    /// True if something was appended since the last checkpoint.
    dirty: bool,
    /// The store is closed, and others may have opened it.
    ended: bool,
    /// The longest payload that readers accept as a record.
    record_bytes_max: u64,
}

/// A manifest that was replayed.
pub struct Resumed {
    pub path: PathBuf,
    pub header: FileHeader,
    /// The place of the next edit.
    pub end: u64,
    /// Length of a manifest with exactly this state, in bytes.
    pub state_bytes: u64,
}

/// Excludes all other edits, so that a checkpoint's record comes right after the edits that it
/// covers.
pub struct Locked<'a> {
    manifest: &'a Manifest,
    inner: MutexGuard<'a, Inner>,
}

impl Manifest {
    /// Creates the first manifest of a store, durable when this returns.
    pub fn create(files: Arc<Files>, new_layout: NewLayoutState, edits: &[Edit]) -> Result<Self> {
        let inner = write_new(&files, edits.iter().cloned())?;
        Ok(Self {
            files,
            new_layout,
            bytes: AtomicU64::new(inner.len),
            inner: Mutex::new(inner),
            on_doubt: OnceLock::new(),
        })
    }

    /// Continues a manifest that was replayed up to `end`, and truncates the rest. With `settle`
    /// the truncation is durable before anything is appended, so that a power loss cannot mix
    /// truncated edits with new ones.
    pub fn resume(
        files: Arc<Files>,
        new_layout: NewLayoutState,
        Resumed { path, header, end, state_bytes }: Resumed,
        settle: bool,
    ) -> Result<Self> {
        let file =
            files.vfs.open(&path, OpenMode::ReadWrite).map_err(|e| Error::io(Attempt::Open, &path, e))?;
        // Edits of a dead process may not be durable, unless they are synced here.
        let mut durable_bytes = 0;
        if file.len().map_err(|e| Error::io(Attempt::Measure, &path, e))? != end {
            file.set_len(end).map_err(|e| Error::io(Attempt::Truncate, &path, e))?;
            if settle {
                let synced = canary!(UNSYNCED_CUT else file.sync_data());
                synced.map_err(|e| Error::io(Attempt::Sync, &path, e))?;
                durable_bytes = end;
            }
        }
        let inner = Inner {
            path,
            file,
            header,
            len: end,
            durable_bytes,
            base_bytes: state_bytes,
            broken: false,
            dirty: true,
            ended: false,
            record_bytes_max: RECORD_BYTES_MAX,
        };
        Ok(Self {
            files,
            new_layout,
            bytes: AtomicU64::new(inner.len),
            inner: Mutex::new(inner),
            on_doubt: OnceLock::new(),
        })
    }

    /// Continues with a copy of the manifest at `path` up to its last checkpoint: a sync failed
    /// earlier, and its bytes may never have reached the disk.
    pub fn resume_as_copy(
        files: Arc<Files>,
        new_layout: NewLayoutState,
        path: PathBuf,
        state: &State,
    ) -> Result<Self> {
        let mut edits = Vec::new();
        state.dump(&mut |edit| edits.push(edit));
        edits.push(Edit::Checkpoint(state.checkpoint.clone()));
        let manifest = Self::create(files, new_layout, &edits)?;
        manifest.inner.lock().dirty = true;
        if let Err(error) = manifest.files.vfs.remove(&path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove the previous manifest");
        }
        Ok(manifest)
    }

    /// Makes the appended edits durable. Only a checkpoint makes them count.
    pub fn sync(&self) -> Result<()> {
        let inner = self.inner.lock();
        inner.file.sync_data().map_err(|e| Error::io(Attempt::Sync, &inner.path, e))?;
        self.files.sync_names()
    }

    /// Appends edits as one record: after the death of the process all of them are there or none.
    pub fn append(&self, edits: &[Edit]) -> Result<()> {
        let mut inner = waits::lock(&self.inner);
        waits::timed(Cause::Device, || self.noting_doubt(&mut inner, edits))?;
        self.bytes.store(inner.len, Relaxed);
        Ok(())
    }

    /// Sets a function to call when the store must not be written any more: an edit may be in the
    /// file that does not count now, but will after the next opening.
    pub fn on_doubt(&self, tell: impl Fn(String) + Send + Sync + 'static) {
        let _ = self.on_doubt.set(Box::new(tell));
    }

    fn noting_doubt(&self, inner: &mut Inner, edits: &[Edit]) -> Result<()> {
        let sound = !inner.broken;
        inner.append(edits).inspect_err(|_| {
            if sound && inner.broken {
                // The edit may refer to discarded files.
                self.files.keep_discarded();
                if let Some(tell) = self.on_doubt.get() {
                    tell(inner.broken_reason());
                }
            }
        })
    }

    /// Rejects all later edits with [`Error::Closed`].
    pub fn end(&self) {
        self.inner.lock().ended = true;
    }

    pub fn lock(&self) -> Locked<'_> {
        Locked { manifest: self, inner: self.inner.lock() }
    }

    pub fn path(&self) -> PathBuf {
        self.inner.lock().path.clone()
    }

    /// The number of the manifest, and the number of its bytes known to be durable.
    pub fn durable(&self) -> (u64, u64) {
        let inner = self.inner.lock();
        (inner.header.file, inner.durable_bytes)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// True if there are edits that no checkpoint covers.
    pub fn is_dirty(&self) -> bool {
        self.inner.lock().dirty
    }
}

impl Locked<'_> {
    /// Appends a checkpoint and makes it durable, and with it every edit before it. If the manifest
    /// has grown, it is rewritten instead.
    pub fn checkpoint(mut self, mut checkpoint: CheckpointEdit) -> Result<()> {
        let inner = &mut *self.inner;
        if inner.ended {
            return Err(Error::Closed);
        }
        let allowed_bytes = REWRITE_BYTES_MIN.saturating_add(inner.base_bytes.saturating_mul(REWRITE_GROWTH));
        canary!(MANIFEST_NEVER_REWRITTEN => let allowed_bytes = u64::MAX);
        if inner.len > allowed_bytes {
            match self.rewrite(checkpoint.clone()) {
                // On a full disk the current one keeps growing: by less than a second one needs.
                Err(error) if error.is_no_space() => {
                    tracing::debug!(%error, "the manifest is not rewritten");
                }
                done => return done,
            }
        }
        let inner = &mut *self.inner;
        checkpoint.durable_bytes = inner.durable_bytes;
        self.manifest.noting_doubt(inner, &[Edit::Checkpoint(checkpoint)])?;
        inner.dirty = false;
        let (file, path) = (inner.file.clone(), inner.path.clone());
        // Other threads continue meanwhile: edits that they append after the checkpoint are
        // provisional, durable or not.
        let (manifest, end) = (self.manifest, inner.len);
        drop(self);
        let synced = canary!(UNSYNCED_CHECKPOINT else file.sync_data());
        synced.map_err(|e| Error::io(Attempt::Sync, &path, e))?;
        let mut inner = manifest.inner.lock();
        inner.durable_bytes = end;
        // Distinguishes damage of this checkpoint from one whose sync never ended. The checkpoint
        // counts without it too.
        let dirty = inner.dirty;
        if let Err(error) = manifest.noting_doubt(&mut inner, &[Edit::Durable { bytes: end }]) {
            tracing::debug!(%error, "cannot append the proof that a checkpoint is durable");
        }
        inner.dirty = dirty;
        Ok(())
    }

    fn rewrite(&mut self, checkpoint: CheckpointEdit) -> Result<()> {
        let manifest = self.manifest;
        let inner = &mut *self.inner;
        let state = replay(&*manifest.files.vfs, &inner.path, manifest.new_layout, true)?.state;
        let mut edits = Vec::new();
        state.dump(&mut |edit| edits.push(edit));
        edits.push(Edit::Checkpoint(checkpoint));
        let new = write_new(&manifest.files, edits.into_iter())?;
        let old = std::mem::replace(inner, new);
        // A backup may be reading it.
        manifest.files.unlink(old.header.file, &old.path);
        Ok(())
    }
}

impl Inner {
    fn broken_reason(&self) -> String {
        format!("an append to {} failed and could not be undone: reopen the store", self.path.display())
    }

    fn append(&mut self, edits: &[Edit]) -> Result<()> {
        if self.ended {
            return Err(Error::Closed);
        }
        if self.broken {
            return Err(Error::ReadOnly { reason: self.broken_reason() });
        }
        let payload = match edits {
            [edit] => edit.encode(),
            edits => Edit::Group(edits.to_vec()).encode(),
        };
        check_record("an edit of the manifest", payload.len(), self.record_bytes_max)?;
        let mut bytes = Vec::new();
        let lengths = (Edit::head_bytes(&payload), payload.len());
        encode_record(&self.header, self.len, lengths, &mut bytes, |out| out.extend_from_slice(&payload));
        if let Err(error) = self.file.write_at(&bytes, self.len) {
            // A partly written edit must not precede the next one.
            self.broken = self.file.set_len(self.len).is_err();
            return Err(Error::io(Attempt::Append, &self.path, error));
        }
        self.len += bytes.len() as u64;
        self.dirty = true;
        Ok(())
    }
}

/// Writes a whole manifest under the next number. It is complete and durable before it gets its
/// name.
fn write_new(files: &Arc<Files>, edits: impl Iterator<Item = Edit>) -> Result<Inner> {
    const PIECE_BYTES: usize = 1 << 20;
    let id = files.next_id();
    let path = files.path(FileKind::Manifest, id);
    let temporary = files.dir.join(format!("{}.tmp", file_name(FileKind::Manifest, id)));
    let header = FileHeader {
        kind: FileKind::Manifest,
        keyspace: 0,
        store: files.store,
        file: id,
        epoch: files.epoch,
        base_version: 0,
    };
    // From here on a failure leaves nothing but a file under a temporary name.
    let write = || -> std::io::Result<(Arc<dyn VfsFile>, u64)> {
        if files.vfs.metadata(&temporary)?.is_some() {
            files.vfs.remove(&temporary)?;
        }
        let file = files.create_temporary(&temporary)?;
        let mut bytes = header.encode().to_vec();
        let mut written_bytes = 0;
        for mut edit in edits {
            if let Edit::Checkpoint(checkpoint) = &mut edit {
                // The value may refer to another manifest.
                checkpoint.durable_bytes = 0;
            }
            let payload = edit.encode();
            let offset = written_bytes + bytes.len() as u64;
            let lengths = (Edit::head_bytes(&payload), payload.len());
            encode_record(&header, offset, lengths, &mut bytes, |out| out.extend_from_slice(&payload));
            if bytes.len() >= PIECE_BYTES {
                file.write_at(&bytes, written_bytes)?;
                written_bytes += bytes.len() as u64;
                bytes.clear();
            }
        }
        file.write_at(&bytes, written_bytes)?;
        let len = written_bytes + bytes.len() as u64;
        debug_assert!(len > HEADER_BYTES);
        Ok((file, len))
    };
    let written = write().map_err(|e| Error::io(Attempt::Write, &temporary, e)).and_then(|(file, len)| {
        let sync = || file.sync_data().map_err(|e| Error::sync_unreferenced(&temporary, e));
        // After the rename a reader may find the new manifest, so a failure is as serious as a
        // failed sync. There is one exception: if the directory cannot even be opened, nothing is
        // removed before a sync of it, which also makes the removal of this file durable.
        let name = || {
            files.vfs.rename(&temporary, &path).map_err(|e| Error::io(Attempt::SyncName, &path, e))?;
            canary!(UNNAMED_MANIFEST => return Ok(()));
            files.sync_names()
        };
        canary!(MANIFEST_BEFORE_ITS_DATA => return name().and_then(|()| sync()).map(|()| (file.clone(), len)));
        canary!(UNSYNCED_MANIFEST else sync())?;
        name()?;
        Ok((file, len))
    });
    match written {
        Ok((file, len)) => Ok(Inner {
            path,
            file,
            header,
            len,
            durable_bytes: len,
            base_bytes: len,
            broken: false,
            dirty: false,
            ended: false,
            record_bytes_max: RECORD_BYTES_MAX,
        }),
        Err(error) => {
            // Under a temporary name the file has no effect; under its own it might be used as the
            // current manifest.
            files.abandon(&temporary, &path);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::{MemVfs, Vfs};
    use std::path::Path;

    #[test]
    fn an_edit_that_no_reader_takes_is_refused_and_harms_nothing() {
        let vfs = Arc::new(MemVfs::new());
        vfs.create_dir_all(Path::new("/store")).unwrap();
        let files = Arc::new(Files::new(vfs.clone(), PathBuf::from("/store"), 1, 1, 1));
        let edits = [Edit::Checkpoint(CheckpointEdit::default())];
        let manifest = Manifest::create(files, |_| None, &edits).unwrap();
        manifest.inner.lock().record_bytes_max = 100;
        let edit = |bytes| [Edit::Layout { keyspace: 1, payload: vec![7; bytes] }];
        let before = manifest.bytes();
        let refused = manifest.append(&edit(99)).unwrap_err();
        assert!(matches!(&refused, Error::InvalidArgument(text) if text.contains("100")), "{refused}");
        assert_eq!(vfs.metadata(&manifest.path()).unwrap().unwrap().len, before);
        manifest.append(&edit(98)).unwrap();
    }
}
