//! Opens an image and compares what it holds with what was promised.

use super::enumerate::plans;
use crate::history::{Death, History, Marks, Progress, try_reopen};
use crate::images::record;
use crate::rng::Rng;
use crate::setup::Setup;
use crate::visit::Visit;
use crate::workload;
use cantle::vfs::{CrashPlan, FaultVfs, MemVfs, OpenMode, Vfs};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

/// A moment of a workload.
pub struct Moment<'a> {
    pub setup: &'a Setup,
    pub history: &'a History,
    /// What had happened.
    pub marks: Marks,
    pub memory: &'a MemVfs,
    /// For people: the workload and the call.
    pub context: &'a str,
}

/// What was checked of a workload already.
#[derive(Default)]
pub struct Seen {
    /// Images, by what they hold and what was promised of them.
    images: HashSet<(u128, u64, u64, bool)>,
    /// Backups, by what they hold.
    backups: HashSet<u64>,
}

/// In tests one of so many images is written to after it has recovered, and loses power once more; its recovery fails, too, at one of
/// so many calls. In a long run each does, at each.
const AGAIN: u64 = 256;
const CALLS: u64 = 8;

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

    /// Whether nobody looked at such an image yet.
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
        if !visit.is_long() && rng.below(AGAIN) > 0 {
            let checked = try_reopen(self.setup, Arc::new(vfs), self.history, self.marks, death);
            checked.unwrap_or_else(|found| panic!("{context}: {found}"));
            return;
        }
        let fault = FaultVfs::over_memory(vfs.clone());
        let recovering = record(&fault, &vfs, &Progress::at(0, 0), 1, usize::MAX);
        let (db, _) = try_reopen(self.setup, Arc::new(fault.clone()), self.history, self.marks, death)
            .unwrap_or_else(|found| panic!("{context}: {found}"));
        fault.clear_rule();
        let images = std::mem::take(&mut *recovering.lock().unwrap());
        self.write_on(db, &vfs, &context);
        visit.count("states", 1);
        visit.count("recoveries that failed", 1);
        let first = if visit.is_long() { 0 } else { rng.below(CALLS) };
        for image in
            images.iter().skip(first as usize).step_by(if visit.is_long() { 1 } else { CALLS as usize })
        {
            let context = format!("{context}; then, recovering, before {}", image.at);
            self.again(visit, &image.vfs, death, &context, rng, seen);
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
        // Whatever died first: if the power failed once, what only lost power may lose is lost.
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

    /// A backup that was not done is no store, or holds what the store did at some time.
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

    /// A store that was recovered can be written to, and what is synced then outlives the next loss of power.
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

/// What tells the files of a directory from others.
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
