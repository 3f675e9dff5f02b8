//! Properties of a database: statistics as text, and sizes of key ranges.

use crate::bytes::{copy_text, lent};
use crate::call::quietly;
use crate::database::{Database, database, leveldb_t};
use cantle::stats::{ChunkStats, FlsmStats, KeyspaceStats, LayoutStats, LevelStats, RegionInfo};
use std::cmp::Ordering;
use std::ffi::{CStr, c_char, c_int};
use std::fmt::Write;
use std::ops::Bound;
use std::ptr::null_mut;

/// Number of levels that LevelDB has.
const LEVELS: u64 = 7;

/// The property's text; `None` if no property has this name.
fn property(database: &Database, name: &str) -> Option<String> {
    let name = name.strip_prefix("leveldb.")?;
    if let Some(level) = name.strip_prefix("num-files-at-level") {
        let is_number = !level.is_empty() && level.bytes().all(|byte| byte.is_ascii_digit());
        let level = level.parse().ok().filter(|&level: &u64| is_number && level < LEVELS)?;
        return Some(files_at_level(&database.db.regions().ok()?, level).to_string());
    }
    match name {
        "stats" => stats(database),
        "sstables" => Some(tables(&database.db.regions().ok()?)),
        "approximate-memory-usage" => Some(database.db.stats().memory_used.to_string()),
        _ => None,
    }
}

/// Number of files of a level of LevelDB's: logs are level 0, the tables of chunks level 1, and guards
/// have their own levels.
fn files_at_level(regions: &[RegionInfo], level: u64) -> u64 {
    sum_of_level(regions, level, |region| region.segments.into(), |region| region.tables.into())
}

fn sum_of_level(
    regions: &[RegionInfo],
    level: u64,
    of_logs: fn(&RegionInfo) -> u64,
    of_tables: fn(&RegionInfo) -> u64,
) -> u64 {
    match level {
        0 => regions.iter().map(of_logs).sum(),
        _ => {
            let level_of = |region: &RegionInfo| u64::from(region.level).clamp(1, LEVELS - 1);
            regions.iter().filter(|region| level_of(region) == level).map(of_tables).sum()
        }
    }
}

/// The table that LevelDB prints, so that programs that parse it find its columns, and more lines
/// with Cantle's own figures.
fn stats(database: &Database) -> Option<String> {
    let chunks = database.db.regions().ok()?;
    let stats = database.db.stats();
    let default = stats.keyspaces.iter().find(|keyspace| keyspace.name == "default")?;
    let KeyspaceStats {
        log_bytes_written, table_bytes_written, user_bytes_written, gets, scans, writes, ..
    } = *default;
    let mut text = String::from(
        "                               Compactions\n\
         Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
         --------------------------------------------------\n",
    );
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
    for level in 0..LEVELS {
        let files = files_at_level(&chunks, level);
        if files > 0 {
            let bytes = sum_of_level(&chunks, level, |region| region.log_bytes, |region| region.table_bytes);
            let of_flsm = default.flsm().map(|flsm| &flsm.by_level);
            let of_level = |own: &&LevelStats| u64::from(own.level) == level;
            let written = match (level, of_flsm) {
                (0, _) => log_bytes_written,
                (_, None) => table_bytes_written,
                (_, Some(levels)) => levels.iter().filter(of_level).map(|own| own.table_bytes_written).sum(),
            };
            // Time and bytes read are not counted.
            let (size, written) = (mib(bytes), mib(written));
            let _ = writeln!(text, "{level:3} {files:8} {size:8.0} {:9.0} {:8.0} {written:9.0}", 0.0, 0.0);
        }
    }
    let (parts, work) = match &default.of_layout {
        LayoutStats::Chunk(ChunkStats { munks, munk_bytes, rebalances, splits, merges, .. }) => (
            format!("chunks: {}, in memory: {munks} ({:.1} MB)", chunks.len(), mib(*munk_bytes)),
            format!("rebalances: {rebalances}, splits: {splits}, merges: {merges}"),
        ),
        LayoutStats::Flsm(FlsmStats { levels, level0_logs, level0_tables, merges, .. }) => (
            format!(
                "guards: {}, levels: {levels}, logs: {level0_logs}, flushed tables: {level0_tables}",
                default.regions
            ),
            format!("merges: {merges}"),
        ),
        _ => (format!("{}: {}", default.layout.regions(), default.regions), "merges: 0".to_owned()),
    };
    let _ = write!(
        text,
        "\nCantle: level 0 is logs, the others sorted tables; time and bytes read are not counted\n\
         {parts}\n\
         memory: {:.1} MB of {:.1} MB\n\
         on disk: {:.1} MB; written by the user: {:.1} MB\n\
         {work}, checkpoints: {}\n\
         writes: {writes}, gets: {gets}, iterators: {scans}\n",
        mib(stats.memory_used),
        mib(stats.memory_budget),
        mib(stats.disk_bytes),
        mib(user_bytes_written),
        stats.checkpoints,
    );
    if let Some(reason) = &stats.read_only {
        let _ = writeln!(text, "read-only: {reason}");
    }
    Some(text)
}

