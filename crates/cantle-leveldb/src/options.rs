//! Options of opening a database. An invalid setting is remembered, and opening with it returns the
//! error.

use crate::cache::{CACHES, Cache, leveldb_cache_t};
use crate::call::{opaque, quietly};
use crate::comparator::{COMPARATORS, Callbacks, InUse, begin, leveldb_comparator_t};
use crate::env::{ENVS, leveldb_env_t};
use crate::filter_policy::{FILTER_POLICIES, leveldb_filterpolicy_t};
use crate::handles::{Handles, Kind};
use crate::memory::{self, Budget};
use crate::status::{Result, Status};
use cantle::{Compression, KeyspaceOptions, LayoutOptions};
use cantle_bindings::leveldb_budget::WRITE_BUFFER_BYTES;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;
use std::sync::Arc;

opaque! {
    /// Options of opening a database.
    leveldb_options_t,
    /// A logger of LevelDB's. Its C interface has no function that creates one.
    leveldb_logger_t,
}

static OPTIONS: Handles<Mutex<Options>> = Handles::new(Kind::Options);

const NO_COMPRESSION: c_int = 0;
const SNAPPY: c_int = 1;
/// A value of later versions of LevelDB.
const ZSTD: c_int = 2;
const LAYOUT_VARIABLE: &str = "CANTLE_LAYOUT";

#[derive(Clone)]
pub struct Options {
    create_if_missing: bool,
    error_if_exists: bool,
    comparator: Option<Arc<Callbacks>>,
    /// True if LevelDB's Bloom filter was set, which is only allowed if equal keys are identical.
    has_bloom_filter: bool,
    compression: c_int,
    write_buffer_bytes: u64,
    cache: Option<Arc<Cache>>,
    budget: Option<Budget>,
    layout: Option<String>,
    /// The kinds whose last given object was not valid.
    bad_objects: BTreeSet<&'static str>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            create_if_missing: false,
            error_if_exists: false,
            comparator: None,
            has_bloom_filter: false,
            compression: SNAPPY,
            write_buffer_bytes: WRITE_BUFFER_BYTES,
            cache: None,
            budget: None,
            layout: None,
            bad_objects: BTreeSet::new(),
        }
    }
}

/// A copy of the options that the handle names.
///
/// # Safety
///
/// No thread destroys them during the call.
pub unsafe fn options(handle: *const leveldb_options_t) -> Result<Options> {
    // SAFETY: as the caller promises.
    let options = unsafe { OPTIONS.get(handle) };
    Ok(options.ok_or_else(|| Status::no_object("options object"))?.lock().clone())
}

impl Options {
    /// The options to open the store with, and the comparator that must be held until the store is
    /// closed.
    pub fn to_cantle(&self) -> Result<(cantle::Options, Option<InUse>)> {
        if let Some(what) = self.bad_objects.first() {
            return Err(Status::no_object(what));
        }
        let mut keyspace = KeyspaceOptions::new().compression(match self.compression {
            NO_COMPRESSION => Compression::None,
            SNAPPY => Compression::Lz4,
            ZSTD => Compression::Zstd(1),
            other => {
                return Err(Status::invalid(format!(
                    "there is no compression {other}: give 0, none, or 1, snappy"
                )));
            }
        });
        if let Some(layout) = self.layout()? {
            keyspace = keyspace.layout(layout);
        }
        // In LevelDB a database's directory may contain other files: a program's log, or files that
        // remained when the database was destroyed.
        let mut options = cantle::Options::new()
            .beside_other_files(true)
            .create_if_missing(self.create_if_missing)
            .error_if_exists(self.error_if_exists);
        options = memory::apply(options, self.budget, self.write_buffer_bytes, self.cache.as_deref())?;
        let mut in_use = None;
        if let Some(callbacks) = &self.comparator
            && let Some((order, user)) = begin(callbacks, self.has_bloom_filter)?
        {
            keyspace = keyspace.comparator(order);
            in_use = Some(user);
        }
        Ok((options.default_keyspace(keyspace), in_use))
    }

    /// Records if an object is valid for its kind. A valid object replaces an invalid one.
    fn check(&mut self, what: &'static str, is_good: bool) {
        if is_good {
            self.bad_objects.remove(what);
        } else {
            self.bad_objects.insert(what);
        }
    }

    /// The layout from the environment, else the program's choice. `None` for that of the database.
    fn layout(&self) -> Result<Option<LayoutOptions>> {
        let variable = std::env::var_os(LAYOUT_VARIABLE).filter(|name| !name.is_empty());
        let (name, from) = match (variable, &self.layout) {
            (Some(name), _) => (name.to_string_lossy().into_owned(), LAYOUT_VARIABLE),
            (None, Some(name)) => (name.clone(), "leveldb_options_set_cantle_layout"),
            (None, None) => return Ok(None),
        };
        let wrong = |error| Status::invalid(format!("{from} asks for the layout {name:?}: {error}"));
        name.parse().map(Some).map_err(wrong)
    }
}

/// Changes options.
///
/// # Safety
///
/// No thread destroys them during the call.
unsafe fn set(handle: *mut leveldb_options_t, change: impl FnOnce(&mut Options)) {
    quietly((), || {
        // SAFETY: as the caller promises.
        if let Some(options) = unsafe { OPTIONS.get(handle) } {
            change(&mut options.lock());
        }
    });
}

/// LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_create() -> *mut leveldb_options_t {
    quietly(null_mut(), || OPTIONS.insert(Mutex::default()))
}

