//! Options of a keyspace.

use crate::boundary::{quietly, saying};
use crate::comparator::{OpenComparator, cantle_comparator};
use crate::failure::{Failure, Outcome};
use crate::handle::{self, Object};
use crate::options::Settings;
use crate::raw;
use crate::status::cantle_status;
use cantle::{Compression, KeyspaceOptions, LayoutOptions};
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

/// Compression of table blocks.
#[repr(C)]
pub enum cantle_compression {
    /// No compression.
    CANTLE_NO_COMPRESSION = 0,
    /// LZ4: fast, about half the size of text.
    CANTLE_LZ4 = 1,
    /// Zstandard, at the level that is given with it: smaller, slower.
    CANTLE_ZSTD = 2,
}

/// Options of a keyspace. The layout and the comparator are fixed when the keyspace is created; the
/// other options take effect at each opening. A setting returns a status, which may be ignored: the
/// function that reads the options returns the error of a wrong setting.
pub struct cantle_keyspace_options {
    _opaque: [u8; 0],
}

struct OpenKeyspaceOptions(Settings<KeyspaceOptions>);

impl Object for OpenKeyspaceOptions {
    type Opaque = cantle_keyspace_options;
    const NAME: &'static str = "cantle_keyspace_options";
    const OF_A_STORE: bool = false;
}

/// The options behind a handle; the defaults for NULL.
pub(crate) fn read_keyspace_options(options: *const cantle_keyspace_options) -> Outcome<KeyspaceOptions> {
    handle::get_or_null::<OpenKeyspaceOptions>(options)?
        .map_or_else(|| Ok(KeyspaceOptions::new()), |options| options.0.read())
}

fn set<V: Clone>(
    options: *mut cantle_keyspace_options,
    value: Outcome<V>,
    set: impl Fn(KeyspaceOptions, V) -> KeyspaceOptions,
) -> cantle_status {
    saying(|| handle::get::<OpenKeyspaceOptions>(options)?.0.set(value, set))
}

fn new(options: KeyspaceOptions) -> *mut cantle_keyspace_options {
    quietly(null_mut(), || handle::create(OpenKeyspaceOptions(Settings::new(options))))
}

/// The default options of a keyspace.
///
/// Ownership: the options are the caller's, to be freed by cantle_keyspace_options_free. Errors: NULL if there are too many handles.
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspace_options_new() -> *mut cantle_keyspace_options {
    new(KeyspaceOptions::new())
}

/// Frees options of a keyspace. Does nothing for NULL.
///
/// Ownership: the options are gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a handle that is
/// no options of a keyspace or was freed. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspace_options_free(
    options: *mut cantle_keyspace_options,
) -> cantle_status {
    saying(|| handle::free::<OpenKeyspaceOptions>(options))
}

