//! Directories that are not ours: recognised, named, and left alone.

use crate::error::{Error, Result};
use crate::files::parse_file_name;
use crate::format::header::FileKind;
use crate::substrate::{REBALANCE_RESERVE_FILE, RESERVE_FILE, stage::STAGE_FILE, vouch::VOUCH_FILE};
use crate::vfs::Vfs;
use std::path::Path;

pub(super) const LOCK_FILE: &str = "LOCK";
/// In a directory that a repair fills.
pub(super) const UNFINISHED_FILE: &str = "UNFINISHED";

/// What a directory holds.
pub(super) enum Found {
    /// Nothing, or what a crash during creation left behind.
    Nothing,
    /// A store whose newest manifest has this number.
    Store { manifest: u64 },
}

/// Looks at a directory without touching it. One that a repair has not filled yet is no store.
pub(super) fn look(vfs: &dyn Vfs, dir: &Path) -> Result<Found> {
    look_at(vfs, dir, false)
}

/// The same; `fills`: for the repair that fills it.
pub(super) fn look_at(vfs: &dyn Vfs, dir: &Path, fills: bool) -> Result<Found> {
    let not_a_store = |what: String| Error::NotAStore { path: dir.to_path_buf(), what };
    match vfs.metadata(dir).map_err(|e| Error::io("look at", dir, e))? {
        None => return Ok(Found::Nothing),
        Some(metadata) if !metadata.is_dir => {
            return Err(not_a_store("it is a file, and a store is a directory: give another path".into()));
        }
        Some(_) => {}
    }
    let names = vfs.list(dir).map_err(|e| Error::io("list", dir, e))?;
    if !fills && names.iter().any(|name| name == UNFINISHED_FILE) {
        return Err(not_a_store("a repair into it was interrupted: remove it, and repair again".into()));
    }
    let files: Vec<_> = names.iter().filter_map(|name| parse_file_name(name)).collect();
    let manifest = files.iter().filter(|(kind, _)| *kind == FileKind::Manifest).map(|&(_, id)| id).max();
    if let Some(manifest) = manifest {
        return Ok(Found::Store { manifest });
    }
    if let Some(kind) = foreign_store(&names) {
        return Err(not_a_store(format!(
            "it is a {kind} store, which was not touched: copy it into a new directory with `cantle load`, or give another path"
        )));
    }
    if files.iter().any(|(kind, _)| matches!(kind, FileKind::Table | FileKind::Log)) {
        return Err(Error::corruption(dir, 0, "the store's manifest is missing: restore it from a backup"));
    }
    match names.iter().find(|name| !is_ours(name)) {
        Some(name) => Err(not_a_store(format!(
            "it holds other files, such as {name:?}: give an empty or a new directory"
        ))),
        None => Ok(Found::Nothing),
    }
}

/// Whether a store may have a file of this name.
pub(super) fn is_ours(name: &str) -> bool {
    [LOCK_FILE, VOUCH_FILE, STAGE_FILE, RESERVE_FILE, REBALANCE_RESERVE_FILE, UNFINISHED_FILE].contains(&name)
        || name.ends_with(".tmp")
        || parse_file_name(name).is_some()
}

pub(super) fn foreign_store(names: &[String]) -> Option<&'static str> {
    let has = |name: &str| names.iter().any(|found| found == name);
    let ends = |suffix: &str| names.iter().any(|found| found.ends_with(suffix));
    let starts = |prefix: &str| names.iter().any(|found| found.starts_with(prefix));
    if has("CURRENT") && starts("MANIFEST-") {
        Some(if starts("OPTIONS-") || has("IDENTITY") { "RocksDB" } else { "LevelDB" })
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
