//! Appending, group commit, rotation, and reading back.

use super::record::JournalRecord;
use crate::files::{Files, file_name};
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::format::limits::{RECORD_BYTES_MAX, check_record};
use crate::records::{RecordFile, encode_record, record_bytes_max};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::time::now;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};
use crate::types::entry::Kind;
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{OpenMode, VfsFile};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A position in the order of journal records, within one opening of the store.
pub type Lsn = u64;

/// Journal files grow in steps of this many bytes, reserved on disk before they are used.
const STEP_BYTES: u64 = 1 << 20;
/// But by no more than this part of what is free, or this many bytes.
const STEP_FRACTION: u64 = 64;
const STEP_BYTES_MIN: u64 = 16 << 10;
/// A checkpoint begins a new file only if the present one is longer: a new one takes two syncs, and a few records more to read
/// take an opening no time.
const ROTATE_BYTES_MIN: u64 = 64 << 10;
/// A group waits for those who will come again for no longer than this part of what the last sync took,
const PATIENCE_FRACTION: u32 = 4;
/// and not at all where that is less than this, as who sleeps may be woken 50 µs late (the timer's slack),
const PATIENCE_MIN: Duration = Duration::from_micros(20);
/// or longer than this.
const PATIENCE_MAX: Duration = Duration::from_millis(5);

pub struct Journal {
    files: Arc<Files>,
    inner: Mutex<Inner>,
    synced: Condvar,
    /// As many are enqueued as the next group waits for.
    gathered: Condvar,
    pub syncs: AtomicU64,
    pub writes: AtomicU64,
    /// The longest payload: what readers take for a record.
    record_bytes_max: u64,
}

/// A journal file that is not written any more.
#[derive(Debug, Clone)]
pub struct OldJournal {
    pub id: u64,
    pub path: PathBuf,
    pub max_version: u64,
    /// The greatest number of a batch whose commit only this journal tells; 0 for one of an earlier epoch, whose
    /// batches are settled by the record that began this epoch.
    pub max_batch: u64,
}

impl OldJournal {
    /// Whether a checkpoint of `version`, which settles the batches below `next_batch`, makes it superfluous.
    fn is_covered(&self, version: u64, next_batch: u64) -> bool {
        self.max_version <= version && self.max_batch < next_batch
    }
}

struct Active {
    id: u64,
    path: PathBuf,
    file: Arc<dyn VfsFile>,
    header: FileHeader,
    /// Bytes written.
    len: u64,
    /// Bytes durable.
    durable_bytes: u64,
    /// Bytes the file system has promised.
    allocated_bytes: u64,
    max_version: u64,
    max_batch: u64,
}

impl Active {
    /// Has the file system promise the file this many bytes, in such steps.
    fn reserve(&mut self, needed: u64, step_bytes: impl FnOnce() -> u64) -> Result<()> {
        if needed <= self.allocated_bytes {
            return Ok(());
        }
        let mut allocated = needed.next_multiple_of(step_bytes());
        let done = self.file.allocate(allocated).or_else(|_| {
            // On a full disk what is needed may still be there.
            allocated = needed;
            self.file.allocate(allocated)
        });
        match done {
            Ok(()) => {}
            // Without preallocation a full disk shows at the write.
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {}
            Err(error) => return Err(Error::io(Attempt::Extend, &self.path, error)),
        }
        self.allocated_bytes = allocated;
        Ok(())
    }
}

#[derive(Default)]
struct Inner {
    active: Option<Active>,
    old: Vec<OldJournal>,
    /// Records that wait for the next group.
    buffer: Vec<u8>,
    /// Bytes promised to writers that have not enqueued yet.
    reserved_bytes: u64,
    enqueued: Lsn,
    durable: Lsn,
    /// Somebody gathers a group, or writes or syncs one, outside the lock.
    busy: bool,
    /// How many wrote or waited when the last group was synced: as many are likely to come until the next.
    writers: u64,
    /// How long that took, its write included.
    sync_time: Duration,
    failed: Option<Error>,
}

impl Inner {
    fn retire_active(&mut self, next: Option<Active>) {
        if let Some(Active { id, path, max_version, max_batch, .. }) =
            std::mem::replace(&mut self.active, next)
        {
            self.old.push(OldJournal { id, path, max_version, max_batch });
        }
    }
}

