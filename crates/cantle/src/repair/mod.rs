//! Reports of a repair, which saves everything that can be read of a damaged store.
//!
//! [`Db::repair`] copies the readable pairs of a damaged store into a new one, and returns a
//! [`RepairReport`]: each [`RepairedKeyspace`], the damaged places, the files that were
//! [left out](LeftOut), and the [keys](UncertainKeys) whose newest version may be lost.
//! [`Db::repair_with`] also reports its [progress](RepairProgress).

// ```text
//   lock → survey: the files, and the store that they belong to
//        → plan: if the manifest is whole, the chunks that opening would find; otherwise all files
//        → for each area: its logs sorted, its tables read across damage, merged → the new store
// ```
//
// With a whole manifest everything is as in an opening (`db::verdict`): the order of a chunk's
// files decides what is newer, and dead versions, dead batches and dropped files are left out.
// Without one, versions decide, and the lineages of tables (`standing`). On demand, entries that no checkpoint covers are kept. Then
// everything is as in an opening after a process that the page cache outlived, except for gaps.
//
// Invariants: nothing in the damaged store is changed. Bytes are trusted only under a checksum
// that covers file and offset. Memory is bounded by the budget and a few blocks for each open
// file, and time by the files' length, whatever they contain. Each damage is reported with its
// place, and with the keys that it may concern.

mod area;
mod journal;
mod loose;
mod merge;
mod plan;
mod report;
mod sorter;
mod standing;
mod survey;
mod swept;
mod target;
mod torn_log;

pub use report::{LeftOut, RepairProgress, RepairReport, RepairedKeyspace, ReturnedKeys, UncertainKeys};

use crate::db::check_options::check_options;
use crate::db::foreign::{Found, foreign_store, is_ours, look};
use crate::db::open::{bind, lock_store};
use crate::db::{Db, Options};
use crate::files::parse_file_name;
use crate::sync::Arc;
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{LockMode, LossyVfs, OverlayVfs, StdVfs, Vfs};
use area::Reader;
use plan::{Origin, Plan};
use report::Findings;
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use survey::Survey;
use target::Target;

/// Logs are sorted in this fraction of the budget, but at most `SORT_BYTES_MAX` bytes; the new
/// store has the rest.
const SORT_FRACTION: u64 = 4;
const SORT_BYTES_MAX: u64 = 256 << 20;
/// Number of pairs between two reports of progress.
const PROGRESS_PAIRS: u64 = 4096;

/// Saves everything that can be read of the store at `source` into a new one at `target`.
pub(crate) fn repair(
    options: Options,
    source: &Path,
    target: &Path,
    progress: &mut dyn FnMut(RepairProgress),
) -> Result<RepairReport> {
    check_options(&options)?;
    let vfs = options.vfs.clone().unwrap_or_else(|| Arc::new(StdVfs));
    check_paths(&*vfs, source, target, &options)?;
    let damaged = bind(&vfs, source)?;
    let _lock = lock_store(&*damaged, source, LockMode::Shared)?;
    let lossy = LossyVfs::new(damaged.clone());
    // Buffered records are added to their logs, but only in memory.
    let reading: Arc<dyn Vfs> = Arc::new(OverlayVfs::new(Arc::new(lossy.clone())));
    let mut findings = Findings::default();
    let survey = Survey::of(&*reading, source, &mut findings)?;
    let mut plan = plan(&*reading, source, &survey, &options, &mut findings)?;
    journal::replay(&mut plan, source, &mut findings);
    plan.tell_of_write_buffer(&mut findings);

    let budget = options.memory_budget.unwrap_or(SORT_FRACTION * SORT_BYTES_MAX);
    let findings = Rc::new(RefCell::new(findings));
    let read_bytes = Rc::new(Cell::new(0));
    let mut filled = Target::create(target, &options, &plan.keyspaces)?;
    let target_vfs = filled.vfs.clone();
    let Plan { keyspaces, areas, rules, loose_rules, .. } = plan;
    let mut files = std::collections::HashMap::new();
    let total_bytes = areas.iter().flat_map(|area| &area.files).map(|file| file.bytes).sum();
    for area in areas {
        let Some(known) = keyspaces.get(&area.keyspace) else { continue };
        files.extend(area.files.iter().map(|file| (file.path.clone(), file.bytes)));
        let reader = Reader {
            vfs: &reading,
            rules: if area.is_loose { &loose_rules } else { &rules },
            findings: findings.clone(),
            read_bytes: read_bytes.clone(),
            scratch: (&target_vfs, target),
            memory_bytes: (budget / SORT_FRACTION).min(SORT_BYTES_MAX) as usize,
        };
        let keyspace = area.keyspace;
        let mut merge = reader.read(area, &Rc::from(&*known.edit.name), &known.order, known.sorted)?;
        while let Some((key, value)) = merge.next()? {
            filled.put(keyspace, &key, &value)?;
            if filled.pairs.is_multiple_of(PROGRESS_PAIRS) {
                progress(RepairProgress { bytes: read_bytes.get(), total_bytes, pairs: filled.pairs });
            }
        }
        // If the order has failed, the merge may lack pairs.
        known.order.check()?;
        progress(RepairProgress { bytes: read_bytes.get(), total_bytes, pairs: filled.pairs });
    }
    let mut findings = std::mem::take(&mut *findings.borrow_mut());
    if rules.trusted_batches.get() {
        findings.damage(Error::corruption(
            source,
            0,
            "the journal that commits batches of several logs is damaged or missing: they were taken for committed",
        ));
    }
    findings.unreadable(lossy.unreadable());
    let mut report = findings.report;
    let names = damaged.list(source).map_err(|e| Error::io(Attempt::List, source, e))?;
    report.other_files =
        names.into_iter().filter(|name| !is_ours(name)).map(|name| source.join(name)).collect();
    report.files = files.len() as u64;
    report.bytes = files.values().sum();
    report.keyspaces = filled.finish()?;
    tracing::info!(
        source = %source.display(), target = %target.display(), pairs = report.pairs(), damage = report.damage.len(),
        "repaired a store"
    );
    Ok(report)
}

