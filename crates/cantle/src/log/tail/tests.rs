//! The tail of a log: at any moment of a kill, file and write buffer together have every append
//! that returned and was not truncated. Bytes that were written lately read the same from memory as
//! from the file.

use crate::files::{Files, StoreFile};
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::log::LogMemory;
use crate::log::tail::write_buffer::{WriteBuffer, recover};
use crate::log::tail::{Tail, TailMemory};
use crate::records::{RecordFile, encode_record, record_payload};
use crate::sync::{Arc, Mutex, random};
use crate::vfs::{FaultVfs, MemVfs, OpenMode, Verdict, Vfs, VfsFile};
use std::path::Path;

const DIR: &str = "/store";
const STORE: u128 = 77;
const EPOCH: u64 = 3;

/// A log, and its appends in order.
struct Log {
    file: Arc<StoreFile>,
    header: FileHeader,
    tail: Tail,
    end: u64,
    records: Records,
}

fn recover_write_buffer(image: &dyn Vfs) {
    let header_of = |file: &dyn VfsFile, path: &Path| FileHeader::read(file, path, FileKind::Log);
    // A record that is being written when the process dies is whole or does not count: it is never
    // damage.
    let mut damaged = |error| panic!("{error}");
    recover(image, Path::new(DIR), (STORE, EPOCH), &header_of, &mut damaged).unwrap();
}

impl Log {
    fn create(files: &Arc<Files>, memory: &Arc<LogMemory>) -> Self {
        let (file, handle, header) = files.create(FileKind::Log, 1, 0).unwrap();
        handle.write_at(&header.encode(), 0).unwrap();
        let tail = Tail::new(file.clone(), memory.clone());
        Self { file, header, tail, end: HEADER_BYTES, records: Vec::new() }
    }

    /// Appends without acknowledging.
    fn append(&self, write_buffer: &Arc<WriteBuffer>, content: u8, len: usize) -> u64 {
        let mut bytes = Vec::new();
        encode_record(&self.header, self.end, (0, len), &mut bytes, |out| {
            out.extend(std::iter::repeat_n(content, len));
        });
        // Some records are not read from the log.
        let places = TailMemory { write_buffer: Some(write_buffer), stays: content > 20 };
        self.tail.append(places, (&bytes, 1), self.end).unwrap();
        self.end + bytes.len() as u64
    }
}

/// The content of each record, and its end.
type Records = Vec<(u8, u64)>;

/// The acknowledged records of the logs, and the number of the log in use.
#[derive(Default)]
struct Acknowledged {
    logs: Vec<(u64, FileHeader, Records)>,
    busy: u64,
}

impl Acknowledged {
    fn note(&mut self, logs: &[Log]) {
        self.logs = logs.iter().map(|log| (log.file.id, log.header, log.records.clone())).collect();
    }
}

/// Checks the state that a kill would leave before each call that changes something; counts these
/// calls.
fn check_each_change(
    fault: &FaultVfs,
    memory: &MemVfs,
    acknowledged: &Arc<Mutex<Acknowledged>>,
    seed: u64,
) -> Arc<crate::sync::atomic::AtomicU64> {
    let (noted, images) = (acknowledged.clone(), Arc::new(crate::sync::atomic::AtomicU64::new(0)));
    let (counted, memory) = (images.clone(), memory.clone());
    fault.set_rule(move |call| {
        if call.operation.changes() {
            counted.fetch_add(1, crate::sync::atomic::Ordering::Relaxed);
            let context =
                format!("seed {seed}, {:?} {} at {}", call.operation, call.path.display(), call.offset);
            check(&memory.kill(), &noted.lock(), &context);
        }
        Verdict::Pass
    });
    images
}

