//! Backups and verification.

use super::foreign::{Found, look};
use super::open::bind;
use super::store::Store;
use crate::files::{Files, file_name};
use crate::format::header::FileKind;
use crate::layout::stats::Report;
use crate::layouts;
use crate::manifest::{CheckpointEdit, Edit, Manifest, Replayed, State, replay};
use crate::sync::{Arc, thread};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{OpenMode, StdVfs, Vfs, VfsFile};
use std::io;
use std::path::{Path, PathBuf};

/// Bytes that are copied by one read and one write.
const COPY_BYTES: usize = 1 << 20;
/// Number of copies that are kept open, to be synced together.
const SYNC_GROUP: usize = 16;
/// Maximum number of threads that sync one group of copies.
const SYNC_THREADS: usize = 8;
/// Number of logs above which a backup syncs the whole file system once at the end, if the file
/// system supports that, instead of each copy. This also writes the dirty data of other programs,
/// which is not worth it for a few files.
const SYNC_EACH_MAX: usize = 64;
/// Minimum number of syncs per thread: for fewer, a thread is not worth starting.
const SYNCS_PER_THREAD: usize = 2;

/// Keeps the files of a checkpoint from being unlinked.
struct Pin<'a>(&'a Files);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.0.unpin();
    }
}

impl Store {
    pub(super) fn backup(&self, dir: &Path) -> Result<()> {
        let _call = self.begin_call()?;
        let files = &self.substrate.files;
        // Not the store's own view of the file system, which is bound to its directory: `dir` is a
        // path of the caller.
        let base = self.options.vfs.clone().unwrap_or_else(|| Arc::new(StdVfs));
        let vfs = &*base;
        if let Found::Store { .. } = look(vfs, dir)? {
            return Err(Error::AlreadyExists { path: dir.to_path_buf(), keyspace: None });
        }
        if !vfs.list(dir).unwrap_or_default().is_empty() {
            return Err(Error::NotAStore {
                path: dir.to_path_buf(),
                what: "a backup goes into a new or an empty directory".into(),
            });
        }
        files.pin();
        let _pin = Pin(files);
        self.checkpoint_for_backup()?;
        // The state as of the last checkpoint; later edits in the manifest do not count here.
        let state = self.read_manifest(false)?.state;
        super::open::create_directories(vfs, dir)?;
        let target = bind(&base, dir)?;
        // `self.disk` resolves a path that begins with that of the store inside the store's
        // directory, wherever the path really leads. Such a backup gets copies instead of links.
        let links = !dir.starts_with(&files.dir);
        let mut wanted = Vec::new();
        for keyspace in state.keyspaces.values() {
            keyspace.layout.files(&mut |kind, id, _| wanted.push((kind, id)));
        }
        wanted.sort_unstable_by_key(|&(_, id)| id);
        wanted.dedup();
        let logs = wanted.iter().filter(|(kind, _)| *kind == FileKind::Log).count();
        // Writes the data that is dirty by now, so that the sync at the end has to write the copies
        // only.
        let at_once = logs > SYNC_EACH_MAX && sync_all(&*target, dir)?;
        let mut copied: Vec<(Arc<dyn VfsFile>, PathBuf)> = Vec::new();
        for (kind, id) in wanted {
            let (from, to) = (files.path(kind, id), dir.join(file_name(kind, id)));
            let linked = links && kind == FileKind::Table && self.disk.hard_link(&from, &to).is_ok();
            if linked {
                continue;
            }
            // A log keeps growing: only the bytes that the checkpoint covers are copied.
            let len = match (kind, state.segments.get(&id)) {
                (FileKind::Log, Some(segment)) => Some(segment.len),
                (FileKind::Log, None) => continue,
                _ => None,
            };
            let copy = copy((&*files.vfs, &from), (&*target, &to), len)?;
            if at_once {
                continue;
            }
            copied.push((copy, to));
            if copied.len() >= SYNC_GROUP {
                sync_group(&mut copied)?;
            }
        }
        sync_group(&mut copied)?;
        if at_once && !sync_all(&*target, dir)? {
            return Err(Error::io(Attempt::SyncFiles, dir, io::ErrorKind::Unsupported.into()));
        }
        // The names of the files must be durable before that of the manifest: otherwise a power
        // failure could leave a store that lacks files.
        let synced = canary!(UNNAMED_BACKUP else target.sync_dir(dir));
        synced.map_err(|e| Error::io(Attempt::SyncDirectory, dir, e))?;
        self.write_manifest(target, dir, &state)
    }

    /// Makes a checkpoint. If the store is opened read-only, the checkpoint is made in memory,
    /// where the recovered writes are too: they belong to the backup.
    fn checkpoint_for_backup(&self) -> Result<()> {
        canary!(RECOVERED_NOT_BACKED_UP => if self.options.read_only { return Ok(()) });
        self.substrate.checkpoint()
    }

