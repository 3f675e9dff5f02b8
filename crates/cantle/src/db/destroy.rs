//! Removes a store, and no other files.

use super::foreign::{LOCK_FILE, foreign_store, is_foreign, is_of_store, is_temporary, remove_socket_left};
use super::open::{bind, lock_store};
use crate::db::Options;
use crate::files::parse_file_name;
use crate::format::header::FileKind;
use crate::log::tail::write_buffer::WRITE_BUFFER_FILE;
use crate::substrate::{REBALANCE_RESERVE_FILE, RESERVE_FILE};
use crate::sync::Arc;
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{LockMode, StdVfs, Vfs};
use std::path::Path;

/// Removes the files of the store in `dir`. The directory and files that are not the store's stay.
pub(crate) fn destroy(options: &Options, dir: &Path) -> Result<()> {
    let vfs = options.vfs.clone().unwrap_or_else(|| Arc::new(StdVfs));
    let mut names = match vfs.metadata(dir).map_err(|e| Error::io(Attempt::LookAt, dir, e))? {
        None => return Ok(()),
        Some(found) if !found.is_dir => return Err(not_a_store(dir, "it is a file".into())),
        Some(_) => list(&*vfs, dir)?,
    };
    if !names.iter().any(|name| is_of_store(name)) {
        return match foreign_store(&names) {
            Some(kind) => Err(not_a_store(dir, format!("it is a {kind} store, which was not touched"))),
            None => Ok(()),
        };
    }
    let vfs = &*bind(&vfs, dir)?;
    let _lock = lock_store(vfs, dir, LockMode::Exclusive)?;
    remove_socket_left(vfs, dir);
    names = list(vfs, dir)?;
    // Without its newest manifest, the remains of an interrupted removal do not open, and a second
    // attempt removes them. Older manifests must be removed durably before, including those that
    // the store itself has removed: otherwise a power failure could bring one back, and with it an
    // older store.
    let newest = names.iter().filter(|name| is_manifest(name)).max().cloned();
    names.sort_by_key(|name| rank(name, newest.as_deref()));
    let mut is_synced = false;
    for name in names.iter().filter(|name| is_ours(name)) {
        if rank(name, newest.as_deref()) > 0 && !is_synced {
            sync(vfs, dir)?;
            is_synced = true;
        }
        let path = dir.join(name);
        if is_foreign(vfs, &path) {
            tracing::warn!(path = %path.display(), "kept a file that is not the store's, but has a name that a store may give");
            continue;
        }
        vfs.remove(&path).map_err(|e| Error::io(Attempt::Remove, path, e))?;
    }
    canary!(UNNAMED_DESTRUCTION => return Ok(()));
    sync(vfs, dir)
}

fn sync(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    vfs.sync_dir(dir).map_err(|e| Error::io(Attempt::SyncDirectory, dir, e))
}

fn not_a_store(dir: &Path, what: String) -> Error {
    Error::NotAStore { path: dir.to_path_buf(), what }
}

fn list(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<String>> {
    vfs.list(dir).map_err(|e| Error::io(Attempt::List, dir, e))
}

/// True if a file of this name in a store's directory belongs to the store.
fn is_ours(name: &str) -> bool {
    is_of_store(name)
        || [LOCK_FILE, WRITE_BUFFER_FILE, RESERVE_FILE, REBALANCE_RESERVE_FILE].contains(&name)
        || is_temporary(name)
}

fn is_manifest(name: &str) -> bool {
    matches!(parse_file_name(name), Some((FileKind::Manifest, _)))
}

/// The order of removal: older manifests, the newest one, all other files, the lock file.
fn rank(name: &str, newest: Option<&str>) -> u8 {
    match name {
        LOCK_FILE => 3,
        _ if Some(name) == newest => 1,
        _ if is_manifest(name) => 0,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Db;
    use crate::vfs::{MemVfs, OpenMode};

    fn write(disk: &MemVfs, path: &str) {
        disk.open(Path::new(path), OpenMode::CreateNew).unwrap().write_at(b"theirs", 0).unwrap();
    }

    fn options(disk: &Arc<MemVfs>) -> Options {
        Options::new().vfs(disk.clone())
    }

    #[test]
    fn what_is_not_the_stores_stays() {
        let disk = Arc::new(MemVfs::new());
        let db = options(&disk).open("store").unwrap();
        db.put("key", "value").unwrap();
        db.compact_range(..).unwrap();
        assert!(matches!(Db::destroy("store", options(&disk)), Err(Error::Locked { .. })));
        db.close().unwrap();
        drop(db);
        for name in ["letter.txt", "draft.tmp", "app.log"] {
            write(&disk, &format!("store/{name}"));
        }
        Db::destroy("store", options(&disk)).unwrap();
        let mut left = disk.list(Path::new("store")).unwrap();
        left.sort();
        assert_eq!(left, ["app.log", "draft.tmp", "letter.txt"]);
        Db::destroy("store", options(&disk)).unwrap();
        Db::destroy("nowhere", options(&disk)).unwrap();
    }

    /// It looks damaged until its last file is gone.
    #[test]
    fn a_store_that_is_being_destroyed_is_locked() {
        let disk = Arc::new(MemVfs::new());
        let db = options(&disk).open("store").unwrap();
        db.put("key", "value").unwrap();
        for name in disk.list(Path::new("store")).unwrap().iter().filter(|name| is_manifest(name)) {
            disk.remove(&Path::new("store").join(name)).unwrap();
        }
        assert!(matches!(options(&disk).open("store"), Err(Error::Locked { .. })));
        drop(db);
        assert!(options(&disk).open("store").unwrap_err().is_corruption(), "nobody does");
    }

    #[test]
    fn a_destroyed_store_can_be_created_anew() {
        let disk = Arc::new(MemVfs::new());
        options(&disk).open("store").unwrap().put("key", "value").unwrap();
        Db::destroy("store", options(&disk)).unwrap();
        assert!(disk.list(Path::new("store")).unwrap().is_empty());
        let db: Db = options(&disk).open("store").unwrap();
        assert!(db.get("key").unwrap().is_none());
    }

    #[test]
    fn stores_of_others_are_refused() {
        let disk = Arc::new(MemVfs::new());
        disk.create_dir_all(Path::new("theirs")).unwrap();
        for name in ["CURRENT", "MANIFEST-000004", "000003.log", "LOCK", "LOG"] {
            write(&disk, &format!("theirs/{name}"));
        }
        let error = Db::destroy("theirs", options(&disk)).unwrap_err();
        assert!(error.to_string().contains("LevelDB"), "{error}");
        assert_eq!(disk.list(Path::new("theirs")).unwrap().len(), 5);
    }
}