/// Sets the layout: its name, or its name with options that only this layout has, such as `chunk`,
/// `flsm` or `chunk:munks=false,chunk_bytes=1MiB`. Default: `chunk` for a new keyspace, and the existing
/// layout for an existing one, each with its default options.
///
/// The options of `chunk`: `chunk_bytes`, the size at which a chunk splits, 64KiB to 1GiB, 8MiB by
/// default; `log_bytes`, a fixed limit of a chunk's log instead of the one that follows from the
/// bound on space, none by default; `munk_log_bytes`, the same for a chunk that is in memory, by
/// default `log_bytes` or else twenty chunks; `filter_partitions`, the parts of a full log's Bloom
/// filter, 1 to 64, 16 by default; `munks`, true if popular chunks are kept in memory, and
/// `recent_appends`, true if the last appends to logs are, both true by default.
///
/// The options of `flsm` (PebblesDB): `generation_bytes`, the length at which a log is full, 4KiB to
/// 32MiB, by default a 24th of the memory budget, from 1MiB to 16MiB; `log_is_level_0`, false if
/// every full log is written again as a table, and not only those of tiny pairs, true by default;
/// `guard_bytes`, the target length of tables and guards of the last level, 4KiB to 1GiB, 16MiB by
/// default; `max_sstables_per_guard`, the tables of a guard before some of them are merged, 1 to 64,
/// by default 1 to 12 for each guard by its own reads and writes; `seek_compaction`, a number of
/// seeks without a write after which a guard is merged, 1 to 1000000, off by default;
/// `level_percent`, the part of the next level at which a level is merged down, 1 to 100, off by
/// default; `top_level_bits`, the lowest bits of a key's hash that are set if it begins a guard of
/// level 1, 1 to 48, off by default, which chooses guards from the data; `bit_decrement`, the bits
/// fewer for each deeper level, 0 to 16, 2 by default; `parallel_search`, the logs and tables that a
/// get searches at the same time at most, where it has to read several of them from a device, 1 to
/// 16, 16 by default.
///
/// The options of `forest` (SifrDB): `generation_bytes`, `log_is_level_0` and `parallel_search` as in
/// `flsm`; `growth_factor`, the trees of a stage beyond which the oldest ones become one tree of the
/// next, 2 to 16, 4 by default; `sub_tree_bytes`, the usual length of a sub-tree, 4KiB to 1GiB, by
/// default 2MiB, and more beyond 128GiB of data; `cleaning_threshold`, the sub-trees that a merge
/// writes before it removes those that it has merged, 1 to 10000, by default at least 11;
/// `seek_compaction`, a number of seeks without a write after which a range of keys is merged into
/// one tree, 1 to 1000000, off by default; `filters`, false for no Bloom filters, and `size_tiered`,
/// true for one table a tree, both for comparisons with the paper; `aligned_storing`, true to
/// allocate the space of a sub-tree before it is written, and `direct_io`, true to write sub-trees
/// past the operating system's page cache, both false by default.
///
/// Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT for NULL, for a handle that is
/// no options of a keyspace or was freed, and for a value that is not of its type (a text that
/// names no layout, a number that is no enumerator, an invalid handle). The function that reads the
/// options returns the error of such a value again, and checks the ranges of values. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspace_options_layout(
    options: *mut cantle_keyspace_options,
    layout: *const c_char,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    let layout = unsafe { raw::text(layout, "layout") };
    let layout = layout.and_then(|layout| Ok(layout.parse::<LayoutOptions>()?));
    set(options, layout, KeyspaceOptions::layout)
}

/// Sets the order of keys. Default: bytewise.
///
/// Ownership: the options keep the order; the caller frees its handle. Errors: as cantle_keyspace_options_layout. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspace_options_comparator(
    options: *mut cantle_keyspace_options,
    comparator: *const cantle_comparator,
) -> cantle_status {
    let order = handle::get::<OpenComparator>(comparator).map(|comparator| comparator.0.clone());
    set(options, order, KeyspaceOptions::comparator)
}

/// Sets the compression of table blocks: a cantle_compression, and for CANTLE_ZSTD a level of 1 to
/// 22, which the others ignore. Default: none.
///
/// Ownership: nothing changes hands. Errors: as cantle_keyspace_options_layout. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspace_options_compression(
    options: *mut cantle_keyspace_options,
    compression: c_int,
    level: c_int,
) -> cantle_status {
    let compression = match compression {
        0 => Ok(Compression::None),
        1 => Ok(Compression::Lz4),
        2 => Ok(Compression::Zstd(level)),
        other => Err(Failure::invalid(format!("{other} is no cantle_compression"))),
    };
    set(options, compression, KeyspaceOptions::compression)
}

/// Sets the bound on the bytes on disk per live byte, at least 1.1. Default: 1.5, or up to 3 while
/// the data is small compared to the memory budget.
///
/// Ownership: nothing changes hands. Errors: as cantle_keyspace_options_layout. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspace_options_space_amplification(
    options: *mut cantle_keyspace_options,
    bound: f64,
) -> cantle_status {
    set(options, Ok(bound), KeyspaceOptions::space_amplification)
}

/// If `on`, popular single pairs of chunks that are not in memory are cached. Default: yes.
///
/// Ownership: nothing changes hands. Errors: as cantle_keyspace_options_layout. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_keyspace_options_row_cache(
    options: *mut cantle_keyspace_options,
    on: bool,
) -> cantle_status {
    set(options, Ok(on), KeyspaceOptions::row_cache)
}
