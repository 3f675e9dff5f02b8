//! Flipped bits, overwritten sectors and pages that cannot be read.

use super::stores::{End, plain, store};
use super::{check, files, opened, options, read_file, repaired, write_file};
use cantle::vfs::{Failure, FaultVfs, MemVfs, Operation, Verdict, Vfs};
use cantle::{Compression, Durability};
use std::path::Path;
use std::sync::Arc;

/// Maximum number of entries of a block of 4 KiB, with the lengths of these tests; versions of a
/// key take more space.
const BLOCK_ENTRIES: usize = 60;

fn kind(bytes: &[u8]) -> Option<u8> {
    bytes.starts_with(b"CANTLE\0").then(|| bytes[7])
}

/// Number of keys that a range delete of these tests covers, and that come back when it is lost.
const RANGE_KEYS: usize = 4;

/// The end of a table's data.
fn data_end(table: &[u8]) -> usize {
    let footer = &table[table.len() - 32..];
    u64::from_le_bytes(footer[..8].try_into().unwrap()) as usize
}

#[test]
fn a_flipped_bit_costs_one_block_or_record() {
    for end in [End::Closed, End::Killed] {
        let (vfs, history) = plain(400, end);
        let expected = opened(&vfs);
        let (mut tables, mut logs) = (0, 0);
        for path in files(&vfs) {
            let bytes = read_file(&vfs, &path);
            let Some(kind @ (b'T' | b'L')) = kind(&bytes) else { continue };
            let step = (bytes.len() / 40).max(1);
            let (mut told, mut untold) = (0, Vec::new());
            for at in (0..60).step_by(13).chain((64..bytes.len()).step_by(step)) {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                let damaged = vfs.kill();
                write_file(&damaged, &path, &flipped);
                let what = format!("{end:?}: {} flipped at {at}", path.display());
                let (found, report) = repaired(&damaged);
                let astray = check(&expected, &found, &report, &history, &what);
                let (most, counter) =
                    if kind == b'T' { (BLOCK_ENTRIES, &mut tables) } else { (RANGE_KEYS, &mut logs) };
                *counter += usize::from(astray > 0);
                assert!(astray <= most, "{what}: {astray} pairs are astray");
                let described = at < 64 || (kind == b'T' && at >= data_end(&bytes));
                assert!(!described || astray == 0, "{what}: what describes a table is not needed");
                // The last record that was not durable yet looks as if it was torn.
                let torn = end == End::Killed && kind == b'L';
                if torn || !report.damage.is_empty() { told += 1 } else { untold.push(at) }
            }
            // Unless the file is not read at all, as its contents were dropped.
            assert!(told == 0 || untold.is_empty(), "{end:?}: {}, {untold:?} not told", path.display());
        }
        assert!(tables > 5 && logs > 5, "{tables} and {logs} flips cost something");
    }
}

/// Damage of any kind anywhere, in several places at once.
#[test]
fn whatever_is_damaged_what_is_left_is_right() {
    let mut random = fastrand(0x5eed);
    for round in 0..250 {
        let end = if round % 2 == 0 { End::Closed } else { End::Killed };
        let compression = if round % 3 == 0 { Compression::Lz4 } else { Compression::None };
        let (vfs, history) = store(200 + round % 7 * 40, end, Durability::Process, compression);
        let expected = opened(&vfs);
        let all = files(&vfs);
        let mut what = format!("round {round}:");
        for _ in 0..1 + random() % 3 {
            let path = &all[random() as usize % all.len()];
            let mut bytes = read_file(&vfs, path);
            if bytes.is_empty() {
                continue;
            }
            let at = random() as usize % bytes.len();
            let len = (1 + random() as usize % 700).min(bytes.len() - at);
            match random() % 4 {
                0 => bytes[at] ^= 1 << (random() % 8),
                1 => bytes[at..at + len].fill(0),
                2 => bytes[at..at + len].iter_mut().for_each(|byte| *byte = random() as u8),
                _ => {
                    let from = random() as usize % bytes.len();
                    let piece = bytes[from..(from + len).min(bytes.len())].to_vec();
                    let end = (at + piece.len()).min(bytes.len());
                    bytes[at..end].copy_from_slice(&piece[..end - at]);
                }
            }
            what += &format!(" {} at {at} (+{len})", path.display());
            write_file(&vfs, path, &bytes);
        }
        let report = cantle::Db::repair("store", "new", options(&vfs));
        let Ok(report) = report else { panic!("{what}: {report:?}") };
        let db = options(&vfs).open("new").unwrap();
        assert!(db.verify().unwrap().is_ok(), "{what}");
        let found = super::content(&db);
        for (name, pairs) in &found {
            // The name of the keyspace may be lost.
            let name = match name.as_str() {
                "lost-2" => "other",
                "lost-4" => "dropped",
                "lost-0" => continue,
                name => name,
            };
            for (key, value) in pairs {
                let ever = history.0.get(name).and_then(|keys| keys.get(key));
                assert!(
                    ever.is_some_and(|values| values.contains(value)),
                    "{what}: a pair of {name} was made up"
                );
            }
        }
        let is_told = !report.damage.is_empty() || !report.left_out.is_empty();
        // The tail of data that were not durable may be torn. Two places record that a store was
        // closed: its last checkpoint, and the page cache's block. Without both it looks like one
        // that lost power before.
        let is_like_torn = end == End::Killed || what.contains("MANIFEST") && what.contains("PAGECACHE");
        assert!(is_told || is_like_torn || found == expected, "{what}: {report:?}");
        if !what.contains("MANIFEST") && end == End::Closed {
            check(&expected, &found, &report, &history, &what);
        }
    }
}

