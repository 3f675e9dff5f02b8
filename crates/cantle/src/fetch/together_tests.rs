//! Gets that follow chains of places in a file: what they read together, and what they leave behind.

use super::{Fetch, Many, Place, Together, Unfetched};
use crate::cache::{BlockCache, CacheValue};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{Failure, FaultVfs, MemVfs, OpenMode, Operation, ReadQueue, Verdict, Vfs, VfsFile};
use bytes::Bytes;
use std::cell::Cell;
use std::path::Path;

const PLACES: u64 = 1000;
const LEN: u64 = 8;

fn value(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
}

fn number_in(value: Option<Bytes>) -> u64 {
    u64::from_le_bytes(value.unwrap()[..8].try_into().unwrap())
}

/// A file of places, each of which has its number.
struct World {
    vfs: FaultVfs,
    file: Arc<dyn VfsFile>,
    cache: BlockCache,
    steps: AtomicU64,
}

impl World {
    fn new(cache_bytes: u64) -> Self {
        let vfs = FaultVfs::new(Arc::new(MemVfs::new()));
        let file = vfs.open(Path::new("file"), OpenMode::CreateNew).unwrap();
        (0..PLACES).for_each(|number| file.write_at(&number.to_le_bytes(), number * LEN).unwrap());
        Self { vfs, file, cache: BlockCache::new(cache_bytes), steps: AtomicU64::new(0) }
    }

    fn read(&self, number: u64) -> Result<Bytes> {
        let mut bytes = vec![0; LEN as usize];
        let read = self.file.read_exact_at(&mut bytes, number * LEN);
        read.map_err(|error| Error::io(Attempt::Read, Path::new("file"), error))?;
        Ok(bytes.into())
    }

    /// Reads three places, the first two through the cache.
    fn get(&self, number: u64, fetch: &impl Fetch<Stop = Unfetched>) -> Result<Option<Bytes>, Unfetched> {
        self.steps.fetch_add(1, SeqCst);
        let bytes = |number: u64| {
            let place = Place { file: 1, offset: number * LEN, len: LEN };
            fetch.bytes(place, || Ok(self.file.clone()), || self.read(number))
        };
        let cached = |number| -> Result<Bytes, Unfetched> {
            let load = || Ok(CacheValue::Bytes(bytes(number)?));
            match fetch.entry(&self.cache, 1, number * LEN, load)? {
                CacheValue::Bytes(bytes) => Ok(bytes),
                CacheValue::Block(_) => unreachable!("no blocks here"),
            }
        };
        let number_of = |bytes: Bytes| u64::from_le_bytes(bytes[..].try_into().unwrap());
        // Many keys share the first place, few the second.
        let first = number_of(cached(0)?);
        let second = number_of(cached(first + 1 + number % 7)?);
        Ok(Some(value(number_of(bytes(second + 100 + number)?) - second)))
    }

    fn run(&self, numbers: u64, mut answer: impl FnMut(usize, Result<u64>)) {
        let many = Many {
            queue: &ReadQueue::of_hints(),
            together: |number: &u64, fetch: &Together| self.get(*number, fetch),
            apart: |number: &u64| self.read(*number).map(|_| Some(value(u64::MAX))),
        };
        many.run(0..numbers, |at, found| answer(at, found.map(number_in)));
    }
}

#[test]
fn gets_read_in_as_many_passes_as_their_chains_are_long_and_each_place_once() {
    // With a cache that keeps what was read, and with one that keeps nothing.
    for cache_bytes in [1 << 20, 0] {
        let world = World::new(cache_bytes);
        let mut found = vec![None; 50];
        world.run(50, |at, number| found[at] = Some(number.unwrap()));
        assert!(found.iter().zip(100..).all(|(found, number)| *found == Some(number)), "{found:?}");
        // The first place, seven second ones, and one for each key.
        assert_eq!(world.vfs.count(Operation::ReadAt), 1 + 7 + 50);
        assert_eq!(world.steps.load(SeqCst), 4 * 50);
        // The first place of each pass is read at once.
        assert_eq!(world.vfs.count(Operation::Prefetch), 6 + 49);
    }
}

#[test]
fn no_more_gets_wait_than_the_maximum_and_no_key_is_left_out() {
    let world = World::new(1 << 20);
    let (answers, sum) = (Cell::new(0), Cell::new(0));
    world.run(500, |_, found| {
        answers.set(answers.get() + 1);
        sum.set(sum.get() + found.unwrap());
    });
    assert_eq!((answers.get(), sum.get()), (500, (100..600).sum()));
    assert_eq!(world.vfs.count(Operation::ReadAt), 1 + 7 + 500);
}

#[test]
fn a_failed_read_is_repeated_by_its_gets_alone() {
    let world = World::new(1 << 20);
    let third = |number: u64| (number + 100 + 1 + number % 7) * LEN;
    let (ever, once) = (third(20), third(21));
    let calls = AtomicU64::new(0);
    world.vfs.set_rule(move |call| {
        let fails = call.operation == Operation::ReadAt
            && (call.offset == ever || call.offset == once && calls.fetch_add(1, SeqCst) == 0);
        if fails { Verdict::Fail(Failure::EIO) } else { Verdict::Pass }
    });
    let mut failed = Vec::new();
    world.run(40, |at, found| match found {
        Ok(number) => assert_eq!(number, at as u64 + 100),
        Err(_) => failed.push(at),
    });
    assert_eq!(failed, [20]);
}

