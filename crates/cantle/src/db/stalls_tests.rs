//! Every cause of a stall, produced on purpose.

use super::{Db, Options, WriteStalls};
use crate::layout::options::FlsmOptions;
use crate::sync::Arc;
use crate::sync::thread::{JoinHandle, sleep, spawn};
use crate::sync::waits::{Cause, test_support::on_wait};
use crate::types::durability::Durability;
use crate::vfs::{Call, Held, MemVfs, Operation, Stall, StallVfs};
use crate::{ChunkOptions, KeyspaceOptions, LayoutKind};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// The least duration of a stall.
const STALL: Duration = Duration::from_millis(1);
/// A call that is awaited for this long is never made.
const LIMIT: Duration = Duration::from_secs(60);

fn layouts() -> [KeyspaceOptions; 2] {
    let options = KeyspaceOptions::new();
    [options.clone().layout(ChunkOptions::new().munks(false)), options.layout(FlsmOptions::new())]
}

/// A store on a disk that can be made to hang.
fn open(keyspace: KeyspaceOptions, durability: Durability) -> (Db, StallVfs) {
    let disk = StallVfs::new(Arc::new(MemVfs::new()));
    let options = Options::new().vfs(Arc::new(disk.clone())).durability(durability);
    // No checkpoint takes a lock meanwhile.
    let options = options.checkpoint_interval(Duration::from_secs(3600)).default_keyspace(keyspace);
    (options.open("store").unwrap(), disk)
}

fn stalls(db: &Db) -> WriteStalls {
    db.stats().write_stalls
}

/// Numbers of stalls: brake, lock, allocation, device.
fn counts(db: &Db) -> [u64; 4] {
    let WriteStalls { brake, lock, allocation, device } = stalls(db);
    [brake, lock, allocation, device].map(|stalls| stalls.count)
}

fn is_log(call: &Call<'_>) -> bool {
    call.path.extension().is_some_and(|name| name == "log")
}

/// Puts in another thread while the disk holds a call, and lets the put go on after the time of a stall.
fn put_while_held(db: &Db, stall: Stall, value: Vec<u8>) {
    let put = {
        let db = db.clone();
        spawn("put", move || db.put("key", value).unwrap()).unwrap()
    };
    assert!(stall.wait(1, LIMIT), "the disk is not called");
    sleep(2 * STALL);
    drop(stall);
    put.join().unwrap();
}

/// A put in another thread that waits for this cause now.
fn waiting_put(db: &Db, cause: Cause) -> JoinHandle<()> {
    let (db, (arrive, arrived)) = (db.clone(), channel());
    let put = spawn("put", move || {
        on_wait(move |cause| arrive.send(cause).unwrap_or_default());
        db.put("key", "value").unwrap();
    });
    assert_eq!(arrived.recv(), Ok(cause));
    put.unwrap()
}

/// A put that waits for nothing reads no clock but for its own duration.
#[test]
fn waits_of_small_puts_are_not_measured() {
    for keyspace in layouts() {
        let (db, _) = open(keyspace, Durability::Process);
        // The log and its slot of the write buffer.
        (0..10).for_each(|_| db.put("key", "value").unwrap());
        let measured = Rc::new(RefCell::new(Vec::new()));
        let seen = measured.clone();
        on_wait(move |cause| seen.borrow_mut().push(cause));
        (0..100).for_each(|number| db.put(format!("key {number}"), "value").unwrap());
        on_wait(|_| {});
        // Maintenance may hold a lock for a moment.
        measured.borrow_mut().retain(|cause| *cause != Cause::Lock);
        assert_eq!(*measured.borrow(), []);
    }
}

#[test]
fn a_delay_of_the_brake_is_a_stall() {
    for keyspace in layouts() {
        let (db, _) = open(keyspace, Durability::Process);
        let throttle = &db.handle.store.substrate.throttle;
        // Maintenance, which has nothing to do, may release the brake in between.
        for _ in 0..100 {
            throttle.set(u64::MAX);
            db.put("key", "value").unwrap();
            throttle.set(0);
            if counts(&db)[0] > 0 {
                break;
            }
        }
        let stats = db.stats();
        let brake = stats.write_stalls.brake;
        assert!(brake.count == 1 && brake.total >= STALL && brake.longest == brake.total, "{brake:?}");
        // This is the delay that the brake chose; the thread may have slept longer.
        assert_eq!(stats.write_delay_longest, Duration::from_millis(20));
        assert_eq!(stats.write_delay_total, Duration::from_millis(20));
        assert!(brake.longest >= stats.write_delay_longest);
    }
}

#[test]
fn the_longest_delay_of_the_brake_is_no_sum() {
    let (db, _) = open(KeyspaceOptions::new(), Durability::Process);
    let throttle = &db.handle.store.substrate.throttle;
    [300_000, 700_000, 200_000].into_iter().for_each(|nanos| throttle.owe(nanos));
    let stats = db.stats();
    assert_eq!(stats.write_delays, 3);
    assert_eq!(stats.write_delay_longest, Duration::from_nanos(700_000));
    assert_eq!(stats.write_delay_total, Duration::from_nanos(1_200_000));
}

