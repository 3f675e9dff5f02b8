//! Recognises directories that are not Cantle stores. Errors name the kind of store, and nothing is
//! changed.

use crate::db::Options;
use crate::files::parse_file_name;
use crate::format::header::{FileKind, HEADER_BYTES};
use crate::log::tail::write_buffer::WRITE_BUFFER_FILE;
use crate::substrate::{REBALANCE_RESERVE_FILE, RESERVE_FILE, page_cache::VOUCH_FILE};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{OpenMode, Vfs};
use std::path::Path;

pub(super) const LOCK_FILE: &str = "LOCK";
/// The socket of a store that other programs may look at while it is open (`Options::monitor`), and its name until its mode is set.
pub(super) const SOCKET_FILE: &str = "MONITOR";
pub(super) const NEW_SOCKET_FILE: &str = "MONITOR.new";
/// Name of the file that marks a directory which a repair has not filled yet.
pub(crate) const UNFINISHED_FILE: &str = "UNFINISHED";

/// Name of the file that marks a directory in which an import (crate `cantle-import`) builds a
/// store.
const IMPORTING_FILE: &str = "IMPORTING";

/// Contents of a directory.
pub(crate) enum Found {
    /// No store: the directory is missing or empty, or a crash interrupted the creation of a store.
    Nothing,
    /// A store whose newest manifest has this number.
    Store { manifest: u64 },
}

/// Contents that are allowed in a directory besides a store.
#[derive(Clone, Copy, Default)]
pub(super) struct Allowed {
    /// Allows the mark of an unfinished repair, for this repair itself.
    pub unfinished: bool,
    /// Allows files that belong to no known kind of store.
    pub other_files: bool,
}

impl Allowed {
    pub fn by(options: &Options) -> Self {
        Self { unfinished: options.fills_repair, other_files: options.beside_other_files }
    }
}

/// Looks at a directory without changing it. A directory with an unfinished repair is not a store.
pub(crate) fn look(vfs: &dyn Vfs, dir: &Path) -> Result<Found> {
    look_at(vfs, dir, Allowed::default())
}

/// The same as [`look`], with more contents allowed.
pub(super) fn look_at(vfs: &dyn Vfs, dir: &Path, allowed: Allowed) -> Result<Found> {
    let not_a_store = |what: String| Error::NotAStore { path: dir.to_path_buf(), what };
    match vfs.metadata(dir).map_err(|e| Error::io(Attempt::LookAt, dir, e))? {
        None => return Ok(Found::Nothing),
        Some(metadata) if !metadata.is_dir => {
            return Err(not_a_store("it is a file, and a store is a directory: give another path".into()));
        }
        Some(_) => {}
    }
    let names = vfs.list(dir).map_err(|e| Error::io(Attempt::List, dir, e))?;
    if !allowed.unfinished && names.iter().any(|name| name == UNFINISHED_FILE) {
        return Err(not_a_store("a repair into it was interrupted: remove it, and repair again".into()));
    }
    let files: Vec<_> = names.iter().filter_map(|name| parse_file_name(name)).collect();
    let manifest = files.iter().filter(|(kind, _)| *kind == FileKind::Manifest).map(|&(_, id)| id).max();
    if let Some(manifest) = manifest {
        return Ok(Found::Store { manifest });
    }
    if let Some(kind) = foreign_store(&names) {
        return Err(not_a_store(format!(
            "it is a {kind} store, which was not touched: {}",
            way_out(kind, dir)
        )));
    }
    if names.iter().any(|name| name == IMPORTING_FILE) {
        return Err(not_a_store("an import is under way in it, or was interrupted: import again".into()));
    }
    if files.iter().any(|(kind, _)| matches!(kind, FileKind::Table | FileKind::Log)) {
        return Err(Error::corruption(dir, 0, "the store's manifest is missing: restore it from a backup"));
    }
    match names.iter().find(|name| !is_ours(name)) {
        Some(name) if !allowed.other_files => Err(not_a_store(format!(
            "it holds other files, such as {name:?}: give an empty or a new directory"
        ))),
        _ => Ok(Found::Nothing),
    }
}

