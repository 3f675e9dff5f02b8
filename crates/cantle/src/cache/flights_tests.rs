//! Threads that need one block of a file at the same time, over a file system that counts reads and
//! holds them.

use super::flights::Flights;
use super::{BlockCache, CacheValue};
use crate::sync::Arc;
use crate::sync::thread::yield_now;
use crate::vfs::{Failure, FaultVfs, Held, MemVfs, OpenMode, Operation, StallVfs, Verdict, Vfs, VfsFile};
use bytes::Bytes;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const READERS: usize = 8;

/// A file of 8 KiB whose reads are counted, and can be held or fail.
fn file() -> (FaultVfs, StallVfs, Arc<dyn VfsFile>) {
    let fault = FaultVfs::new(Arc::new(MemVfs::new()));
    let stall = StallVfs::new(Arc::new(fault.clone()));
    let file = stall.open(Path::new("file"), OpenMode::CreateNew).unwrap();
    file.write_at(&[7; 8192], 0).unwrap();
    (fault, stall, file)
}

fn load(cache: &BlockCache, file: &dyn VfsFile, offset: u64) -> io::Result<CacheValue> {
    cache.get_or_load(3, offset, || {
        let mut buffer = vec![0; 4096];
        file.read_exact_at(&mut buffer, offset)?;
        Ok(CacheValue::Bytes(Bytes::from(buffer)))
    })
}

/// Makes all readers miss the same block while the first of them reads; returns their outcomes.
fn meet(cache: &BlockCache, stall: &StallVfs, file: &dyn VfsFile) -> Vec<io::Result<CacheValue>> {
    let held = stall.stall(Held::Before, |call| call.operation == Operation::ReadAt && call.offset == 0);
    let missed = cache.misses();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(|| load(cache, file, 0))).collect();
        assert!(held.wait(1, LIMIT));
        while cache.misses() < missed + READERS as u64 {
            yield_now();
        }
        // A reader of another block does not wait.
        load(cache, file, 4096).unwrap();
        assert_eq!(held.held(), 1, "the others wait for the one that reads");
        drop(held);
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    })
}

#[test]
fn readers_that_miss_the_same_block_read_it_once() {
    // With a cache that keeps the block, and with one that does not.
    for capacity_bytes in [1 << 20, 0] {
        let (fault, stall, file) = file();
        let cache = BlockCache::new(capacity_bytes);
        for outcome in meet(&cache, &stall, &*file) {
            assert!(matches!(outcome, Ok(CacheValue::Bytes(bytes)) if bytes == vec![7; 4096]));
        }
        assert_eq!(fault.count(Operation::ReadAt), 2, "of the two blocks one each");
        assert_eq!(cache.shared.flights.under_way(), 0);
    }
}

#[test]
fn who_waited_for_a_read_that_fails_reads_for_himself() {
    let (fault, stall, file) = file();
    let cache = BlockCache::new(1 << 20);
    // The first read of the block fails. It is held, so another block's read comes before it.
    fault.set_rule(|call| {
        let is_first = call.operation == Operation::ReadAt && call.offset == 0 && call.number_of_kind <= 1;
        if is_first { Verdict::Fail(Failure::EIO) } else { Verdict::Pass }
    });
    let outcomes = meet(&cache, &stall, &*file);
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_err()).count(), 1, "one reader's read failed");
    fault.clear_rule();
    let reads = fault.count(Operation::ReadAt);
    load(&cache, &*file, 0).unwrap();
    assert_eq!(fault.count(Operation::ReadAt), reads, "what was read is cached");
    assert_eq!(cache.shared.flights.under_way(), 0);
}

#[test]
fn a_load_that_panics_leaves_nobody_waiting() {
    let flights = Flights::<u64, u64>::default();
    let (begin, begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let flights = &flights;
        scope.spawn(move || {
            let load = || -> Result<u64, ()> {
                begin.send(()).unwrap();
                while flights.waiting(&1) == 0 {
                    yield_now();
                }
                panic!("as the test wants it")
            };
            catch_unwind(AssertUnwindSafe(|| flights.load(&1, || None, load, |_| {}))).unwrap_err();
        });
        begun.recv().unwrap();
        assert_eq!(flights.load(&1, || None, || Ok::<_, ()>(5), |_| {}), Ok(5));
    });
    assert_eq!(flights.under_way(), 0);
}
