//! Assembles an open store from the recovered state.

use super::Opened;
use super::keyspaces::{given_options, keyspace_inner, keyspace_order, watched};
use super::remains::remove_remains;
use crate::budget::DataShare;
use crate::db::Options;
use crate::db::activity::Activity;
use crate::db::left_behind::LeftBehind;
use crate::db::runtime::Runtime;
use crate::db::stalls::Stalls;
use crate::db::store::{DEFAULT_KEYSPACE, Store, TransactionCounters};
use crate::files::Files;
use crate::journal::Journal;
use crate::layout::factory::OpenKeyspace;
use crate::layouts;
use crate::log::env::LogShared;
use crate::log::tail::write_buffer::{self, WriteBuffer};
use crate::maintenance::{Calls, Gate, Throttle, Ticker};
use crate::manifest::State;
use crate::mvcc::{Batches, Mvcc, Unjournaled};
use crate::substrate::page_cache::PageCacheWitness;
use crate::substrate::{CheckpointParts, Checkpoints, DirtySet, Health, Reserve, Substrate};
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use crate::sync::{Arc, Mutex, RwLock};
use crate::table::Tables;
use crate::types::durability::Durability;
use crate::types::error::{Error, Result};
use crate::types::order::KeyOrder;
use crate::vfs::{ReadQueue, Vfs};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Weak;

