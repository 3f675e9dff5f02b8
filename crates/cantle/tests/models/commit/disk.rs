//! The disk of the model of commits: logs, the journal, the records of checkpoints, and the parts
//! of them that survive the death of the process or of the machine. It also has the history of all
//! writes, with which the recovered state is compared.
//!
//! Each step is atomic, with a possible switch of threads before it. After each, the states that
//! any crash would leave are recovered and checked. A loss of power leaves all or nothing of the
//! changes that are not durable.

use crate::db::recovery_plan::plan_recovery;
use crate::journal::JournalRecord;
use crate::manifest::{CheckpointEdit, KeyspaceState, LayoutState, StartEdit, State as Manifest};
use crate::model::Fault;
use crate::mvcc::Recovery;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::types::bounds::Bounds;
use crate::types::durability::Durability;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub const LOGS: usize = 3;
pub const KEYSPACES: u32 = 2;

pub struct Place {
    pub keyspace: u32,
    pub log: usize,
    pub key: &'static [u8],
}

/// The first keyspace has two chunks.
pub const PLACES: [Place; 4] = [
    Place { keyspace: 0, log: 0, key: b"a" },
    Place { keyspace: 0, log: 0, key: b"b" },
    Place { keyspace: 0, log: 1, key: b"m" },
    Place { keyspace: 1, log: 2, key: b"x" },
];

/// All entries are of one epoch.
const EPOCH: u64 = 1;

/// The change by a write: puts of the keys at these places, or the delete of a range of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// A bit for each.
    pub places: u8,
    pub deletes: bool,
}

impl Change {
    pub fn is_in(&self, keyspace: u32) -> bool {
        (0..PLACES.len()).any(|index| self.has(index) && PLACES[index].keyspace == keyspace)
    }

    fn has(&self, place: usize) -> bool {
        self.places & (1 << place) != 0
    }
}

/// The range that a write deletes. It ends after the last of its keys, with the number of the write.
pub fn bounds_of(write: usize, change: Change) -> Option<Bounds> {
    let last = (0..PLACES.len()).rev().find(|&place| change.has(place)).filter(|_| change.deletes)?;
    let end = [PLACES[last].key, &b"~"[..], &write.to_be_bytes()].concat();
    Some(Bounds { start: Bound::Included(b"a".to_vec()), end: Bound::Excluded(end) })
}

/// The write that deletes this range.
pub fn id_of(bounds: &Bounds) -> usize {
    let Bound::Excluded(end) = &bounds.end else { return 0 };
    end.last_chunk().map_or(0, |id| usize::from_be_bytes(*id))
}

/// The part of one write in a log.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    pub write: usize,
    pub version: u64,
    pub batch: u64,
    pub places: u8,
    pub deletes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is as durable as this.
    Acknowledged(Durability),
    /// It can be read, but nobody knows if it is durable.
    Shown,
    Failed,
    Doubtful,
}

struct Past {
    change: Change,
    /// 0 until it is appended.
    version: u64,
    began: u64,
    /// The time since when everybody can see it.
    shown: Option<u64>,
    ended: Option<(u64, Outcome)>,
    is_seen: bool,
}

#[derive(Default)]
struct LogFile {
    records: Vec<Record>,
    synced: usize,
}

#[derive(Default)]
struct State {
    logs: [LogFile; LOGS],
    /// The written records; true if a record is durable.
    journal: Vec<(JournalRecord, bool)>,
    newest: Recorded,
    durable: Recorded,
    is_witness_revoked: bool,
    /// The time since when a writer knows of a failed sync.
    failed: Option<u64>,
    /// A checkpoint has covered everything, and nothing was written since.
    is_closed: bool,
    now: u64,
    past: Vec<Past>,
    /// For each place the writes that were appended, and not revoked, in their order.
    orders: [Vec<usize>; PLACES.len()],
}

