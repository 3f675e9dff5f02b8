//! The reserve: disk space kept aside, so that on a full disk deletes and rebalances can still free
//! space.
//!
//! Two files hold allocated blocks. `RESERVE-REBALANCE` is released to the file system first: a
//! rebalance that finds no room for its output uses it, and so do deletes. `RESERVE` is for
//! operations that free space at little cost, and for those that keep the store consistent
//! meanwhile: deletes, range deletes, edits of the manifest, checkpoints. No rebalance uses it:
//! each asks for room before it begins (`grant`). Once the blocks of `RESERVE` are released too, a
//! rebalance leaves as much free space for deletes.
//!
//! While a share is missing, puts fail at once, so that they do not use space meant for freeing
//! space. Both shares are restored as soon as there is room, the one for deletes first.
//!
//! Bytes that were accepted but are not in a file yet (the buffered records of a `Buffered` store,
//! the output of rebalances) are *promised*: their sum stays below the free space.

use super::put_pause::{PutPause, PutPauses};
use crate::files::space::{PLENTY_BYTES, Room};
use crate::files::{Files, Promise, Space};
use crate::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::time::now;
use crate::sync::waits::{self, Cause};
use crate::sync::{Arc, Mutex, thread};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::OpenMode;
use std::io;
use std::time::Duration;

pub const RESERVE_FILE: &str = "RESERVE";
pub const REBALANCE_RESERVE_FILE: &str = "RESERVE-REBALANCE";
/// Maximum of the deletes' share in bytes, and its fraction of the free space: a delete appends
/// some hundred bytes, at worst a new log of one page.
const DELETE_BYTES_MAX: u64 = 8 << 20;
const DELETE_FRACTION: u64 = 64;
/// Maximum of the rebalances' share in bytes, which is three 64ths of the free space, unless chunks
/// are so long that one rebalance needs more.
const REBALANCE_BYTES_MAX: u64 = 24 << 20;
/// Maximum of that share for the sake of long chunks, in bytes, and as a fraction of the free
/// space.
const LONGEST_BYTES_MAX: u64 = 64 << 20;
const LONGEST_FRACTION: u64 = 8;
/// Size in bytes below which a disk has no reserve: writes may use all of it.
const DISK_BYTES_MIN: u64 = 1 << 20;
/// With less room than this many of the longest rebalances, puts wait for rebalances.
const TIGHT_FACTOR: u64 = 4;
/// Maximum time that a put waits for rebalances: about twice the longest rebalance on a slow
/// device.
const JAM_MAX: Duration = Duration::from_millis(500);
const JAM_STEP: Duration = Duration::from_micros(200);
/// Free bytes beside the reserve that puts need to continue.
const ROOM_BYTES_MIN: u64 = 64 << 10;

pub struct Reserve {
    files: Option<Arc<Files>>,
    /// A share is missing, because the disk is full.
    spent: AtomicBool,
    /// Little space is left, or a write found none: jobs that can free space should run.
    full: AtomicBool,
    /// Puts wait for rebalances, which might not find room later in the space that is left.
    pauses: Arc<PutPauses>,
    /// Bytes that the longest expected rebalance may write.
    longest_bytes: AtomicU64,
    /// Bytes to keep aside for rebalances; 0 while that is unknown.
    rebalance_bytes: AtomicU64,
    /// Bytes that are kept aside for rebalances now.
    kept_for_rebalances: AtomicU64,
    /// Bytes of the free space that are meant for deletes, because their share does not hold them now.
    margin_for_deletes: AtomicU64,
    shares: Mutex<Shares>,
    space: Arc<Space>,
}

#[derive(Default)]
struct Shares {
    deletes: Share,
    rebalances: Share,
    /// The file system cannot allocate: nothing is kept aside.
    unsupported: bool,
}

#[derive(Default)]
struct Share {
    kept_bytes: u64,
    /// Target size of the share: grows with the most space that was ever seen free.
    wanted_bytes: u64,
}

