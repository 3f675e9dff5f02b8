//! Records are kept in order, in files that checkpoints begin and remove.

use super::record::JournalRecord;
use super::replay::read_journals;
use super::rotation::ROTATE_BYTES_MIN;
use super::writer::{Journal, Lsn, Reservation};
use crate::files::Files;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::thread;
use crate::types::entry::Kind;
use crate::types::error::Error;
use crate::vfs::{FaultVfs, MemVfs, Operation, Vfs};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn journal() -> (Arc<Files>, Journal) {
    let vfs = Arc::new(MemVfs::new());
    vfs.create_dir_all(Path::new("/store")).unwrap();
    let files = Arc::new(Files::new(vfs, PathBuf::from("/store"), 1, 1, 1));
    (files.clone(), Journal::new(files, Vec::new()))
}

fn write(journal: &Journal, reservation: Reservation<'_>, version: u64) -> Lsn {
    let ops = [(1, Kind::Put, &b"key"[..], &b"value"[..])];
    journal.enqueue(reservation, 0, version, ops.into_iter()).unwrap()
}

/// A record that makes the file long enough for the next checkpoint to begin another file.
fn write_long(journal: &Journal, version: u64) -> Lsn {
    let value = vec![7; ROTATE_BYTES_MIN as usize];
    let room = journal.reserve(value.len() + 64).unwrap();
    journal.enqueue(room, 0, version, [(1, Kind::Put, &b"key"[..], &value[..])].into_iter()).unwrap()
}

/// A store whose writers never pause must not keep its journals for ever.
#[test]
fn it_rotates_under_writers() {
    let (files, journal) = journal();
    let first = write_long(&journal, 1);
    let open = journal.reserve(64).unwrap();
    journal.rotate(1).unwrap();
    journal.wait(first).unwrap();
    let second = write(&journal, open, 2);
    journal.wait(second).unwrap();
    let ids: Vec<u64> = journal.inner.lock().old.iter().map(|old| old.id).collect();
    assert_eq!(ids.len(), 1, "the file was not exchanged");
    let active = journal.first_needed(1, 1);
    assert_ne!(active, ids[0], "a checkpoint of version 1 does not free the first file");
    let (_, records) = read_journals(&files, vec![active, ids[0]], None).unwrap();
    assert_eq!(records.iter().map(JournalRecord::version).collect::<Vec<_>>(), [1, 2]);
    journal.retire(1, 1);
    assert!(read_journals(&files, ids, None).is_err());
}

#[test]
fn a_checkpoint_begins_no_new_file_while_the_present_one_is_short() {
    let (files, journal) = journal();
    for version in 1..4 {
        journal.wait(write(&journal, journal.reserve(64).unwrap(), version)).unwrap();
        journal.rotate(1).unwrap();
        journal.retire(version, 1);
    }
    let first = journal.first_needed(3, 1);
    let (_, records) = read_journals(&files, vec![first], None).unwrap();
    assert_eq!(records.iter().map(JournalRecord::version).collect::<Vec<_>>(), [1, 2, 3]);
}

/// In a store that is not `Sync`: one thread waits for its write, another commits a batch meanwhile.
#[test]
fn a_commit_keeps_the_order_of_records_that_wait() {
    let (files, journal) = journal();
    let waits = write(&journal, journal.reserve(64).unwrap(), 1);
    journal.commit(journal.reserve(64).unwrap(), 7, 2).unwrap();
    let first = journal.first_needed(0, 1);
    let versions = |outlived| {
        let (_, records) = read_journals(&files, vec![first], outlived).unwrap();
        records.iter().map(JournalRecord::version).collect::<Vec<_>>()
    };
    assert_eq!(versions(Some(1)), [1, 2], "a commit is there for whoever the page cache outlives");
    journal.wait(waits).unwrap();
    journal.wait(write(&journal, journal.reserve(64).unwrap(), 3)).unwrap();
    assert_eq!(versions(None), [1, 2, 3]);
}

/// The checkpoint makes durable the writes of such a batch, and of its readers. It must therefore
/// make durable that the batch committed.
#[test]
fn a_checkpoint_makes_the_commits_durable_that_it_does_not_settle() {
    let fault = FaultVfs::over_memory(MemVfs::new());
    fault.create_dir_all(Path::new("/store")).unwrap();
    let files = Files::new(Arc::new(fault.clone()), PathBuf::from("/store"), 1, 1, 1);
    let journal = Journal::new(Arc::new(files), Vec::new());
    journal.commit(journal.reserve(64).unwrap(), 5, 10).unwrap();
    let syncs = |next_batch| {
        let before = fault.count(Operation::SyncData);
        journal.rotate(next_batch).unwrap();
        fault.count(Operation::SyncData) - before
    };
    assert_eq!(syncs(6), 0, "the batch is settled");
    assert_eq!(syncs(5), 1);
}

/// With a patience that no writer exceeds.
#[test]
fn a_group_waits_for_those_who_were_in_the_last_one() {
    const WRITERS: u64 = 4;
    const HOUR: Duration = Duration::from_secs(3600);
    let (_files, mut journal) = journal();
    journal.patience_max = HOUR;
    let write = |version| journal.wait(write(&journal, journal.reserve(64).unwrap(), version)).unwrap();
    journal.inner.lock().writers = WRITERS;
    for round in 1..=10 {
        journal.inner.lock().sync_time = HOUR;
        thread::scope(|scope| {
            (0..WRITERS).for_each(|writer| drop(scope.spawn(move || write(round * WRITERS + writer))));
        });
        assert_eq!((journal.syncs.load(Relaxed), journal.writes.load(Relaxed)), (round, round * WRITERS));
    }
}

#[test]
fn a_record_that_no_reader_takes_is_refused_before_anything_is_written() {
    let (files, mut journal) = journal();
    journal.record_bytes_max = 100;
    let refused = journal.reserve(101).map(drop).unwrap_err();
    assert!(matches!(&refused, Error::InvalidArgument(text) if text.contains("100")), "{refused}");
    assert!(files.vfs.list(&files.dir).unwrap().is_empty(), "no file was created for it");
    let lsn = write(&journal, journal.reserve(100).unwrap(), 1);
    journal.wait(lsn).unwrap();
}

/// A batch that began after the checkpoint read the next number, but belongs to its version: only
/// the journal records its commit.
#[test]
fn a_journal_stays_while_a_checkpoint_does_not_settle_its_batches() {
    let (files, journal) = journal();
    let (next_batch, version) = (5, 10);
    for batch in [4, 5] {
        let room = journal.reserve(64).unwrap();
        journal.commit(room, batch, version).unwrap();
    }
    journal.rotate(next_batch).unwrap();
    let first = journal.first_needed(version, next_batch);
    journal.retire(version, next_batch);
    let (_, records) = read_journals(&files, vec![first], None).unwrap();
    assert!(records.iter().any(|record| record.batch() == 5), "a committed batch would be dead");
    journal.retire(version, 6);
    assert!(read_journals(&files, vec![first], None).is_err(), "the next checkpoint settles it");
}