    /// Reads the manifest of the open store, which may be rewritten under another name meanwhile.
    fn read_manifest(&self, provisional: bool) -> Result<Replayed> {
        loop {
            let manifest = &self.substrate.manifest;
            let path = manifest.path();
            match replay(&*self.substrate.files.vfs, &path, layouts::new_state, provisional) {
                Err(Error::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && manifest.path() != path => {}
                read => return read,
            }
        }
    }

    fn write_manifest(&self, vfs: Arc<dyn Vfs>, dir: &Path, state: &State) -> Result<()> {
        let ours = &self.substrate.files;
        let files =
            Arc::new(Files::new(vfs, dir.to_path_buf(), ours.store, state.start.epoch, ours.next_id()));
        let mut edits = Vec::new();
        state.dump(&mut |edit| edits.push(edit));
        edits.push(Edit::Checkpoint(CheckpointEdit {
            next_file: files.peek_id() + 1,
            ..state.checkpoint.clone()
        }));
        Manifest::create(files, layouts::new_state, &edits)?;
        Ok(())
    }

    pub(super) fn verify(&self) -> Result<Report> {
        let _call = self.begin_call()?;
        let files = &self.substrate.files;
        let mut report = Report { damage: self.opening_damage.clone(), ..Report::default() };
        files.pin();
        let _pin = Pin(files);
        report.files += 1;
        report.bytes += self.substrate.manifest.bytes();
        if let Err(error) = self.read_manifest(true) {
            report.damage.push(error);
        }
        for keyspace in self.all_keyspaces() {
            keyspace.layout.verify(&mut report);
            // If the comparator failed, apparent damage may be none.
            keyspace.order.check()?;
        }
        // The logs were completed first by what waited in memory.
        report.damage = report.damage.into_iter().map(|error| self.substrate.checked(error)).collect();
        let names = files.vfs.list(&files.dir).map_err(|e| Error::io(Attempt::List, &files.dir, e))?;
        report.unknown_files = names
            .into_iter()
            .filter(|name| !super::foreign::is_ours(name))
            .map(|name| files.dir.join(name))
            .collect();
        Ok(report)
    }
}

/// Copies the first `len` bytes of a file, or all of it. The caller must sync the copy.
fn copy(
    (vfs, from): (&dyn Vfs, &Path),
    (target, to): (&dyn Vfs, &Path),
    len: Option<u64>,
) -> Result<Arc<dyn VfsFile>> {
    let source = vfs.open(from, OpenMode::Read).map_err(|e| Error::io(Attempt::Open, from, e))?;
    let len = match len {
        Some(len) => len,
        None => source.len().map_err(|e| Error::io(Attempt::Measure, from, e))?,
    };
    let target = target.open(to, OpenMode::CreateNew).map_err(|e| Error::io(Attempt::Create, to, e))?;
    let mut buffer = vec![0; COPY_BYTES.min(usize::try_from(len).unwrap_or(COPY_BYTES))];
    let mut offset = 0;
    while offset < len {
        let piece = &mut buffer[..COPY_BYTES.min((len - offset) as usize)];
        let read = source.read_at(piece, offset).map_err(|e| Error::io(Attempt::Read, from, e))?;
        if read == 0 {
            return Err(Error::io(Attempt::Read, from, io::ErrorKind::UnexpectedEof.into()));
        }
        target.write_at(&piece[..read], offset).map_err(|e| Error::io(Attempt::Write, to, e))?;
        offset += read as u64;
    }
    Ok(target)
}

/// Syncs all files of the directory's file system; returns false if the file system does not
/// support that.
fn sync_all(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
    match canary!(UNSYNCED_BACKUP else vfs.sync_files(dir)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(false),
        Err(error) => Err(Error::io(Attempt::SyncFiles, dir, error)),
    }
}

/// Syncs files from several threads at once, as checkpoints do: the file system's journal serves
/// many syncs with one commit.
fn sync_group(files: &mut Vec<(Arc<dyn VfsFile>, PathBuf)>) -> Result<()> {
    let sync = |(file, path): &(Arc<dyn VfsFile>, PathBuf)| {
        canary!(UNSYNCED_BACKUP => return Ok(()));
        file.sync_data().map_err(|e| Error::io(Attempt::Sync, path, e))
    };
    let per_thread = files.len().div_ceil(SYNC_THREADS).max(SYNCS_PER_THREAD);
    let mut synced = Ok(());
    thread::scope(|scope| {
        let mut shares = files.chunks(per_thread);
        let own = shares.next().unwrap_or_default();
        let helpers: Vec<_> =
            shares.map(|share| scope.spawn(move || share.iter().try_for_each(sync))).collect();
        synced = own.iter().try_for_each(sync);
        for helper in helpers {
            match helper.join() {
                Ok(done) => synced = std::mem::replace(&mut synced, Ok(())).and(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    files.clear();
    synced
}
