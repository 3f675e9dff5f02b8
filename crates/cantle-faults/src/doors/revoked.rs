//! A batch over two keyspaces fails at its commit record, while one of its logs already has another
//! write after it: so the batch cannot be truncated. No opening may find the batch, and each must
//! find the other write.
//!
//! In a layout whose writers wait for each other there is no write after it; all other checks are
//! the same.

use crate::rng::Rng;
use crate::visit::{Visit, words_of};
use cantle::vfs::{Call, CrashPlan, Failure, FaultVfs, MemVfs, Operation, Verdict};
use cantle::{Db, Durability, Error, KeyspaceOptions, LayoutKind, Options, Resources, WriteBatch};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const ROUNDS: u64 = 48;
/// Far longer than a put takes. A put that needs a lock of the batch waits all of it.
const PATIENCE: Duration = Duration::from_millis(300);
const OTHER: &str = "other";

type Pairs = BTreeMap<String, String>;

struct Store {
    layout: LayoutKind,
    resources: Resources,
    durability: Durability,
}

impl Store {
    fn keyspace(&self) -> KeyspaceOptions {
        KeyspaceOptions::new().layout(self.layout)
    }

    fn options(&self, vfs: Arc<dyn cantle::vfs::Vfs>) -> Options {
        // Appends go to the file at once.
        let options = Options::new().vfs(vfs).resources(self.resources.clone()).write_buffer(false);
        let options = options.durability(self.durability).checkpoint_interval(Duration::from_secs(3600));
        options.default_keyspace(self.keyspace())
    }

    fn open(&self, disk: &MemVfs) -> Db {
        self.options(Arc::new(disk.clone())).open("store").unwrap()
    }

    fn check(&self, db: &Db, pairs: &Pairs, what: &str) {
        let found: Pairs = db
            .range(..)
            .map(|pair| pair.unwrap())
            .map(|(key, value)| {
                (String::from_utf8_lossy(&key).into(), String::from_utf8_lossy(&value).into())
            })
            .collect();
        assert_eq!(&found, pairs, "{what}");
        let other = db.keyspace_with(OTHER, self.keyspace()).unwrap();
        assert_eq!(other.range(..).count(), 0, "{what}: the batch is there in part");
        assert!(db.verify().unwrap().is_ok(), "{what}");
    }
}

