//! The plan without a whole manifest: every file is read, by its own description.
//!
//! A file's header has the number of its keyspace, and entries have versions, which decide what is
//! newer. Facts that only a manifest contains are taken from its readable parts: names and
//! comparators, and the versions and batches of earlier epochs that died. In the layout `flsm` tables say
//! which files they replace (`standing`). Files of `chunk` have no trace of the rest: a range delete that
//! dropped whole chunks, the delete of a pair that an older file, shared between chunks, still holds, or
//! the true version of a range delete that a merge has joined with another. The report names these files.

use super::area::{Area, AreaFile, Rules};
use super::journal::JournalRemains;
use super::plan::{Origin, Plan, PlannedKeyspace, is_name};
use super::report::Findings;
use super::standing::{Standing, set_standing};
use super::survey::{LeftInBuffer, LogFragment};
use crate::db::open::{DEFAULT_ID, keyspace_edit, keyspace_order};
use crate::db::store::DEFAULT_KEYSPACE;
use crate::format::header::{FileKind, HEADER_BYTES};
use crate::journal::JournalRecord;
use crate::layout::options::LayoutOptions;
use crate::log::salvage::Extent;
use crate::manifest::{Edit, KeyspaceEdit, StartEdit};
use crate::mvcc::Recovery;
use crate::records::{RecordFile, Salvage, Salvaged};
use crate::substrate::page_cache::outlived;
use crate::table::{TableSalvage, read_bounds};
use crate::types::error::{Error, Result};
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use crate::vfs::OpenMode;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;

/// Number of the keyspace of files whose header is lost. No keyspace of a store has it.
const UNKNOWN: u32 = 0;

/// The edits that can still be read from damaged manifests.
#[derive(Default)]
struct Gleaned {
    keyspaces: BTreeMap<u32, KeyspaceEdit>,
    dropped: HashSet<u32>,
    start: Option<StartEdit>,
}

impl Gleaned {
    fn take(&mut self, edit: Edit) {
        match edit {
            Edit::Keyspace(edit) => {
                self.dropped.remove(&edit.keyspace);
                self.keyspaces.insert(edit.keyspace, edit);
            }
            Edit::DropKeyspace { keyspace, .. } | Edit::ForgetKeyspace { keyspace } => {
                self.dropped.insert(keyspace);
            }
            Edit::Start(start) if self.start.as_ref().is_none_or(|last| last.epoch <= start.epoch) => {
                self.start = Some(start);
            }
            Edit::Group(edits) => edits.into_iter().for_each(|edit| self.take(edit)),
            _ => {}
        }
    }

    /// Reads every manifest, oldest first.
    fn from(origin: &Origin<'_>, findings: &mut Findings) -> Result<Self> {
        let mut gleaned = Self::default();
        for (id, file) in origin.survey.of_kind(FileKind::Manifest) {
            if file.bytes < HEADER_BYTES {
                findings.leave_out(&file.path, "it is shorter than its header", true);
                continue;
            }
            let header = file.header_or(FileKind::Manifest, (origin.survey.store, id), (0, 0));
            let handle = match origin.vfs.open(&file.path, OpenMode::Read) {
                Ok(handle) => handle,
                Err(error) => {
                    findings.leave_out(&file.path, format!("it cannot be opened: {error}"), true);
                    continue;
                }
            };
            let records = RecordFile { file: handle, path: file.path.clone(), header };
            let mut salvage = Salvage::new(&records, file.bytes, Edit::may_begin);
            while let Some(found) = salvage.next()? {
                match found {
                    Salvaged::Record { offset, payload, .. } => match Edit::decode(&payload) {
                        Ok(edit) => gleaned.take(edit),
                        Err(what) => findings.damage(Error::corruption(&file.path, offset, what.0)),
                    },
                    Salvaged::Hole { error, .. } | Salvaged::Damaged { error, .. } => findings.damage(error),
                }
            }
        }
        Ok(gleaned)
    }
}

