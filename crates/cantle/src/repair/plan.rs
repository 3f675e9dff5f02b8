//! The plan with a whole manifest: the key ranges and files that opening the store would find.

use super::area::{Area, AreaFile, Rules, bounds_of};
use super::journal::JournalRemains;
use super::report::Findings;
use super::standing::Standing;
use super::survey::{LeftInBuffer, LogFragment, Survey};
use crate::db::Options;
use crate::db::open::read_manifest;
use crate::db::recovery_plan::{RecoveryPlan, plan_recovery};
use crate::format::header::{FileKind, HEADER_BYTES};
use crate::journal::JournalRecord;
use crate::layouts;
use crate::log::salvage::Extent;
use crate::manifest::{self, Edit, KeyspaceEdit, Replayed, State, replay};
use crate::mvcc::Recovery;
use crate::types::error::{Error, Result};
use crate::types::order::KeyOrder;
use crate::vfs::Vfs;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// The areas to read and the rules that apply to them.
#[derive(Default)]
pub(super) struct Plan {
    pub keyspaces: BTreeMap<u32, PlannedKeyspace>,
    pub areas: Vec<Area>,
    pub rules: Rules,
    /// For areas that are read by the files alone.
    pub loose_rules: Rules,
    /// Writes of the journal to apply again, once all areas are there.
    pub replay: Vec<JournalRecord>,
    pub buffered: LeftInBuffer,
}

impl Plan {
    /// Reports damaged parts of the write buffer as lost: each belonged to some log of its epoch.
    pub fn tell_of_write_buffer(&mut self, findings: &mut Findings) {
        let LeftInBuffer { epoch, damaged, .. } = std::mem::take(&mut self.buffered);
        let is_concerned = |file: &AreaFile| file.header.kind == FileKind::Log && file.header.epoch == epoch;
        let concerned: BTreeSet<u32> = self
            .areas
            .iter()
            .filter(|area| area.files.iter().any(is_concerned))
            .map(|area| area.keyspace)
            .collect();
        for error in damaged {
            findings.damage(error.clone());
            for known in concerned.iter().filter_map(|id| self.keyspaces.get(id)) {
                findings.lost(error.clone(), &known.edit.name, (Bound::Unbounded, Bound::Unbounded));
            }
        }
    }
}

pub(super) struct PlannedKeyspace {
    pub edit: KeyspaceEdit,
    pub order: KeyOrder,
    /// True if tables are known to be in this order.
    pub sorted: bool,
}

/// The damaged store and the options of the repair.
pub(super) struct Origin<'a> {
    pub vfs: &'a dyn Vfs,
    pub dir: &'a Path,
    pub survey: &'a Survey,
    pub options: &'a Options,
}

/// The plan by the newest whole manifest, and the keyspaces that it does not fit. `None` if there
/// is no such manifest, or it does not fit at all.
pub(super) fn by_manifest(
    origin: &Origin<'_>,
    findings: &mut Findings,
) -> Result<Option<(Plan, HashSet<u32>)>> {
    let Origin { vfs, dir, survey, .. } = *origin;
    for (_, file) in survey.of_kind(FileKind::Manifest).rev() {
        let (replayed, outlived) = match read_manifest(vfs, dir, &file.path) {
            Ok(read) => read,
            Err(error) => {
                findings.damage(error);
                continue;
            }
        };
        // As if the page cache had outlived the process. If that state cannot be read as a whole,
        // it is not kept.
        let keeps = origin.options.keep_left_behind && !outlived;
        let kept = keeps.then(|| replay(vfs, &file.path, layouts::new_state, true).ok()).flatten();
        let newest_epoch = [FileKind::Table, FileKind::Log, FileKind::Journal]
            .into_iter()
            .flat_map(|kind| survey.of_kind(kind))
            .filter_map(|(_, file)| file.header)
            .map(|header| header.epoch)
            .max();
        // An opening that failed may have begun the epoch after the manifest's.
        if newest_epoch.is_some_and(|newest| newest > replayed.state.start.epoch.saturating_add(1)) {
            findings.damage(Error::corruption(&file.path, 0, "the manifest is older than the files"));
            return Ok(None);
        }
        return match plan(origin, &file.path, Manifest { replayed, outlived, kept }, findings) {
            Ok(planned) => Ok(Some(planned)),
            Err(error) if error.is_corruption() => {
                findings.damage(error);
                Ok(None)
            }
            Err(error) => Err(error),
        };
    }
    Ok(None)
}

