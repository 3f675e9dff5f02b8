//! The tail of a log against a vector of bytes, for each place where appends may wait. A reader
//! finds every byte that counts in the tail or in the file, whichever calls fail, and no byte that
//! was truncated.

use crate::files::{Files, Promise, Space, StoreFile};
use crate::format::header::{FileKind, HEADER_BYTES};
use crate::log::LogMemory;
use crate::log::tail::write_buffer::WriteBuffer;
use crate::log::tail::{Tail, TailMemory};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use crate::sync::{Arc, thread};
use crate::vfs::{Failure, FaultVfs, MemVfs, Operation, Verdict, Vfs};
use proptest::prelude::*;
use std::path::Path;

/// The place where appends wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Nowhere,
    Slot,
    Memory,
}

#[derive(Debug, Clone)]
enum Step {
    /// An append, and whether it is truncated again.
    Append {
        len: usize,
        stays: bool,
        undo: bool,
    },
    /// Bytes that do not wait, like the index of a part.
    WriteBehind(usize),
    Drain,
    Release,
    /// The next call of this kind on the file fails; a write fails after `bytes` bytes.
    FailNext {
        shortens: bool,
        bytes: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![1..300usize, 2000..5000usize, 9_000..30_000usize];
    let append = (len.clone(), any::<bool>(), prop::bool::weighted(0.2))
        .prop_map(|(len, stays, undo)| Step::Append { len, stays, undo });
    let fail = (any::<bool>(), 0..400usize).prop_map(|(shortens, bytes)| Step::FailNext { shortens, bytes });
    let step = prop_oneof![
        8 => append,
        1 => len.prop_map(Step::WriteBehind),
        2 => Just(Step::Drain),
        1 => Just(Step::Release),
        2 => fail,
    ];
    proptest::collection::vec(step, 1..60)
}

struct Model {
    fault: FaultVfs,
    memory: Arc<LogMemory>,
    write_buffer: Option<Arc<WriteBuffer>>,
    file: Arc<StoreFile>,
    tail: Tail,
    /// The log, and the ends of its appends: a drain writes whole appends, and a reader asks for
    /// one append at a time.
    log: Vec<u8>,
    ends: Vec<usize>,
    appends: u8,
}

const DIR: &str = "/store";

impl Model {
    fn new(waits: Waits) -> Self {
        let disk = MemVfs::new();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        let fault = FaultVfs::over_memory(disk);
        let files = Arc::new(Files::new(Arc::new(fault.clone()), DIR.into(), 77, 3, 1));
        // Some of the written bytes stay in memory, the oldest leave it.
        let memory = Arc::new(LogMemory::new(4 << 20));
        let write_buffer = (waits == Waits::Slot)
            .then(|| Arc::new(WriteBuffer::create(files.clone(), memory.clone()).unwrap().unwrap()));
        let (file, handle, header) = files.create(FileKind::Log, 1, 0).unwrap();
        handle.write_at(&header.encode(), 0).unwrap();
        let tail = match waits {
            Waits::Memory => {
                let promise = Promise::none(Arc::new(Space::unknown()));
                Tail::in_memory(file.clone(), memory.clone(), promise)
            }
            _ => Tail::new(file.clone(), memory.clone()),
        };
        let log = header.encode().to_vec();
        let ends = vec![log.len()];
        Self { fault, memory, write_buffer, file, tail, log, ends, appends: 0 }
    }

    fn end(&self) -> u64 {
        self.log.len() as u64
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.appends = self.appends.wrapping_add(1);
        (0..len).map(|place| (place as u8).wrapping_mul(3).wrapping_add(self.appends)).collect()
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.log.extend(bytes);
        self.ends.push(self.log.len());
    }

    /// Truncates to the end; false if the log must not be appended to any more.
    fn take_back(&self) -> bool {
        self.tail.truncate(self.end()).is_ok() || {
            self.fault.clear_rule();
            self.tail.zero_tail(self.end()).unwrap();
            false
        }
    }

    /// False if the log must not be appended to any more.
    fn step(&mut self, step: &Step) -> bool {
        let end = self.end();
        match *step {
            Step::Append { len, stays, undo } => {
                let bytes = self.bytes(len);
                let places = TailMemory { write_buffer: self.write_buffer.as_ref(), stays };
                if self.tail.append(places, (&bytes, 1), end).is_err() {
                    return self.take_back();
                }
                // Like a concurrent checkpoint, for which only the bytes before the end count.
                let _ = self.tail.drain(end);
                if undo {
                    return self.take_back();
                }
                self.extend(&bytes);
            }
            Step::WriteBehind(len) => {
                let bytes = self.bytes(len);
                if self.tail.drain(end).is_err() {
                    return true;
                }
                if self.tail.write_behind(&bytes, end).is_err() {
                    return self.take_back();
                }
                self.extend(&bytes);
            }
            Step::Drain => {
                let _ = self.tail.drain(end);
            }
            Step::Release => {
                if self.tail.release(end).is_ok() {
                    assert_eq!(self.in_file(0, self.log.len()), self.log, "all is in the file");
                    assert_eq!(self.tail.in_memory_bytes(), 0);
                }
            }
            Step::FailNext { shortens, bytes } => self.fail_next(shortens, bytes),
        }
        true
    }