/// Advice on how to copy the pairs of another kind of store into a new Cantle store.
fn way_out(kind: &str, dir: &Path) -> String {
    let dir = shell_word(&dir.to_string_lossy());
    match kind {
        "LevelDB" => format!("copy it into a new store with `cantle import --leveldb {dir} NEW`"),
        "RocksDB" => {
            format!("copy it into a new store with `ldb --db={dir} --hex dump | cantle import --rocksdb NEW`")
        }
        _ => "copy it into a new directory with `cantle load`, or give another path".into(),
    }
}

/// Quotes a path for a shell, if necessary.
fn shell_word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// True if a store may have a file of this name.
pub(crate) fn is_ours(name: &str) -> bool {
    [LOCK_FILE, VOUCH_FILE, WRITE_BUFFER_FILE, RESERVE_FILE, REBALANCE_RESERVE_FILE, UNFINISHED_FILE]
        .contains(&name)
        || [SOCKET_FILE, NEW_SOCKET_FILE].contains(&name)
        || is_temporary(name)
        || parse_file_name(name).is_some()
}

/// Removes the socket that a killed process left. The store is locked for writing. A file of that name that is no socket stays.
pub(super) fn remove_socket_left(vfs: &dyn Vfs, dir: &Path) {
    for name in [SOCKET_FILE, NEW_SOCKET_FILE] {
        let path = dir.join(name);
        if vfs.metadata(&path).is_ok_and(|found| found.is_some_and(|found| found.is_socket))
            && let Err(error) = vfs.remove(&path)
        {
            tracing::debug!(path = %path.display(), %error, "cannot remove the socket of an earlier process");
        }
    }
}

/// True if a file belongs to another program, although a store may give a file this name. For
/// example, a program that names its logs after the minute writes `202411261014.log`. Such a file
/// must not be removed. It is recognised by its first bytes, which are text: a file of a store
/// begins with its header, or is empty or begins with zeros after a crash. A file that cannot be
/// read counts as the store's, because damage must not keep a store from being destroyed.
pub(super) fn is_foreign(vfs: &dyn Vfs, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if parse_file_name(name.strip_suffix(".tmp").unwrap_or(&name)).is_none() {
        return false;
    }
    let mut head = [0; HEADER_BYTES as usize];
    let Ok(read) = vfs.open(path, OpenMode::Read).and_then(|file| file.read_at(&mut head, 0)) else {
        return false;
    };
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r' | 0x80..);
    read > 0 && head[..read].iter().all(is_text) && !b"CANTLE".starts_with(&head[..read.min(6)])
}

/// True if only a store, or the remains of one, has a file of this name.
pub(super) fn is_of_store(name: &str) -> bool {
    parse_file_name(name).is_some() || [VOUCH_FILE, UNFINISHED_FILE].contains(&name)
}

