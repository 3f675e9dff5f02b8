//! Ends of logs: a log torn at any byte ends there; damage below the length that a checkpoint
//! covers is corruption.

use cantle::vfs::{MemVfs, OpenMode, Vfs};
use cantle::{Durability, Error};
use cantle_faults::history::{Death, History, Marks};
use cantle_faults::rng::Rng;
use cantle_faults::setup::{STORE, Setup};
use cantle_faults::visit::factor;
use cantle_faults::workload::{self, Change, Op};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn setup() -> Setup {
    let mut setup = Setup::random(&mut Rng::new(3), Durability::Process);
    (setup.checkpoint_interval, setup.log_bytes) = (Duration::from_secs(3600), 64 << 10);
    setup
}

fn logs(vfs: &MemVfs) -> Vec<PathBuf> {
    let names = vfs.list(Path::new(STORE)).unwrap();
    names.iter().filter(|name| name.ends_with(".log")).map(|name| Path::new(STORE).join(name)).collect()
}

/// A killed store with one log, and its history.
fn killed(batches: bool) -> (MemVfs, History) {
    let memory = MemVfs::new();
    // All writes go to the log: buffered records would follow the torn place, and prove it damaged.
    let options = setup().options(Arc::new(memory.clone()));
    let db = options.write_buffer(false).open(STORE).unwrap();
    let mut history = History::default();
    for n in 0..20u64 {
        let put = |n: u64| ("default", Change::Put(n, vec![n as u8; 30 + n as usize].into()));
        let op = if batches && n.is_multiple_of(3) {
            Op::Batch(vec![put(n), put(n + 50), put(n + 100)])
        } else {
            let (name, change) = put(n);
            Op::One(name, change)
        };
        workload::run(&db, &op, &setup().keyspace(), n).unwrap();
        history.push(&op);
    }
    (memory.kill(), history)
}

#[test]
fn a_log_torn_at_any_byte_ends_there() {
    let (image, history) = killed(true);
    let [log] = &logs(&image)[..] else { panic!("one log was expected") };
    let len = image.open(log, OpenMode::Read).unwrap().len().unwrap();
    let mut states = 0;
    let mut before = 0;
    for cut in 64..=len {
        for garbage in [0, 1, 600] {
            if garbage > 0 && !cut.is_multiple_of(7) && factor() == 1 {
                continue;
            }
            let vfs = image.kill();
            let file = vfs.open(log, OpenMode::ReadWrite).unwrap();
            file.set_len(cut).unwrap();
            let mut rng = Rng::new(cut);
            let noise: Vec<u8> = (0..garbage).map(|_| rng.next() as u8).collect();
            file.write_at(&noise, cut).unwrap();
            let db = setup().open(Arc::new(vfs)).unwrap();
            let found = workload::contents(&db, &setup().keyspace()).unwrap();
            let marks = Marks { durable: 0, acknowledged: 0, begun: 20 };
            let k = history.check(&found, marks, Death::Process, Durability::Process);
            let k = k.unwrap_or_else(|what| panic!("cut at {cut}, {garbage} bytes of garbage: {what}"));
            assert!(k >= before, "more of the log holds less");
            before = k;
            db.put("more", "still works").unwrap();
            states += 1;
        }
    }
    assert_eq!(before, 20);
    println!("{states} torn logs checked");
}

/// A killed process leaves all its writes: a bad record before a good one was damaged later.
#[test]
fn a_log_that_goes_on_behind_a_bad_record_is_damaged() {
    let (image, history) = killed(false);
    let [log] = &logs(&image)[..] else { panic!("one log was expected") };
    let len = image.open(log, OpenMode::Read).unwrap().len().unwrap();
    let mut told = 0;
    for offset in (64..len).step_by(3) {
        let vfs = image.kill();
        let file = vfs.open(log, OpenMode::ReadWrite).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_at(&[byte[0] ^ 0x20], offset).unwrap();
        let db = setup().open(Arc::new(vfs)).unwrap();
        match workload::contents(&db, &setup().keyspace()) {
            Err(Error::Corruption { path, offset: at, .. }) => {
                assert!(&path == log && at <= offset && offset < at + 80, "{offset}, reported at {at}");
                assert!(!db.verify().unwrap().is_ok());
                told += 1;
            }
            Err(error) => panic!("damage at {offset}: {error}"),
            // The last one may have been torn.
            Ok(found) => {
                assert!(offset > len - 80, "damage at {offset} went unnoticed");
                let marks = Marks { durable: 0, acknowledged: 0, begun: 20 };
                history.check(&found, marks, Death::Process, Durability::Process).unwrap();
            }
        }
    }
    assert!(told > 300, "{told}");
}

#[test]
fn damage_below_the_recorded_length_is_corruption_that_names_file_and_offset() {
    let memory = MemVfs::new();
    let db = setup().open(Arc::new(memory.clone())).unwrap();
    for n in 0..20u64 {
        db.put(workload::key(n), vec![n as u8; 40]).unwrap();
    }
    db.sync().unwrap();
    let image = memory.kill();
    drop(db);
    let [log] = &logs(&image)[..] else { panic!("one log was expected") };
    let len = image.open(log, OpenMode::Read).unwrap().len().unwrap();
    for offset in 64..len {
        for vfs in [image.kill(), image.crash(&cantle::vfs::CrashPlan::LOSE_UNSYNCED)] {
            let file = vfs.open(log, OpenMode::ReadWrite).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, offset).unwrap();
            file.write_at(&[byte[0] ^ 0x20], offset).unwrap();
            let db = setup().open(Arc::new(vfs)).unwrap();
            let is_harmed = |n: &u64| match db.get(workload::key(*n)) {
                Ok(Some(value)) => {
                    assert_eq!(value, [*n as u8; 40][..], "damage at {offset}");
                    false
                }
                Err(Error::Corruption { path, offset: at, .. }) => {
                    assert_eq!(&path, log);
                    assert!(at <= offset && offset < at + 80, "damage at {offset}, reported at {at}");
                    true
                }
                other => panic!("damage at {offset}: {other:?}"),
            };
            let harmed: Vec<u64> = (0..20).filter(is_harmed).collect();
            // The record after a lost one identifies the lost key; the last record has none after
            // it.
            assert!(harmed.len() == 1 || harmed.contains(&19), "damage at {offset}: {harmed:?}");
            // The next checkpoint neither fails nor loses the log.
            db.sync().unwrap();
            assert!(db.get(workload::key(harmed[0])).is_err());
        }
    }
    println!("{} damaged logs checked", 2 * (len - 64));
}
