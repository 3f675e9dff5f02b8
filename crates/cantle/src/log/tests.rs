//! Logs: appended operations are found in every way, before they are indexed, through an index, and
//! by a later opening; revoked ones in none. From a damaged log, everything but the damaged
//! operations is recovered.

use crate::format::bounds::encode_bounds;
use crate::format::header::HEADER_BYTES;
use crate::log::index::range_deletes::RangeDeletes;
use crate::log::read::cursor::IndexedCursor;
use crate::log::read::pass::LogWalk;
use crate::log::salvage::{Extent, LogFound, salvage_log};
use crate::log::segment::Segment;
use crate::log::shared::Operation;
use crate::log::test_support::{log_env, new_log, reopened, write};
use crate::log::{env::LogEnv, read::ahead::Reads};
use crate::records::RecordFile;
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::entry::{EntryCursor, Kind};
use crate::types::error::Error;
use crate::vfs::{Failure, FaultVfs, MemVfs, Operation as Call, Verdict, Vfs};
use std::ops::Bound;

/// A key, its version, and its value; `None` for a delete.
type Entry = (String, u64, Option<String>);

fn entry(key: u64, version: u64) -> Entry {
    let value =
        (!version.is_multiple_of(5)).then(|| format!("value {version}").repeat(1 + version as usize % 40));
    (format!("key {:04}", key * 7919 % 1000), version, value)
}

fn op(entry: &Entry) -> Operation<'_> {
    let (key, _, value) = entry;
    let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
    (kind, key.as_bytes(), value.as_deref().unwrap_or_default().as_bytes())
}

fn memory_vfs() -> (MemVfs, Arc<dyn Vfs>) {
    let disk = MemVfs::new();
    (disk.clone(), Arc::new(disk))
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|(a, newer, _), (b, older, _)| a.cmp(b).then(older.cmp(newer)));
    entries
}

/// Everything in a log by its indexes: indexed parts by cursors, the newest from memory.
fn by_index(env: &Arc<LogEnv>, segment: &Arc<Segment>) -> Vec<Entry> {
    let parts = segment.parts(env).unwrap();
    let mut found = Vec::new();
    if let Some(memory) = &parts.memory {
        memory.for_each(|key, hit| {
            let value =
                (hit.kind == Kind::Put).then(|| segment.read_value(&parts.header, hit.place).unwrap());
            found.push(found_entry(key, hit.version, value.as_deref()));
        });
    }
    for part in 0..parts.indexed.len() {
        let (env, segment, parts) = (env.clone(), segment.clone(), parts.clone());
        let walk = Arc::new(LogWalk { env, segment, parts, once: None, reads: Reads::default() });
        let mut cursor = IndexedCursor::new(walk, part);
        cursor.seek_to_first().unwrap();
        let before = found.len();
        while let Some(entry) = cursor.entry() {
            let (key, version, kind) = (entry.key.to_vec(), entry.version, entry.kind);
            let value = cursor.value().unwrap();
            found.push(found_entry(&key, version, (kind == Kind::Put).then_some(&value[..])));
            cursor.next().unwrap();
        }
        assert_eq!(sorted(found[before..].to_vec()), found[before..], "a part is in the order of keys");
    }
    sorted(found)
}

fn found_entry(key: &[u8], version: u64, value: Option<&[u8]>) -> Entry {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(key), version, value.map(text))
}

/// The entries that can be read from a log's file, and the number of damages.
fn salvaged(segment: &Segment, env: &LogEnv) -> (Vec<Entry>, usize) {
    let (file, path) = (segment.file.handle().unwrap(), segment.file.path.clone());
    let header = segment.parts(env).unwrap().header;
    let (mut found, mut damages) = (Vec::new(), 0);
    salvage_log(&RecordFile { file, path, header }, Extent::Unknown, 0..0, &mut |what| {
        match what {
            LogFound::Op { version, kind, key, value, .. } => {
                found.push(found_entry(key, version, (kind == Kind::Put).then_some(value)));
            }
            LogFound::RangeDelete { .. } => {}
            LogFound::Lost { .. } | LogFound::Damage(_) => damages += 1,
        }
        Ok(true)
    })
    .unwrap();
    (sorted(found), damages)
}