    fn fail_next(&self, shortens: bool, bytes: usize) {
        let failed = AtomicBool::new(false);
        let path = self.file.path.clone();
        self.fault.set_rule(move |call| {
            let is_meant = match call.operation {
                Operation::SetLen => shortens,
                Operation::WriteAt => true,
                _ => false,
            };
            // Once for each kind: a failed write is truncated by the next call.
            if call.path != path || !is_meant || (!shortens && failed.swap(true, Relaxed)) {
                return Verdict::Pass;
            }
            Verdict::ShortWrite { bytes, failure: Failure::ENOSPC }
        });
    }

    fn in_file(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.file.handle().unwrap().read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    fn check(&self) {
        for append in self.ends.windows(2).map(|ends| ends[0]..ends[1]) {
            for at in [append.start, append.start + append.len() / 3, append.end - 1] {
                let len = append.end - at;
                let bytes = self.tail.read(at as u64, len).unwrap_or_else(|| self.in_file(at as u64, len));
                assert!(bytes == self.log[at..append.end], "{len} bytes at {at}");
            }
        }
        let end = self.end();
        assert_eq!(self.tail.read(end, 1), None, "nothing lies behind the end");
        assert_eq!(self.tail.read(u64::MAX, 2), None);
    }
}

fn run(waits: Waits, steps: &[Step]) {
    let mut model = Model::new(waits);
    for step in steps {
        let goes_on = model.step(step);
        model.check();
        if !goes_on {
            break;
        }
    }
    // A checkpoint, on a disk that works again.
    model.fault.clear_rule();
    model.tail.release(model.end()).unwrap();
    let handle = model.file.handle().unwrap();
    assert_eq!(model.in_file(0, model.log.len()), model.log);
    let behind = model.in_file(model.end(), (handle.len().unwrap() - model.end()) as usize);
    assert!(behind.iter().all(|&byte| byte == 0), "a record that was taken back is in the file");
    model.check();
    let recent_bytes = model.memory.recent.bytes();
    assert!(recent_bytes <= model.memory.recent_limit_bytes(), "{recent_bytes}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn appends_that_are_written_at_once_equal_a_vector(steps in steps()) {
        run(Waits::Nowhere, &steps);
    }

    #[test]
    fn appends_that_wait_in_the_write_buffer_equal_a_vector(steps in steps()) {
        run(Waits::Slot, &steps);
    }

    #[test]
    fn appends_that_wait_in_memory_equal_a_vector(steps in steps()) {
        run(Waits::Memory, &steps);
    }
}

#[test]
fn readers_beside_a_writer_find_what_counts() {
    const APPENDS: u64 = 3_000;
    // Short appends, and now and then one that is longer than a slot.
    let len_of = |append: u64| if append % 50 == 49 { 20_000 } else { 90 };
    let place_of = |append: u64| HEADER_BYTES + append * 90 + append / 50 * (20_000 - 90);
    let bytes_of = |append: u64| vec![append as u8; len_of(append)];
    for waits in [Waits::Nowhere, Waits::Slot, Waits::Memory] {
        let Model { write_buffer, file, tail, .. } = Model::new(waits);
        let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for reader in 0..2 {
                let (done, over, tail, file) = (&done, &over, &tail, &file);
                scope.spawn(move || {
                    for round in reader.. {
                        if over.load(Acquire) {
                            break;
                        }
                        let append = done.load(Acquire).saturating_sub(1 + round * 7919 % 300);
                        if append == 0 {
                            continue;
                        }
                        let bytes = tail.read(place_of(append), len_of(append)).unwrap_or_else(|| {
                            let mut bytes = vec![0; len_of(append)];
                            file.handle().unwrap().read_exact_at(&mut bytes, place_of(append)).unwrap();
                            bytes
                        });
                        assert!(bytes == bytes_of(append), "{waits:?}");
                    }
                });
            }
            // Concurrent checkpoints, some of which find many waiting bytes.
            scope.spawn(|| {
                while !over.load(Acquire) {
                    let end = place_of(done.load(Acquire));
                    tail.release(end).unwrap();
                    (0..1000).for_each(|_| thread::yield_now());
                }
            });
            for append in 0..APPENDS {
                let end = place_of(append);
                let places = TailMemory { write_buffer: write_buffer.as_ref(), stays: append % 3 > 0 };
                if append % 5 == 0 {
                    tail.append(places, (&[255; 40], 1), end).unwrap();
                    tail.truncate(end).unwrap();
                }
                tail.append(places, (&bytes_of(append), 1), end).unwrap();
                done.store(append + 1, Release);
            }
            over.store(true, Release);
        });
    }
}