/// The contents of a manifest.
struct Manifest {
    /// The state that an opening would use.
    replayed: Replayed,
    /// True if that is the whole manifest, since the page cache outlived the writer.
    outlived: bool,
    /// The state of the whole manifest, if edits that no checkpoint covers are to be kept.
    kept: Option<Replayed>,
}

fn plan(
    origin: &Origin<'_>,
    manifest_path: &Path,
    manifest: Manifest,
    findings: &mut Findings,
) -> Result<(Plan, HashSet<u32>)> {
    let Origin { vfs, dir, survey, options } = *origin;
    let Manifest { replayed, outlived, kept } = manifest;
    let Replayed { state: State { start, checkpoint, .. }, .. } = &replayed;
    let (first_journal, checkpointed) = (checkpoint.first_journal, checkpoint.version);
    let remains = {
        let outlived = |epoch| outlived && epoch == start.epoch;
        JournalRemains::read(origin, outlived, |id| id >= first_journal, findings)?
    };
    // A journal that contains writes contains everything that was acknowledged.
    let is_write =
        |it: &JournalRecord| matches!(it, JournalRecord::Write { .. }) && it.version() > checkpointed;
    let has_writes = remains.records.iter().any(is_write);
    if !outlived && !has_writes && is_more_than_covered(survey, &replayed.state) {
        findings.note(match kept {
            Some(_) => {
                "what was written since the last checkpoint was kept as far as it is there: nothing proves that all \
                 of it reached the disk, so it may have gaps"
            }
            None => {
                "what was written since the last checkpoint does not count, and was left out: --keep-left-behind \
                 (Options::keep_left_behind) keeps what of it is there"
            }
        });
    }
    let kept = kept.filter(|_| !has_writes);
    let (is_kept, outlived) = (kept.is_some(), outlived || kept.is_some());
    let Replayed { mut state, checkpoint_files, .. } = kept.unwrap_or(replayed);
    let writer_epoch = state.start.epoch;
    let mut referenced: HashMap<u32, Vec<(FileKind, u64, u64)>> = HashMap::new();
    for (&id, keyspace) in &state.keyspaces {
        let files = referenced.entry(id).or_default();
        keyspace.layout.files(&mut |kind, file, epoch| files.push((kind, file, epoch)));
    }
    let buffered = if outlived {
        let keyspace_of = |log| {
            let of_log = |(_, files): &(&u32, &Vec<_>)| files.contains(&(FileKind::Log, log, writer_epoch));
            referenced.iter().find(of_log).map(|(&keyspace, _)| keyspace)
        };
        survey.recover_write_buffer(vfs, dir, (writer_epoch, state.start.first_version), keyspace_of)?
    } else {
        LeftInBuffer { epoch: writer_epoch, ..LeftInBuffer::default() }
    };
    let malformed = |what: crate::format::codec::Malformed| {
        Error::corruption(manifest_path, 0, format!("the recovery table {}", what.0))
    };
    let RecoveryPlan { start, replay, .. } =
        plan_recovery(&state, outlived, remains.records).map_err(malformed)?;
    let recovery = Recovery {
        epoch: start.epoch,
        first_version: start.first_version,
        table: start.recovery_table.clone(),
        dead_batches: start.dead_batches.clone(),
    };
    state.apply(Edit::Start(start)).map_err(malformed)?;
    // A batch that spans logs is written only if its epoch has a journal.
    let doubtful = remains.damaged || !remains.epochs.contains(&writer_epoch);
    let settled = recovery.table.clone();
    let is_open_ended = |epoch| outlived && !settled.is_settled(epoch);
    let rules = Rules {
        recovery,
        doubtful_epoch: (outlived && doubtful).then_some(writer_epoch),
        ..Rules::default()
    };

    let mut plan = Plan { rules, replay, buffered, ..Plan::default() };
    let State { keyspaces, segments, .. } = state;
    let known: HashSet<u64> = checkpoint_files.iter().map(|&(_, id)| id).collect();
    let all: HashSet<u64> = referenced.values().flatten().map(|&(_, id, _)| id).chain(known).collect();
    let mut misfits = HashSet::new();
    for (id, keyspace) in keyspaces {
        if keyspace.dropped.is_some() {
            continue;
        }
        // A missing file together with an unknown one: the manifest belongs to another time.
        let missing = |&(kind, file, epoch): &(FileKind, u64, u64)| {
            let counts = kind == FileKind::Table || is_open_ended(epoch) || segments.contains_key(&file);
            counts && survey.get(kind, file).is_none()
        };
        let is_missing = referenced.get(&id).is_some_and(|files| files.iter().any(missing));
        if is_missing && strangers(survey, &all).any(|(_, keyspace)| keyspace.is_none_or(|k| k == id)) {
            misfits.insert(id);
            findings.damage(Error::corruption(
                manifest_path,
                0,
                format!(
                    "the manifest names files of keyspace {id} that are gone, and not those that are there"
                ),
            ));
        }
        if !is_name(&keyspace.edit.name) {
            return Err(Error::corruption(manifest_path, 0, "a keyspace has an impossible name"));
        }
        let order = crate::db::open::keyspace_order(&keyspace.edit, options)?;
        let areas = keyspace.layout.areas(&order);
        let name = keyspace.edit.name.clone();
        plan.keyspaces
            .insert(id, PlannedKeyspace { edit: keyspace.edit, order: order.clone(), sorted: true });
        if misfits.contains(&id) {
            // Files of another time may not fit. The areas that do fit tell which keys a missing
            // file loses.
            for area in areas.unwrap_or_default() {
                let gone = area.files.iter().filter(|file| missing(&(file.kind, file.file, file.epoch)));
                gone.for_each(|file| lose(dir, file, &name, findings));
            }
            continue;
        }
        let areas =
            areas.map_err(|what| Error::corruption(manifest_path, 0, format!("an edit {}", what.0)))?;
        let extent = |file: &manifest::AreaFile| match segments.get(&file.file) {
            segment if is_open_ended(file.epoch) => {
                let durable = segment.map_or(0, |segment| segment.len).max(HEADER_BYTES);
                let gapless = file.epoch == writer_epoch && !is_kept;
                Some(Extent::OpenEnded { durable, gapless })
            }
            Some(segment) => Some(Extent::Vouched(segment.len)),
            // A log that the last checkpoint does not list holds no entry that counts.
            None => (file.kind == FileKind::Table).then_some(Extent::Vouched(0)),
        };
        for area in areas {
            let fragments = &plan.buffered.fragments;
            let area = area_of(survey, dir, (id, &name), area, (&extent, fragments), findings);
            plan.areas.push(area);
        }
    }
    let unnamed = if is_kept { keep_unnamed(&mut plan, survey, &all, writer_epoch) } else { HashSet::new() };
    for (id, path) in strangers(survey, &all).map(|(path, keyspace)| (keyspace, path)) {
        if id.is_none_or(|id| !misfits.contains(&id)) && !unnamed.contains(path) {
            findings.leave_out(path, "the manifest does not name it: it was left behind", false);
        }
    }
    Ok((plan, misfits))
}