impl Share {
    fn missing_bytes(&self) -> u64 {
        self.wanted_bytes.saturating_sub(self.kept_bytes)
    }
}

impl Reserve {
    /// Adopts the shares that an earlier opening kept aside; `maintain` sets up missing ones.
    pub fn new(files: Arc<Files>) -> Self {
        let kept = |name| {
            let bytes = files.vfs.metadata(&files.dir.join(name)).ok().flatten().map_or(0, |file| file.len);
            Share { kept_bytes: bytes, wanted_bytes: bytes }
        };
        let shares = Shares {
            deletes: kept(RESERVE_FILE),
            rebalances: kept(REBALANCE_RESERVE_FILE),
            unsupported: false,
        };
        let kept_for_rebalances = AtomicU64::new(shares.rebalances.kept_bytes);
        Self { files: Some(files), shares: Mutex::new(shares), kept_for_rebalances, ..Self::none() }
    }

    /// For stores that write nothing.
    pub fn none() -> Self {
        Self {
            files: None,
            spent: AtomicBool::new(false),
            full: AtomicBool::new(false),
            pauses: PutPauses::new(),
            longest_bytes: AtomicU64::new(0),
            rebalance_bytes: AtomicU64::new(0),
            kept_for_rebalances: AtomicU64::new(0),
            margin_for_deletes: AtomicU64::new(0),
            shares: Mutex::default(),
            space: Arc::new(Space::unknown()),
        }
    }

    /// Reports the bytes that one rebalance may have to write.
    pub fn expect(&self, rebalance_bytes: u64) {
        self.longest_bytes.fetch_max(rebalance_bytes, Relaxed);
    }

    /// True if puts must fail, because a share of the reserve is in use.
    pub fn is_spent(&self) -> bool {
        self.spent.load(Acquire)
    }

    /// True if jobs that can free space should run.
    pub fn is_full(&self) -> bool {
        self.full.load(Relaxed) || self.is_spent()
    }

    /// Records that a put found the disk full.
    pub fn note_full(&self) {
        self.full.store(true, Relaxed);
    }

    /// Maximum of bytes that a rebalance can rely on; unlimited while space is plentiful.
    pub fn rebalance_bytes_max(&self) -> u64 {
        if self.space.has_plenty() {
            return u64::MAX;
        }
        match self.rebalance_bytes.load(Relaxed) {
            0 => u64::MAX,
            bytes => bytes,
        }
    }

    /// While space is short, the bytes that a merge which frees some may write: free space, and the share of
    /// rebalances. `None` while there is enough.
    pub fn short_room(&self) -> Option<u64> {
        if !self.is_full() {
            return None;
        }
        let taken_bytes = self.space.promised_bytes().saturating_add(self.margin_for_deletes.load(Relaxed));
        let free_bytes = self.space.available_bytes().saturating_sub(taken_bytes);
        Some(free_bytes.saturating_add(self.kept_for_rebalances.load(Relaxed)))
    }

    /// Called when a log has become due, and sorting its chunk takes `output_bytes`. Pauses puts
    /// until rebalances are done, if space is so short that they would find no room later. The
    /// keyspace holds the pause until its rebalances are done, or cannot be done.
    pub fn pause_puts_if_tight(&self, output_bytes: u64) -> Option<PutPause> {
        let rebalance_bytes = self.rebalance_bytes_max();
        if rebalance_bytes == u64::MAX {
            return None;
        }
        let promised = self.space.promised_bytes();
        let room = self.look().saturating_sub(promised).saturating_add(rebalance_bytes);
        let tight = output_bytes > room / 2 || room < TIGHT_FACTOR * rebalance_bytes;
        tight.then(|| self.pauses.begin())
    }

    /// Pauses puts until the result is dropped.
    #[cfg(test)]
    pub fn pause_puts_for_test(&self) -> PutPause {
        self.pauses.begin()
    }

