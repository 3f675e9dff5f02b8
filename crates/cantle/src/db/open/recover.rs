//! Recovery: decides which part of a store counts, and begins a new epoch with it.

use super::Opened;
use super::manifest::read_manifest;
use crate::db::Options;
use crate::db::foreign::is_temporary;
use crate::db::left_behind::Uncounted;
use crate::db::recovery_plan::{RecoveryPlan, plan_recovery};
use crate::files::{Files, parse_file_name};
use crate::format::codec::{NUMBER_MAX, within};
use crate::format::header::{FileHeader, FileKind};
use crate::journal::{JournalRecord, read_journals};
use crate::layouts;
use crate::log::tail::write_buffer::{self};
use crate::manifest::{Edit, Manifest, Replayed, Resumed, StartEdit, State};
use crate::mvcc::Recovery;
use crate::substrate::page_cache::{PageCacheWitness, Witnessed, may_show_unsynced, witnessed};
use crate::sync::Arc;
use crate::types::durability::Durability;
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{OpenMode, Vfs, VfsFile};
use std::collections::HashSet;
use std::path::Path;

pub(super) fn recover(vfs: Arc<dyn Vfs>, path: &Path, manifest_id: u64, options: &Options) -> Result<Opened> {
    let manifest_path = path.join(crate::files::file_name(FileKind::Manifest, manifest_id));
    let (replayed, outlived) = read_manifest(&*vfs, path, &manifest_path)?;
    let Replayed { header, mut state, end, checkpoint_files, provisional_bytes, .. } = replayed;
    let provisional_bytes = if outlived { provisional_bytes } else { 0 };
    let mut damage = Vec::new();
    let recovers_write_buffer = outlived;
    canary!(WRITE_BUFFER_ALWAYS_RECOVERED => let recovers_write_buffer = true);
    canary!(WRITE_BUFFER_NOT_RECOVERED => let recovers_write_buffer = false);
    if recovers_write_buffer {
        let mut damaged = |error| {
            tracing::warn!(%error, "some records in the write buffer cannot be recovered");
            damage.push(error);
        };
        let header_of = |file: &dyn VfsFile, path: &Path| FileHeader::read(file, path, FileKind::Log);
        write_buffer::recover(&*vfs, path, (header.store, state.start.epoch), &header_of, &mut damaged)?;
    }
    let names = vfs.list(path).map_err(|e| Error::io(Attempt::List, path, e))?;
    let listed: Vec<(FileKind, u64)> = names.iter().filter_map(|name| parse_file_name(name)).collect();
    // Numbers of unfinished files are not reused: these files are removed later, and must not be
    // taken for new ones then.
    let numbers = names.iter().filter_map(|name| parse_file_name(name.strip_suffix(".tmp").unwrap_or(name)));
    let next_file = numbers.map(|(_, id)| id + 1).max().unwrap_or(1).max(state.checkpoint.next_file);

    within(next_file, NUMBER_MAX - (1 << 40)).map_err(|what| {
        Error::corruption(&manifest_path, 0, format!("the number of the next file {}", what.0))
    })?;
    let reading = Files::new(vfs.clone(), path.to_path_buf(), header.store, 0, next_file);
    let strays = check_strays(&reading, &listed, &state, &checkpoint_files)?;
    let first_journal = state.checkpoint.first_journal;
    let journal_ids = listed
        .iter()
        .filter(|&&(kind, id)| kind == FileKind::Journal && id >= first_journal)
        .map(|&(_, id)| id)
        .collect();
    let (journals, records) = read_journals(&reading, journal_ids, outlived.then_some(state.start.epoch))?;
    let malformed = |what: crate::format::codec::Malformed| {
        Error::corruption(&manifest_path, 0, format!("the recovery table {}", what.0))
    };
    let RecoveryPlan { start, next_batch, replay } =
        plan_recovery(&state, outlived, records).map_err(malformed)?;
    let StartEdit { epoch, first_version, .. } = start;
    let checkpointed = state.checkpoint.version;
    tracing::info!(path = %path.display(), epoch, outlived, checkpointed, replayed = replay.len(), "recovered a store");
    let files = Arc::new(Files::new(vfs.clone(), path.to_path_buf(), header.store, epoch, next_file));
    // No write is left behind if the store was closed, or if the journal has all writes. If nothing
    // can have been lost, the writer was a `Buffered` store, whose writes were in memory only.
    let Witnessed { epoch: writer, closed, is_intact } = witnessed(&*vfs, path)?;
    let is_closed = closed.store == header.store;
    let has_writes = replay.iter().any(|record| matches!(record, JournalRecord::Write { .. }));
    let may_leave = !outlived && !is_closed && !is_intact && !has_writes;
    let uncounted = may_leave.then(|| Uncounted::new(&files, &state, writer, &listed, &strays));
    // Edits that do not count are removed before the page cache is vouched for in the name of this
    // epoch: an earlier epoch of the same number may have written them. The block of this epoch is
    // written to `PAGECACHE` before its edit is appended.
    let manifest = if !outlived && may_show_unsynced(&*vfs, path)? {
        Manifest::resume_as_copy(files.clone(), layouts::new_state, manifest_path.clone(), &state)?
    } else {
        let resumed =
            Resumed { path: manifest_path.clone(), header, end, state_bytes: state.encoded_bytes() };
        Manifest::resume(files.clone(), layouts::new_state, resumed, !outlived)?
    };
    if !outlived {
        // The remains of the write buffer do not count, and must be removed before the page cache
        // is vouched for.
        write_buffer::remove(&files)?;
    }
    // Until the journal is replayed, this epoch is not complete. In a `Buffered` store a checkpoint
    // replaces the voucher (`secure_opening`).
    let vouched = outlived || (options.durability != Durability::Buffered && replay.is_empty());
    let vouch = PageCacheWitness::begin(&vfs, path, epoch, vouched, outlived)?;

    state.apply(Edit::Start(start.clone())).map_err(malformed)?;
    let mut referenced: HashSet<u64> = checkpoint_files.iter().map(|&(_, id)| id).collect();
    for keyspace in state.keyspaces.values() {
        keyspace.layout.files(&mut |_, id, _| {
            referenced.insert(id);
        });
    }
    referenced.extend(journals.iter().map(|journal| journal.id));
    referenced.extend(
        parse_file_name(&manifest.path().file_name().unwrap_or_default().to_string_lossy()).map(|(_, id)| id),
    );
    let waits = |id| uncounted.as_ref().is_some_and(|uncounted| uncounted.has_orphan(id));
    let orphans = names
        .iter()
        .filter(|name| match parse_file_name(name) {
            Some((_, id)) => !referenced.contains(&id) && !waits(id),
            None => is_temporary(name),
        })
        .map(|name| path.join(name))
        .collect();

    manifest.append(&[Edit::Start(start.clone())])?;
    // The recovery image of the last checkpoint stays until the next one.
    let current: HashSet<u64> = {
        let mut current = HashSet::new();
        for keyspace in state.keyspaces.values() {
            keyspace.layout.files(&mut |_, id, _| {
                current.insert(id);
            });
        }
        current
    };
    let held = checkpoint_files.iter().filter(|(_, id)| !current.contains(id));
    let adopt = |&(kind, id): &(FileKind, u64)| {
        // For statistics only: 0 if the length cannot be found out.
        let bytes = vfs.metadata(&files.path(kind, id)).ok().flatten().map_or(0, |metadata| metadata.len);
        files.adopt(kind, id, 0, 0, bytes)
    };
    files.hold(held.map(adopt).collect());
    let recovery =
        Recovery { epoch, first_version, table: start.recovery_table, dead_batches: start.dead_batches };
    Ok(Opened {
        files,
        manifest,
        state,
        recovery,
        vouch,
        journals,
        replay,
        outlived,
        provisional_bytes,
        next_batch,
        orphans,
        damage,
        uncounted,
    })
}

