//! Merges of different guards at the same time.

use super::levels::{Guard, Levels};
use super::tests::{Model, assert_is, key, lsm_of, stats, value};
use crate::layout::options::FlsmOptions;
use crate::lsm::keyspace::Lsm;
use crate::lsm::merge::Trigger;
use crate::sync::Arc;
use crate::sync::random::Rng;
use crate::sync::thread::spawn;
use crate::vfs::{Call, FaultVfs, MemVfs, Operation, Verdict};
use crate::{Db, KeyspaceOptions, Options};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Number of runs of a guard from which on a test finds it crowded.
const RUNS_MAX: u64 = 3;

fn layout() -> FlsmOptions {
    FlsmOptions::new().generation_bytes(8 << 10).guard_bytes(8 << 10).max_sstables_per_guard(RUNS_MAX as u32)
}

/// A store whose next write of a table waits, once the gate is closed.
struct Gated {
    db: Db,
    is_closed: Arc<AtomicBool>,
    arrived: Receiver<()>,
    open: Sender<()>,
}

fn gated() -> Gated {
    let ((arrive, arrived), (open, pass)) = (channel(), channel());
    let is_closed = Arc::new(AtomicBool::new(false));
    let vfs = FaultVfs::over_memory(MemVfs::new());
    let ends = std::sync::Mutex::new((arrive, pass));
    let at = is_closed.clone();
    vfs.set_rule(move |call: &Call<'_>| {
        let is_table = call.path.extension().is_some_and(|name| name == "table");
        if is_table && call.operation == Operation::WriteAt && at.swap(false, SeqCst) {
            let (arrive, pass) = &*ends.lock().unwrap();
            arrive.send(()).unwrap();
            // The other end is gone once the test has ended in any way.
            let _ = pass.recv();
        }
        Verdict::Pass
    });
    let options = Options::new().default_keyspace(KeyspaceOptions::new().layout(layout()));
    let options = options.vfs(Arc::new(vfs)).background_threads(1);
    let db = options.checkpoint_interval(Duration::from_secs(3600)).open("store").unwrap();
    Gated { db, is_closed, arrived, open }
}

/// Guards of the levels above the last with more runs than they may have.
fn crowded(lsm: &Lsm<Levels>) -> Vec<Arc<Guard>> {
    let view = lsm.view();
    let above = view.shape.levels.len() - 1;
    let levels = view.shape.levels.iter().take(above).flatten();
    levels.filter(|guard| guard.runs.len() as u64 > RUNS_MAX).cloned().collect()
}

fn put(db: &Db, model: &mut Model, number: u64, step: u64) {
    let value = value(step, 400);
    db.put(key(number), &value).unwrap();
    model.insert(key(number), value);
}

/// Merges of a guard of level 1, of another one and of logs, while the first one has begun (PebblesDB
/// §3.4).
#[test]
fn guards_and_logs_are_merged_while_another_guard_is() {
    let Gated { db, is_closed, arrived, open } = gated();
    let (mut model, mut rng, lsm) = (Model::new(), Rng::new(1), lsm_of(&db));
    let merges = || {
        for step in 0..6000 {
            put(&db, &mut model, rng.below(2000), step);
            if step % 1000 == 999 {
                lsm.settle_for_test().unwrap();
            }
        }
        assert!(lsm.view().shape.levels.len() > 1);
        while crowded(&lsm).len() < 2 {
            (0..100).for_each(|step| put(&db, &mut model, rng.below(2000), 10_000 + step));
            lsm.merge_logs_for_test().unwrap();
        }
        let before: Vec<Vec<u64>> = crowded(&lsm).iter().map(|guard| files(guard)).collect();
        // Guards that have these tables still, and maybe newer ones.
        let left = || {
            let has_old = |guard: &&Arc<Guard>| before.iter().any(|old| files(guard).ends_with(old));
            lsm.view().shape.levels[0].iter().filter(has_old).count()
        };
        is_closed.store(true, SeqCst);
        let first = {
            let lsm = lsm.clone();
            spawn("merge", move || lsm.merge_tables(Trigger::Background).unwrap()).unwrap()
        };
        arrived.recv().unwrap();
        assert!(lsm.merge_tables(Trigger::Background).unwrap(), "another guard is merged");
        assert_eq!(stats(&db).merges_at_once, 2);
        (0..100).for_each(|step| put(&db, &mut model, rng.below(2000), 20_000 + step));
        lsm.seal_for_test().unwrap();
        assert!(lsm.merge_logs(Trigger::Background).unwrap(), "and logs, into all guards of level 1");
        assert_eq!(left(), before.len() - 1);
        assert_is(&db, &model, "while a guard is merged");
        open.send(()).unwrap();
        assert!(first.join().unwrap());
        assert_eq!(left(), before.len() - 2, "what was merged is gone");
        assert_is(&db, &model, "when it is merged");
        let view = lsm.view();
        assert!(view.shape.levels[0].iter().all(|guard| !guard.runs.is_empty()), "what came later is there");
    };
    lsm.without_merges_for_test(merges);
    lsm.settle_for_test().unwrap();
    assert_is(&db, &model, "settled");
}