impl Journal {
    pub fn new(files: Arc<Files>, old: Vec<OldJournal>) -> Self {
        Self {
            files,
            inner: Mutex::new(Inner { old, ..Inner::default() }),
            synced: Condvar::new(),
            gathered: Condvar::new(),
            syncs: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            record_bytes_max: RECORD_BYTES_MAX,
        }
    }

    /// Makes sure that a record of `payload_bytes` will find space. Every reservation is used by exactly one
    /// `commit` or `enqueue`, or given back when it is dropped. Refuses a record that no reader would take.
    pub fn reserve(&self, payload_bytes: usize) -> Result<Reservation<'_>> {
        let limit = self.record_bytes_max;
        check_record("a write", payload_bytes, limit)?;
        let bytes = record_bytes_max(payload_bytes) as u64;
        let mut inner = self.inner.lock();
        if let Some(error) = &inner.failed {
            return Err(error.clone());
        }
        if inner.active.is_none() {
            inner.active = Some(self.create()?);
        }
        let waiting = inner.buffer.len() as u64 + inner.reserved_bytes;
        let Some(active) = &mut inner.active else { return Err(Error::Closed) };
        active.reserve(active.len + waiting + bytes, || self.step_bytes())?;
        inner.reserved_bytes += bytes;
        Ok(Reservation { journal: self, bytes })
    }

    /// How far to reserve ahead: on a disk that fills up, little of what is left.
    fn step_bytes(&self) -> u64 {
        let available = self.files.vfs.available_bytes(&self.files.dir).unwrap_or(u64::MAX);
        (available / STEP_FRACTION).clamp(STEP_BYTES_MIN, STEP_BYTES).next_power_of_two()
    }

    fn create(&self) -> Result<Active> {
        let id = self.files.next_id();
        let path = self.files.path(FileKind::Journal, id);
        let header = FileHeader {
            kind: FileKind::Journal,
            keyspace: 0,
            store: self.files.store,
            file: id,
            epoch: self.files.epoch,
            base_version: 0,
        };
        // Under its own name a journal always has its header, whatever a power loss leaves of the rest.
        let temporary = self.files.dir.join(format!("{}.tmp", file_name(FileKind::Journal, id)));
        let vfs = &*self.files.vfs;
        let created = self.files.create_temporary(&temporary);
        let file = created.map_err(|e| Error::io(Attempt::Create, &temporary, e))?;
        let written = file
            .write_at(&header.encode(), 0)
            .map_err(|e| Error::io(Attempt::Write, &temporary, e))
            .and_then(|()| {
                let synced = canary!(UNSYNCED_JOURNAL_HEADER else file.sync_data());
                synced.map_err(|e| Error::sync_unreferenced(&temporary, e))
            })
            .and_then(|()| {
                vfs.rename(&temporary, &path).map_err(|e| Error::io(Attempt::Rename, &temporary, e))
            })
            // The name must be durable before a sync of the data means anything.
            .and_then(|()| canary!(UNNAMED_JOURNAL else self.files.sync_names()));
        if let Err(error) = written {
            self.files.abandon(&temporary, &path);
            return Err(error);
        }
        Ok(Active {
            id,
            path,
            file,
            header,
            len: HEADER_BYTES,
            durable_bytes: HEADER_BYTES,
            allocated_bytes: HEADER_BYTES,
            max_version: 0,
            max_batch: 0,
        })
    }

    /// Writes a batch's commit record: once this returns, the batch survives the end of the process.
    pub fn commit(
        &self,
        reservation: Reservation<'_>,
        batch: u64,
        version: u64,
    ) -> std::result::Result<(), Uncommitted> {
        let mut payload = Vec::with_capacity(24);
        JournalRecord::encode_commit(&mut payload, batch, version);
        let mut inner = self.lock_idle();
        drop_reservation(reservation, &mut inner);
        let Inner { active, buffer, .. } = &mut *inner;
        let Some(active) = active else { return Err(Uncommitted::Surely(Error::Closed)) };
        if !buffer.is_empty() {
            // Their place in the file is before this one; who waits for them syncs them.
            let written = active.file.write_at(buffer, active.len);
            written.map_err(|e| Uncommitted::Surely(Error::io(Attempt::Append, &active.path, e)))?;
            active.len += buffer.len() as u64;
            buffer.clear();
        }
        let mut bytes = Vec::new();
        encode_record(&active.header, active.len, (0, payload.len()), &mut bytes, |out| {
            out.extend_from_slice(&payload)
        });
        if let Err(error) = active.file.write_at(&bytes, active.len) {
            let error = Error::io(Attempt::Append, &active.path, error);
            // The next record goes to the same place.
            let erased = active.file.write_at(&vec![0; bytes.len()], active.len);
            return Err(match erased {
                Ok(()) => Uncommitted::Surely(error),
                Err(_) => Uncommitted::Perhaps(error),
            });
        }
        active.len += bytes.len() as u64;
        active.max_version = active.max_version.max(version);
        active.max_batch = active.max_batch.max(batch);
        Ok(())
    }

    /// Takes a place in the order of records. Call it under the locks that order the write among others of its
    /// keys; `wait` for it after they are released.
    pub fn enqueue<'a>(
        &self,
        reservation: Reservation<'_>,
        batch: u64,
        version: u64,
        ops: impl ExactSizeIterator<Item = (u32, Kind, &'a [u8], &'a [u8])>,
    ) -> Result<Lsn> {
        let mut inner = self.inner.lock();
        drop_reservation(reservation, &mut inner);
        if let Some(error) = &inner.failed {
            return Err(error.clone());
        }
        let Inner { active, buffer, enqueued, durable, writers, busy, .. } = &mut *inner;
        let Some(active) = active else { return Err(Error::Closed) };
        let offset = active.len + buffer.len() as u64;
        let mut payload = Vec::new();
        let head = JournalRecord::encode_write(&mut payload, batch, version, active.durable_bytes, ops);
        encode_record(&active.header, offset, (head, payload.len()), buffer, |out| {
            out.extend_from_slice(&payload)
        });
        active.max_version = active.max_version.max(version);
        active.max_batch = active.max_batch.max(batch);
        *enqueued += 1;
        self.writes.fetch_add(1, Relaxed);
        if *busy && *enqueued == *durable + *writers {
            self.gathered.notify_one();
        }
        Ok(*enqueued)
    }

    /// Waits until the record is durable. Whoever comes first syncs for all that are enqueued by then, those who
    /// were in the last group and come again at once included.
    pub fn wait(&self, lsn: Lsn) -> Result<()> {
        let mut inner = self.inner.lock();
        loop {
            if inner.durable >= lsn {
                return Ok(());
            }
            if let Some(error) = &inner.failed {
                return Err(error.clone());
            }
            if inner.busy {
                self.synced.wait(&mut inner);
            } else {
                inner = self.gather(inner);
                inner = self.sync_group(inner);
            }
        }
    }

    /// Waits for as many writers as there were lately. Without it two groups take turns: those whose group was just
    /// synced come back a moment after the next has begun with the others only, and each sync serves half of them.
    fn gather<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        let patience = (inner.sync_time / PATIENCE_FRACTION).min(PATIENCE_MAX);
        let awaited = inner.durable + inner.writers;
        if patience < PATIENCE_MIN || inner.enqueued >= awaited {
            return inner;
        }
        let until = now() + patience;
        inner.busy = true;
        while inner.enqueued < awaited && !self.gathered.wait_until(&mut inner, until).timed_out() {}
        inner.busy = false;
        inner
    }

    /// Waits until everything that is enqueued now is durable. Who rewrites records of logs without the numbers
    /// of their batches must wait for their commits first: else a batch that died would live on in part.
    pub fn wait_durable(&self) -> Result<()> {
        let enqueued = self.inner.lock().enqueued;
        self.wait(enqueued)
    }

    /// Writes and syncs what is in the buffer, without holding the lock meanwhile. A failure is final.
    fn sync_group<'a>(&'a self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        self.sync_group_and_begin(None, inner)
    }

    /// As `sync_group`; records that come from here on go to the file `next`, if one is given.
    fn sync_group_and_begin<'a>(
        &'a self,
        next: Option<Active>,
        mut inner: MutexGuard<'a, Inner>,
    ) -> MutexGuard<'a, Inner> {
        let group = inner.enqueued;
        let bytes = std::mem::take(&mut inner.buffer);
        let Some(active) = &mut inner.active else { return inner };
        let (id, file, path, offset) = (active.id, active.file.clone(), active.path.clone(), active.len);
        // Later records are placed behind this group.
        active.len += bytes.len() as u64;
        let end = active.len;
        if next.is_some() {
            inner.retire_active(next);
        }
        inner.busy = true;
        drop(inner);
        let begun = now();
        // Those of the group may be written already, beside a commit.
        let written = if bytes.is_empty() { Ok(()) } else { file.write_at(&bytes, offset) };
        let done = written.map_err(|e| Error::io(Attempt::Append, &path, e)).and_then(|()| {
            let synced = canary!(UNSYNCED_JOURNAL else file.sync_data());
            synced.map_err(|e| Error::io(Attempt::Sync, &path, e))
        });
        let sync_time = begun.elapsed();
        self.syncs.fetch_add(1, Relaxed);
        let mut inner = self.inner.lock();
        inner.busy = false;
        inner.writers = inner.enqueued - inner.durable;
        inner.sync_time = sync_time;
        match done {
            Ok(()) => {
                inner.durable = group;
                if let Some(active) = inner.active.as_mut().filter(|active| active.id == id) {
                    active.durable_bytes = end;
                }
                // The vector's memory serves the next group.
                if inner.buffer.is_empty() && bytes.capacity() <= STEP_BYTES as usize {
                    inner.buffer = bytes;
                    inner.buffer.clear();
                }
            }
            Err(error) => inner.failed = Some(error),
        }
        self.synced.notify_all();
        inner
    }

    /// Begins a new file with the next record if the present one is long, so that this can go when a checkpoint covers it, which
    /// settles the batches below `next_batch`. On a full disk, or where no more files can be open, the present one stays for now.
    pub fn rotate(&self, next_batch: u64) -> Result<()> {
        let mut inner = self.lock_sound()?;
        let Some(active) = &inner.active else { return Ok(()) };
        if active.max_batch >= next_batch {
            // The checkpoint covers what these batches wrote, and what others wrote who read it, but only the journal tells that
            // they committed.
            inner = self.sync_group(inner);
            if let Some(error) = &inner.failed {
                return Err(error.clone());
            }
        } else if active.len + (inner.buffer.len() as u64) < ROTATE_BYTES_MIN {
            return Ok(());
        }
        if inner.buffer.is_empty() && inner.reserved_bytes == 0 {
            inner.retire_active(None);
            return Ok(());
        }
        drop(inner);
        // Made beforehand: writers that are announced must not wait for its syncs.
        let next = self.create().and_then(|mut next| {
            let ready = self.lock_sound().and_then(|inner| {
                // Writers between `reserve` and `enqueue` count on their space.
                next.reserve(HEADER_BYTES + inner.reserved_bytes, || self.step_bytes())?;
                Ok(inner)
            });
            match ready {
                Ok(inner) => Ok((next, inner)),
                Err(error) => {
                    self.remove(&next.path);
                    Err(error)
                }
            }
        });
        let (next, mut inner) = match next {
            Err(error) if error.is_no_space() || error.is_unopened() => return Ok(()),
            next => next?,
        };
        if inner.buffer.is_empty() {
            inner.retire_active(Some(next));
        } else {
            inner = self.sync_group_and_begin(Some(next), inner);
        }
        inner.failed.clone().map_or(Ok(()), Err)
    }

    /// The first file that a recovery to a checkpoint of `version`, which settles the batches below `next_batch`,
    /// needs.
    pub fn first_needed(&self, version: u64, next_batch: u64) -> u64 {
        let inner = self.inner.lock();
        let needed = inner.old.iter().filter(|journal| !journal.is_covered(version, next_batch));
        let old = needed.map(|journal| journal.id);
        let active = inner.active.as_ref().map(|active| active.id);
        old.chain(active).min().unwrap_or_else(|| self.files.peek_id())
    }

    /// Removes the files that such a checkpoint covers, once it is durable.
    pub fn retire(&self, version: u64, next_batch: u64) {
        let covered: Vec<_> =
            self.inner.lock().old.extract_if(.., |journal| journal.is_covered(version, next_batch)).collect();
        for journal in covered {
            self.remove(&journal.path);
        }
    }

    /// Bytes of all journal files.
    pub fn bytes(&self) -> u64 {
        self.inner.lock().active.as_ref().map_or(0, |active| active.allocated_bytes)
    }

    fn remove(&self, path: &Path) {
        if let Err(error) = self.files.vfs.remove(path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove a journal file");
        }
    }

    /// As `lock_idle`, unless a sync has failed.
    fn lock_sound(&self) -> Result<MutexGuard<'_, Inner>> {
        let inner = self.lock_idle();
        match &inner.failed {
            Some(error) => Err(error.clone()),
            None => Ok(inner),
        }
    }

    fn lock_idle(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock();
        while inner.busy {
            self.synced.wait(&mut inner);
        }
        inner
    }
}