/// Fails if a file that the manifest does not name belongs to another store: otherwise recovery
/// would remove the file as the remains of a crash. If it is the manifest that was put here by
/// mistake, it would remove all files. Returns the numbers and epochs of the logs that the manifest
/// does not name.
fn check_strays(
    reading: &Files,
    listed: &[(FileKind, u64)],
    state: &State,
    checkpoint_files: &[(FileKind, u64)],
) -> Result<Vec<(u64, u64)>> {
    let mut logs = Vec::new();
    let mut referenced: HashSet<u64> = checkpoint_files.iter().map(|&(_, id)| id).collect();
    for keyspace in state.keyspaces.values() {
        keyspace.layout.files(&mut |_, id, _| {
            referenced.insert(id);
        });
    }
    let strays = listed
        .iter()
        .filter(|(kind, id)| matches!(kind, FileKind::Log | FileKind::Table) && !referenced.contains(id));
    for &(kind, id) in strays {
        let path = reading.path(kind, id);
        let file = reading.vfs.open(&path, OpenMode::Read).map_err(|e| Error::io(Attempt::Open, &path, e))?;
        // A crash may leave a file without a header.
        let Ok(header) = FileHeader::read(&*file, &path, kind) else { continue };
        if kind == FileKind::Log {
            logs.push((id, header.epoch));
        }
        if header.store != reading.store {
            let what = format!(
                "the file belongs to store {:032x}, and the manifest to {:032x}: one of them was put here by mistake",
                header.store, reading.store
            );
            return Err(Error::corruption(&path, 16, what));
        }
    }
    Ok(logs)
}