/// Pseudorandom numbers, the same in each run.
fn fastrand(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
    }
}

/// Without its index a table gives all blocks except the damaged one.
#[test]
fn blocks_are_found_without_an_index() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd(3)] {
        let (vfs, history) = store(600, End::Closed, Durability::Process, compression);
        let expected = opened(&vfs);
        let tables = files(&vfs).into_iter().filter(|path| kind(&read_file(&vfs, path)) == Some(b'T'));
        for path in tables {
            let bytes = read_file(&vfs, &path);
            let data_end = data_end(&bytes);
            for lost in ["index", "tail", "tail and a block", "index and a block"] {
                let mut less = bytes.clone();
                if lost.contains("block") {
                    let middle = (64 + data_end) / 2;
                    less[middle..middle + 20].fill(0x77);
                }
                if lost.contains("tail") {
                    less.truncate(data_end);
                } else {
                    let index =
                        u64::from_le_bytes(less[less.len() - 24..less.len() - 16].try_into().unwrap());
                    less[index as usize + 3] ^= 1;
                }
                let damaged = vfs.kill();
                write_file(&damaged, &path, &less);
                let what = format!("{compression:?}: {} without {lost}", path.display());
                let (found, report) = repaired(&damaged);
                let astray = check(&expected, &found, &report, &history, &what);
                let most = if lost.contains("block") { 4 * BLOCK_ENTRIES } else { 0 };
                assert!(astray <= most, "{what}: {astray} pairs are astray");
                assert!(!report.is_ok() || !report.damage.is_empty(), "{what}");
            }
        }
    }
}

#[test]
fn pages_that_cannot_be_read_cost_no_more_than_what_is_on_them() {
    let (vfs, history) = plain(900, End::Closed);
    let expected = opened(&vfs);
    for path in files(&vfs) {
        let bytes = read_file(&vfs, &path);
        if kind(&bytes).is_none() || bytes.len() < 9000 {
            continue;
        }
        let faulty = FaultVfs::over_memory(vfs.kill());
        let bad = path.clone();
        faulty.set_rule(move |call| {
            let within = call.path == bad && call.offset < 8192 && call.offset + call.len > 4096;
            if call.operation == Operation::ReadAt && within {
                Verdict::Fail(Failure::EIO)
            } else {
                Verdict::Pass
            }
        });
        let vfs: Arc<dyn Vfs> = Arc::new(faulty);
        let report = cantle::Db::repair("store", "new", options(&MemVfs::new()).vfs(vfs.clone())).unwrap();
        let what = format!("{} with a bad page", path.display());
        let unreadable = report.damage.iter().any(|error| error.to_string().contains("cannot be read"));
        assert!(unreadable, "{what}: {report:?}");
        let db = options(&MemVfs::new()).vfs(vfs).open(Path::new("new")).unwrap();
        let astray = check(&expected, &super::content(&db), &report, &history, &what);
        assert!(astray <= 3 * BLOCK_ENTRIES, "{what}: {astray} pairs are astray");
    }
}