fn plan(
    vfs: &dyn Vfs,
    dir: &Path,
    survey: &Survey,
    options: &Options,
    findings: &mut Findings,
) -> Result<Plan> {
    let origin = Origin { vfs, dir, survey, options };
    match plan::by_manifest(&origin, findings)? {
        Some((plan, misfits)) if misfits.is_empty() => Ok(plan),
        planned => {
            if survey.of_kind(crate::format::header::FileKind::Manifest).next().is_none() {
                findings.damage(Error::corruption(dir, 0, "the manifest is missing"));
            }
            loose::by_files(&origin, planned, findings)
        }
    }
}

/// Fails unless `source` is a directory and `target` can become one.
fn check_paths(vfs: &dyn Vfs, source: &Path, target: &Path, options: &Options) -> Result<()> {
    match vfs.metadata(source).map_err(|e| Error::io(Attempt::LookAt, source, e))? {
        None => return Err(Error::NotFound { path: source.to_path_buf() }),
        Some(found) if !found.is_dir => {
            let what = "it is a file, and a store is a directory".into();
            return Err(Error::NotAStore { path: source.to_path_buf(), what });
        }
        Some(_) => {}
    }
    let names = vfs.list(source).map_err(|e| Error::io(Attempt::List, source, e))?;
    if names.iter().all(|name| parse_file_name(name).is_none()) {
        let kind = foreign_store(&names).map(|kind| format!("it is a {kind} store"));
        if kind.is_none() && options.beside_other_files {
            return Err(Error::NotFound { path: source.to_path_buf() });
        }
        let what = kind.unwrap_or_else(|| "it holds none of a store's files".into());
        return Err(Error::NotAStore { path: source.to_path_buf(), what });
    }
    if target.starts_with(source) {
        return Err(Error::InvalidArgument(format!(
            "{} lies in the damaged store, which must not be changed: give another path",
            target.display()
        )));
    }
    match vfs.metadata(target).map_err(|e| Error::io(Attempt::LookAt, target, e))? {
        None => Ok(()),
        Some(_) if matches!(look(vfs, target), Ok(Found::Store { .. })) => {
            Err(Error::AlreadyExists { path: target.to_path_buf(), keyspace: None })
        }
        Some(_) => {
            let what =
                "there is something already, and a repair makes its directory itself: give another path";
            Err(Error::NotAStore { path: target.to_path_buf(), what: what.into() })
        }
    }
}

impl Db {
    /// Copies everything that can still be read of the damaged store in directory `source` into a
    /// new store in directory `target`, which must not exist. Nothing in `source` is changed, and
    /// its lock prevents changes by others.
    ///
    /// If the manifest is whole, the new store has the contents that opening the old one would
    /// show, as far as their bytes are intact: the newest intact version of each key. Tables and
    /// logs are read on after damage. If the manifest is missing or damaged, the files are read by
    /// their own descriptions: they have the number of their keyspace and the versions of entries,
    /// but not the names and comparators of keyspaces. Keyspaces whose names are lost are named
    /// `lost-` and their number. Pairs that were deleted may come back from files that the report
    /// names ([`RepairReport::may_return`](crate::repair::RepairReport::may_return)): in the layout
    /// `chunk` from each file, in `flsm` only where a table is damaged.
    ///
    /// Writes that an opening would discard, since no checkpoint covers them, are left out, and a
    /// note says so; see [`keep_left_behind`](Options::keep_left_behind).
    ///
    /// The report lists every damaged place, every file that was left out, and the keys whose
    /// newest version may be lost. The options are those of the new store. The comparators of
    /// keyspaces must be registered.
    ///
    /// # Errors
    ///
    /// Damage is in the report, and is no error. [`AlreadyExists`](crate::Error::AlreadyExists) if
    /// there is something at `target`, [`NotFound`](crate::Error::NotFound) and
    /// [`NotAStore`](crate::Error::NotAStore) if `source` is no store,
    /// [`Locked`](crate::Error::Locked) if it is open for writing,
    /// [`OptionMismatch`](crate::Error::OptionMismatch) for a comparator that is not registered,
    /// [`Corruption`](crate::Error::Corruption) if no file has a readable header, and the errors of
    /// writing. After an error `target` is incomplete: remove it.
    ///
    /// ```
    /// # fn main() -> cantle::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (damaged, new) = (dir.path().join("damaged"), dir.path().join("new"));
    /// # cantle::Db::open(&damaged)?.put("key", "value")?;
    /// let report = cantle::Db::repair(&damaged, &new, cantle::Options::new())?;
    /// for keys in &report.uncertain {
    ///     println!("{}: {:?}", keys.keyspace, keys.keys);
    /// }
    /// assert_eq!(report.pairs(), 1);
    /// # Ok(()) }
    /// ```
    pub fn repair(
        source: impl AsRef<Path>,
        target: impl AsRef<Path>,
        options: Options,
    ) -> Result<RepairReport> {
        Self::repair_with(source, target, options, |_| ())
    }

    /// As [`repair`](Self::repair); calls `progress` about every 4,096 pairs.
    pub fn repair_with(
        source: impl AsRef<Path>,
        target: impl AsRef<Path>,
        options: Options,
        mut progress: impl FnMut(RepairProgress),
    ) -> Result<RepairReport> {
        repair(options, source.as_ref(), target.as_ref(), &mut progress)
    }
}