/// True if the logs of the process that wrote last hold more than the last checkpoint covers.
fn is_more_than_covered(survey: &Survey, state: &State) -> bool {
    survey.of_kind(FileKind::Log).any(|(id, file)| {
        let covered = state.segments.get(&id).map_or(HEADER_BYTES, |segment| segment.len.max(HEADER_BYTES));
        file.bytes > covered && file.header.is_some_and(|header| header.epoch >= state.start.epoch)
    })
}

/// Adds logs that are newer than the manifest to the chunks that have their keys; versions decide
/// there what is newer. Older logs that the manifest does not list were merged into other files.
fn keep_unnamed<'a>(
    plan: &mut Plan,
    survey: &'a Survey,
    known: &HashSet<u64>,
    epoch: u64,
) -> HashSet<&'a Path> {
    let newest = known.iter().copied().max().unwrap_or(0);
    let mut unnamed = HashSet::new();
    for (id, file) in survey.of_kind(FileKind::Log).filter(|&(id, _)| id > newest) {
        let Some(header) = file.header.filter(|header| header.epoch == epoch) else { continue };
        for area in plan.areas.iter_mut().filter(|area| area.keyspace == header.keyspace) {
            area.by_version = true;
            let kept = AreaFile {
                header,
                path: file.path.clone(),
                bytes: file.bytes,
                span: area.span.clone(),
                extent: Extent::OpenEnded { durable: HEADER_BYTES, gapless: false },
                buffered: plan.buffered.fragments.get(&id).cloned(),
                standing: Standing::default(),
            };
            area.files.insert(0, kept);
            unnamed.insert(&*file.path);
        }
    }
    unnamed
}

