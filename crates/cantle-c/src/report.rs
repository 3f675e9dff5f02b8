//! Reports of a store: statistics, the chunk map, verification, repair. Long ones are JSON.

use crate::boundary::{status, value};
use crate::db::{OpenDb, Target, cantle_db, on};
use crate::error::{OpenError, cantle_error};
use crate::failure::{Failure, Outcome};
use crate::handle;
use crate::keyspace::cantle_keyspace;
use crate::memory::{cantle_free, copy_of};
use crate::options::{cantle_options, read_options};
use crate::raw::{self, Out};
use crate::status::cantle_status;
use cantle::repair::RepairReport;
use cantle::{Error, Report, Stats};
use serde_json::{Map, Value, json};
use std::ffi::{c_char, c_void};
use std::fmt::Write as _;
use std::ops::Bound;
use std::ptr::null_mut;

/// Called from time to time with the progress of a repair: bytes of files read, about how many will
/// be read, and pairs saved. Must neither throw nor jump out.
pub type cantle_progress_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, bytes: u64, total_bytes: u64, pairs: u64)>;

fn text_of(value: &Value) -> Outcome<*mut c_char> {
    copy_of(&serde_json::to_vec(value)?)
}

/// The statistics, with durations as numbers of nanoseconds.
fn stats_of(stats: &Stats) -> Outcome<Value> {
    match serde_json::to_value(stats)? {
        stats @ Value::Object(_) => Ok(with_nanos(stats)),
        _ => Err(Failure::from(Error::InvalidArgument("the statistics are no object".into()))),
    }
}

/// The same with each duration, at any depth, as a number of nanoseconds.
fn with_nanos(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let plain = members.into_iter().map(|(name, value)| match nanos_of(&value) {
                Some(nanos) => (format!("{name}_nanos"), Value::from(nanos)),
                None => (name, with_nanos(value)),
            });
            Value::Object(plain.collect::<Map<_, _>>())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(with_nanos).collect()),
        value => value,
    }
}

/// A duration as `serde` writes it.
fn nanos_of(value: &Value) -> Option<u64> {
    let members = value.as_object().filter(|members| members.len() == 2)?;
    let (secs, nanos) = (members.get("secs")?.as_u64()?, members.get("nanos")?.as_u64()?);
    secs.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// The number with this name. Members of objects are reached by dots, and keyspaces by their names.
fn number_of(stats: &Value, name: &str) -> Outcome<u64> {
    let unknown = || Failure::invalid(format!("the statistics have no number named {name:?}"));
    let mut at = stats;
    let mut rest = name;
    loop {
        if let Value::Array(members) = at {
            // Keyspaces have names, which may contain dots: the longest name that fits counts. Levels
            // have numbers.
            let rest_behind = |member: &Value| {
                let behind = match (member.get("name").and_then(Value::as_str), member.get("level")) {
                    (Some(name), _) => rest.strip_prefix(name),
                    (None, Some(level)) => rest.strip_prefix(level.to_string().as_str()),
                    (None, None) => None,
                };
                behind.and_then(|behind| behind.strip_prefix('.'))
            };
            let fitting = members.iter().filter_map(|member| Some((member, rest_behind(member)?)));
            (at, rest) = fitting.min_by_key(|(_, behind)| behind.len()).ok_or_else(unknown)?;
            continue;
        }
        let (member, behind) = rest.split_once('.').unwrap_or((rest, ""));
        at = at.get(member).ok_or_else(unknown)?;
        if behind.is_empty() {
            return at.as_u64().ok_or_else(unknown);
        }
        rest = behind;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn damage_of(damage: &[Error]) -> Vec<Value> {
    let place = |error: &Error| {
        let message = error.to_string();
        match error {
            Error::Corruption { path, offset, .. } => {
                json!({ "path": path.display().to_string(), "offset": offset, "message": message })
            }
            Error::Io { path, .. } | Error::UnsupportedFormat { path, .. } => {
                json!({ "path": path.display().to_string(), "message": message })
            }
            _ => json!({ "message": message }),
        }
    };
    damage.iter().map(place).collect()
}

fn verification_of(report: &Report) -> Value {
    json!({
        "ok": report.is_ok(), "files": report.files, "bytes": report.bytes, "entries": report.entries,
        "damage": damage_of(&report.damage),
        "unknown_files": report.unknown_files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
    })
}

fn repair_of(report: &RepairReport) -> Value {
    let bound = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Unbounded => Value::Null,
        Bound::Included(key) => json!({ "key_hex": hex(key), "included": true }),
        Bound::Excluded(key) => json!({ "key_hex": hex(key), "included": false }),
    };
    let keyspaces: Vec<Value> = report
        .keyspaces
        .iter()
        .map(|keyspace| json!({ "name": keyspace.name, "pairs": keyspace.pairs, "bytes": keyspace.bytes }))
        .collect();
    let left_out: Vec<Value> = report
        .left_out
        .iter()
        .map(|left| json!({ "path": left.path.display().to_string(), "why": left.why, "loses": left.loses }))
        .collect();
    let uncertain: Vec<Value> = report
        .uncertain
        .iter()
        .map(|range| {
            json!({
                "keyspace": range.keyspace, "from": bound(&range.keys.0), "to": bound(&range.keys.1),
                "path": range.path.display().to_string(), "offset": range.offset,
            })
        })
        .collect();
    let may_return: Vec<Value> = report
        .may_return
        .iter()
        .map(|range| {
            json!({
                "keyspace": range.keyspace, "from": bound(&range.keys.0), "to": bound(&range.keys.1),
                "path": range.path.display().to_string(),
            })
        })
        .collect();
    json!({
        "ok": report.is_ok(), "pairs": report.pairs(), "keyspaces": keyspaces, "files": report.files,
        "bytes": report.bytes, "damage": damage_of(&report.damage), "damage_untold": report.damage_untold,
        "left_out": left_out, "uncertain": uncertain, "uncertain_untold": report.uncertain_untold,
        "may_return": may_return, "may_return_untold": report.may_return_untold, "notes": report.notes,
    })
}

/// Counters and sizes of the store and of each keyspace, as a JSON object: the fields of `Stats` in
/// Rust, with durations in nanoseconds (and named so). Takes microseconds.
///
/// Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and
/// CANTLE_INVALID_ARGUMENT for an invalid handle, CANTLE_OUT_OF_MEMORY. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_stats(db: *mut cantle_db, error: *mut *mut cantle_error) -> *mut c_char {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { value(error, null_mut(), || text_of(&stats_of(&handle::get::<OpenDb>(db)?.db.stats())?)) }
}

/// One number of the statistics by its name, such as "disk_bytes", "memory_used",
/// "open_time_nanos", "memory.rows.used", "write_stalls.lock.total_nanos" (the cause of a stall is
/// "brake", "lock", "allocation" or "device"), "keyspaces.default.live_bytes" or, in the layout
/// `flsm`, "keyspaces.default.by_level.1.table_bytes_written".
///
/// Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT if there is no such number,
/// for NULL and for an invalid handle; CANTLE_FORKED; `*number` is 0 then. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_stat(
    db: *mut cantle_db,
    name: *const c_char,
    number: *mut u64,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let number = Out::required(number, 0, "number")?;
            let name = raw::text(name, "name of the number")?;
            number.set(number_of(&stats_of(&handle::get::<OpenDb>(db)?.db.stats())?, name)?);
            Ok(())
        })
    }
}