#[test]
fn what_is_appended_is_found_before_and_behind_an_index_and_by_a_later_opening() {
    for in_memory in [false, true] {
        let (_, vfs) = memory_vfs();
        let env = log_env(&vfs, 1);
        let log = new_log(&env, in_memory);
        let mut all = Vec::new();
        for version in 1..=600 {
            // Writes of one operation and of three, on the same keys again and again.
            let entries: Vec<Entry> =
                (0..1 + version % 2 * 2).map(|op| entry((version + op * 37) % 150, version)).collect();
            write(&env, &log, version, &entries.iter().map(op).collect::<Vec<_>>());
            all.extend(entries);
            match version {
                200 | 450 => log.seal(&env).unwrap(),
                199 | 201 | 449 => assert_eq!(by_index(&env, &log.segment), sorted(all.clone())),
                _ => {}
            }
        }
        let parts = log.segment.loaded().unwrap();
        assert_eq!(parts.indexed.len(), 2);
        assert_eq!(log.segment.tail.in_memory_bytes() > 0, in_memory);
        let all = sorted(all);
        assert_eq!(by_index(&env, &log.segment), all);
        let checkpoint = log.segment.sync().unwrap();
        assert_eq!((checkpoint.len, log.segment.tail.in_memory_bytes()), (log.segment.len(), 0));
        let later = log_env(&vfs, 2);
        let segment = reopened(&later, checkpoint, 1, false);
        assert_eq!(by_index(&later, &segment), all);
        assert_eq!(
            (segment.len(), segment.puts.load(std::sync::atomic::Ordering::Relaxed)),
            (checkpoint.len, 0)
        );
        assert_eq!(segment.parts(&later).unwrap().indexed.len(), 2, "only what is behind them was read");
        assert_eq!(salvaged(&segment, &later), (all, 0));
    }
}

#[test]
fn what_lies_behind_a_checkpoint_counts_if_the_page_cache_outlived_the_process() {
    let (_, vfs) = memory_vfs();
    let env = log_env(&vfs, 1);
    let log = new_log(&env, false);
    let entries: Vec<Entry> = (1..=30).map(|version| entry(version, version)).collect();
    entries[..20].iter().for_each(|entry| drop(write(&env, &log, entry.1, &[op(entry)])));
    let checkpoint = log.segment.sync().unwrap();
    entries[20..].iter().for_each(|entry| drop(write(&env, &log, entry.1, &[op(entry)])));
    for (open_ended, counted) in [(false, 20), (true, 30)] {
        let later = log_env(&vfs, 2);
        let segment = reopened(&later, checkpoint, 1, open_ended);
        assert_eq!(by_index(&later, &segment), sorted(entries[..counted].to_vec()));
        let puts = entries[20..counted].iter().filter(|entry| entry.2.is_some()).count();
        assert_eq!(
            segment.puts.load(std::sync::atomic::Ordering::Relaxed),
            puts as u64,
            "the others were counted"
        );
    }
}

#[test]
fn a_revoked_write_is_found_by_nobody_and_those_around_it_are() {
    for seals in [false, true] {
        let (_, vfs) = memory_vfs();
        let env = log_env(&vfs, 1);
        let log = new_log(&env, false);
        let entries: Vec<Entry> = (1..=9).map(|version| entry(version, version)).collect();
        let (before, rest) = entries.split_at(3);
        let (revoked, behind) = rest.split_at(3);
        before.iter().for_each(|entry| drop(write(&env, &log, entry.1, &[op(entry)])));
        // Another writer's record already stands after it.
        let failed = log.append(&env, (4, 0), &revoked.iter().map(op).collect::<Vec<_>>()).unwrap();
        write(&env, &log, 7, &[op(&behind[0])]);
        log.revoke(&env, &failed).unwrap();
        behind[1..].iter().for_each(|entry| drop(write(&env, &log, entry.1, &[op(entry)])));
        if seals {
            log.seal(&env).unwrap();
        }
        let all = sorted(before.iter().chain(behind).cloned().collect());
        assert_eq!(by_index(&env, &log.segment), all);
        let mut keys = Vec::new();
        log.segment.for_each_since(&env, HEADER_BYTES, |key, _| keys.push(key.to_vec())).unwrap();
        assert_eq!(keys.len(), all.len());
        let checkpoint = log.segment.sync().unwrap();
        let later = log_env(&vfs, 2);
        let segment = reopened(&later, checkpoint, 1, true);
        assert_eq!(by_index(&later, &segment), all);
        assert_eq!(salvaged(&segment, &later), (all, 0));
    }
}

