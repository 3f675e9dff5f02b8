//! The keyspace: its logs, and the map built from them.

use super::map::Map;
use super::state::{Edit, State};
use crate::files::StoreFile;
use crate::format::bounds::decode_bounds;
use crate::format::codec::Decoder;
use crate::layout::factory::OpenKeyspace;
use crate::log::env::{LogEnv, LogOptions};
use crate::log::index::indexed_part::LogSearch;
use crate::log::index::memory_part::RecordPtr;
use crate::log::segment::Segment;
use crate::log::shared::SharedLog;
use crate::manifest;
use crate::mvcc::key_locks::KeyLocks;
use crate::substrate::Substrate;
use crate::substrate::parts::CheckpointPart;
use crate::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use crate::sync::{Arc, Mutex, RwLock};
use crate::types::entry::{Kind, LARGE_BYTES};
use crate::types::error::{Error, Result};
use std::sync::OnceLock;

pub struct Keyspace {
    pub(super) substrate: Arc<Substrate>,
    pub(super) env: Arc<LogEnv>,
    pub(super) locks: KeyLocks,
    /// Oldest first.
    pub(super) logs: Mutex<Vec<Arc<Segment>>>,
    pub(super) active: Mutex<Option<Arc<SharedLog>>>,
    map: OnceLock<RwLock<Map>>,
    loading: Mutex<()>,
    pub(super) writes: AtomicU64,
    pub(super) gets: AtomicU64,
    pub(super) scans: AtomicU64,
    /// Number of operations in the logs according to the last checkpoint; later ones are added.
    pub(super) operations: AtomicU64,
    /// The version of the last durable checkpoint. Nothing here waits for it; layouts that reuse
    /// blocks do.
    pub(super) durable: AtomicU64,
    /// True once the keyspace was dropped: nothing is written any more.
    pub(super) retired: AtomicBool,
}

impl Keyspace {
    pub fn open(keyspace: OpenKeyspace<'_>, state: State) -> Arc<Self> {
        let OpenKeyspace { substrate, id, order, segments, outlived, .. } = keyspace;
        let options = LogOptions {
            recent_appends: false,
            search: LogSearch::Indexed,
            memtables: false,
            filter_bits_per_key: 10,
        };
        let env = Arc::new(substrate.log_env(id, order, options, LARGE_BYTES));
        let counted = state.logs.iter().filter(|log| substrate.is_log_counted(**log, segments, outlived));
        let logs: Vec<_> = counted.map(|&log| substrate.adopt_log(&env, log, segments, outlived)).collect();
        logs.iter().for_each(|log| log.file.retain());
        let keyspace = Arc::new(Self {
            locks: KeyLocks::new(),
            logs: Mutex::new(logs),
            active: Mutex::default(),
            map: OnceLock::new(),
            loading: Mutex::default(),
            writes: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            scans: AtomicU64::new(0),
            operations: AtomicU64::new(state.operations),
            durable: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            env,
            substrate,
        });
        let part: Arc<dyn CheckpointPart> = keyspace.clone();
        keyspace.substrate.parts.add(id, Arc::downgrade(&part));
        keyspace
    }

    /// The map, rebuilt from the logs by the first access.
    pub(super) fn map(&self) -> Result<&RwLock<Map>> {
        let _loading = match self.map.get() {
            Some(map) => return Ok(map),
            None => self.loading.lock(),
        };
        if self.map.get().is_none() {
            let mut map = Map::new(self.env.order.clone());
            let logs = self.logs.lock().clone();
            logs.iter().try_for_each(|log| self.load(log, &mut map))?;
            self.env.order.check()?;
            let _ = self.map.set(RwLock::new(map));
        }
        self.map.get().ok_or(Error::Closed)
    }

    /// Applies the operations of a log in the order in which they were written.
    fn load(&self, log: &Segment, map: &mut Map) -> Result<()> {
        let parts = log.parts(&self.env)?;
        parts.check_whole()?;
        for part in parts.indexed.iter().rev() {
            log.scan_part(&parts.header, part, |place, op| {
                // A part may have indexed operations that a power loss undid.
                if !self.env.recovery.counts(parts.header.epoch, op.version, op.batch) {
                    return Ok(());
                }
                self.take(log, place, (op.kind, op.version), op.key, op.value, map)
            })?;
        }
        let Some(memory) = &parts.memory else { return Ok(()) };
        let mut ops = Vec::new();
        memory.for_each(|key, hit| ops.push((hit.place, hit.kind, hit.version, key.to_vec(), None)));
        for tombstone in memory.tombstones().iter() {
            let place = RecordPtr { offset: tombstone.offset, len: 0 };
            ops.push((
                place,
                Kind::DeleteRange,
                tombstone.version,
                Vec::new(),
                Some(tombstone.bounds.clone()),
            ));
        }
        ops.sort_by_key(|(place, ..)| place.offset);
        for (place, kind, version, key, bounds) in ops {
            match bounds {
                Some(bounds) => map.delete_range(&bounds, version, None),
                None if kind == Kind::Put => {
                    map.write(&key, Some(&log.read_value(&parts.header, place)?), version, None);
                }
                None => map.write(&key, None, version, None),
            }
        }
        Ok(())
    }