#[test]
fn a_put_that_waits_for_space_is_stalled_by_the_brake() {
    let (db, _) = open(KeyspaceOptions::new(), Durability::Process);
    let pause = db.handle.store.substrate.reserve.pause_puts_for_test();
    let put = waiting_put(&db, Cause::Brake);
    sleep(2 * STALL);
    drop(pause);
    put.join().unwrap();
    assert_eq!(counts(&db)[0], 1);
    assert_eq!(db.stats().write_delays, 0, "it is no delay by the lag of maintenance");
}

/// Puts in another thread while `held` is there, and drops it after the time of a stall.
fn put_while_locked<H>(db: &Db, held: H) {
    let put = waiting_put(db, Cause::Lock);
    sleep(2 * STALL);
    drop(held);
    put.join().unwrap();
}

#[test]
fn a_lock_of_the_same_key_or_chunk_is_a_stall() {
    for keyspace in layouts() {
        let (db, disk) = open(keyspace, Durability::Process);
        db.put("key", "value").unwrap();
        let before = stalls(&db).lock.count;
        let stall = disk.stall(Held::Before, |call| call.operation == Operation::WriteAt && is_log(call));
        let first = {
            let db = db.clone();
            // Too long for the write buffer.
            spawn("put", move || db.put("key", [1; 100_000]).unwrap()).unwrap()
        };
        assert!(stall.wait(1, LIMIT));
        put_while_locked(&db, stall);
        first.join().unwrap();
        let lock = stalls(&db).lock;
        assert!(lock.count > before && lock.longest >= STALL && lock.total >= lock.longest, "{lock:?}");
    }
}

#[test]
fn a_file_that_a_writer_creates_is_an_allocation() {
    for keyspace in layouts() {
        let (db, disk) = open(keyspace, Durability::Process);
        let stall = disk.stall(Held::Before, |call| call.operation == Operation::Create && is_log(call));
        put_while_held(&db, stall, vec![1; 10]);
        let allocation = stalls(&db).allocation;
        assert!(allocation.count == 1 && allocation.longest >= STALL, "{allocation:?}");
    }
}

/// One writer creates the log; the other one waits for it.
#[test]
fn a_log_that_another_writer_creates_is_waited_for_as_a_lock() {
    let [_, flsm] = layouts();
    let (db, disk) = open(flsm, Durability::Process);
    let stall = disk.stall(Held::Before, |call| call.operation == Operation::Create && is_log(call));
    let first = {
        let db = db.clone();
        spawn("put", move || db.put("another", "value").unwrap()).unwrap()
    };
    assert!(stall.wait(1, LIMIT));
    put_while_locked(&db, stall);
    first.join().unwrap();
    let [_, lock, allocation, _] = counts(&db);
    assert!(lock >= 1 && allocation >= 1, "{lock} and {allocation}");
}

#[test]
fn a_journal_that_has_no_room_left_is_an_allocation() {
    let (db, disk) = open(KeyspaceOptions::new(), Durability::Sync);
    db.put("key", "value").unwrap();
    let before = counts(&db)[2];
    let is_journal = |call: &Call<'_>| call.path.to_string_lossy().contains(".journal");
    let stall =
        disk.stall(Held::Before, move |call| call.operation == Operation::Allocate && is_journal(call));
    // More than a step of its growth.
    put_while_held(&db, stall, vec![1; 3 << 20]);
    assert_eq!(counts(&db)[2], before + 1);
}

#[test]
fn a_slow_append_to_a_log_is_a_stall_of_the_device() {
    for keyspace in layouts() {
        let (db, disk) = open(keyspace, Durability::Process);
        db.put("key", "value").unwrap();
        let before = counts(&db)[3];
        let stall = disk.stall(Held::Before, |call| call.operation == Operation::WriteAt && is_log(call));
        // Too long for the write buffer.
        put_while_held(&db, stall, vec![1; 100_000]);
        assert_eq!(counts(&db)[3], before + 1);
    }
}

#[test]
fn a_slow_sync_of_the_journal_is_a_stall_of_the_device() {
    for keyspace in layouts() {
        let (db, disk) = open(keyspace, Durability::Sync);
        db.put("key", "value").unwrap();
        let before = stalls(&db).device;
        let stall = disk.stall(Held::Before, |call| call.operation == Operation::SyncData);
        put_while_held(&db, stall, vec![1; 10]);
        let after = stalls(&db).device;
        assert_eq!(after.count, before.count + 1);
        assert!(after.longest >= STALL && after.total >= before.total + STALL, "{after:?}");
    }
}

#[test]
fn waits_of_maintenance_are_no_stalls() {
    let (db, disk) = open(KeyspaceOptions::new().layout(LayoutKind::Flsm), Durability::Process);
    db.put("key", "value").unwrap();
    let before = stalls(&db);
    let stall = disk.stall(Held::Before, |call| call.operation == Operation::SyncData);
    let sync = {
        let db = db.clone();
        spawn("sync", move || db.sync().unwrap()).unwrap()
    };
    assert!(stall.wait(1, LIMIT));
    sleep(2 * STALL);
    drop(stall);
    sync.join().unwrap();
    assert_eq!(stalls(&db), before);
}
