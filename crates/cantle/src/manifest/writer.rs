//! Appending to the manifest, and rewriting it.

use super::edit::Edit;
use super::state::{NewLayoutState, replay};
use crate::error::{Error, Result};
use crate::files::{Files, file_name};
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::log::encode_record;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{Arc, Mutex, MutexGuard};
use crate::vfs::{OpenMode, VfsFile};
use std::path::PathBuf;

/// A manifest is rewritten once it is this many bytes and several times as long as when it was last rewritten.
const REWRITE_BYTES_MIN: u64 = 1 << 20;
const REWRITE_GROWTH: u64 = 4;

/// The manifest of an open store.
pub struct Manifest {
    files: Arc<Files>,
    new_layout: NewLayoutState,
    inner: Mutex<Inner>,
    /// The file's length, for statistics.
    bytes: AtomicU64,
}

struct Inner {
    path: PathBuf,
    file: Arc<dyn VfsFile>,
    header: FileHeader,
    len: u64,
    /// Length after the last rewrite.
    base_bytes: u64,
    /// A failed append left bytes behind that could not be cut off.
    broken: bool,
    /// Whether something was appended since the last checkpoint.
    dirty: bool,
}

/// Holds off all other edits, so that a checkpoint's record comes right behind what it covers.
pub struct Locked<'a> {
    manifest: &'a Manifest,
    inner: MutexGuard<'a, Inner>,
}

impl Manifest {
    /// Creates the first manifest of a store, durable when this returns.
    pub fn create(files: Arc<Files>, new_layout: NewLayoutState, edits: &[Edit]) -> Result<Self> {
        let inner = write_new(&files, edits.iter().cloned())?;
        Ok(Self { files, new_layout, bytes: AtomicU64::new(inner.len), inner: Mutex::new(inner) })
    }

    /// Goes on with a manifest that was replayed up to `end`; cuts off what stands behind.
    pub fn resume(
        files: Arc<Files>,
        new_layout: NewLayoutState,
        path: PathBuf,
        header: FileHeader,
        end: u64,
    ) -> Result<Self> {
        let file = files.vfs.open(&path, OpenMode::ReadWrite).map_err(|e| Error::io("open", &path, e))?;
        if file.len().map_err(|e| Error::io("measure", &path, e))? != end {
            file.set_len(end).map_err(|e| Error::io("truncate", &path, e))?;
        }
        let inner = Inner { path, file, header, len: end, base_bytes: end, broken: false, dirty: true };
        Ok(Self { files, new_layout, bytes: AtomicU64::new(inner.len), inner: Mutex::new(inner) })
    }

    /// Appends edits in one write: after the death of the process all of them are there or none.
    pub fn append(&self, edits: &[Edit]) -> Result<()> {
        let mut inner = self.inner.lock();
        inner.append(edits)?;
        self.bytes.store(inner.len, Relaxed);
        Ok(())
    }

    pub fn lock(&self) -> Locked<'_> {
        Locked { manifest: self, inner: self.inner.lock() }
    }

    pub fn path(&self) -> PathBuf {
        self.inner.lock().path.clone()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Whether there are edits that no checkpoint covers.
    pub fn is_dirty(&self) -> bool {
        self.inner.lock().dirty
    }
}

impl Locked<'_> {
    /// Appends a checkpoint and makes it, and with it every edit before it, durable. Rewrites the manifest
    /// instead when it has grown.
    pub fn checkpoint(mut self, checkpoint: Edit) -> Result<()> {
        let inner = &mut *self.inner;
        if inner.len > REWRITE_BYTES_MIN && inner.len > REWRITE_GROWTH * inner.base_bytes {
            return self.rewrite(checkpoint);
        }
        inner.append(std::slice::from_ref(&checkpoint))?;
        inner.dirty = false;
        let (file, path) = (inner.file.clone(), inner.path.clone());
        // Others go on meanwhile: what they append behind the checkpoint is provisional, durable or not.
        drop(self);
        file.sync_data().map_err(|e| Error::io("sync", &path, e))
    }

    fn rewrite(mut self, checkpoint: Edit) -> Result<()> {
        let manifest = self.manifest;
        let inner = &mut *self.inner;
        let state = replay(&*manifest.files.vfs, &inner.path, manifest.new_layout, true)?.state;
        let mut edits = Vec::new();
        state.dump(&mut |edit| edits.push(edit));
        edits.push(checkpoint);
        let new = write_new(&manifest.files, edits.into_iter())?;
        let old = std::mem::replace(inner, new);
        // A backup may be reading it.
        manifest.files.unlink(&old.path);
        Ok(())
    }
}

impl Inner {
    fn append(&mut self, edits: &[Edit]) -> Result<()> {
        if self.broken {
            return Err(Error::ReadOnly {
                reason: format!(
                    "an append to {} failed and could not be undone: reopen the store",
                    self.path.display()
                ),
            });
        }
        let mut bytes = Vec::new();
        for edit in edits {
            let payload = edit.encode();
            let offset = self.len + bytes.len() as u64;
            encode_record(&self.header, offset, payload.len(), &mut bytes, |out| {
                out.extend_from_slice(&payload)
            });
        }
        if let Err(error) = self.file.write_at(&bytes, self.len) {
            // What was written of it must not precede the next edit.
            self.broken = self.file.set_len(self.len).is_err();
            return Err(Error::io("append to", &self.path, error));
        }
        self.len += bytes.len() as u64;
        self.dirty = true;
        Ok(())
    }
}

/// Writes a whole manifest under the next number: complete and durable before it has its name.
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
    let written = (|| {
        if files.vfs.metadata(&temporary)?.is_some() {
            files.vfs.remove(&temporary)?;
        }
        let file = files.vfs.open(&temporary, OpenMode::CreateNew)?;
        let mut bytes = header.encode().to_vec();
        let mut written_bytes = 0;
        for edit in edits {
            let payload = edit.encode();
            let offset = written_bytes + bytes.len() as u64;
            encode_record(&header, offset, payload.len(), &mut bytes, |out| out.extend_from_slice(&payload));
            if bytes.len() >= PIECE_BYTES {
                file.write_at(&bytes, written_bytes)?;
                written_bytes += bytes.len() as u64;
                bytes.clear();
            }
        }
        file.write_at(&bytes, written_bytes)?;
        let len = written_bytes + bytes.len() as u64;
        debug_assert!(len > HEADER_BYTES);
        file.sync_data()?;
        files.vfs.rename(&temporary, &path)?;
        files.vfs.sync_dir(&files.dir)?;
        Ok((file, len))
    })();
    match written {
        Ok((file, len)) => {
            Ok(Inner { path, file, header, len, base_bytes: len, broken: false, dirty: false })
        }
        Err(error) => {
            // An incomplete file under a temporary name means nothing; the next opening removes it.
            if let Err(error) = files.vfs.remove(&temporary) {
                tracing::debug!(path = %temporary.display(), %error, "cannot remove an unfinished manifest");
            }
            Err(Error::io("write", &path, error))
        }
    }
}