/// Destroys options. Databases that were opened with them are not affected.
///
/// # Safety
///
/// No other thread uses them at this moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_destroy(options: *mut leveldb_options_t) {
    quietly((), || drop(OPTIONS.remove(options)));
}

/// Sets the order of keys, instead of the bytewise one.
///
/// # Safety
///
/// No thread destroys the two objects during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_comparator(
    options: *mut leveldb_options_t,
    comparator: *mut leveldb_comparator_t,
) {
    // SAFETY: as the caller promises.
    unsafe {
        set(options, |options| {
            options.comparator = COMPARATORS.get(comparator).cloned();
            // Null is an error too: with the bytewise order instead, it would be another database.
            options.check("comparator", options.comparator.is_some());
        });
    }
}

/// Sets a filter policy; null for none.
///
/// # Safety
///
/// No thread destroys the two objects during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_filter_policy(
    options: *mut leveldb_options_t,
    policy: *mut leveldb_filterpolicy_t,
) {
    // SAFETY: as the caller promises.
    unsafe {
        set(options, |options| {
            let found = FILTER_POLICIES.get(policy);
            options.has_bloom_filter = found.is_some_and(|policy| policy.is_bloom);
            options.check("filter policy", policy.is_null() || found.is_some());
        });
    }
}

/// If `on` is not 0, a missing database is created. Default: 0.
///
/// # Safety
///
/// No thread destroys `options` during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_create_if_missing(options: *mut leveldb_options_t, on: u8) {
    // SAFETY: as the caller promises.
    unsafe { set(options, |options| options.create_if_missing = on != 0) };
}

/// If `on` is not 0, opening an existing database is an error. Default: 0.
///
/// # Safety
///
/// No thread destroys `options` during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_error_if_exists(options: *mut leveldb_options_t, on: u8) {
    // SAFETY: as the caller promises.
    unsafe { set(options, |options| options.error_if_exists = on != 0) };
}

/// No effect: damaged data is always an error.
///
/// # Safety
///
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_paranoid_checks(_options: *mut leveldb_options_t, _on: u8) {}

/// Sets the environment; there is only one.
///
/// # Safety
///
/// No thread destroys the two objects during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_env(options: *mut leveldb_options_t, env: *mut leveldb_env_t) {
    // SAFETY: as the caller promises.
    unsafe {
        set(options, |options| options.check("environment", env.is_null() || ENVS.get(env).is_some()));
    }
}

/// No effect: the library writes no log.
///
/// # Safety
///
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_info_log(
    _options: *mut leveldb_options_t,
    _log: *mut leveldb_logger_t,
) {
}

/// Sets the size of a write buffer, in bytes. The memory budget includes two of them. Default: 4
/// MiB.
///
/// # Safety
///
/// No thread destroys `options` during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_write_buffer_size(
    options: *mut leveldb_options_t,
    bytes: usize,
) {
    // SAFETY: as the caller promises.
    unsafe { set(options, |options| options.write_buffer_bytes = bytes as u64) };
}

/// No effect: idle files are closed when handles are needed for others.
///
/// # Safety
///
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_max_open_files(_options: *mut leveldb_options_t, _files: c_int) {
}

/// Sets the cache. Its capacity is part of the memory budget, and databases with the same cache
/// share the budget. Null: LevelDB's own 8 MiB.
///
/// # Safety
///
/// No thread destroys the two objects during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_cache(
    options: *mut leveldb_options_t,
    cache: *mut leveldb_cache_t,
) {
    // SAFETY: as the caller promises.
    unsafe {
        set(options, |options| {
            options.cache = CACHES.get(cache).cloned();
            options.check("cache", cache.is_null() || options.cache.is_some());
        });
    }
}

/// No effect: the sizes of blocks are Cantle's.
///
/// # Safety
///
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_block_size(_options: *mut leveldb_options_t, _bytes: usize) {}

/// No effect.
///
/// # Safety
///
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_block_restart_interval(
    _options: *mut leveldb_options_t,
    _keys: c_int,
) {
}

/// No effect: the sizes of files are Cantle's.
///
/// # Safety
///
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_max_file_size(_options: *mut leveldb_options_t, _bytes: usize) {}

/// Sets the compression of tables: 0 for none, 1 for LZ4. The value 1 is Snappy in LevelDB, and the
/// default.
///
/// # Safety
///
/// No thread destroys `options` during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_compression(
    options: *mut leveldb_options_t,
    compression: c_int,
) {
    // SAFETY: as the caller promises.
    unsafe { set(options, |options| options.compression = compression) };
}

/// An extension: sets the memory budget in bytes; 0 for Cantle's own default. The environment has
/// precedence.
///
/// # Safety
///
/// No thread destroys `options` during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_cantle_memory_budget(
    options: *mut leveldb_options_t,
    bytes: usize,
) {
    let budget = if bytes == 0 { Budget::Automatic } else { Budget::Bytes(bytes as u64) };
    // SAFETY: as the caller promises.
    unsafe { set(options, |options| options.budget = Some(budget)) };
}

/// An extension: sets the layout by its name, or its name with options, as in
/// `flsm:guard_bytes=8MiB`. Null stands for the layout of the database, and `chunk` for a new one. The
/// environment has precedence.
///
/// # Safety
///
/// No thread destroys `options` during the call; `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_cantle_layout(
    options: *mut leveldb_options_t,
    name: *const c_char,
) {
    // SAFETY: as the caller promises.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned());
    // SAFETY: the same.
    unsafe { set(options, |options| options.layout = name) };
}
