//! Logs of keyspaces in any layout: their environment, their creation, and the logs of earlier
//! epochs.

use super::Substrate;
use crate::files::{StoreFile, Totals};
use crate::format::header::{FileKind, HEADER_BYTES};
use crate::log::append::OpenEnded;
use crate::log::env::{LogEnv, LogOptions};
use crate::log::segment::Segment;
use crate::log::shared::SharedLog;
use crate::manifest::SegmentEdit;
use crate::sync::Arc;
use crate::sync::on_use::OnUse;
use crate::types::durability::Durability;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crossbeam_utils::atomic::AtomicCell;
use std::collections::HashMap;

impl Substrate {
    /// The environment of the logs of a keyspace. Keys with values of `large_from` bytes or more count as large.
    pub fn log_env(&self, keyspace: u32, order: KeyOrder, options: LogOptions, large_from: u32) -> LogEnv {
        LogEnv {
            shared: self.logs.clone(),
            keyspace,
            order,
            large_from,
            options: AtomicCell::new(options),
            totals: Totals::of(&self.files, keyspace),
            counters: OnUse::default(),
        }
    }

    /// Creates an empty log. `publish` names its file in the manifest.
    pub fn create_log(
        &self,
        env: &LogEnv,
        publish: impl FnOnce(&StoreFile) -> Result<()>,
    ) -> Result<Arc<Segment>> {
        let (file, _, header) = self.files.create(FileKind::Log, env.keyspace, self.mvcc.current())?;
        let created = file.write_at(&header.encode(), 0).and_then(|()| publish(&file));
        if let Err(error) = created {
            self.files.discard(&file);
            return Err(error);
        }
        file.retain();
        let in_memory = self.durability == Durability::Buffered;
        let segment = Arc::new(Segment::create(file, header, env, in_memory));
        segment.set_len(HEADER_BYTES);
        Ok(segment)
    }

    /// Creates an empty log to which several writers may append. The next checkpoint syncs the
    /// appended records.
    pub fn create_shared_log(
        self: &Arc<Self>,
        env: &LogEnv,
        publish: impl FnOnce(&StoreFile) -> Result<()>,
    ) -> Result<SharedLog> {
        let segment = self.create_log(env, publish)?;
        let substrate = self.clone();
        let on_append = move |segment: &Arc<Segment>, bytes: u64| {
            substrate.dirty.add_bytes(bytes);
            if segment.mark_dirty() {
                substrate.dirty.add(segment.clone());
            }
        };
        Ok(SharedLog::new(segment, Box::new(on_append)))
    }

    /// Writes the index of a log of several writers to disk, for later openings. No write may be
    /// under way.
    ///
    /// # Errors
    ///
    /// `ReadOnly` if a failure may have left a batch in the log that is perhaps committed: an index
    /// could take its place. Errors of the journal's sync and of the write.
    pub fn seal_shared_log(&self, env: &LogEnv, log: &SharedLog) -> Result<()> {
        self.health.check_sound()?;
        self.journal.wait_durable().map_err(|error| self.sync_failed(error))?;
        // Writing the index may begin to write the log out, and meet the failure of a sync.
        log.seal(env).map_err(|error| self.checked(error))
    }

    /// Adopts a log of an earlier epoch. `segments` says up to which length the last checkpoint
    /// covers it. Nothing is read from the log, and its file is not retained.
    pub fn adopt_log(
        &self,
        env: &Arc<LogEnv>,
        (file, epoch): (u64, u64),
        segments: &HashMap<u64, SegmentEdit>,
        outlived: bool,
    ) -> Arc<Segment> {
        let open_ended = self.is_open_ended(epoch, outlived);
        let recorded = segments.get(&file).copied();
        let recorded = recorded.unwrap_or(SegmentEdit { file, ..SegmentEdit::default() });
        let file = self.files.adopt(FileKind::Log, file, env.keyspace, epoch, recorded.len);
        let segment = Arc::new(Segment::unloaded(file, env.order.clone(), recorded, open_ended));
        canary!(UNSYNCED_INHERITED_LOG => return segment);
        if open_ended {
            // The first checkpoint finds the length of the log and makes it durable.
            self.dirty.add(Arc::new(OpenEnded { env: Arc::downgrade(env), segment: segment.clone() }));
        }
        segment
    }

    /// True if any record of a log counts. A log that no checkpoint knows has no such record and
    /// may be missing, unless everything counts that its epoch wrote.
    pub fn is_log_counted(
        &self,
        (file, epoch): (u64, u64),
        segments: &HashMap<u64, SegmentEdit>,
        outlived: bool,
    ) -> bool {
        segments.contains_key(&file) || self.is_open_ended(epoch, outlived)
    }

    /// True if all of a log of this epoch counts, including records after the length that a
    /// checkpoint has covered. If a later epoch outlived its process, this does not restore the end
    /// of a log that was lost before.
    fn is_open_ended(&self, epoch: u64, outlived: bool) -> bool {
        outlived && !self.recovery.table.is_settled(epoch)
    }
}