fn check(image: &MemVfs, acknowledged: &Acknowledged, context: &str) {
    recover_write_buffer(image);
    // Recovering twice changes nothing.
    recover_write_buffer(image);
    for (id, header, records) in &acknowledged.logs {
        let path = Path::new(DIR).join(crate::files::file_name(FileKind::Log, *id));
        let file = image.open(&path, OpenMode::Read).unwrap();
        let end = file.len().unwrap();
        let log = RecordFile { file, path, header: *header };
        let mut scan = log.scan(0, end);
        for (content, record_end) in records {
            let record = scan.next().unwrap_or_else(|error| panic!("{context}: {error}"));
            let record = record.unwrap_or_else(|| panic!("{context}: log {id} ends before {record_end}"));
            assert!(record.payload.iter().all(|byte| byte == content), "{context}: log {id} at {record_end}");
            assert_eq!(scan.offset(), *record_end, "{context}");
        }
        if acknowledged.busy != *id {
            let more = scan.next().unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(more.is_none(), "{context}: log {id} has what was taken back");
        }
    }
}

fn run(seed: u64) -> [u64; 3] {
    let mut random = random::Rng::new(seed);
    let mut below = |bound: u64| random.below(bound);
    let disk = MemVfs::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let fault = FaultVfs::over_memory(disk.clone());
    let files = Arc::new(Files::new(Arc::new(fault.clone()), DIR.into(), STORE, EPOCH, 1));
    // Two slots for three logs.
    let memory = Arc::new(LogMemory::new(64 * (32 << 10)));
    let write_buffer = Arc::new(WriteBuffer::create(files.clone(), memory.clone()).unwrap().unwrap());
    let mut logs: Vec<Log> = (0..3).map(|_| Log::create(&files, &memory)).collect();
    let acknowledged: Arc<Mutex<Acknowledged>> = Arc::default();
    let note = |logs: &[Log]| acknowledged.lock().note(logs);
    note(&logs);
    let images = check_each_change(&fault, &disk, &acknowledged, seed);
    for _ in 0..150 {
        let index = below(logs.len() as u64) as usize;
        acknowledged.lock().busy = logs[index].file.id;
        let log = &mut logs[index];
        match below(20) {
            0..=12 => {
                let len = [40, 700, 3000, 6000, 20_000][below(5) as usize] + below(40) as usize;
                let content = below(256) as u8;
                let end = log.append(&write_buffer, content, len);
                (log.end, _) = (end, log.records.push((content, end)));
            }
            13..=15 => {
                // An append that is truncated: another of the same length may take its place, so
                // that the record after the first would fit after the second.
                let (content, before) = (below(256) as u8, log.end);
                log.end = log.append(&write_buffer, content, 300);
                let lost = log.append(&write_buffer, content, 300);
                assert!(lost > log.end);
                if below(2) == 0 {
                    log.tail.drain(log.end).unwrap();
                }
                log.tail.truncate(before).unwrap();
                log.end = before;
                if below(2) == 0 {
                    let end = log.append(&write_buffer, !content, 300);
                    (log.end, _) = (end, log.records.push((!content, end)));
                }
            }
            16 => log.tail.drain(log.end).unwrap(),
            17 | 18 => log.tail.release(log.end).unwrap(),
            // Its buffered bytes are neither drained any more nor needed.
            _ => logs[index] = Log::create(&files, &memory),
        }
        note(&logs);
        let log = &logs[index];
        // Like readers: from the tail, or else from the file.
        let mut start = HEADER_BYTES;
        for (content, end) in &log.records {
            let len = (end - start) as usize;
            let in_file = || {
                let mut bytes = vec![0; len];
                log.file.handle().unwrap().read_exact_at(&mut bytes, start).unwrap();
                bytes
            };
            let bytes = log.tail.read(start, len).unwrap_or_else(in_file);
            assert_eq!(bytes.last(), Some(content), "seed {seed}");
            assert_eq!(bytes.len(), len);
            assert!(
                record_payload(&log.header, &log.file.path, start, bytes.into(), len).is_ok(),
                "seed {seed}"
            );
            start = *end;
        }
    }
    [
        images.load(crate::sync::atomic::Ordering::Relaxed),
        write_buffer.drained().records,
        memory.recent.reads(),
    ]
}

#[test]
fn whenever_it_is_killed_file_and_write_buffer_together_have_what_was_appended() {
    let mut sums = [0; 3];
    for seed in 1..=6 {
        sums.iter_mut().zip(run(seed)).for_each(|(sum, more)| *sum += more);
    }
    let [images, drained, recent] = sums;
    let done =
        format!("{images} kills, {drained} records drained, {recent} reads of what was written lately");
    println!("{done}");
    assert!(images > 1000 && drained > 100 && recent > 1000, "{done}");
}