/// The key ranges that a keyspace's layout manages (chunks; in `flsm` the logs of level 0, then the
/// guards level by level), in key order, as a JSON array of objects: `start_hex` (the smallest
/// possible key, in hexadecimal digits), `level`, `table_bytes`, `log_bytes`, `referred_bytes` (long
/// values in logs that its tables refer to), `garbage_bytes`, `tables`, `tables_max` (the limit of a guard), `dropped_ranges` (parts of tables that range
/// deletes have dropped), `segments`, `resident_bytes`, `heat`, `read_debt`. `keyspace` may be NULL
/// for the default one.
///
/// Ownership: the text is the caller's, to be freed by cantle_free. Errors: NULL and CANTLE_CLOSED, CANTLE_NO_KEYSPACE,
/// CANTLE_INVALID_ARGUMENT, CANTLE_OUT_OF_MEMORY. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_regions(
    db: *mut cantle_db,
    keyspace: *mut cantle_keyspace,
    error: *mut *mut cantle_error,
) -> *mut c_char {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            let target = Target::of(db, keyspace)?;
            let regions = on!(target, on => on.regions())?;
            let regions = regions.iter().map(|region| {
                let mut members = serde_json::to_value(region)?;
                if let Value::Object(members) = &mut members {
                    members.remove("start");
                    members.insert("start_hex".into(), hex(&region.start).into());
                }
                Ok(members)
            });
            text_of(&Value::Array(regions.collect::<Outcome<_>>()?))
        })
    }
}

/// Reads and checks every file of the store. `*damaged` is the number of damaged places, 0 if the
/// store is sound; damage is not an error of this function. `*first` describes the first damage as
/// an error does, by cantle_error_path, cantle_error_offset and cantle_error_message; it is NULL if
/// there is none. `*report` is a JSON object: `ok`, `files`, `bytes`, `entries`, `damage` with
/// `path`, `offset` and `message`, and `unknown_files`, which are harmless. `damaged`, `first` and
/// `report` may be NULL.
///
/// Ownership: the text is the caller's, to be freed by cantle_free; so is `*first`, by
/// cantle_error_free. Errors: CANTLE_CLOSED, CANTLE_IO, CANTLE_INVALID_ARGUMENT for an invalid
/// handle, CANTLE_FORKED, CANTLE_OUT_OF_MEMORY; `*first` and `*report` are NULL then. Threads: any;
/// the store may be used meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_verify(
    db: *mut cantle_db,
    damaged: *mut u64,
    first: *mut *mut cantle_error,
    report: *mut *mut c_char,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let (damaged, report) = (Out::optional(damaged, 0), Out::optional(report, null_mut()));
            let first = Out::optional(first, null_mut());
            let mut found = handle::get::<OpenDb>(db)?.db.verify()?;
            let text = if report.is_wanted() { text_of(&verification_of(&found))? } else { null_mut() };
            let count = found.damage.len() as u64;
            if first.is_wanted() && count > 0 {
                let failure = Failure::from(found.damage.swap_remove(0));
                match handle::create(OpenError::from(failure)) {
                    Ok(told) => first.set(told),
                    Err(failure) => {
                        cantle_free(text.cast());
                        return Err(failure);
                    }
                }
            }
            damaged.set(count);
            report.set(text);
            Ok(())
        })
    }
}

