//! Opens an image and compares its contents with the promises.

use super::enumerate::plans;
use super::trails::{self, Trails};
use crate::history::{Death, History, Marks, Progress, try_reopen};
use crate::images::{Image, record};
use crate::rng::Rng;
use crate::setup::Setup;
use crate::visit::Visit;
use crate::workload;
use cantle::vfs::{CrashPlan, FaultVfs, MemVfs, OpenMode, Operation, Vfs};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

/// A moment of a workload.
pub struct Moment<'a> {
    pub setup: &'a Setup,
    pub history: &'a History,
    /// The progress at this moment.
    pub marks: Marks,
    pub memory: &'a MemVfs,
    /// The steps of recoveries that were failed so far.
    pub trails: &'a Trails,
    /// Readable context: the workload and the call.
    pub context: &'a str,
}

/// The images and backups of a workload that were already checked.
#[derive(Default)]
pub struct Seen {
    /// Images, by their contents and promises.
    images: HashSet<(u128, u64, u64, bool)>,
    /// Backups, by their contents.
    backups: HashSet<u64>,
}

/// One of this many recoveries fails, too, at one of this many calls, in addition to those with
/// rare steps ([`Trails`]). The second number is for a long run.
const AGAIN: [u64; 2] = [256, 16];
const CALLS: [usize; 2] = [8, 1];

