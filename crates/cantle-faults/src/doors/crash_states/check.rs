//! Opens an image and compares what it holds with what was promised.

use super::enumerate::plans;
use crate::history::{Death, History, Marks, Progress, try_reopen};
use crate::images::record;
use crate::rng::Rng;
use crate::setup::Setup;
use crate::visit::Visit;
use cantle::vfs::{CrashPlan, FaultVfs, MemVfs, Vfs};
use std::collections::HashSet;
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

/// Images that were checked already, by what they hold and what was promised of them.
pub type Seen = HashSet<(u128, u64, u64, bool)>;

/// One of so many images fails again while it recovers, or is written to and loses power again.
const AGAIN: u64 = 128;

impl Moment<'_> {
    /// Checks every image of this moment that was not `seen` yet.
    pub fn check(&self, visit: &Visit, seed: u64, seen: &mut Seen) {
        let mut rng = Rng::new(seed);
        let plans = plans(self.memory, rng.next());
        visit.count("images", plans.len() as u64 + 1);
        for plan in plans {
            self.image(visit, self.memory.crash(&plan), Death::Power, &format!("{plan:?}"), &mut rng, seen);
        }
        self.image(visit, self.memory.kill(), Death::Process, "process killed", &mut rng, seen);
    }

    fn image(&self, visit: &Visit, vfs: MemVfs, death: Death, what: &str, rng: &mut Rng, seen: &mut Seen) {
        let promised =
            (self.history.states.len() as u64) << 32 | self.marks.durable << 16 | self.marks.acknowledged;
        if !seen.insert((vfs.fingerprint(), promised, self.marks.begun, death == Death::Power)) {
            return;
        }
        visit.count("states", 1);
        let context = format!("{}; {what}", self.context);
        self.backups(&vfs).unwrap_or_else(|found| panic!("{context}: {found}"));
        if rng.below(AGAIN) > 0 {
            let checked = try_reopen(self.setup, Arc::new(vfs), self.history, self.marks, death);
            checked.unwrap_or_else(|found| panic!("{context}: {found}"));
            return;
        }
        let fault = FaultVfs::over_memory(vfs.clone());
        let recovering = record(&fault, &vfs, &Progress::at(0, 0), 1, 64);
        let (db, _) = try_reopen(self.setup, Arc::new(fault.clone()), self.history, self.marks, death)
            .unwrap_or_else(|found| panic!("{context}: {found}"));
        fault.clear_rule();
        let before = recovering.lock().unwrap().len();
        self.write_on(&db, &vfs, &context);
        visit.count("states", 1);
        let images = std::mem::take(&mut *recovering.lock().unwrap());
        for (index, image) in images[..before].iter().enumerate() {
            let random = CrashPlan::random(rng.next());
            for plan in [CrashPlan::LOSE_UNSYNCED, CrashPlan::KEEP_ALL, random] {
                let again = image.vfs.crash(&plan);
                // Whatever died before: now it was the power, too.
                if !seen.insert((again.fingerprint(), promised, self.marks.begun, true))
                    || death == Death::Process
                {
                    continue;
                }
                visit.count("states after a second crash", 1);
                try_reopen(self.setup, Arc::new(again), self.history, self.marks, Death::Power)
                    .unwrap_or_else(|found| {
                        panic!(
                            "{context}; then, recovering, before call {index}, {}; {plan:?}: {found}",
                            image.at
                        )
                    });
            }
        }
    }

    /// A backup that was not done is no store, or is whole.
    fn backups(&self, vfs: &MemVfs) -> Result<(), String> {
        let names = vfs.list(Path::new("/")).unwrap_or_default();
        for name in names.iter().filter(|name| name.starts_with("backup")) {
            let options = self.setup.options(Arc::new(vfs.clone())).read_only(true);
            let dir = Path::new("/").join(name);
            match options.open(&dir) {
                Ok(db) => {
                    let report = db.verify().map_err(|error| format!("{name}: {error}"))?;
                    if !report.is_ok() {
                        return Err(format!("{name}: {report:?}"));
                    }
                }
                // Without a manifest.
                Err(cantle::Error::Corruption { path, .. }) if path == dir => {}
                Err(error) if error.is_corruption() => return Err(format!("{name}: {error}")),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// A store that was recovered can be written to, and what is synced then outlives the next loss of power.
    fn write_on(&self, db: &cantle::Db, vfs: &MemVfs, context: &str) {
        db.put("after", "crash")
            .and_then(|()| db.sync())
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        let report = db.verify().unwrap();
        assert!(report.is_ok(), "{context}: {report:?}");
        let lost = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
        let db = self
            .setup
            .open(Arc::new(lost))
            .unwrap_or_else(|error| panic!("{context}: then power lost: {error}"));
        assert_eq!(db.get("after").unwrap().as_deref(), Some(&b"crash"[..]), "{context}: then power lost");
    }
}