#[test]
fn slots_are_given_back_and_counted_in_the_budget() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    let files = Arc::new(Files::new(vfs, DIR.into(), STORE, EPOCH, 1));
    let memory = Arc::new(LogMemory::new(64 * (40 << 10)));
    let write_buffer = Arc::new(WriteBuffer::create(files.clone(), memory.clone()).unwrap().unwrap());
    assert_eq!(memory.write_buffer_used.used_bytes(), 0, "no slot was used");
    let lease = |file| write_buffer.lease(file, 100);
    let (one, two) = (lease(1).unwrap(), lease(2).unwrap());
    assert!(lease(3).is_none(), "there are two");
    drop(one);
    let mut again = lease(3).unwrap();
    assert!(again.push(&[7; 1000], 1) && !again.push(&[7; 16 << 10], 1));
    assert_eq!(again.read(100, 1000).as_deref(), Some(&[7; 1000][..]));
    assert!(
        again.read(99, 2).is_none() && again.read(101, 1000).is_none() && again.read(u64::MAX, 2).is_none()
    );
    assert_eq!(memory.write_buffer_used.used_bytes(), 32 << 10);
    assert_eq!(memory.write_buffer.take_up_to(1 << 20), 8 << 10, "another store of the budget gets none");
    memory.write_buffer.give_back(8 << 10);
    drop((again, two));
    drop(write_buffer);
    assert_eq!(memory.write_buffer_used.used_bytes(), 0);
    assert_eq!(memory.write_buffer.take_up_to(1 << 20), 40 << 10);
}

#[test]
fn a_write_buffer_takes_as_much_of_the_disk_as_is_used_and_gives_it_back() {
    let disk = MemVfs::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let fault = FaultVfs::over_memory(disk.clone());
    let files = Arc::new(Files::new(Arc::new(fault.clone()), DIR.into(), STORE, EPOCH, 1));
    let memory = Arc::new(LogMemory::new(1 << 30));
    let write_buffer = Arc::new(WriteBuffer::create(files.clone(), memory.clone()).unwrap().unwrap());
    let write_buffer_bytes =
        || disk.metadata(&Path::new(DIR).join("WRITE-BUFFER")).unwrap().map_or(0, |file| file.len);
    assert_eq!((write_buffer_bytes(), write_buffer.file_bytes()), (0, 0), "nothing is buffered");
    let mut logs: Vec<Log> = (0..20).map(|_| Log::create(&files, &memory)).collect();
    let acknowledged: Arc<Mutex<Acknowledged>> = Arc::default();
    acknowledged.lock().note(&logs);
    let images = check_each_change(&fault, &disk, &acknowledged, 0);
    const LEAST: u64 = 132 << 10;
    let mut lens = Vec::new();
    for round in 0..3 {
        for index in 0..logs.len() {
            acknowledged.lock().busy = logs[index].file.id;
            for _ in 0..2 {
                let end = logs[index].append(&write_buffer, round, 700);
                (logs[index].end, _) = (end, logs[index].records.push((round, end)));
                acknowledged.lock().note(&logs);
            }
            lens.push(write_buffer_bytes());
        }
        // While a slot is leased, or was lately, all slots stay.
        write_buffer.give_back();
        write_buffer.give_back();
        assert_eq!(write_buffer_bytes(), (4 << 10) + 32 * (16 << 10));
        // A checkpoint.
        logs.iter().for_each(|log| log.tail.release(log.end).unwrap());
        write_buffer.give_back();
        assert_eq!((write_buffer_bytes(), write_buffer.file_bytes()), (LEAST, LEAST));
        assert!(memory.write_buffer_used.used_bytes() <= 128 << 10);
    }
    assert_eq!(lens[0], LEAST);
    assert!(lens.is_sorted() || lens[20] == LEAST, "it grows with use: {lens:?}");
    assert!(
        write_buffer.drained().records >= 60 && images.load(crate::sync::atomic::Ordering::Relaxed) > 100
    );
    assert_eq!(memory.write_buffer.take_up_to(u64::MAX), (1 << 30) / 64 - (128 << 10));
}