fn files(guard: &Guard) -> Vec<u64> {
    guard.runs.iter().map(|run| run.file().id).collect()
}

/// Statistics tell how far each running merge has come, without waiting for it.
#[test]
fn running_merges_are_listed_with_the_bytes_that_they_have_read() {
    let Gated { db, is_closed, arrived, open } = gated();
    let (mut model, mut rng, lsm) = (Model::new(), Rng::new(3), lsm_of(&db));
    lsm.without_merges_for_test(|| {
        for step in 0..3000 {
            put(&db, &mut model, rng.below(2000), step);
        }
        lsm.seal_for_test().unwrap();
        assert_eq!(stats(&db).running_merges, []);
        let held = |asked: bool| {
            is_closed.store(true, SeqCst);
            let (lsm, db) = (lsm.clone(), db.clone());
            let merge = spawn("merge", move || match asked {
                true => db.compact_range(..).unwrap(),
                false => assert!(lsm.merge_logs(Trigger::Background).unwrap()),
            });
            arrived.recv().unwrap();
            merge.unwrap()
        };
        let ripe = lsm.ripe_logs(&lsm.view());
        let logs_bytes: u64 = lsm.oldest_logs(&ripe).iter().map(|log| log.bytes()).sum();
        let first = held(false);
        let [logs] = &stats(&db).running_merges[..] else { panic!("one merge runs") };
        assert_eq!((logs.is_asked, logs.from_level, logs.to_level), (false, 0, 1));
        // The first table was about to be written: the rest is not read yet.
        assert_eq!(logs.bytes, logs_bytes);
        assert!(logs.bytes_read > 0 && logs.bytes_read < logs.bytes, "{logs:?}");
        open.send(()).unwrap();
        first.join().unwrap();
        assert_eq!(stats(&db).running_merges, []);
        // The user's merge of all tables.
        lsm.settle_for_test().unwrap();
        (0..2000).for_each(|number| put(&db, &mut model, number, 10_000 + number));
        lsm.merge_logs_for_test().unwrap();
        let levels = lsm.view().shape.levels.len() as u32;
        let second = held(true);
        let [tables] = &stats(&db).running_merges[..] else { panic!("one merge runs") };
        assert_eq!((tables.is_asked, tables.from_level, tables.to_level), (true, 1, levels));
        assert!(tables.bytes_read > 0 && tables.bytes_read <= tables.bytes, "{tables:?}");
        open.send(()).unwrap();
        second.join().unwrap();
    });
    assert_eq!(stats(&db).running_merges, []);
    assert_is(&db, &model, "compacted");
}

/// A compaction and a drop wait for the merges that run.
#[test]
fn a_compaction_waits_for_running_merges() {
    let Gated { db, is_closed, arrived, open } = gated();
    let (mut model, mut rng, lsm) = (Model::new(), Rng::new(2), lsm_of(&db));
    lsm.without_merges_for_test(|| {
        (0..1000).for_each(|step| put(&db, &mut model, rng.below(2000), step));
        lsm.seal_for_test().unwrap();
        is_closed.store(true, SeqCst);
        let running = {
            let lsm = lsm.clone();
            spawn("merge", move || lsm.merge_logs(Trigger::Background).unwrap()).unwrap()
        };
        arrived.recv().unwrap();
        assert!(!lsm.merge_logs(Trigger::Background).unwrap(), "maintenance does something else");
        let compaction = {
            let db = db.clone();
            spawn("merge", move || db.compact_range(..).unwrap()).unwrap()
        };
        open.send(()).unwrap();
        assert!(running.join().unwrap());
        compaction.join().unwrap();
    });
    assert!(lsm.view().level0.is_empty());
    assert_is(&db, &model, "compacted");
}

/// Several workers, with real threads.
#[test]
fn many_workers_merge_what_was_written() {
    let disk = MemVfs::without_history();
    let options = Options::new().default_keyspace(KeyspaceOptions::new().layout(layout()));
    let options = options.vfs(Arc::new(disk)).background_threads(4);
    let db = options.open("store").unwrap();
    let models: Vec<Model> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2u64)
            .map(|writer| {
                let db = &db;
                scope.spawn(move || {
                    let (mut model, mut rng) = (Model::new(), Rng::new(writer));
                    for step in 0..15_000 {
                        let number = 2 * rng.below(1000) + writer;
                        match step % 10 {
                            9 => {
                                db.delete(key(number)).unwrap();
                                model.remove(&key(number));
                            }
                            _ => put(db, &mut model, number, step),
                        }
                    }
                    model
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let model: Model = models.into_iter().flatten().collect();
    assert_is(&db, &model, "written");
    db.compact_range(..).unwrap();
    assert_is(&db, &model, "compacted");
    assert_eq!(db.own().layout.stats().edits_refused, 0);
}
