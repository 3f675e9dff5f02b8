//! Logs on a bare substrate: a file system in memory, files and accounts; no store and no layout.

use crate::cache::BlockCache;
use crate::files::{Files, Space, Totals};
use crate::format::bounds::decode_bounds;
use crate::format::codec::Decoder;
use crate::format::header::{FileKind, HEADER_BYTES};
use crate::log::LogMemory;
use crate::log::env::{LogEnv, LogOptions, LogShared};
use crate::log::index::indexed_part::LogSearch;
use crate::log::op::range_delete::RangeTombstone;
use crate::log::segment::Segment;
use crate::log::shared::{Appended, Operation, SharedLog};
use crate::manifest::SegmentEdit;
use crate::mvcc::Recovery;
use crate::sync::Arc;
use crate::sync::on_use::OnUse;
use crate::types::entry::{Kind, LARGE_BYTES};
use crate::types::order::KeyOrder;
use crate::vfs::Vfs;
use crossbeam_utils::atomic::AtomicCell;
use std::path::Path;

const DIR: &str = "/store";
const KEYSPACE: u32 = 1;

/// The environment of the logs of one keyspace in this epoch.
pub fn log_env(vfs: &Arc<dyn Vfs>, epoch: u64) -> Arc<LogEnv> {
    vfs.create_dir_all(Path::new(DIR)).unwrap();
    let files = Arc::new(Files::new(vfs.clone(), DIR.into(), 77, epoch, epoch * 100));
    let recovery =
        Recovery { epoch, first_version: 0, table: Default::default(), dead_batches: Default::default() };
    let options = LogOptions {
        recent_appends: true,
        search: LogSearch::Stretches,
        memtables: false,
        filter_bits_per_key: 10,
    };
    let totals = Totals::of(&files, KEYSPACE);
    let shared = LogShared {
        files,
        space: Arc::new(Space::unknown()),
        cache: BlockCache::new(1 << 20),
        recovery: Arc::new(recovery),
        memory: Arc::new(LogMemory::new(64 << 20)),
        queue: Arc::default(),
        write_buffer: None,
    };
    Arc::new(LogEnv {
        shared: Arc::new(shared),
        keyspace: KEYSPACE,
        order: KeyOrder::Bytewise,
        large_from: LARGE_BYTES,
        totals,
        options: AtomicCell::new(options),
        counters: OnUse::default(),
    })
}

/// A new log; appends wait in memory or go to the file.
pub fn new_log(env: &LogEnv, in_memory: bool) -> SharedLog {
    let (file, _, header) = env.files.create(FileKind::Log, KEYSPACE, 0).unwrap();
    file.write_at(&header.encode(), 0).unwrap();
    file.retain();
    let segment = Segment::create(file, header, env, in_memory);
    segment.set_len(HEADER_BYTES);
    SharedLog::new(Arc::new(segment), Box::new(|_, _| {}))
}

/// Appends a write and publishes it in the in-memory index of the log's end.
pub fn write(env: &LogEnv, log: &SharedLog, version: u64, ops: &[Operation<'_>]) -> Appended {
    let appended = log.append(env, (version, 0), ops).unwrap();
    let memory = log.segment.loaded().unwrap().memory.clone().unwrap();
    for (&(kind, key, value), &place) in ops.iter().zip(&appended.places) {
        match kind {
            Kind::DeleteRange => {
                let bounds = decode_bounds(&mut Decoder::new(value)).unwrap();
                memory.insert_tombstone(RangeTombstone { bounds, version, offset: place.offset, cell: None });
            }
            _ => memory.insert(key, version, kind, place, None),
        }
    }
    appended
}

/// The same log in a later epoch, as recorded by a checkpoint; `open_ended` if later records count,
/// too.
pub fn reopened(env: &LogEnv, checkpoint: SegmentEdit, epoch: u64, open_ended: bool) -> Arc<Segment> {
    let file = env.files.adopt(FileKind::Log, checkpoint.file, KEYSPACE, epoch, checkpoint.len);
    Arc::new(Segment::unloaded(file, env.order.clone(), checkpoint, open_ended))
}