/// Completes `plan`, or makes one, from the files of `only` these keyspaces, or of all.
pub(super) fn by_files(
    origin: &Origin<'_>,
    plan: Option<(Plan, HashSet<u32>)>,
    findings: &mut Findings,
) -> Result<Plan> {
    let gleaned = Gleaned::from(origin, findings)?;
    let (mut plan, only) = match plan {
        Some((plan, only)) => (plan, Some(only)),
        None => (Plan::default(), None),
    };
    let journals = JournalRemains::read(origin, |_| true, |_| true, findings)?;
    plan.loose_rules = rules(&gleaned, &journals);
    if only.is_none() {
        plan.buffered = recover_write_buffer(origin)?;
    }
    let mut files = files_by_keyspace(origin, &plan.buffered.fragments, findings);
    if only.is_none() {
        // Also the default keyspace, which always exists, and empty keyspaces.
        let known = gleaned.keyspaces.keys().copied().filter(|id| !gleaned.dropped.contains(id));
        // And the keyspaces of which only journal records are left.
        let journaled = journals.records.iter().flat_map(JournalRecord::keyspaces);
        for id in known.chain([DEFAULT_ID]).chain(journaled) {
            files.entry(id).or_default();
        }
    }
    let mut names: BTreeSet<String> = plan.keyspaces.values().map(|known| known.edit.name.clone()).collect();
    for (id, mut files) in files {
        if only.as_ref().is_some_and(|only| !only.contains(&id) && id != UNKNOWN) {
            continue;
        }
        if gleaned.dropped.contains(&id) {
            for file in files {
                findings.leave_out(&file.path, "its keyspace was dropped", false);
            }
            continue;
        }
        let known = match plan.keyspaces.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => {
                let (planned, why) = planned(id, &gleaned, &names, origin)?;
                why.into_iter().for_each(|why| findings.note(why));
                vacant.insert(planned)
            }
        };
        names.insert(known.edit.name.clone());
        if !gleaned.keyspaces.contains_key(&id) && only.is_none() {
            known.sorted = files.iter().all(|file| is_sorted(origin, file, &known.order));
        }
        let name = known.edit.name.clone();
        let recovery = gleaned.start.is_some().then_some(&plan.loose_rules.recovery);
        let of = (&name[..], &known.order);
        if known.sorted && set_standing(origin, &mut files, of, recovery, findings)? {
            findings.note(format!(
                "keyspace {name:?} was put together without a manifest, by what its tables say of other files"
            ));
        } else {
            findings.note(format!(
                "keyspace {name:?} was put together without a manifest: pairs that had been deleted may be back"
            ));
            for file in &files {
                findings.may_return(&file.path, &name, keys_of(origin, file));
            }
        }
        plan.areas.push(Area { keyspace: id, files, by_version: true, is_loose: true, ..Area::default() });
    }
    plan.areas.sort_by_key(|area| area.keyspace);
    if only.is_none() {
        // In a `Sync` store the journal may hold the last copy of acknowledged writes.
        plan.replay = journals.records;
    }
    Ok(plan)
}

/// Name and order of a keyspace, and a note about them for the report, if one is needed.
fn planned(
    id: u32,
    gleaned: &Gleaned,
    names: &BTreeSet<String>,
    origin: &Origin<'_>,
) -> Result<(PlannedKeyspace, Option<String>)> {
    if let Some(edit) =
        gleaned.keyspaces.get(&id).filter(|edit| !names.contains(&edit.name) && is_name(&edit.name))
    {
        let order = keyspace_order(edit, origin.options)?;
        return Ok((PlannedKeyspace { edit: edit.clone(), order, sorted: true }, None));
    }
    let (name, order) = if id == DEFAULT_ID {
        let order = origin.options.default_keyspace.order.clone();
        (DEFAULT_KEYSPACE.to_owned(), order.unwrap_or_default())
    } else {
        (format!("lost-{id}"), KeyOrder::Bytewise)
    };
    // No file says which layout the keyspace had.
    let layout = origin.options.default_keyspace.layout.as_ref().map(LayoutOptions::kind).unwrap_or_default();
    let why = (id != DEFAULT_ID).then(|| match id {
        UNKNOWN => format!("which keyspace some files belonged to is lost: what they hold is in {name:?}"),
        _ => format!("the name of keyspace number {id} is lost: it is called {name:?}"),
    });
    Ok((PlannedKeyspace { edit: keyspace_edit(id, &name, layout, &order), order, sorted: true }, why))
}