/// The chunks in the order of their keys, or the guards of each level.
fn tables(chunks: &[RegionInfo]) -> String {
    let mut text = String::new();
    let has_levels = chunks.iter().any(|chunk| chunk.level > 0);
    for (number, chunk) in chunks.iter().enumerate() {
        let start = chunk.start.escape_ascii();
        let RegionInfo { tables, table_bytes, segments, log_bytes, .. } = chunk;
        let name = match chunk.level {
            0 if !has_levels => "chunk".to_owned(),
            level => format!("level {level}, part"),
        };
        let _ = writeln!(
            text,
            "--- {name} {number} from '{start}' ---\n tables: {tables}, {table_bytes} bytes; logs: {segments}, {log_bytes} bytes"
        );
    }
    text
}

/// A property by its name, to be freed by the caller; null if no property has this name.
///
/// # Safety
///
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_property_value(handle: *mut leveldb_t, name: *const c_char) -> *mut c_char {
    quietly(null_mut(), || {
        let Ok(database) = database(handle) else { return null_mut() };
        if name.is_null() {
            return null_mut();
        }
        // SAFETY: as the caller promises.
        let name = unsafe { CStr::from_ptr(name) };
        let text = name.to_str().ok().and_then(|name| property(&database, name));
        text.map_or(null_mut(), |text| copy_text(&text))
    })
}

/// Approximate number of bytes on disk of the keys from `start` to `limit`.
fn size(database: &Database, start: &[u8], limit: &[u8]) -> u64 {
    let order = match &database.comparator {
        Some(comparator) => comparator.compare(start, limit),
        None => start.cmp(limit),
    };
    if order != Ordering::Less {
        return 0;
    }
    database.db.approximate_bytes(start..limit).unwrap_or(0)
}

/// For each range, the approximate number of bytes on disk of its keys; 0 if it cannot be
/// determined.
///
/// # Safety
///
/// The arrays have `ranges` elements, and the keys have the given lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_approximate_sizes(
    handle: *mut leveldb_t,
    ranges: c_int,
    starts: *const *const c_char,
    start_bytes: *const usize,
    limits: *const *const c_char,
    limit_bytes: *const usize,
    sizes: *mut u64,
) {
    quietly((), || {
        let database = database(handle).ok();
        if sizes.is_null() {
            return;
        }
        let has_keys =
            !starts.is_null() && !start_bytes.is_null() && !limits.is_null() && !limit_bytes.is_null();
        for range in 0..usize::try_from(ranges).unwrap_or(0) {
            // SAFETY: as the caller promises.
            unsafe {
                *sizes.add(range) = 0;
                if !has_keys {
                    continue;
                }
                let start = lent(*starts.add(range), *start_bytes.add(range), "key");
                let limit = lent(*limits.add(range), *limit_bytes.add(range), "key");
                if let (Some(database), Ok(start), Ok(limit)) = (&database, start, limit) {
                    *sizes.add(range) = size(database, start, limit);
                }
            }
        }
    });
}

/// Rebalances the keys between two keys now: sorts them and removes old versions. A null key means
/// no bound.
///
/// # Safety
///
/// The keys are null or have the given lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_compact_range(
    handle: *mut leveldb_t,
    start: *const c_char,
    start_bytes: usize,
    limit: *const c_char,
    limit_bytes: usize,
) {
    quietly((), || {
        let Ok(database) = database(handle) else { return };
        let bound = |key: *const c_char, length| {
            if key.is_null() {
                return Some(Bound::Unbounded);
            }
            // SAFETY: as the caller promises.
            unsafe { lent(key, length, "key") }.ok().map(Bound::Included)
        };
        let (Some(start), Some(limit)) = (bound(start, start_bytes), bound(limit, limit_bytes)) else {
            return;
        };
        if let Err(error) = database.db.compact_range((start, limit)) {
            tracing::warn!(%error, "compacting a range failed");
        }
    });
}