/// Tables and logs that are not in `known`, with their keyspaces.
fn strangers<'a>(survey: &'a Survey, known: &HashSet<u64>) -> impl Iterator<Item = (&'a Path, Option<u32>)> {
    let files = [FileKind::Table, FileKind::Log].into_iter().flat_map(|kind| survey.of_kind(kind));
    files
        .filter(|(id, _)| !known.contains(id))
        .map(|(_, file)| (&*file.path, file.header.map(|header| header.keyspace)))
}

/// True if a keyspace may have this name.
pub(super) fn is_name(name: &str) -> bool {
    (1..=255).contains(&name.len())
}

/// Reports a missing file.
fn lose(dir: &Path, file: &manifest::AreaFile, name: &str, findings: &mut Findings) {
    let path = dir.join(crate::files::file_name(file.kind, file.file));
    findings.lost(Error::corruption(path, 0, "the file is missing"), name, bounds_of(&file.span));
}

/// The part of a file that counts; `None` if it does not count at all.
type ExtentOf<'a> = &'a dyn Fn(&manifest::AreaFile) -> Option<Extent>;

fn area_of(
    survey: &Survey,
    dir: &Path,
    (keyspace, name): (u32, &str),
    manifest::Area { span, files }: manifest::Area,
    (extent, fragments): (ExtentOf<'_>, &HashMap<u64, LogFragment>),
    findings: &mut Findings,
) -> Area {
    let mut area = Area { keyspace, span, ..Area::default() };
    for file in &files {
        let Some(extent) = extent(file) else { continue };
        let own = file.span.clone();
        let buffered = fragments.get(&file.file).filter(|_| file.kind == FileKind::Log).cloned();
        // The buffered records of a log whose own file has nothing left.
        let buffered_alone = |path: PathBuf| {
            let alone = buffered.as_ref().map(|fragment| AreaFile::of_buffered(path, fragment));
            alone.map(|file| AreaFile { span: own.clone(), extent, ..file })
        };
        let Some(found) = survey.get(file.kind, file.file) else {
            lose(dir, file, name, findings);
            area.files.extend(buffered_alone(dir.join(crate::files::file_name(file.kind, file.file))));
            continue;
        };
        let durable = match extent {
            Extent::Vouched(len) | Extent::OpenEnded { durable: len, .. } => len,
            Extent::Unknown => 0,
        };
        if file.kind == FileKind::Log && found.bytes < HEADER_BYTES {
            if durable > HEADER_BYTES {
                let what = format!("the log ends {} bytes too early", durable - found.bytes);
                findings.lost(Error::corruption(&found.path, found.bytes, what), name, bounds_of(&own));
            }
            area.files.extend(buffered_alone(found.path.clone()));
            continue;
        }
        found.tell(findings);
        let described = (keyspace, file.epoch);
        let header = found.header_or(file.kind, (survey.store, file.file), described);
        let (path, bytes) = (found.path.clone(), found.bytes);
        let standing = Standing::default();
        area.files.push(AreaFile { header, path, bytes, span: own, extent, buffered, standing });
    }
    area
}