pub(super) fn assemble(
    path: &Path,
    options: Options,
    opened: Opened,
    disk: Arc<dyn Vfs>,
    started: crate::sync::time::Instant,
) -> Result<Arc<Store>> {
    let runtime = Runtime::of(&options)?;
    let Opened {
        files,
        manifest,
        state,
        recovery,
        vouch,
        journals,
        replay,
        outlived,
        provisional_bytes,
        next_batch,
        orphans,
        damage,
        uncounted,
    } = opened;
    let journal_count = journals.len();
    let State { keyspaces: states, segments, checkpoint, .. } = state;
    let first_version = recovery.first_version;
    // A keyspace that was created after the last checkpoint has a number of its own, too.
    let newest_keyspace = states.keys().next_back().copied().unwrap_or(0);
    let health = Arc::new(Health::default());
    let failed = health.clone();
    manifest.on_doubt(move |reason| failed.fail(reason));
    let write_buffer = new_write_buffer(&options, &vouch, &files, &runtime);
    let recovery = Arc::new(recovery);
    let cache = runtime.budget.blocks.for_owner(runtime.budget.blocks.next_owner());
    let reserve = if options.read_only { Reserve::none() } else { Reserve::new(files.clone()) };
    let logs = LogShared {
        files: files.clone(),
        space: reserve.space().clone(),
        cache: cache.clone(),
        recovery: recovery.clone(),
        memory: runtime.budget.logs.clone(),
        queue: match options.io_uring {
            true => runtime.budget.read_queue(),
            false => Arc::new(ReadQueue::of_hints()),
        },
        write_buffer: write_buffer.clone(),
    };
    let substrate = Arc::new(Substrate {
        write_buffer,
        logs: Arc::new(logs),
        journal: Journal::new(files.clone(), journals),
        mvcc: Arc::new(Mvcc::new(first_version)),
        cache,
        tables: Arc::new(Tables::new(&files, runtime.budget.keyspaces.clone())),
        health: health.clone(),
        dirty: DirtySet::default(),
        parts: CheckpointParts::default(),
        checkpoints: Checkpoints::new(checkpoint.version, checkpoint.next_keyspace.max(newest_keyspace + 1)),
        reserve,
        pool: runtime.pool.for_owner(),
        gate: Gate::default(),
        calls: Calls::default(),
        throttle: Throttle::default(),
        durability: options.durability,
        read_only: options.read_only,
        budget: runtime.budget.clone(),
        batches: Batches::new(next_batch),
        live_bytes: AtomicI64::new(0),
        unresident_bytes: AtomicI64::new(0),
        data: DataShare::new(runtime.budget.clone()),
        // Writes that were accepted from a dead process are not durable, and in no journal of this
        // epoch.
        unjournaled: Unjournaled::new(if outlived || !replay.is_empty() { first_version } else { 0 }),
        files,
        manifest,
        recovery,
        vouch,
        first_version,
    });
    let mut keyspaces = BTreeMap::new();
    let mut dropped = Vec::new();
    let activity = Arc::new(Activity::default());
    for (id, state) in states {
        let given = given_options(&state.edit, &options);
        // The comparator of a dropped keyspace may not be registered any more.
        let order = match state.dropped {
            Some(_) => KeyOrder::Bytewise,
            None => watched(keyspace_order(&state.edit, &options)?, &substrate),
        };
        let factory = layouts::factory_of(state.edit.layout).ok_or_else(|| {
            let what = format!("keyspace {:?} has an unknown layout", state.edit.name);
            Error::corruption(path, 0, what)
        })?;
        let layout = factory.open(OpenKeyspace {
            substrate: substrate.clone(),
            id,
            order: order.clone(),
            settings: given.settings(factory.kind()),
            state: state.layout,
            segments: &segments,
            outlived,
            dropped: state.dropped.is_some(),
        })?;
        let inner = keyspace_inner(&state.edit, order, (layout, factory.kind()), true, &activity);
        match state.dropped {
            Some(version) => {
                inner.mark_dropped(version);
                dropped.push((version, inner));
            }
            None => {
                keyspaces.insert(inner.name.clone(), inner);
            }
        }
    }
    let default = keyspaces.get(DEFAULT_KEYSPACE).cloned();
    let default = default.ok_or_else(|| Error::corruption(path, 0, "the default keyspace is missing"))?;
    let store = Arc::new_cyclic(|this: &Weak<Store>| Store {
        path: path.to_path_buf(),
        disk,
        default,
        keyspaces: RwLock::new(keyspaces),
        activity,
        dropped: Mutex::new(dropped),
        opening_damage: damage,
        left_behind: Mutex::new(uncounted.is_none().then(LeftBehind::default)),
        uncounted: Mutex::new(uncounted),
        open_time: started.elapsed(),
        write_longest_nanos: AtomicU64::new(0),
        stalls: Stalls::default(),
        transactions: TransactionCounters::default(),
        checkpointing: AtomicBool::new(false),
        ticks: AtomicU64::new(0),
        unsettled: AtomicBool::new(false),
        this: this.clone(),
        options,
        substrate,
        closing: Mutex::new(()),
        orphans: Mutex::default(),
        lock: Mutex::default(),
        process: std::process::id(),
        #[cfg(all(feature = "monitor", target_os = "linux"))]
        monitor: Mutex::default(),
    });
    let replayed = !replay.is_empty();
    let mut orphans = orphans;
    let sound = || store.all_keyspaces().iter().try_for_each(|keyspace| keyspace.order.check());
    let recovered = store.replay(replay, &mut orphans).and_then(|()| sound()).and_then(|()| {
        if store.options.read_only { Ok(()) } else { store.secure_opening(outlived, replayed) }
    });
    if let Err(error) = recovered {
        // Nothing may change the files any more: they may be opened again.
        store.substrate.health.begin_close();
        store.substrate.gate.close();
        store.substrate.files.end();
        return Err(error);
    }
    if !store.options.read_only {
        // After the replay, which may need the space.
        store.substrate.reserve.maintain();
        store.bound_opening(provisional_bytes, journal_count);
    }
    let orphans = if store.options.read_only { Vec::new() } else { orphans };
    remove_remains(&store, orphans);
    let ticker: Weak<dyn Ticker> = store.this.clone();
    runtime.pool.register(ticker);
    Ok(store)
}

/// Creates the write buffer, unless the store is `Buffered` and needs none. If that fails, the
/// store works without one.
fn new_write_buffer(
    options: &Options,
    vouch: &PageCacheWitness,
    files: &Arc<Files>,
    runtime: &Runtime,
) -> Option<Arc<WriteBuffer>> {
    if options.read_only {
        return None;
    }
    let made = if options.write_buffer && options.durability != Durability::Buffered && vouch.is_possible() {
        WriteBuffer::create(files.clone(), runtime.budget.logs.clone())
    } else {
        write_buffer::remove(files).map(|()| None)
    };
    made.map_err(|error| tracing::debug!(%error, "has no write buffer")).ok().flatten().map(Arc::new)
}