#[test]
fn whoever_reads_an_answer_may_read_what_others_wait_for() {
    let world = World::new(1 << 20);
    // Answers come in several passes, as only some of the second places are cached.
    world.run(10, |_, found| assert!(found.is_ok()));
    for number in [3, 5] {
        world.cache.forget(&[1]);
        world.run(number, |_, found| assert!(found.is_ok()));
        let mut answers = 0;
        world.run(60, |_, found| {
            assert!(found.is_ok());
            answers += 1;
            // The same places, by the cache alone: a load that the batch leads would never end.
            for number in 0..9 {
                let load = || Ok::<_, Error>(CacheValue::Bytes(world.read(number)?));
                world.cache.get_or_load(1, number * LEN, load).unwrap();
            }
        });
        assert_eq!(answers, 60);
    }
}

#[test]
fn a_batch_waits_for_the_load_of_another_thread_and_takes_its_result() {
    let world = World::new(1 << 20);
    let reads = world.vfs.count(Operation::ReadAt);
    let loading = world.cache.begin_load(1, 0).unwrap();
    std::thread::scope(|scope| {
        let batch = scope.spawn(|| {
            let mut found = 0;
            world.run(10, |_, number| found += u64::from(number.is_ok()));
            found
        });
        while world.steps.load(SeqCst) < 11 {
            std::thread::yield_now();
        }
        loading.end(&CacheValue::Bytes(world.read(0).unwrap()));
        assert_eq!(batch.join().unwrap(), 10);
    });
    assert_eq!(world.vfs.count(Operation::ReadAt) - reads, 1 + 7 + 10, "the first place was read here");
}

#[test]
fn a_long_read_is_made_apart() {
    let world = World::new(1 << 20);
    let many = Many {
        queue: &ReadQueue::of_hints(),
        together: |_: &u64, fetch: &Together| {
            let place = Place { file: 1, offset: 0, len: 1 << 30 };
            fetch.bytes(place, || Ok(world.file.clone()), || world.read(0)).map(Some)
        },
        apart: |number: &u64| Ok(Some(value(number + 1000))),
    };
    let mut found = Vec::new();
    many.run([4, 5], |at, number| found.push((at, number_in(number.unwrap()))));
    assert_eq!(found, [(0, 1004), (1, 1005)]);
}

#[test]
fn a_get_whose_files_change_all_the_time_ends() {
    let world = World::new(1 << 20);
    let calls = Cell::new(0);
    let many = Many {
        queue: &ReadQueue::of_hints(),
        together: |_: &u64, fetch: &Together| {
            calls.set(calls.get() + 1);
            let place = Place { file: 1, offset: calls.get() * LEN, len: LEN };
            fetch.bytes(place, || Ok(world.file.clone()), || world.read(0))?;
            Ok(None)
        },
        apart: |_: &u64| Ok(Some(value(1))),
    };
    let mut found = Vec::new();
    many.run([9], |_, number| found.push(number_in(number.unwrap())));
    assert_eq!(found, [1]);
    assert!(calls.get() <= 101);
}

#[test]
fn gets_that_fail_after_a_request_leave_no_key_without_an_answer() {
    let world = World::new(1 << 20);
    let many = Many {
        queue: &ReadQueue::of_hints(),
        together: |number: &u64, fetch: &Together| {
            let place = Place { file: 1, offset: number * 4096, len: 4096 };
            let read = fetch.bytes(place, || Ok(world.file.clone()), || world.read(0));
            assert!(matches!(read, Err(Unfetched::Requested)));
            Err(Error::Closed.into())
        },
        apart: |_: &u64| Ok(None),
    };
    let mut answers = 0;
    many.run(0..300, |_, found| {
        assert!(matches!(found, Err(Error::Closed)));
        answers += 1;
    });
    assert_eq!(answers, 300);
}

#[test]
fn few_long_results_are_in_memory_at_a_time() {
    const VALUE_BYTES: usize = 300 << 10;
    let world = World::new(1 << 20);
    let alive = Arc::new(AtomicU64::new(0));
    struct Counted(Vec<u8>, Arc<AtomicU64>);
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.fetch_sub(1, SeqCst);
        }
    }
    let many = Many {
        queue: &ReadQueue::of_hints(),
        together: |number: &u64, fetch: &Together| {
            let place = Place { file: 1, offset: number * LEN, len: LEN };
            fetch.bytes(place, || Ok(world.file.clone()), || world.read(*number))?;
            alive.fetch_add(1, SeqCst);
            Ok(Some(Bytes::from_owner(Counted(vec![0; VALUE_BYTES], alive.clone()))))
        },
        apart: |_: &u64| Ok(None),
    };
    let mut answers = 0;
    many.run(0..100, |_, found| {
        assert_eq!(found.unwrap().unwrap().len(), VALUE_BYTES);
        assert!(alive.load(SeqCst) <= 2, "{} results", alive.load(SeqCst));
        answers += 1;
    });
    assert_eq!(answers, 100);
}

#[test]
fn gets_that_need_more_than_a_batch_holds_are_made_apart() {
    let world = World::new(1 << 20);
    let apart = Cell::new(0);
    let many = Many {
        queue: &ReadQueue::of_hints(),
        together: |number: &u64, fetch: &Together| {
            for step in 0..4 {
                let place = Place { file: *number, offset: step << 20, len: 60 << 10 };
                fetch.bytes(place, || Ok(world.file.clone()), || world.read(0))?;
            }
            Ok(None)
        },
        apart: |_: &u64| {
            apart.set(apart.get() + 1);
            Ok(None)
        },
    };
    let mut answers = 0;
    many.run(0..100, |_, found| {
        assert!(found.unwrap().is_none());
        answers += 1;
    });
    assert_eq!(answers, 100);
}