/// The rules as far as they can be derived from the files.
fn rules(gleaned: &Gleaned, journals: &JournalRemains) -> Rules {
    let committed = if journals.damaged { Default::default() } else { journals.committed.clone() };
    let Some(start) = &gleaned.start else { return Rules { committed, ..Rules::default() } };
    let recovery = Recovery {
        epoch: start.epoch,
        first_version: start.first_version,
        table: start.recovery_table.clone(),
        dead_batches: start.dead_batches.clone(),
    };
    Rules { recovery, committed, ..Rules::default() }
}

/// Writes buffered records to their logs, if the process of the newest epoch is known to have left
/// them in the buffer.
fn recover_write_buffer(origin: &Origin<'_>) -> Result<LeftInBuffer> {
    let Origin { vfs, dir, survey, .. } = *origin;
    let epochs = survey.of_kind(FileKind::Log).filter_map(|(_, file)| file.header);
    let Some(epoch) = epochs.map(|header| header.epoch).max() else { return Ok(LeftInBuffer::default()) };
    match outlived(vfs, dir, epoch) {
        Ok(true) => survey.recover_write_buffer(vfs, dir, (epoch, 0), |_| None),
        Ok(false) => Ok(LeftInBuffer { epoch, ..LeftInBuffer::default() }),
        // If this cannot be found out, the records in the logs are saved nevertheless.
        Err(error) => Ok(LeftInBuffer { epoch, damaged: vec![error], ..LeftInBuffer::default() }),
    }
}

/// For each keyspace its logs, newest first, then its tables, newest first.
fn files_by_keyspace(
    origin: &Origin<'_>,
    fragments: &HashMap<u64, LogFragment>,
    findings: &mut Findings,
) -> BTreeMap<u32, Vec<AreaFile>> {
    let mut keyspaces: BTreeMap<u32, Vec<AreaFile>> = BTreeMap::new();
    for (&id, fragment) in fragments.iter().filter(|(id, _)| origin.survey.get(FileKind::Log, **id).is_none())
    {
        let path = origin.dir.join(crate::files::file_name(FileKind::Log, id));
        keyspaces.entry(fragment.header.keyspace).or_default().push(AreaFile::of_buffered(path, fragment));
    }
    for kind in [FileKind::Log, FileKind::Table] {
        for (id, file) in origin.survey.of_kind(kind).rev() {
            let buffered = fragments.get(&id).filter(|_| kind == FileKind::Log);
            if file.bytes < HEADER_BYTES {
                findings.leave_out(&file.path, "it is shorter than its header", kind == FileKind::Table);
                let alone = buffered.map(|fragment| {
                    (fragment.header.keyspace, AreaFile::of_buffered(file.path.clone(), fragment))
                });
                alone.into_iter().for_each(|(id, file)| keyspaces.entry(id).or_default().push(file));
                continue;
            }
            file.tell(findings);
            if file.header.is_none() {
                findings.note(format!(
                    "the header of {} is lost: what it holds is taken for the oldest",
                    file.path.display()
                ));
            }
            let header = file.header_or(kind, (origin.survey.store, id), (UNKNOWN, 0));
            keyspaces.entry(header.keyspace).or_default().push(AreaFile {
                header,
                path: file.path.clone(),
                bytes: file.bytes,
                span: Span::default(),
                extent: Extent::Unknown,
                buffered: buffered.cloned(),
                standing: Standing::default(),
            });
        }
    }
    keyspaces
}

/// A range with the keys of a file, as far as that is known.
fn keys_of(origin: &Origin<'_>, file: &AreaFile) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let of_table = || {
        let opened = origin.vfs.open(&file.path, OpenMode::Read).ok()?;
        let (smallest, largest) = read_bounds(&*opened, &file.path, &file.header).ok()??;
        Some((Bound::Included(smallest), Bound::Included(largest)))
    };
    let of_table = if file.header.kind == FileKind::Table { of_table() } else { None };
    of_table.unwrap_or((Bound::Unbounded, Bound::Unbounded))
}

/// True if a table is in this order.
fn is_sorted(origin: &Origin<'_>, file: &AreaFile, order: &KeyOrder) -> bool {
    if file.header.kind != FileKind::Table {
        return true;
    }
    let Ok(handle) = origin.vfs.open(&file.path, OpenMode::Read) else { return true };
    let walk = TableSalvage::new(handle, file.path.clone(), file.header, order.clone());
    let Ok(mut walk) = walk else { return true };
    while walk.advance() && !walk.is_out_of_order() {}
    !walk.is_out_of_order()
}