/// The manifest knows the owner of a log: the log's header may be lost, and data buffered for it
/// are appended to it.
#[test]
fn a_log_without_its_header_has_all_that_was_buffered() {
    let (vfs, _) = plain(400, End::Killed);
    let expected = opened(&vfs);
    let logs = files(&vfs).into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "log"));
    let left_behind = repaired(&vfs.kill()).1.left_out;
    let mut damaged_logs = 0;
    for path in logs.filter(|log| left_behind.iter().all(|left| left.path != *log)) {
        let damaged = vfs.kill();
        let mut bytes = read_file(&damaged, &path);
        // A log of a dropped keyspace is not needed, and is removed in the background.
        if bytes.len() < 64 || !is_of_one_of(&vfs, &bytes) {
            continue;
        }
        bytes[..64].fill(0);
        write_file(&damaged, &path, &bytes);
        let (found, report) = repaired(&damaged);
        assert!(found == expected && !report.is_ok(), "{}: {report:?}", path.display());
        damaged_logs += 1;
    }
    assert!(damaged_logs > 0);
}

/// True if a file belongs to an existing keyspace.
fn is_of_one_of(vfs: &MemVfs, file: &[u8]) -> bool {
    let db = options(&vfs.kill()).open("store").unwrap();
    let keyspace = u32::from_le_bytes(file[12..16].try_into().unwrap());
    // Numbered from 1, in the order of their creation; the dropped one was the last.
    keyspace as usize <= db.keyspaces().unwrap().len()
}

/// Data that are buffered for the end of a log only need the log's entry in the manifest, or its
/// header, not the rest of the log.
#[test]
fn what_was_buffered_for_a_log_that_is_gone_or_cut_is_saved() {
    let (vfs, history) = plain(400, End::Killed);
    let expected = opened(&vfs);
    let without_write_buffer = vfs.kill();
    without_write_buffer.remove(Path::new("store/WRITE-BUFFER")).unwrap();
    let before = opened(&without_write_buffer);
    let pairs = expected.iter().flat_map(|(name, pairs)| pairs.iter().map(move |pair| (name, pair)));
    let buffered: Vec<_> =
        pairs.filter(|(name, (key, value))| before[*name].get(*key) != Some(value)).collect();
    assert!(!buffered.is_empty());
    let logs = files(&vfs).into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "log"));
    let mut lost = 0;
    for path in logs {
        let bytes = read_file(&vfs, &path);
        for len in
            [None, Some(0), Some(63), Some(64), Some(bytes.len() / 2), Some(bytes.len().saturating_sub(1))]
        {
            let damaged = vfs.kill();
            match len {
                None => damaged.remove(&path).unwrap(),
                Some(len) if len < bytes.len() => write_file(&damaged, &path, &bytes[..len]),
                Some(_) => continue,
            }
            let what = format!("{} cut to {len:?} bytes of {}", path.display(), bytes.len());
            let (found, report) = repaired(&damaged);
            check(&expected, &found, &report, &history, &what);
            for (name, (key, value)) in &buffered {
                let saved = found[*name].get(*key) == Some(value);
                assert!(saved, "{what}: {name} {} is lost: {report:?}", String::from_utf8_lossy(key));
            }
            lost += usize::from(found != expected);
        }
    }
    assert!(lost > 0, "all was buffered");
}

/// Data that were buffered when the process was killed are part of the store.
#[test]
fn damage_of_the_write_buffer_is_told_by_verify_and_repair() {
    let (vfs, history) = plain(400, End::Killed);
    let expected = opened(&vfs);
    let path = Path::new("store/WRITE-BUFFER");
    let bytes = read_file(&vfs, path);
    for at in [8, 4096, 4096 + 9, 4096 + 30] {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        let damaged = vfs.kill();
        write_file(&damaged, path, &flipped);
        let what = format!("the write buffer flipped at {at}");
        let verified = options(&damaged).read_only(true).open("store").unwrap().verify().unwrap();
        assert!(!verified.is_ok(), "{what}");
        let (found, report) = repaired(&damaged);
        check(&expected, &found, &report, &history, &what);
        assert!(!report.is_ok(), "{what}: {report:?}");
    }
}