/// True for the name of a temporary file: one that a store creates and then renames, or one that a
/// repair uses.
pub(super) fn is_temporary(name: &str) -> bool {
    let of_repair = |name: &str| {
        let number = name.strip_prefix("repair-");
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    name.strip_suffix(".tmp")
        .is_some_and(|name| is_of_store(name) || name == WRITE_BUFFER_FILE || of_repair(name))
}

pub(crate) fn foreign_store(names: &[String]) -> Option<&'static str> {
    let has = |name: &str| names.iter().any(|found| found == name);
    let ends = |suffix: &str| names.iter().any(|found| found.ends_with(suffix));
    let starts = |prefix: &str| names.iter().any(|found| found.starts_with(prefix));
    if has("CURRENT") && starts("MANIFEST-") {
        Some(if starts("OPTIONS-") || has("IDENTITY") { "RocksDB" } else { "LevelDB" })
    } else if ends(".ldb") {
        // Without `CURRENT` the store is damaged, but still somebody's data.
        Some("LevelDB")
    } else if ends(".sst") {
        Some("RocksDB")
    } else if has("data.mdb") {
        Some("LMDB")
    } else if ends(".redb") {
        Some("redb")
    } else if has("keyspaces") || has("partitions") {
        Some("fjall")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Arc;
    use crate::vfs::MemVfs;

    fn directory(names: &[&str]) -> (Arc<MemVfs>, Options) {
        let disk = Arc::new(MemVfs::new());
        disk.create_dir_all(Path::new("store")).unwrap();
        for name in names {
            disk.open(&Path::new("store").join(name), OpenMode::CreateNew)
                .unwrap()
                .write_at(b"x", 0)
                .unwrap();
        }
        (disk.clone(), Options::new().vfs(disk))
    }

    #[test]
    fn beside_files_of_no_store_one_is_created_if_that_is_asked_for() {
        let names = ["LOG", "letter.txt", "draft.tmp"];
        let (disk, options) = directory(&names);
        assert!(matches!(options.clone().open("store"), Err(Error::NotAStore { .. })));
        let options = options.beside_other_files(true);
        assert!(matches!(crate::Db::repair("store", "new", options.clone()), Err(Error::NotFound { .. })));
        for round in 0..3 {
            let db = options.clone().open("store").unwrap();
            assert_eq!(db.get("key").unwrap().is_some(), round > 0);
            db.put("key", "value").unwrap();
            db.close().unwrap();
        }
        let report = crate::Db::repair("store", "new", options.clone()).unwrap();
        assert_eq!(report.pairs(), 1);
        let mut told: Vec<_> = report.other_files.iter().filter_map(|path| path.file_name()).collect();
        told.sort();
        assert_eq!(told, ["LOG", "draft.tmp", "letter.txt"]);
        crate::Db::destroy("store", options).unwrap();
        let mut left = disk.list(Path::new("store")).unwrap();
        left.sort();
        assert_eq!(left, ["LOG", "draft.tmp", "letter.txt"]);
    }

    #[test]
    fn files_of_others_under_names_that_a_store_may_give_are_never_removed() {
        let (disk, options) = directory(&[]);
        for _ in 0..2 {
            options.clone().open("store").unwrap().put("key", "value").unwrap();
        }
        let theirs = ["202411261014.log", "202411261014.table", "repair-notes.tmp", "000000000009.log.tmp"];
        for name in theirs {
            let file = disk.open(&Path::new("store").join(name), OpenMode::CreateNew).unwrap();
            file.write_at("10:14 started, größer\n".as_bytes(), 0).unwrap();
        }
        let ours = ["202411261015.log", "202411261016.table"];
        for name in ours {
            let file = disk.open(&Path::new("store").join(name), OpenMode::CreateNew).unwrap();
            file.write_at(&[0; 100], 0).unwrap();
        }
        let is_there = |name: &&str| disk.metadata(&Path::new("store").join(name)).unwrap().is_some();
        let db = options.clone().open("store").unwrap();
        assert!(db.get("key").unwrap().is_some());
        let begun = crate::sync::time::now();
        while ours.iter().any(&is_there) {
            assert!(begun.elapsed() < std::time::Duration::from_secs(30), "a crash left them");
        }
        db.close().unwrap();
        assert!(theirs.iter().all(is_there));
        crate::Db::destroy("store", options).unwrap();
        let mut left = disk.list(Path::new("store")).unwrap();
        left.sort();
        let mut theirs = theirs;
        theirs.sort_unstable();
        assert_eq!(left, theirs);
    }

    #[test]
    fn stores_of_others_and_stores_without_a_manifest_are_refused_even_so() {
        for names in [
            &["CURRENT", "MANIFEST-000004", "LOG"][..],
            &["000005.ldb", "LOG"],
            &["000005.sst"],
            &["data.mdb"],
        ] {
            let (disk, options) = directory(names);
            let opened = options.clone().beside_other_files(true).open("store");
            assert!(matches!(opened, Err(Error::NotAStore { .. })), "{names:?}");
            let repaired = crate::Db::repair("store", "new", options.beside_other_files(true));
            assert!(matches!(repaired, Err(Error::NotAStore { .. })), "{names:?}");
            assert_eq!(disk.list(Path::new("store")).unwrap().len(), names.len());
        }
        let (_, options) = directory(&[&crate::files::file_name(FileKind::Table, 7), "LOG"]);
        let opened = options.beside_other_files(true).open("store");
        assert!(matches!(opened, Err(Error::Corruption { .. })));
    }
}