/// A commit record could not be written.
#[derive(Debug)]
pub enum Uncommitted {
    /// It is not there.
    Surely(Error),
    /// It may be there, so that all of the batch must stay where it is: if the record is found, the batch counts.
    Perhaps(Error),
}

/// Space for one record.
#[must_use]
pub struct Reservation<'a> {
    journal: &'a Journal,
    bytes: u64,
}

fn drop_reservation(reservation: Reservation<'_>, inner: &mut Inner) {
    inner.reserved_bytes -= reservation.bytes;
    std::mem::forget(reservation);
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.journal.inner.lock().reserved_bytes -= self.bytes;
    }
}

/// Reads the journal files `ids` in their order. A file's first bad record ends it, unless what stands behind
/// proves that it was durable once, which makes it corruption. If the page cache `outlived` the process of an epoch, any record
/// behind it does in that epoch's files.
pub fn read_journals(
    files: &Files,
    mut ids: Vec<u64>,
    outlived: Option<u64>,
) -> Result<(Vec<OldJournal>, Vec<JournalRecord>)> {
    ids.sort_unstable();
    let mut old = Vec::new();
    let mut all = Vec::new();
    for id in ids {
        let path = files.path(FileKind::Journal, id);
        let file = files.vfs.open(&path, OpenMode::Read).map_err(|e| Error::io(Attempt::Open, &path, e))?;
        let file_bytes = file.len().map_err(|e| Error::io(Attempt::Measure, &path, e))?;
        let header = FileHeader::read(&*file, &path, FileKind::Journal)?;
        if header.store != files.store || header.file != id {
            return Err(Error::corruption(
                &path,
                16,
                "the file belongs to another store or has another's name",
            ));
        }
        let outlived = outlived == Some(header.epoch);
        let records = RecordFile { file, path: path.clone(), header };
        let mut scan = records.scan(0, file_bytes);
        let (mut max_version, mut max_batch) = (0, 0);
        loop {
            let offset = scan.offset();
            match scan.next() {
                Ok(Some(record)) => {
                    let record = JournalRecord::decode(record.payload).map_err(|what| {
                        Error::corruption(&path, offset, format!("a journal record {}", what.0))
                    })?;
                    max_version = max_version.max(record.version());
                    max_batch = max_batch.max(record.batch());
                    all.push(record);
                }
                Ok(None) => break,
                Err(error) if error.is_corruption() => {
                    let was_durable = |head: &[u8]| {
                        outlived || JournalRecord::durable_bytes(head).is_some_and(|bytes| bytes > offset)
                    };
                    let may_begin = JournalRecord::may_begin;
                    if records.head_after(offset + 1, file_bytes, may_begin, was_durable)?.is_some() {
                        return Err(error);
                    }
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        old.push(OldJournal { id, path, max_version, max_batch: 0 });
    }
    Ok((old, all))
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::thread;
    use crate::vfs::{FaultVfs, MemVfs, Operation, Verdict, Vfs};

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

    /// One that makes the file long enough for the next checkpoint to begin another.
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

    /// What such a batch wrote, and what was written by who read it, the checkpoint makes durable: so it must make durable that
    /// the batch committed.
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

    /// Four writers that come again at once, and syncs that take long enough for that on any machine.
    #[test]
    fn a_group_waits_for_those_who_were_in_the_last_one() {
        const WRITERS: u64 = 4;
        const WRITES: u64 = 20;
        let fault = FaultVfs::over_memory(MemVfs::new());
        fault.create_dir_all(Path::new("/store")).unwrap();
        fault.set_rule(|call| {
            if call.operation == Operation::SyncData {
                thread::sleep(Duration::from_millis(20));
            }
            Verdict::Pass
        });
        let files = Files::new(Arc::new(fault), PathBuf::from("/store"), 1, 1, 1);
        let journal = Journal::new(Arc::new(files), Vec::new());
        thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| {
                    for version in 0..WRITES {
                        journal.wait(write(&journal, journal.reserve(64).unwrap(), version)).unwrap();
                    }
                });
            }
        });
        assert_eq!(journal.writes.load(Relaxed), WRITERS * WRITES);
        let syncs = journal.syncs.load(Relaxed);
        // In groups that take turns each sync serves two of the four.
        assert!(syncs < WRITERS * WRITES / 3, "{syncs} syncs");
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

    /// A batch that began after the checkpoint had looked for the next number, but belongs to its version, is
    /// settled by the journal only.
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
}