/// A checkpoint's record, with the lengths that it and those before it recorded.
#[derive(Default, Clone)]
struct Recorded {
    checkpoint: CheckpointEdit,
    lens: [usize; LOGS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crash {
    /// The process died: everything is there that was written.
    Process,
    /// The power failed. `record`: the last checkpoint's record is there; `journal`: so is what was
    /// not synced of the journal.
    Power { record: bool, journal: bool },
}

struct Found {
    /// For each write.
    is_there: Vec<bool>,
    /// For each place the write that put what is there; 0 if nothing is.
    values: [usize; PLACES.len()],
}

pub struct Disk {
    state: Mutex<State>,
    /// Touched by each step, for a switch of threads.
    steps: AtomicU64,
    durability: Durability,
    fault: Fault,
}

impl Disk {
    pub fn new(durability: Durability, fault: Fault) -> Self {
        // Writes have numbers from 1 on.
        let none = Past {
            change: Change { places: 0, deletes: false },
            version: 0,
            began: 0,
            shown: None,
            ended: Some((0, Outcome::Failed)),
            is_seen: false,
        };
        let state = State { past: vec![none], ..State::default() };
        Self { state: Mutex::new(state), steps: AtomicU64::new(0), durability, fault }
    }

    /// Access without a step.
    fn look(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and checks what any crash would leave of it.
    fn step(&self, change: impl FnOnce(&mut State)) {
        self.steps.fetch_add(1, Relaxed);
        let mut state = self.look();
        change(&mut state);
        state.check(self.durability);
    }

    pub fn append(&self, log: usize, end: usize, record: Record) {
        self.step(|state| {
            let records = &mut state.logs[log].records;
            records.truncate(end);
            records.push(record);
            state.past[record.write].version = record.version;
            state.logs[log].synced = state.logs[log].synced.min(end);
            for place in (0..PLACES.len()).filter(|place| record.places & (1 << place) != 0) {
                state.orders[place].push(record.write);
            }
        });
    }

    pub fn truncate(&self, log: usize, end: usize, write: usize) {
        self.step(|state| {
            state.logs[log].records.truncate(end);
            let places = (0..PLACES.len()).filter(|place| PLACES[*place].log == log);
            places.for_each(|place| state.orders[place].retain(|other| *other != write));
        });
    }

    pub fn sync_log(&self, log: usize) {
        self.step(|state| state.logs[log].synced = state.logs[log].records.len());
    }

    pub fn write_journal(&self, records: Vec<JournalRecord>) {
        self.step(|state| state.journal.extend(records.into_iter().map(|record| (record, false))));
    }

    pub fn sync_journal(&self) {
        self.step(|state| state.journal.iter_mut().for_each(|(_, is_durable)| *is_durable = true));
    }

    pub fn retire_journal(&self, version: u64, next_batch: u64) {
        let is_covered = |record: &JournalRecord| record.version <= version && record.batch < next_batch;
        self.step(|state| state.journal.retain(|(record, _)| !is_covered(record)));
    }

    pub fn append_checkpoint(&self, edit: CheckpointEdit) {
        self.step(|state| {
            for segment in &edit.segments {
                let len = segment.len as usize;
                state.newest.lens[segment.file as usize] = len;
            }
            state.newest.checkpoint = edit;
        });
    }

    pub fn sync_checkpoint(&self) {
        if self.fault != Fault::DoesNotSyncTheRecord {
            self.step(|state| state.durable = state.newest.clone());
        }
    }

    pub fn revoke_witness(&self) {
        self.step(|state| state.is_witness_revoked = true);
    }

    pub fn begin(&self, change: Change) -> usize {
        let mut state = self.look();
        let began = state.tick();
        state.past.push(Past { change, version: 0, began, shown: None, ended: None, is_seen: false });
        state.past.len() - 1
    }

    /// From here on everybody can see the write.
    pub fn show(&self, write: usize) {
        let mut state = self.look();
        let now = state.tick();
        state.past[write].shown.get_or_insert(now);
    }

    pub fn end(&self, write: usize, outcome: Outcome) {
        self.step(|state| {
            let now = state.tick();
            state.past[write].ended = Some((now, outcome));
            if outcome == Outcome::Shown {
                state.failed.get_or_insert(now);
            }
            state.check_unseen(write);
        });
    }

    /// The store accepts no more writes, and a checkpoint has covered all.
    pub fn close(&self) {
        self.step(|state| state.is_closed = true);
    }

    pub fn now(&self) -> u64 {
        self.look().tick()
    }

    pub fn change(&self, write: usize) -> Change {
        self.look().past[write].change
    }

    pub fn note_seen(&self, write: usize) {
        let mut state = self.look();
        state.past[write].is_seen = true;
        state.check_unseen(write);
    }

    /// Checks the writes, and their places, that a snapshot finds. It was requested at `asked`.
    pub fn check_seen(&self, seen: &BTreeMap<usize, u8>, asked: u64) {
        for (&write, places) in seen {
            self.note_seen(write);
            assert_eq!(*places, self.change(write).places, "broken: half a batch is seen");
        }
        let state = self.look();
        let is_there: Vec<bool> = (0..state.past.len()).map(|write| seen.contains_key(&write)).collect();
        for (write, past) in state.past.iter().enumerate() {
            let was_shown = past.shown.is_some_and(|shown| shown < asked);
            assert!(!was_shown || is_there[write], "broken: a snapshot lacks what was seen before");
        }
        state.check_prefix(&is_there, |past| past.shown);
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn check_unseen(&self, write: usize) {
        let past = &self.past[write];
        let failed = matches!(past.ended, Some((_, Outcome::Failed | Outcome::Doubtful)));
        assert!(!(failed && past.is_seen), "broken: a write that failed was seen");
    }

    /// Checks that those that are there began after no other write that is not there was `over`.
    fn check_prefix(&self, is_there: &[bool], over: impl Fn(&Past) -> Option<u64>) {
        let there = self.past.iter().zip(is_there).filter(|(_, is_there)| **is_there);
        let last = there.map(|(past, _)| past.began).max().unwrap_or(0);
        for (write, past) in self.past.iter().enumerate().filter(|(write, _)| !is_there[*write]) {
            let is_before = over(past).is_some_and(|over| over < last);
            assert!(!is_before, "broken: there is a gap: write {write} of {last}");
        }
    }

    fn check(&self, durability: Durability) {
        let both = [false, true];
        let powers = both.map(|record| both.map(|journal| Crash::Power { record, journal }));
        for crash in [Crash::Process].into_iter().chain(powers.into_iter().flatten()) {
            // If nothing vouches for the page cache, as after a loss of power that lost nothing: that
            // may cost what was written before the failure was known.
            let is_power = crash != Crash::Process || self.is_witness_revoked;
            let found = match crash {
                Crash::Process if is_power => self.recover(Crash::Power { record: true, journal: true }),
                crash => self.recover(crash),
            };
            let since = if is_power { self.failed } else { Some(0) };
            let since = since.filter(|_| crash == Crash::Process).unwrap_or(u64::MAX);
            for (past, is_there) in self.past.iter().zip(&found.is_there) {
                let must_be = match past.ended {
                    Some((_, Outcome::Acknowledged(durability))) => {
                        past.began > since || durability == Durability::Sync || self.is_closed
                    }
                    Some((_, Outcome::Failed)) => {
                        assert!(!is_there, "broken: a write that failed is recovered");
                        false
                    }
                    Some((_, Outcome::Shown | Outcome::Doubtful)) | None => false,
                };
                assert!(!must_be || *is_there, "broken: a crash lost a write that was acknowledged");
            }
            let acknowledged = |past: &Past| match past.ended {
                Some((at, Outcome::Acknowledged(_))) => Some(at),
                _ => None,
            };
            match is_power || durability < Durability::Sync {
                true => self.check_prefix(&found.is_there, |past| past.shown),
                false => self.check_prefix(&found.is_there, acknowledged),
            }
            let there = self.past.iter().zip(&found.is_there).filter(|(_, is_there)| **is_there);
            let newest = there.map(|(past, _)| past.version).max().unwrap_or(0);
            for (past, _) in self.past.iter().zip(&found.is_there).filter(|(_, is_there)| !**is_there) {
                let is_older = acknowledged(past).is_some() && past.version < newest;
                assert!(!is_older, "broken: there is a gap in the order of versions");
            }
            let value = |place: usize| {
                let last = self.orders[place].iter().rev().find(|write| found.is_there[**write]);
                last.copied().filter(|&write| !self.past[write].change.deletes).unwrap_or(0)
            };
            let values = std::array::from_fn(value);
            assert_eq!(found.values, values, "broken: writes are recovered in another order");
        }
    }

    fn recover(&self, crash: Crash) -> Found {
        let (recorded, outlived) = match crash {
            Crash::Process | Crash::Power { record: true, .. } => (&self.newest, crash == Crash::Process),
            Crash::Power { record: false, .. } => (&self.durable, false),
        };
        let has_all = !matches!(crash, Crash::Power { journal: false, .. });
        let is_kept = |(_, is_durable): &&(JournalRecord, bool)| has_all || *is_durable;
        let records = self.journal.iter().filter(is_kept).map(|(record, _)| *record).collect();
        let start = StartEdit { epoch: EPOCH, first_version: 1, ..StartEdit::default() };
        let keyspaces = BTreeMap::from([(0, KeyspaceState { layout: LayoutState { epoch: EPOCH } })]);
        let manifest = Manifest { checkpoint: recorded.checkpoint.clone(), start, keyspaces };
        let plan = plan_recovery(&manifest, outlived, records)
            .unwrap_or_else(|error| panic!("broken: the manifest {}", error.0));
        let recovery = Recovery {
            epoch: plan.start.epoch,
            first_version: plan.start.first_version,
            table: plan.start.recovery_table,
            dead_batches: plan.start.dead_batches,
        };
        let mut places_of = vec![0; self.past.len()];
        let mut values = [0; PLACES.len()];
        let mut apply = |write: usize, change: Change| {
            places_of[write] |= change.places;
            for place in (0..PLACES.len()).filter(|&place| change.has(place)) {
                values[place] = if change.deletes { 0 } else { write };
            }
        };
        for (log, &recorded) in self.logs.iter().zip(&recorded.lens) {
            let len = if outlived { log.records.len() } else { recorded };
            assert!(outlived || len <= log.synced, "broken: a log is shorter than recorded");
            for record in &log.records[..len] {
                if recovery.counts(EPOCH, record.version, record.batch) {
                    apply(record.write, Change { places: record.places, deletes: record.deletes });
                }
            }
        }
        plan.replay.iter().filter_map(|record| record.write).for_each(|(write, change)| apply(write, change));
        let is_there = self.past.iter().zip(places_of).map(|(past, places)| {
            assert!(places == 0 || places == past.change.places, "broken: half a batch is recovered");
            places != 0
        });
        Found { is_there: is_there.collect(), values }
    }
}
