//! Reads and checks the whole file of a run.

use super::stats::Report;
use crate::fetch::Directly;
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::log::op::record::{LogRecord, may_begin};
use crate::log::segment::Segment;
use crate::records::RecordFile;
use crate::run::env::RunEnv;
use crate::run::referred::ReferredLogs;
use crate::run::run::{Run, Source};
use crate::sync::Arc;
use crate::table::{Table, TableHandle};
use crate::types::entry::{EntryCursor, Kind};
use crate::types::error::{Error, Result};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Reads and checks the file of a run, and adds the findings to `report`.
pub fn verify(env: &RunEnv, run: &Run, report: &mut Report) {
    report.files += 1;
    report.bytes += run.file().bytes();
    let damaged = &mut |damage| report.damage.push(damage);
    let verified = match &run.source {
        Source::Table(handle) => verify_table(env, handle, damaged),
        Source::Log(segment) => verify_log(env, segment, damaged),
    };
    match verified {
        Ok(entries) => report.entries += entries,
        // A merge has replaced the file meanwhile: it may be gone, or its last sync failed.
        Err(_) if !run.file().is_referenced() => {}
        Err(error) => report.damage.push(error),
    }
}

fn verify_table(env: &RunEnv, handle: &Arc<TableHandle>, damaged: &mut dyn FnMut(Error)) -> Result<u64> {
    // From the file, not through a table that is open already.
    let (path, name) = (handle.file.path.clone(), (env.files.store, handle.file.id));
    let table = Table::open(handle.file.handle()?, path, name, env.order.clone(), env.cache.clone())?;
    let entries = table.verify(damaged)?;
    if !handle.referred.is_empty() {
        verify_referred(env, handle, &Arc::new(table), damaged)?;
    }
    Ok(entries)
}

/// Reads the values in logs that a table refers to.
fn verify_referred(
    env: &RunEnv,
    handle: &Arc<TableHandle>,
    table: &Arc<Table>,
    damaged: &mut dyn FnMut(Error),
) -> Result<()> {
    let mut logs = ReferredLogs::default();
    logs.add_table(handle);
    let mut bytes: BTreeMap<u64, u64> = BTreeMap::new();
    let mut entries = table.cursor_without_cache();
    let mut step = entries.seek_to_first();
    loop {
        match step {
            Ok(()) => {}
            // It was reported before.
            Err(error) if error.is_corruption() => return Ok(()),
            Err(error) => return Err(error),
        }
        let Some(entry) = entries.entry() else { break };
        if entry.kind == Kind::PutApart {
            let key = Bytes::copy_from_slice(entry.key);
            let value = entries.value()?;
            if let Ok((reference, log)) = logs.resolve(&value) {
                *bytes.entry(log.id).or_default() += u64::from(reference.len);
            }
            match logs.read(env, &key, &value, &Directly) {
                Ok(_) => {}
                Err(error) if error.is_corruption() => damaged(error),
                Err(error) => return Err(error),
            }
        }
        step = entries.next();
    }
    for referred in &handle.referred {
        let found = bytes.get(&referred.log.id).copied().unwrap_or(0);
        if found != referred.bytes {
            let what = format!(
                "the table refers to {found} bytes of {}, and the manifest says {}",
                referred.log.path.display(),
                referred.bytes
            );
            damaged(Error::corruption(&handle.file.path, 0, what));
        }
    }
    Ok(())
}

/// Reads a log from end to end, then through its index.
fn verify_log(env: &RunEnv, segment: &Arc<Segment>, damaged: &mut dyn FnMut(Error)) -> Result<u64> {
    let parts = segment.parts(env)?;
    // The length is read first: later records are not checked, and may not be in the file yet.
    let len = segment.len();
    segment.flush()?;
    let records =
        RecordFile { file: segment.file.handle()?, path: segment.file.path.clone(), header: parts.header };
    if len <= HEADER_BYTES {
        return Ok(0);
    }
    FileHeader::read(&*records.file, &records.path, FileKind::Log)?;
    let mut scan = records.scan(0, len);
    let mut entries = 0;
    loop {
        let offset = scan.offset();
        let record = match scan.next() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) if error.is_corruption() => {
                damaged(error);
                let head = records.head_at(offset, len)?.filter(|head| head.total <= len - offset);
                let next = match head {
                    // There may be more damage directly after it.
                    Some(head) => offset + head.total,
                    None => records.head_after(offset + 1, len, may_begin, |_| true)?.unwrap_or(len),
                };
                scan = records.scan(next, len);
                continue;
            }
            Err(error) => return Err(error),
        };
        match LogRecord::decode(record.payload, parts.header.base_version) {
            Ok(decoded) => entries += u64::from(matches!(decoded, LogRecord::Op(_))),
            Err(what) => {
                let what = format!("a log record {}", what.0);
                damaged(Error::corruption(&records.path, offset, what));
            }
        }
    }
    if scan.offset() != len {
        return Err(Error::corruption(&records.path, scan.offset(), "the log ends too early"));
    }
    Ok(entries)
}