fn round(layout: LayoutKind, seed: u64, visit: &Visit) {
    let mut rng = Rng::new(seed);
    let durability = [Durability::Process, Durability::Buffered][rng.below(4) as usize / 3];
    let store = Store { layout, resources: Resources::new(4 << 20, 1), durability };
    let disk = MemVfs::new();
    let fault = FaultVfs::over_memory(disk.clone());
    let db = store.options(Arc::new(fault.clone())).open("store").unwrap();
    let other = db.keyspace_with(OTHER, store.keyspace()).unwrap();
    let mut pairs = Pairs::new();
    for number in 0..rng.below(4) {
        db.put(format!("before {number}"), "1").unwrap();
        pairs.insert(format!("before {number}"), "1".into());
    }
    let revoke_fails = rng.below(6) == 0 && durability == Durability::Process;
    let behind = rng.below(3) > 0;
    let (begin, begun) = mpsc::channel::<()>();
    let begun = Mutex::new(begun);
    let (ended, end) = mpsc::channel::<bool>();
    let end = Mutex::new(end);
    let (armed, failed) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let is_behind = Arc::new(AtomicBool::new(false));
    let rule = {
        let (armed, failed, is_behind) = (armed.clone(), failed.clone(), is_behind.clone());
        let begin = Mutex::new(begin);
        move |call: &Call<'_>| {
            // A journal may have the name that it had before it was complete.
            let name = call.path.file_name().unwrap_or_default().to_string_lossy();
            let is = |suffix: &str| name.contains(suffix);
            if call.operation != Operation::WriteAt {
                return Verdict::Pass;
            }
            if is(".log") && failed.load(SeqCst) && revoke_fails {
                return Verdict::Fail(Failure::Kind(std::io::ErrorKind::Other));
            }
            if !is(".journal") || !armed.swap(false, SeqCst) {
                return Verdict::Pass;
            }
            let _ = begin.lock().unwrap().send(());
            is_behind.store(end.lock().unwrap().recv_timeout(PATIENCE) == Ok(true), SeqCst);
            failed.store(true, SeqCst);
            Verdict::Fail(Failure::Kind(std::io::ErrorKind::Other))
        }
    };
    // Creates the journal.
    let mut first = WriteBatch::new();
    first.put("first", "0");
    first.keyspace(&other).delete("first");
    db.write(first).unwrap();
    pairs.insert("first".into(), "0".into());
    fault.set_rule(rule);
    let mut batch = WriteBatch::new();
    batch.put(format!("batch {}", rng.below(100)), "no");
    batch.put("batch, second", "no");
    if rng.below(4) == 0 {
        batch.delete_range("before 0".."before 2");
    }
    batch.keyspace(&other).put("batch", "no");
    let key = format!("behind {}", rng.below(1000));
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            if begun.lock().unwrap().recv().is_ok() && behind {
                let done = db.put(&key, "2");
                let _ = ended.send(done.is_ok());
                if done.is_ok() {
                    return true;
                }
            }
            let _ = ended.send(false);
            false
        });
        let outcome = db.write(batch);
        // No call waits for a journal that was not written.
        fault.clear_rule();
        outcome
    });
    if !failed.load(SeqCst) {
        // The layout needs no commit record for this batch.
        outcome.unwrap();
        visit.count("batches that no journal tells of", 1);
        return;
    }
    let error = outcome.unwrap_err();
    visit.count("batches with a write behind them", u64::from(is_behind.load(SeqCst)));
    if behind && db.get(&key).unwrap().is_some() {
        pairs.insert(key, "2".into());
    }
    if revoke_fails {
        // The store must not accept writes any more, or a later opening would find the failed
        // batch; unless the batch could be truncated or made unreadable.
        let refused = db.put("after", "3");
        assert!(refused.is_err() || !layout.capabilities().shares_logs, "{error}");
        assert!(!matches!(refused, Err(Error::Corruption { .. })));
        visit.count("revokes that failed", 1);
        return;
    }
    store.check(&db, &pairs, "after the failure");
    db.put("after", "3").unwrap();
    pairs.insert("after".into(), "3".into());
    let mut disk = match rng.below(3) {
        0 => {
            db.close().unwrap();
            visit.count("stores closed", 1);
            disk.kill()
        }
        1 => {
            db.sync().unwrap();
            visit.count("losses of power", 1);
            disk.crash(&CrashPlan::LOSE_UNSYNCED)
        }
        _ => {
            db.sync().unwrap();
            visit.count("processes killed", 1);
            disk.kill()
        }
    };
    drop((other, db));
    for life in 0..3 {
        let db = store.open(&disk);
        store.check(&db, &pairs, &format!("life {life}"));
        db.put(format!("life {life}"), "4").unwrap();
        pairs.insert(format!("life {life}"), "4".into());
        db.sync().unwrap();
        disk = if rng.below(2) == 0 { disk.kill() } else { disk.crash(&CrashPlan::LOSE_UNSYNCED) };
    }
    let repaired = Db::repair("store", "repaired", store.options(Arc::new(disk.clone()))).unwrap();
    assert_eq!(repaired.damage.len(), 0, "{repaired:?}");
    let db = store.options(Arc::new(disk)).open(Path::new("repaired")).unwrap();
    store.check(&db, &pairs, "repaired");
    visit.count("stores repaired", 1);
}

/// A few rounds, each with a store of its own. If no layout is named, every layout is tested: the
/// default one has no log with several writers. A case is the seed of a round.
pub fn enter(visit: &Visit) {
    let own = [visit.layout];
    let layouts = if visit.layout == LayoutKind::default() { LayoutKind::ALL } else { &own };
    let tell = |layout: LayoutKind, seed: u64| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| round(layout, seed, visit))) {
            let text = words_of(&*panic);
            panic!("{seed}: {text}\nagain: cantle-faults --doors revoked --layout {layout} --case {seed}");
        }
    };
    if let Some(case) = &visit.case {
        let seed = case.parse().unwrap_or_else(|_| panic!("{case:?} is no seed"));
        return layouts.iter().for_each(|&layout| tell(layout, seed));
    }
    for seed in visit.rounds() {
        let rounds = (0..ROUNDS).map(|round| seed.wrapping_add(round));
        let rounds: Vec<_> =
            rounds.flat_map(|seed| layouts.iter().map(move |&layout| (layout, seed))).collect();
        visit.each(&rounds, |&(layout, seed)| tell(layout, seed));
    }
}