    fn take(
        &self,
        log: &Segment,
        place: RecordPtr,
        (kind, version): (Kind, u64),
        key: &[u8],
        value: &[u8],
        map: &mut Map,
    ) -> Result<()> {
        match kind {
            Kind::Put => map.write(key, Some(value), version, None),
            Kind::Delete => map.write(key, None, version, None),
            Kind::DeleteRange => {
                let bounds = decode_bounds(&mut Decoder::new(value)).map_err(|what| {
                    Error::corruption(&log.file.path, place.offset, format!("a range delete {}", what.0))
                })?;
                map.delete_range(&bounds, version, None);
            }
            other => {
                let what = format!("an operation is of kind {other:?}, which this layout does not write");
                return Err(Error::corruption(&log.file.path, place.offset, what));
            }
        }
        Ok(())
    }

    /// The log that is appended to. The first write after an opening creates it.
    pub(super) fn active(&self) -> Result<Arc<SharedLog>> {
        let mut active = self.active.lock();
        if self.retired.load(Acquire) {
            return Err(Error::NoKeyspace("(dropped)".into()));
        }
        if let Some(log) = &*active {
            return Ok(log.clone());
        }
        let publish = |file: &StoreFile| {
            let payload = Edit::Log { file: file.id, epoch: file.epoch }.encode();
            self.env.order.check()?;
            self.substrate.manifest.append(&[manifest::Edit::Layout { keyspace: self.env.keyspace, payload }])
        };
        let log = Arc::new(self.substrate.create_shared_log(&self.env, publish)?);
        self.logs.lock().push(log.segment.clone());
        *active = Some(log.clone());
        Ok(log)
    }

    /// True if writes still go to this log. The caller holds key locks, so the keyspace is not
    /// retired meanwhile.
    pub(super) fn is_active(&self, log: &Arc<SharedLog>) -> bool {
        self.active.lock().as_ref().is_some_and(|active| Arc::ptr_eq(active, log))
    }

    /// Lets later writes go to another log.
    pub(super) fn abandon(&self, log: &Arc<SharedLog>) {
        let mut active = self.active.lock();
        if active.as_ref().is_some_and(|active| Arc::ptr_eq(active, log)) {
            *active = None;
        }
    }
}

impl CheckpointPart for Keyspace {
    fn edits(&self, _version: u64) -> Result<Vec<Vec<u8>>> {
        if self.retired.load(Acquire) {
            return Ok(Vec::new());
        }
        Ok(vec![Edit::Counted { operations: self.operations.load(Relaxed) }.encode()])
    }

    fn durable(&self, version: u64) {
        self.durable.fetch_max(version, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::{CrashPlan, MemVfs};
    use crate::{Db, KeyspaceOptions, LayoutKind, Options};
    use std::any::Any;
    use std::time::Duration;

    fn open(disk: &MemVfs) -> (Db, Arc<Keyspace>) {
        let options = Options::new().default_keyspace(KeyspaceOptions::new().layout(LayoutKind::Tiny));
        let options = options.checkpoint_interval(Duration::from_secs(3600)).vfs(Arc::new(disk.clone()));
        let db = options.open("store").unwrap();
        let layout: Arc<dyn Any + Send + Sync> = db.own().layout.clone();
        (db, layout.downcast().unwrap())
    }

    /// The checkpoint's edit has the number of operations. It counts if the checkpoint counts.
    #[test]
    fn a_part_counts_with_its_checkpoint_or_not_at_all() {
        let disk = MemVfs::new();
        let (db, keyspace) = open(&disk);
        (0..5u8).for_each(|key| db.put([key], "1").unwrap());
        assert_eq!(keyspace.durable.load(Relaxed), 0);
        db.sync().unwrap();
        assert!(keyspace.durable.load(Relaxed) > 0);
        (5..8u8).for_each(|key| db.put([key], "1").unwrap());
        let lost = disk.crash(&CrashPlan::LOSE_UNSYNCED);
        drop((db, keyspace));
        let (db, keyspace) = open(&lost);
        assert_eq!((keyspace.operations.load(Relaxed), db.range(..).count()), (5, 5));
        // The edits of a manifest that is written anew later.
        let mut dumped = Vec::new();
        let path = keyspace.substrate.manifest.path();
        let state = manifest::replay(&lost, &path, crate::layouts::new_state, true).unwrap().state;
        state.dump(&mut |edit| dumped.push(edit));
        let counted = Edit::Counted { operations: 5 }.encode();
        assert!(dumped.contains(&manifest::Edit::Layout { keyspace: 1, payload: counted }));
    }

    /// A checkpoint may record the log's length with a write that fails afterwards: the next one must have its revoke.
    #[test]
    fn a_revoke_is_synced_by_the_next_checkpoint() {
        let disk = MemVfs::new();
        let (db, keyspace) = open(&disk);
        db.put("kept", "1").unwrap();
        let Keyspace { substrate, env, .. } = &*keyspace;
        let log = keyspace.active().unwrap();
        let version = substrate.mvcc.current();
        let failed = log.append(env, (version, 0), &[(Kind::Put, b"failed", b"2")]).unwrap();
        substrate.checkpoint().unwrap();
        assert!(substrate.dirty.is_empty());
        log.revoke(env, &failed).unwrap();
        assert!(!substrate.dirty.is_empty());
        substrate.checkpoint().unwrap();
        let lost = disk.crash(&CrashPlan::LOSE_UNSYNCED);
        drop((log, db, keyspace));
        let (db, _) = open(&lost);
        assert!(db.get("failed").unwrap().is_none() && db.get("kept").unwrap().is_some());
    }
}