/// Removes the store in directory `path`, damaged or not, and everything in it. The directory
/// stays, and so do files that are not the store's. Succeeds if there is no store.
///
/// Ownership: nothing changes hands. Errors: CANTLE_LOCKED if the store is open, CANTLE_NOT_A_STORE
/// for a file or another kind of store, CANTLE_IO if a file cannot be removed: then the store
/// cannot be opened any more; call this again to remove the rest. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_destroy(path: *const c_char, error: *mut *mut cantle_error) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            Ok(cantle::Db::destroy(raw::path(path, "path of the store")?, cantle::Options::new())?)
        })
    }
}

/// Saves the remains of the damaged store in directory `source` into a new store in directory
/// `target`, which must not exist. Nothing in `source` is changed. `options` are those of the new
/// store, and have the comparators of its keyspaces; NULL for the defaults. `progress` may be NULL;
/// it is called with `user`. `*complete` is true if the new store has everything that the old one
/// had. `*report` is a JSON object: `ok`, `pairs`, `keyspaces`, `files`, `bytes`, `damage`,
/// `damage_untold`, `left_out`, `uncertain` (ranges of keys whose newest value may be lost),
/// `uncertain_untold`, `may_return` (files that may bring back deleted pairs, and ranges of keys),
/// `may_return_untold`, `notes`. `complete` and `report` may be NULL.
///
/// Ownership: the text is the caller's, to be freed by cantle_free; `user` stays the caller's.
/// Errors: damage is in the report, and not an error. CANTLE_ALREADY_EXISTS, CANTLE_NOT_FOUND,
/// CANTLE_NOT_A_STORE, CANTLE_LOCKED if the store is open, CANTLE_OPTION_MISMATCH for a comparator
/// that is not registered, CANTLE_CORRUPTION if no file tells to which store it belongs, and errors
/// of writing; the new store is not complete then: remove it. Threads: any; `progress` is called in
/// this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_repair(
    source: *const c_char,
    target: *const c_char,
    options: *const cantle_options,
    progress: cantle_progress_fn,
    user: *mut c_void,
    complete: *mut bool,
    report: *mut *mut c_char,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`); `progress` keeps to its type's contract.
    unsafe {
        status(error, || {
            let (complete, report) = (Out::optional(complete, false), Out::optional(report, null_mut()));
            let source = raw::path(source, "path of the damaged store")?;
            let target = raw::path(target, "path of the new store")?;
            let found = cantle::Db::repair_with(source, target, read_options(options)?, |step| {
                if let Some(progress) = progress {
                    progress(user, step.bytes, step.total_bytes, step.pairs);
                }
            })?;
            complete.set(found.is_ok());
            if report.is_wanted() {
                report.set(text_of(&repair_of(&found))?);
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_name() {
        let stats = json!({
            "disk_bytes": 7, "memory": { "rows": { "used": 8 } }, "read_only": null,
            "keyspaces": [
                { "name": "a", "regions": 1, "gets_served": { "resident": 3 } },
                { "name": "a.regions", "regions": 2 },
            ],
        });
        let number = |name| number_of(&stats, name).ok();
        assert_eq!((number("disk_bytes"), number("memory.rows.used")), (Some(7), Some(8)));
        assert_eq!(
            (number("keyspaces.a.regions"), number("keyspaces.a.regions.regions")),
            (Some(1), Some(2))
        );
        assert_eq!(number("keyspaces.a.gets_served.resident"), Some(3));
        for wrong in
            ["", ".", "memory", "memory.", "read_only", "keyspaces", "keyspaces.", "keyspaces.b.regions", "x"]
        {
            assert_eq!(number(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn times_are_numbers() {
        let stats = stats_of(&Stats::default()).unwrap();
        assert_eq!(number_of(&stats, "open_time_nanos").unwrap(), 0);
        assert!(stats.get("open_time").is_none());
        for name in
            ["write_delay_longest_nanos", "write_stalls.lock.count", "write_stalls.device.total_nanos"]
        {
            assert_eq!(number_of(&stats, name).unwrap(), 0, "{name}");
        }
        let nested = with_nanos(json!({ "a": [{ "b": { "secs": 2, "nanos": 3 }, "c": { "secs": 1 } }] }));
        assert_eq!(nested, json!({ "a": [{ "b_nanos": 2_000_000_003_u64, "c": { "secs": 1 } }] }));
    }
}
