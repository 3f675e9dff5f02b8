//! Small concurrent programs over the library's files, with properties that must hold in every
//! interleaving. The file system is a set of names.

use crate::files::{Files, StoreFile, parse_file_name};
use crate::format::header::FileKind;
use crate::sync::atomic::AtomicUsize;
use crate::sync::atomic::Ordering::AcqRel;
use crate::sync::thread::{JoinHandle, spawn};
use crate::sync::{Arc, Mutex};
use crate::vfs::{OpenMode, Vfs, VfsFile};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::PoisonError;

fn join<T>(handle: JoinHandle<T>) -> T {
    handle.join().unwrap_or_else(|_| panic!("a thread of the model failed"))
}

#[derive(Debug)]
struct Names {
    /// By number; true if the name is durable.
    durable: std::sync::Mutex<HashMap<u64, bool>>,
    /// Touched by each step, so that all orders of the steps are tried.
    steps: AtomicUsize,
}

#[derive(Debug)]
struct Nothing;

impl VfsFile for Nothing {
    fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn id_of(path: &Path) -> u64 {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    parse_file_name(name).map_or(0, |(_, id)| id)
}

impl Names {
    fn change<T>(&self, change: impl FnOnce(&mut HashMap<u64, bool>) -> T) -> T {
        self.steps.fetch_add(1, AcqRel);
        change(&mut self.durable.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn has(&self, id: u64) -> bool {
        self.change(|names| names.contains_key(&id))
    }

    fn is_durable(&self, id: u64) -> bool {
        self.change(|names| names.get(&id) == Some(&true))
    }
}

impl Vfs for Names {
    fn open(&self, path: &Path, _: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        self.change(|names| names.insert(id_of(path), false));
        Ok(Arc::new(Nothing))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let was_there = self.change(|names| names.remove(&id_of(path)).is_some());
        assert!(was_there, "a file was removed twice");
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.change(|names| names.values_mut().for_each(|durable| *durable = true));
        Ok(())
    }
}

fn store() -> (Arc<Names>, Arc<Files>) {
    let names = Arc::new(Names { durable: std::sync::Mutex::default(), steps: AtomicUsize::new(0) });
    (names.clone(), Arc::new(Files::new(names, "store".into(), 0, 1, 1)))
}

/// A table with this number of references.
fn table(files: &Arc<Files>, references: usize) -> Arc<StoreFile> {
    let (file, _, _) = files.create(FileKind::Table, 0, 0).unwrap_or_else(|error| panic!("{error}"));
    (0..references).for_each(|_| file.retain());
    file
}

/// As `substrate::checkpoint`: held files are released once the record is durable.
fn checkpoint(files: &Files) {
    let held = files.take_held();
    files.mark_deletable(held);
}

/// A chunk releases its file and a checkpoint releases the held files, while a reader reads.
///
/// Holds: the file exists while it is read, and is gone after the next checkpoint. With `holds` off
/// the reader only knows the number of the file.
pub fn a_reader_and_a_checkpoint(holds: bool) {
    let (names, files) = store();
    let file = table(&files, 1);
    let id = file.id;
    let reading = {
        let (names, file) = (names.clone(), Some(file.clone()).filter(|_| holds));
        spawn(move || {
            if !holds && !names.has(id) {
                return;
            }
            assert!(names.has(id), "a file went while it was read");
            drop(file);
        })
    };
    let checkpointing = {
        let files = files.clone();
        spawn(move || checkpoint(&files))
    };
    assert!(file.release(), "the only reference");
    drop(file);
    checkpoint(&files);
    join(checkpointing);
    join(reading);
    assert!(!names.has(id), "a file was left behind");
    assert_eq!(files.take_gone(), [id]);
    assert_eq!(files.held_bytes(), 0);
}

/// Three chunks release their shares of a file at the same time.
///
/// Holds: in the end no part of the file counts as unshared. With `before` off, a share is given up
/// after the file is released, and the last thread may not know of another's.
pub fn shares(before: bool) {
    let (_, files) = store();
    let file = table(&files, 3);
    let claimed = [60, 30, 10].map(|share_bytes| file.claims.claim(share_bytes, 100)).iter().sum::<i64>();
    assert_eq!((claimed, file.claims.unclaimed_bytes()), (0, 0));
    let letting_go = |share_bytes: u64| {
        let file = file.clone();
        move || {
            let unclaim = || file.claims.unclaim(share_bytes);
            let mut change = if before { unclaim() } else { 0 };
            if file.release() {
                change += file.claims.end();
            }
            if !before {
                change += unclaim();
            }
            change
        }
    };
    let others = [60, 30].map(|share_bytes| spawn(letting_go(share_bytes)));
    let change = letting_go(10)() + others.map(join).iter().sum::<i64>();
    assert_eq!((change, file.claims.unclaimed_bytes()), (0, 0), "what is gone counts");
}

/// Two chunks that share a file release it at the same time, after each was recorded in the
/// manifest; a checkpoint releases the held files once its record is durable.
///
/// Holds: the file is held once, and exists for as long as the last durable checkpoint refers to
/// it. With `waits` off it is removed before the record is durable.
pub fn two_references(waits: bool) {
    let (names, files) = store();
    let file = table(&files, 2);
    let id = file.id;
    // Number of references in the manifest, and in its last durable checkpoint.
    let told = Arc::new(Mutex::new(2_usize));
    let durable = Arc::new(std::sync::Mutex::new(2_usize));
    let look = {
        let (names, durable) = (names.clone(), durable.clone());
        move || {
            // In this order, as the number of references only falls.
            let is_there = names.has(id);
            let references = *durable.lock().unwrap_or_else(PoisonError::into_inner);
            assert!(references == 0 || is_there, "the last checkpoint lacks a file");
        }
    };
    let releasing = |file: Arc<StoreFile>| {
        let told = told.clone();
        move || {
            *told.lock() -= 1;
            file.release()
        }
    };
    let other = spawn(releasing(file.clone()));
    let checkpointing = {
        let (files, told, durable, look) = (files.clone(), told.clone(), durable.clone(), look.clone());
        spawn(move || {
            let manifest = told.lock();
            let held = files.take_held();
            let references = *manifest;
            drop(manifest);
            if waits {
                *durable.lock().unwrap_or_else(PoisonError::into_inner) = references;
                look();
                files.mark_deletable(held);
            } else {
                files.mark_deletable(held);
                look();
                *durable.lock().unwrap_or_else(PoisonError::into_inner) = references;
            }
        })
    };
    let mine = releasing(file)();
    look();
    let others = join(other);
    assert!(mine != others, "the last reference was let go of twice, or never");
    join(checkpointing);
    look();
    *durable.lock().unwrap_or_else(PoisonError::into_inner) = 0;
    checkpoint(&files);
    assert!(!names.has(id), "a file was left behind");
}

/// A backup copies the files of the last checkpoint while another checkpoint releases one of them.
///
/// Holds: the files that the backup found in a checkpoint exist until it is done, and are gone
/// afterwards. With `pins` off it pins nothing.
pub fn a_backup(pins: bool) {
    let (names, files) = store();
    let file = table(&files, 1);
    let id = file.id;
    // True if the last durable checkpoint refers to the file.
    let refers = Arc::new(Mutex::new(true));
    let checkpointing = {
        let (files, refers) = (files.clone(), refers.clone());
        spawn(move || {
            file.release();
            drop(file);
            let held = files.take_held();
            *refers.lock() = false;
            files.mark_deletable(held);
        })
    };
    if pins {
        files.pin();
    }
    let wants = *refers.lock();
    assert!(!wants || names.has(id), "a backup lacks a file");
    if pins {
        files.unpin();
    }
    join(checkpointing);
    assert!(!names.has(id), "a file was left behind");
}

/// Jobs that waited for their threads release unneeded files, while their store is closed and
/// opened by others.
///
/// Holds: the files that the other store finds stay until it removes them, and no unneeded file is
/// left. With `ends` off the close does not call `Files::end`.
pub fn late_jobs(ends: bool) {
    let (names, files) = store();
    let obsolete = [table(&files, 1), table(&files, 1)];
    let ids = [obsolete[0].id, obsolete[1].id];
    obsolete.iter().for_each(|file| assert!(file.release()));
    checkpoint(&files);
    let late = obsolete.map(|file| spawn(move || drop(file)));
    if ends {
        files.end();
    }
    let found = ids.map(|id| names.has(id));
    assert!(!ends || found == [false; 2], "a store that was closed keeps a file");
    assert_eq!(ids.map(|id| names.has(id)), found, "a file went that another opening had found");
    late.into_iter().for_each(join);
}

/// A chunk creates a log and records it in the manifest, while a checkpoint records the manifest's
/// state.
///
/// Holds: the names of the files that the checkpoint knows are durable. With `looks_again` off the
/// directory is synced before the manifest is locked, and not checked again.
pub fn names(looks_again: bool) {
    let (names, files) = store();
    let manifest = Arc::new(Mutex::new(Vec::new()));
    let creating = {
        let (files, manifest) = (files.clone(), manifest.clone());
        spawn(move || {
            let file = table(&files, 0);
            manifest.lock().push(file.id);
            file.retain();
            file
        })
    };
    let sync_dir = || files.sync_dir().unwrap_or_else(|error| panic!("{error}"));
    for _ in 0..2 {
        sync_dir();
        let known = manifest.lock();
        if looks_again && files.is_dir_dirty() {
            sync_dir();
        }
        assert!(known.iter().all(|&id| names.is_durable(id)), "a name is not durable");
    }
    drop(join(creating));
}
