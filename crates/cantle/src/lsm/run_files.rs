//! The files of a keyspace's runs while it is opened. Each is one object, however many groups share it and
//! tables refer to it.

use super::state::{GroupRecord, Level0};
use crate::files::StoreFile;
use crate::format::header::FileKind;
use crate::log::segment::Segment;
use crate::manifest::SegmentEdit;
use crate::run::env::RunEnv;
use crate::run::record::{FileRecord, ReferredRecord};
use crate::run::run::{Run, Source};
use crate::substrate::Substrate;
use crate::sync::Arc;
use crate::table::{Referred, TableHandle};
use crate::types::span::Span;
use std::collections::{HashMap, HashSet};

pub(super) struct RunFiles<'a> {
    substrate: &'a Substrate,
    env: &'a RunEnv,
    /// The logs as recorded by the last checkpoint, by file number.
    segments: &'a HashMap<u64, SegmentEdit>,
    /// True if logs may hold more records than the manifest says.
    outlived: bool,
    logs: HashMap<u64, Arc<Segment>>,
    tables: HashMap<u64, Arc<TableHandle>>,
    /// The files of logs that are no runs: tables refer to them.
    referred: HashMap<u64, Arc<StoreFile>>,
}

impl<'a> RunFiles<'a> {
    pub fn new(
        (substrate, env): (&'a Substrate, &'a RunEnv),
        segments: &'a HashMap<u64, SegmentEdit>,
        outlived: bool,
    ) -> Self {
        let (logs, tables, referred) = <(HashMap<_, _>, HashMap<_, _>, HashMap<_, _>)>::default();
        Self { substrate, env, segments, outlived, logs, tables, referred }
    }

    /// Takes the logs of groups: a table may refer to one of which another group has a part. Fails if a table
    /// refers to another file than a log, or to a log of level 0. All logs of a keyspace that was dropped are there.
    pub fn add_logs(
        &mut self,
        groups: &[GroupRecord],
        level0: &[Level0],
        dropped: bool,
    ) -> Result<(), &'static str> {
        let flushed = level0.iter().filter_map(Level0::table);
        let records = || groups.iter().flat_map(|group| &group.files).chain(flushed.clone());
        for log in records().filter(|record| record.kind == FileKind::Log) {
            self.log((log.file, log.epoch));
        }
        let tables = records().filter(|record| record.kind == FileKind::Table).map(|table| table.file);
        let mut others: HashSet<u64> = tables.collect();
        for file in level0 {
            match file {
                &Level0::Log { file, epoch } if dropped && self.is_counted((file, epoch)) => {
                    self.log((file, epoch));
                }
                Level0::Log { file, .. } if !dropped => drop(others.insert(*file)),
                _ => {}
            }
        }
        match records().flat_map(|record| &record.referred).any(|log| others.contains(&log.file)) {
            true => Err("a table refers to values in a file that is none of their logs"),
            false => Ok(()),
        }
    }

    /// True if any record of the log counts. Nothing is read of one that does not.
    pub fn is_counted(&self, log: (u64, u64)) -> bool {
        self.substrate.is_log_counted(log, self.segments, self.outlived)
    }

    fn log(&mut self, (file, epoch): (u64, u64)) -> &Arc<Segment> {
        let Self { substrate, env, segments, outlived, logs, .. } = self;
        let adopt = || substrate.adopt_log(&env.log, (file, epoch), segments, *outlived);
        logs.entry(file).or_insert_with(adopt)
    }

    fn table(&mut self, record: &FileRecord) -> Arc<TableHandle> {
        let Self { substrate, env, logs, tables, referred, .. } = self;
        let mut file_of = |&ReferredRecord { file, epoch, file_bytes, .. }: &ReferredRecord| {
            let adopt = || substrate.files.adopt(FileKind::Log, file, env.keyspace, epoch, file_bytes);
            let of_run = logs.get(&file).map(|segment| segment.file.clone());
            of_run.unwrap_or_else(|| referred.entry(file).or_insert_with(adopt).clone())
        };
        let adopt = || {
            let referred = record.referred.iter();
            let referred = referred.map(|record| Referred { log: file_of(record), bytes: record.bytes });
            let referred = referred.collect();
            Arc::new(record.adopt_table(&substrate.files, env.keyspace, referred))
        };
        tables.entry(record.file).or_insert_with(adopt).clone()
    }

    /// The run of a record in an area of these keys.
    pub fn run(&mut self, record: &FileRecord, area: &Span) -> Run {
        let source = match record.kind {
            FileKind::Log => Source::Log(self.log((record.file, record.epoch)).clone()),
            _ => Source::Table(self.table(record)),
        };
        Run {
            source,
            span: record.span.clone().unwrap_or_else(|| area.clone()).into(),
            dropped: record.dropped(),
            dropped_ranges: record.dropped_ranges.clone(),
            share_bytes: record.share_bytes,
        }
    }
}
