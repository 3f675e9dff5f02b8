//! Opens a keyspace from its state in the manifest. No log and no table is read.

use super::generation::Generation;
use super::keyspace::{Jobs, Limits, Lsm};
use super::rotation::Rotation;
use super::run_files::RunFiles;
use super::shape::Shape;
use super::state::{GroupRecord, Level0, State};
use super::straight_seeks::StraightSeeks;
use super::view::View;
use crate::filter::monkey::LOG_BITS;
use crate::format::header::FileKind;
use crate::layout::factory::OpenKeyspace;
use crate::log::env::LogOptions;
use crate::log::index::indexed_part::LogSearch;
use crate::log::shared::SharedLog;
use crate::run::env::{RunEnv, RunOptions};
use crate::run::record::FileRecord;
use crate::sync::Arc;
use crate::sync::on_use::OnUse;
use crate::types::compression::Compression;
use crate::types::error::{Error, Result};
use crate::types::span::Span;
use crossbeam_utils::atomic::AtomicCell;
use std::any::Any;

/// Maximum length in bytes of a log that a merge reads into memory at once.
const AT_ONCE_BYTES: u64 = 32 << 20;
/// Memory of an idle keyspace with one log, about, in bytes (`idle_keyspaces` measures it).
const KEYSPACE_BYTES: u64 = 2_000;
/// Maximum number of shared leading bytes of neighbouring keys that count when tables are cut.
const CUT_PREFIX_BYTES: usize = 64;

/// The settings of runs.
pub fn run_options(compression: Compression, limits: &Limits) -> RunOptions {
    RunOptions {
        compression,
        at_once_bytes: AT_ONCE_BYTES,
        cut_prefix_bytes: CUT_PREFIX_BYTES,
        longest_inline: limits.rules.longest_inline(),
        filters: limits.filters,
        allocates: limits.aligned_storing,
        direct_io: limits.direct_io,
    }
}

/// The settings of logs. Memtables have the last appends.
pub fn log_options(limits: &Limits) -> LogOptions {
    LogOptions {
        recent_appends: false,
        search: LogSearch::Stretches,
        memtables: true,
        filter_bits_per_key: if limits.filters { LOG_BITS } else { 0 },
    }
}

impl<S: Shape> Lsm<S> {
    /// Opens a keyspace whose state is a [`State`].
    pub fn open(keyspace: OpenKeyspace<'_>, limits: Limits) -> Result<Arc<Self>> {
        let OpenKeyspace { substrate, id, order, settings, state, segments, outlived, dropped } = keyspace;
        let corrupt =
            |why: &str| Error::corruption(substrate.manifest.path(), 0, format!("keyspace {id}: {why}"));
        let state = (state as Box<dyn Any>).downcast::<State>();
        let state = state.map_err(|_| corrupt("it is in another layout"))?;
        let State { level0, groups } = if dropped { state.only_files() } else { *state };
        let options = log_options(&limits);
        let env = Arc::new(RunEnv {
            log: Arc::new(substrate.log_env(id, order.clone(), options, limits.rules.longest_inline())),
            tables: substrate.tables.clone(),
            options: AtomicCell::new(run_options(settings.compression, &limits)),
            counters: OnUse::default(),
        });
        let mut files = RunFiles::new((&substrate, &env), segments, outlived);
        let counted = |mut group: GroupRecord| {
            group
                .files
                .retain(|file| file.kind == FileKind::Table || files.is_counted((file.file, file.epoch)));
            group
        };
        let groups: Vec<GroupRecord> = groups.into_values().map(counted).collect();
        files.add_logs(&groups, &level0, dropped).map_err(corrupt)?;
        let shape = S::open(&order, groups, &mut |record, area| files.run(record, area));
        order.check()?;
        let shape = shape.map_err(corrupt)?;
        let (mut runs, mut void) = (Vec::with_capacity(level0.len()), Vec::new());
        for file in level0 {
            match file {
                Level0::Log { file, epoch } if !files.is_counted((file, epoch)) => void.push(file),
                Level0::Log { file, epoch } => {
                    runs.push(files.run(&FileRecord::log(file, epoch), &Span::default()))
                }
                Level0::Table(table) => runs.push(files.run(&table, &Span::default())),
            }
        }
        let view = View { active: None, level0: runs, shape: Arc::new(shape) };
        view.level0.iter().chain(view.tables()).for_each(|run| run.retain(&env.totals));
        let straight_seeks = StraightSeeks::default();
        straight_seeks.set_limit(limits.rules.seek_compaction);
        let jobs = Jobs::default();
        if !void.is_empty() {
            jobs.void_logs.lock().extend(void);
        }
        Ok(Arc::new_cyclic(|this| Self {
            this: this.clone(),
            locks: OnUse::default(),
            rotation: Rotation::new(view),
            limits: AtomicCell::new(limits),
            counters: OnUse::default(),
            rows: OnUse::default(),
            straight_seeks,
            jobs,
            env,
            _charge: substrate.budget.keyspaces.charge_anyway(KEYSPACE_BYTES),
            substrate,
        }))
    }
}

/// Checks at compile time that a generation may be shared among threads.
const _: fn() = || {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Generation<SharedLog>>();
};