#[test]
fn a_range_delete_is_known_of_every_part_and_after_a_loading() {
    let (_, vfs) = memory_vfs();
    let env = log_env(&vfs, 1);
    let log = new_log(&env, false);
    let bounds = Bounds { start: Bound::Included(b"b".to_vec()), end: Bound::Excluded(b"d".to_vec()) };
    write(&env, &log, 1, &[(Kind::Put, b"a", b"1"), (Kind::Put, b"c", b"1")]);
    write(&env, &log, 2, &[(Kind::DeleteRange, b"", &encode_bounds(&bounds))]);
    let covers = |env: &LogEnv, segment: &Segment| {
        let parts = segment.parts(env).unwrap();
        let memory = parts.memory.iter().map(|memory| RangeDeletes::clone(&memory.tombstones()));
        let all: Vec<_> = memory.chain(parts.indexed.iter().map(|part| part.tombstones.clone())).collect();
        let all = all.iter().flat_map(RangeDeletes::iter);
        let all: Vec<_> =
            all.map(|t| (t.version, t.covers(&env.order, b"c"), t.covers(&env.order, b"d"))).collect();
        assert!(segment.has_range_deletes_since(env, HEADER_BYTES).unwrap());
        assert!(!segment.has_range_deletes_since(env, segment.len()).unwrap());
        all
    };
    assert_eq!(covers(&env, &log.segment), [(2, true, false)]);
    log.seal(&env).unwrap();
    assert_eq!(covers(&env, &log.segment), [(2, true, false)]);
    let checkpoint = log.segment.sync().unwrap();
    let later = log_env(&vfs, 2);
    assert_eq!(covers(&later, &reopened(&later, checkpoint, 1, false)), [(2, true, false)]);
}

#[test]
fn of_a_damaged_log_everything_is_left_but_what_was_damaged() {
    for seals in [false, true] {
        let (disk, vfs) = memory_vfs();
        let env = log_env(&vfs, 1);
        let log = new_log(&env, false);
        let entries: Vec<Entry> =
            (1..=40).map(|version| (format!("{version}"), version, Some("v".repeat(50)))).collect();
        let mut places = Vec::new();
        for entry in &entries {
            places.extend(write(&env, &log, entry.1, &[op(entry)]).places);
        }
        if seals {
            log.seal(&env).unwrap();
        }
        let checkpoint = log.segment.sync().unwrap();
        let file = disk.open(&log.segment.file.path, crate::vfs::OpenMode::ReadWrite).unwrap();
        // In the value of the twelfth entry.
        file.write_at(&[0xff; 8], places[11].offset + u64::from(places[11].len) - 20).unwrap();
        let later = log_env(&vfs, 2);
        let segment = reopened(&later, checkpoint, 1, false);
        let left: Vec<Entry> = entries.iter().filter(|entry| entry.1 != 12).cloned().collect();
        let (found, damages) = salvaged(&segment, &later);
        assert_eq!(found, sorted(left.clone()));
        assert!(damages > 0);
        let parts = segment.parts(&later).unwrap();
        if seals {
            let header = &parts.header;
            assert!(segment.read_value(header, places[11]).is_err_and(|error| error.is_corruption()));
            assert_eq!(segment.read_value(header, places[12]).unwrap(), "v".repeat(50));
        } else {
            assert!(parts.check_whole().is_err_and(|error| error.is_corruption()));
            assert!(parts.hole_of(b"12").is_some(), "nobody is told that it is not there");
            assert_eq!(by_index(&later, &segment), sorted(left));
        }
    }
}

#[test]
fn an_append_that_fails_is_cut_off_and_where_that_fails_the_log_ends() {
    for cuts in [true, false] {
        let disk = MemVfs::new();
        let fault = FaultVfs::over_memory(disk);
        let vfs: Arc<dyn Vfs> = Arc::new(fault.clone());
        let env = log_env(&vfs, 1);
        let log = new_log(&env, false);
        let entries: Vec<Entry> =
            (1..=3).map(|version| (format!("{version}"), version, Some("v".repeat(50)))).collect();
        write(&env, &log, 1, &[op(&entries[0])]);
        let len = log.segment.len();
        fault.set_rule(move |call| match call.operation {
            Call::WriteAt => Verdict::ShortWrite { bytes: 30, failure: Failure::ENOSPC },
            Call::SetLen if !cuts => Verdict::Fail(Failure::EIO),
            _ => Verdict::Pass,
        });
        assert!(log.append(&env, (2, 0), &[op(&entries[1])]).is_err());
        fault.clear_rule();
        assert_eq!((log.is_broken(), log.segment.len()), (!cuts, len));
        let next = log.append(&env, (3, 0), &[op(&entries[2])]);
        assert_eq!(next.is_ok(), cuts);
        if !cuts {
            assert!(next.is_err_and(|error| matches!(error, Error::ReadOnly { .. })));
            log.segment.zero_tail(len).unwrap();
        }
        let checkpoint = log.segment.sync().unwrap();
        let later = log_env(&vfs, 2);
        let found = by_index(&later, &reopened(&later, checkpoint, 1, true));
        assert_eq!(
            found,
            if cuts { vec![entries[0].clone(), entries[2].clone()] } else { entries[..1].to_vec() }
        );
    }
}