    /// True if puts wait for rebalances.
    pub fn are_puts_paused(&self) -> bool {
        self.pauses.newest().is_some()
    }

    /// For a caller that is about to put and holds no lock.
    pub fn wait_while_puts_are_paused(&self) {
        let Some(first) = self.pauses.newest() else { return };
        let started = now();
        waits::timed(Cause::Brake, || {
            while self.are_puts_paused() {
                if started.elapsed() > JAM_MAX {
                    return self.pauses.waive(first);
                }
                thread::sleep(JAM_STEP);
            }
        });
    }

    /// Runs an operation that frees space. On a full disk it releases one share of the reserve
    /// after the other and tries again. It does not if a sync found the disk full: a second sync
    /// would succeed, although the first has lost writes.
    pub fn with<T>(&self, mut run: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            match run() {
                Err(error) if error.is_no_space() && self.give_back() => {}
                done => return done,
            }
        }
    }

    /// Releases the next share to the file system; false if there is none left.
    pub fn give_back(&self) -> bool {
        let mut shares = self.shares.lock();
        let is_released = self.release(&mut shares.rebalances, REBALANCE_RESERVE_FILE)
            || self.release(&mut shares.deletes, RESERVE_FILE);
        self.note_shares(&shares);
        is_released
    }

    /// For those who do not hold the lock.
    fn note_shares(&self, shares: &Shares) {
        self.kept_for_rebalances.store(shares.rebalances.kept_bytes, Relaxed);
        self.margin_for_deletes.store(shares.deletes.missing_bytes(), Relaxed);
    }

    fn release(&self, share: &mut Share, name: &str) -> bool {
        let Some(files) = self.files.as_ref().filter(|_| share.kept_bytes > 0) else { return false };
        // Set before any space is released, so that puts do not take it.
        if !self.spent.swap(true, AcqRel) {
            tracing::warn!(dir = %files.dir.display(), "the disk is full: using the reserve");
        }
        if let Err(error) = files.vfs.remove(&files.dir.join(name)) {
            tracing::debug!(%error, name, "there was no reserve to remove");
        }
        share.kept_bytes = 0;
        true
    }

    /// Room for a rebalance's output: free space, and if `may_use_reserve` the rebalances' share of
    /// the reserve.
    pub fn grant(&self, bytes: u64, may_use_reserve: bool) -> Result<Grant<'_>> {
        let mut grant = Grant { reserve: self, may_use_reserve, promise: Promise::none(self.space.clone()) };
        grant.extend(bytes)?;
        Ok(grant)
    }

    /// Promises free space to bytes that will be written later, or fails.
    pub fn promise(&self, bytes: u64) -> Result<Promise> {
        let promise = Promise::none(self.space.clone());
        promise.add(bytes);
        if !self.space.suffices(0) {
            self.look();
            if !self.space.suffices(0) {
                return Err(self.no_space(Attempt::BufferWrite));
            }
        }
        Ok(promise)
    }

    /// The free space and the promises of it.
    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    fn no_space(&self, attempt: Attempt) -> Error {
        let dir = self.files.as_ref().map(|files| files.dir.clone()).unwrap_or_default();
        Error::io(attempt, dir, io::ErrorKind::StorageFull.into())
    }

    /// Asks the file system for the free space. If it cannot tell, space counts as plentiful.
    fn look(&self) -> u64 {
        let Some(files) = &self.files else { return u64::MAX };
        self.space.look(|| {
            files.vfs.available_bytes(&files.dir).unwrap_or_else(|error| {
                tracing::debug!(%error, "cannot tell how much space is free");
                u64::MAX
            })
        })
    }

    /// Called from time to time: sets up the reserve once space becomes short, and restores it when
    /// there is room for it and for something beside it.
    pub fn maintain(&self) {
        if self.files.is_none() {
            return;
        }
        let mut shares = self.shares.lock();
        let mut available = self.look();
        let plenty = available > PLENTY_BYTES && shares.deletes.kept_bytes == 0;
        if !plenty && available.saturating_add(shares.kept_bytes()) >= DISK_BYTES_MIN {
            let longest = self.longest_bytes.load(Relaxed).min(LONGEST_BYTES_MAX);
            shares.plan(available, longest);
            self.rebalance_bytes.store(shares.rebalances.wanted_bytes, Relaxed);
            if let Err(error) = self.set_up(&mut shares, available) {
                tracing::debug!(%error, "cannot set up the reserve");
            }
            self.note_shares(&shares);
            available = self.look();
        }
        let whole = plenty || shares.unsupported || shares.are_whole();
        if whole && available >= ROOM_BYTES_MIN && self.spent.swap(false, Release) {
            tracing::info!("there is space again: writes go on");
        }
        let scarce = available < shares.rebalances.wanted_bytes.max(ROOM_BYTES_MIN);
        self.full.store(scarce, Relaxed);
    }

    /// Extends both shares to their target sizes, as far as there is room. A partial share for
    /// deletes is better than none.
    fn set_up(&self, shares: &mut Shares, mut available: u64) -> Result<()> {
        let Shares { deletes, rebalances, unsupported } = shares;
        for (share, name, partly) in
            [(deletes, RESERVE_FILE, true), (rebalances, REBALANCE_RESERVE_FILE, false)]
        {
            let missing = share.missing_bytes();
            // Space that is promised to others must not be taken.
            let free = available.saturating_sub(self.space.promised_bytes());
            let added = if missing <= free { missing } else { free / 4 * 3 };
            if missing == 0 || *unsupported || (added < missing && (!partly || added < ROOM_BYTES_MIN / 4)) {
                continue;
            }
            // Nobody else is promised these bytes meanwhile.
            let promise = Promise::none(self.space.clone());
            promise.add(added);
            if !self.space.suffices(0) {
                continue;
            }
            match self.allocate(name, share.kept_bytes + added) {
                Ok(()) => {
                    share.kept_bytes += added;
                    promise.redeem(added);
                    available = self.look();
                }
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::Unsupported => {
                    *unsupported = true;
                }
                Err(error) => {
                    self.release(share, name);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn allocate(&self, name: &str, bytes: u64) -> Result<()> {
        let Some(files) = &self.files else { return Ok(()) };
        let path = files.dir.join(name);
        let allocate = || -> io::Result<()> {
            let exists = files.vfs.metadata(&path)?.is_some();
            let mode = if exists { OpenMode::ReadWrite } else { OpenMode::CreateNew };
            files.vfs.open(&path, mode)?.allocate(bytes)
        };
        allocate().map_err(|error| {
            if let Err(error) = files.vfs.remove(&path) {
                tracing::debug!(%error, "there was no reserve to remove");
            }
            Error::io(Attempt::Allocate, &path, error)
        })
    }
}

impl Shares {
    fn kept_bytes(&self) -> u64 {
        self.deletes.kept_bytes + self.rebalances.kept_bytes
    }

    fn are_whole(&self) -> bool {
        self.deletes.missing_bytes() == 0 && self.rebalances.missing_bytes() == 0
    }

    fn plan(&mut self, available_bytes: u64, longest_bytes: u64) {
        let free = available_bytes.saturating_add(self.kept_bytes());
        let deletes = (free / DELETE_FRACTION).min(DELETE_BYTES_MAX);
        let rebalances = (3 * (free / DELETE_FRACTION)).min(REBALANCE_BYTES_MAX);
        let rebalances = rebalances.max(longest_bytes.min(free / LONGEST_FRACTION));
        self.deletes.wanted_bytes = self.deletes.wanted_bytes.max(deletes);
        self.rebalances.wanted_bytes = self.rebalances.wanted_bytes.max(rebalances);
    }
}

/// Room for the output of a rebalance.
pub struct Grant<'a> {
    reserve: &'a Reserve,
    may_use_reserve: bool,
    promise: Promise,
}

impl Room for Grant<'_> {
    fn has(&self, bytes: u64) -> bool {
        self.left_bytes() >= bytes || self.reserve.space.has_plenty()
    }

    fn extend(&mut self, bytes: u64) -> Result<()> {
        let reserve = self.reserve;
        let mut shares = reserve.shares.lock();
        loop {
            reserve.look();
            // The deletes' share stays free even when no file holds it.
            if reserve.space.suffices(bytes.saturating_add(shares.deletes.missing_bytes())) {
                self.promise.add(bytes);
                return Ok(());
            }
            reserve.full.store(true, Relaxed);
            // Not for nothing: puts fail while the share is missing.
            let would_suffice = reserve.space.would_suffice(
                bytes.saturating_add(shares.deletes.missing_bytes()),
                shares.rebalances.kept_bytes,
            );
            if !self.may_use_reserve
                || !would_suffice
                || !reserve.release(&mut shares.rebalances, REBALANCE_RESERVE_FILE)
            {
                return Err(reserve.no_space(Attempt::Rebalance));
            }
            reserve.note_shares(&shares);
        }
    }

    fn left_bytes(&self) -> u64 {
        self.promise.bytes()
    }

    fn redeem(&self, bytes: u64) {
        self.promise.redeem(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::{MemVfs, Vfs};
    use std::path::{Path, PathBuf};

    fn reserve(capacity_bytes: u64) -> (MemVfs, Reserve) {
        let vfs = MemVfs::new();
        vfs.create_dir_all(Path::new("/store")).unwrap();
        vfs.set_capacity_bytes(Some(capacity_bytes));
        let files = Files::new(Arc::new(vfs.clone()), PathBuf::from("/store"), 1, 1, 1);
        (vfs, Reserve::new(Arc::new(files)))
    }

    fn occupy(vfs: &MemVfs, left_bytes: u64) {
        let file = vfs.open(Path::new("/other"), OpenMode::CreateNew).unwrap();
        let free = vfs.available_bytes(Path::new("/")).unwrap();
        file.allocate(free - left_bytes).unwrap();
    }

    #[test]
    fn rebalances_leave_alone_what_is_meant_for_deletes() {
        let (vfs, reserve) = reserve(8 << 20);
        reserve.maintain();
        occupy(&vfs, 0);
        assert!(reserve.grant(64 << 10, false).is_err(), "no gain, no reserve");
        assert!(reserve.grant(4 << 20, true).is_err());
        assert!(!reserve.is_spent(), "it would not suffice");
        let grant = reserve.grant(64 << 10, true).unwrap();
        assert!(reserve.is_spent(), "puts stay away");
        assert!(reserve.grant(4 << 20, true).is_err());
        assert!(vfs.metadata(Path::new("/store/RESERVE")).unwrap().is_some());
        // A delete that finds no space takes that share too, and still no rebalance gets it.
        let mut full = Some(Error::io(Attempt::Append, "log", io::ErrorKind::StorageFull.into()));
        reserve.with(|| full.take().map_or(Ok(()), Err)).unwrap();
        let free = vfs.available_bytes(Path::new("/store")).unwrap();
        assert!(free > 400 << 10, "{free}");
        assert!(reserve.grant(free - (64 << 10), true).is_err());
        drop(grant);
        vfs.remove(Path::new("/other")).unwrap();
        reserve.maintain();
        assert!(!reserve.is_spent() && !reserve.is_full());
    }

    #[test]
    fn no_more_is_promised_than_is_free() {
        let (vfs, reserve) = reserve(8 << 20);
        reserve.maintain();
        occupy(&vfs, 1 << 20);
        reserve.maintain();
        let first = reserve.promise(700 << 10).unwrap();
        assert!(reserve.promise(700 << 10).unwrap_err().is_no_space());
        drop(first);
        reserve.promise(700 << 10).unwrap();
    }
}