impl Moment<'_> {
    /// Checks every image of this moment that was not `seen` yet.
    pub fn check(&self, visit: &Visit, seed: u64, seen: &mut Seen) {
        let mut rng = Rng::new(seed);
        let plans = plans(self.memory, rng.next());
        visit.count("images", plans.len() as u64 + 1);
        for plan in plans {
            if visit.is_over() {
                return;
            }
            self.image(visit, self.memory.crash(&plan), Death::Power, &format!("{plan:?}"), &mut rng, seen);
        }
        self.image(visit, self.memory.kill(), Death::Process, "process killed", &mut rng, seen);
    }

    /// True if no such image was checked yet.
    fn is_new(&self, vfs: &MemVfs, death: Death, seen: &mut Seen) -> bool {
        let promised =
            (self.history.states.len() as u64) << 32 | self.marks.durable << 16 | self.marks.acknowledged;
        seen.images.insert((vfs.fingerprint(), promised, self.marks.begun, death == Death::Power))
    }

    fn image(&self, visit: &Visit, vfs: MemVfs, death: Death, what: &str, rng: &mut Rng, seen: &mut Seen) {
        if !self.is_new(&vfs, death, seen) {
            return;
        }
        visit.count("states", 1);
        let context = format!("{}; {what}", self.context);
        self.backups(&vfs, seen).unwrap_or_else(|found| panic!("{context}: {found}"));
        let is_drawn = rng.below(AGAIN[usize::from(visit.is_long())]) == 0;
        let before = vfs.kill();
        let fault = FaultVfs::over_memory(vfs);
        let steps = trails::record(&fault);
        let checked = try_reopen(self.setup, Arc::new(fault.clone()), self.history, self.marks, death);
        let (db, _) = checked.unwrap_or_else(|found| panic!("{context}: {found}"));
        workload::settle(&db);
        fault.clear_rule();
        drop(db);
        let rare = self.trails.take_rare(death, &steps.lock().unwrap());
        if is_drawn || !rare.is_empty() {
            self.recovery(visit, before, death, &context, (is_drawn, &rare), seen);
        }
    }

    /// Recovers once more, and fails during the recovery.
    fn recovery(
        &self,
        visit: &Visit,
        vfs: MemVfs,
        death: Death,
        context: &str,
        (is_drawn, rare): (bool, &HashSet<trails::Pair>),
        seen: &mut Seen,
    ) {
        let mut rng = Rng::new(vfs.fingerprint() as u64);
        let fault = FaultVfs::over_memory(vfs.clone());
        let recovering = record(&fault, &vfs, &Progress::at(0, 0), 1, usize::MAX);
        let (db, _) = try_reopen(self.setup, Arc::new(fault.clone()), self.history, self.marks, death)
            .unwrap_or_else(|found| panic!("{context}: {found}"));
        workload::settle(&db);
        fault.clear_rule();
        let mut images = std::mem::take(&mut *recovering.lock().unwrap());
        let end = Image { vfs: vfs.kill(), marks: self.marks, call: None, at: "anything else".into() };
        images.push(end);
        self.write_on(db, &vfs, context);
        visit.count("states", 1);
        visit.count("recoveries that failed", 1);
        if death == Death::Power {
            assert_cut_is_durable(&images, context);
        }
        let mut places = trails::places(&trails::steps(&images), rare);
        if is_drawn {
            let step = CALLS[usize::from(visit.is_long())];
            places.extend((rng.below(step as u64) as usize..images.len()).step_by(step));
        }
        for place in places {
            let image = &images[place];
            let context = format!("{context}; then, recovering, before {}", image.at);
            self.again(visit, &image.vfs, death, &context, &mut rng, seen);
        }
    }

    /// Every image of a moment of a recovery from `first`.
    fn again(
        &self,
        visit: &Visit,
        memory: &MemVfs,
        first: Death,
        context: &str,
        rng: &mut Rng,
        seen: &mut Seen,
    ) {
        let plans = plans(memory, rng.next());
        visit.count("images", plans.len() as u64 + 1);
        let images = plans.into_iter().map(|plan| (memory.crash(&plan), Death::Power, Some(plan)));
        // If the power failed once, only data that survive a loss of power must be there, even if
        // the second death is that of a process.
        for (vfs, death, plan) in images.chain([(memory.kill(), first, None)]) {
            if visit.is_over() {
                return;
            }
            if !self.is_new(&vfs, death, seen) {
                continue;
            }
            visit.count("states after a second crash", 1);
            try_reopen(self.setup, Arc::new(vfs), self.history, self.marks, death).unwrap_or_else(|found| {
                let what = plan.map_or_else(|| "process killed".into(), |plan| format!("{plan:?}"));
                panic!("{context}; {what}: {found}");
            });
        }
    }

    /// An unfinished backup is not a store, or holds a state that the store had at some time.
    fn backups(&self, vfs: &MemVfs, seen: &mut Seen) -> Result<(), String> {
        let names = vfs.list(Path::new("/")).unwrap_or_default();
        for name in names.iter().filter(|name| name.starts_with("backup")) {
            let dir = Path::new("/").join(name);
            if !seen.backups.insert(digest(vfs, &dir)) {
                continue;
            }
            self.backup(vfs, &dir).map_err(|found| format!("{name}: {found}"))?;
        }
        Ok(())
    }

    fn backup(&self, vfs: &MemVfs, dir: &Path) -> Result<(), String> {
        match self.setup.image_options(Arc::new(vfs.clone())).read_only(true).open(dir) {
            Ok(db) => {
                let report = db.verify().map_err(|error| error.to_string())?;
                if !report.is_ok() {
                    return Err(format!("{report:?}"));
                }
                let found =
                    workload::contents(&db, &self.setup.keyspace()).map_err(|error| error.to_string())?;
                match self.history.states.contains(&found) {
                    true => Ok(()),
                    false => Err("holds what the store never did".into()),
                }
            }
            // Without a manifest.
            Err(cantle::Error::Corruption { path, .. }) if path == dir => Ok(()),
            Err(error) if error.is_corruption() => Err(error.to_string()),
            Err(_) => Ok(()),
        }
    }

    /// A recovered store can be written to, and data that are synced then survive the next loss of
    /// power.
    fn write_on(&self, db: cantle::Db, vfs: &MemVfs, context: &str) {
        db.put("after", "crash")
            .and_then(|()| db.sync())
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        let report = db.verify().unwrap();
        assert!(report.is_ok(), "{context}: {report:?}");
        let lost = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
        drop(db);
        let db = self
            .setup
            .open_image(Arc::new(lost))
            .unwrap_or_else(|error| panic!("{context}: then power lost: {error}"));
        assert_eq!(db.get("after").unwrap().as_deref(), Some(&b"crash"[..]), "{context}: then power lost");
    }
}

/// A truncation of a manifest is durable before anything is written after it. If not, the disk may
/// have both the old and the new records. The error would only be visible if a new record ends
/// exactly where an old one begins, which would need too many workloads.
fn assert_cut_is_durable(images: &[Image], context: &str) {
    let mut cut = None;
    let calls = images.iter().filter_map(|image| image.call.as_ref().zip(Some(&image.at)));
    for ((operation, path), at) in calls {
        match (operation, cut) {
            _ if !path.to_string_lossy().contains("MANIFEST") => {}
            (Operation::SetLen, _) => cut = Some(at),
            (Operation::SyncData, _) => cut = None,
            (Operation::WriteAt, Some(cut)) => panic!("{context}: {at} before {cut} is durable"),
            _ => {}
        }
    }
}

/// A digest of the files of a directory, to tell states apart.
fn digest(vfs: &MemVfs, dir: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    for name in vfs.list(dir).unwrap_or_default() {
        name.hash(&mut hasher);
        let Ok(file) = vfs.open(&dir.join(&name), OpenMode::Read) else { continue };
        let mut bytes = vec![0; file.len().unwrap_or(0) as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes.hash(&mut hasher);
    }
    hasher.finish()
}
