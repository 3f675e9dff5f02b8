//! How a store is opened.

use crate::boundary::{quietly, saying};
use crate::comparator::{OpenComparator, cantle_comparator};
use crate::failure::{Failure, Outcome};
use crate::handle::{self, Object};
use crate::keyspace_options::{cantle_keyspace_options, read_keyspace_options};
use crate::resources::{OpenResources, cantle_resources};
use crate::status::cantle_status;
use arc_swap::ArcSwap;
use cantle::{Durability, Options};
use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::Duration;

/// What an acknowledged write survives.
#[repr(C)]
pub enum cantle_durability {
    /// What the store was opened with.
    CANTLE_DEFAULT = 0,
    /// Nothing until the next checkpoint; after any crash the store is a consistent prefix of what was written.
    CANTLE_BUFFERED = 1,
    /// The end of the process, however sudden; after a power loss a consistent prefix. The default of a store.
    CANTLE_PROCESS = 2,
    /// Power loss.
    CANTLE_SYNC = 3,
}

/// A durability as C gives it; `None` for the store's own.
pub(crate) fn durability_of(number: c_int) -> Outcome<Option<Durability>> {
    const DEFAULT: c_int = cantle_durability::CANTLE_DEFAULT as c_int;
    const BUFFERED: c_int = cantle_durability::CANTLE_BUFFERED as c_int;
    const PROCESS: c_int = cantle_durability::CANTLE_PROCESS as c_int;
    const SYNC: c_int = cantle_durability::CANTLE_SYNC as c_int;
    match number {
        DEFAULT => Ok(None),
        BUFFERED => Ok(Some(Durability::Buffered)),
        PROCESS => Ok(Some(Durability::Process)),
        SYNC => Ok(Some(Durability::Sync)),
        other => Err(Failure::invalid(format!("{other} is no cantle_durability"))),
    }
}

/// Options of a store: settings with defaults, each of which may be set once or more before cantle_open or cantle_repair reads them.
/// What is wrong with a setting is told there. A setting returns whether it was taken, which nobody need ask.
pub struct cantle_options {
    _opaque: [u8; 0],
}

/// Settings, and what was wrong with the first that was. Setting one makes them anew, without a lock: none can be left locked in a
/// forked child, and what is replaced (a comparator, with its `destroy` in C) goes while nothing is held.
pub(crate) struct Settings<T>(ArcSwap<Given<T>>);

#[derive(Clone)]
struct Given<T> {
    options: T,
    wrong: Option<String>,
}

impl<T: Clone> Settings<T> {
    pub(crate) fn new(options: T) -> Self {
        Self(ArcSwap::from_pointee(Given { options, wrong: None }))
    }

    pub(crate) fn read(&self) -> Outcome<T> {
        let given = self.0.load();
        match &given.wrong {
            None => Ok(given.options.clone()),
            Some(wrong) => Err(Failure::invalid(format!("of the options: {wrong}"))),
        }
    }

    /// Sets what is right, or remembers what is wrong, to be told by whoever reads the options, and tells it as well.
    pub(crate) fn set<V: Clone>(&self, value: Outcome<V>, set: impl Fn(T, V) -> T) -> Outcome<()> {
        let told = value.as_ref().map_err(|failure| {
            let message = &failure.0.message;
            message.strip_prefix("invalid argument: ").unwrap_or(message).to_owned()
        });
        self.0.rcu(|given| {
            let mut given = Given::clone(given);
            match &told {
                Ok(value) => given.options = set(given.options, V::clone(value)),
                Err(wrong) => _ = given.wrong.get_or_insert_with(|| wrong.clone()),
            }
            given
        });
        value.map(drop)
    }
}

struct OpenOptions(Settings<Options>);

impl Object for OpenOptions {
    type Opaque = cantle_options;
    const NAME: &'static str = "cantle_options";
    // They may hold a cantle_resources.
    const OF_A_STORE: bool = true;
}

/// The options behind a handle; the defaults for NULL.
pub(crate) fn read_options(options: *const cantle_options) -> Outcome<Options> {
    handle::get_or_null::<OpenOptions>(options)?
        .map_or_else(|| Ok(Options::new()), |options| options.0.read())
}

fn set<V: Clone>(
    options: *mut cantle_options,
    value: Outcome<V>,
    set: impl Fn(Options, V) -> Options,
) -> cantle_status {
    saying(|| handle::get::<OpenOptions>(options)?.0.set(value, set))
}

/// The default options.
///
/// Ownership: the options are the caller's, to be freed by cantle_options_free. Errors: NULL if there are too many handles.
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_new() -> *mut cantle_options {
    quietly(null_mut(), || handle::create(OpenOptions(Settings::new(Options::new()))))
}

/// Frees options. Stores that were opened with them do not need them. NULL is nothing to free.
///
/// Ownership: the options are gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for what are no options, or were freed. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_free(options: *mut cantle_options) -> cantle_status {
    saying(|| handle::free::<OpenOptions>(options))
}

/// Bytes of memory for everything that the store caches and buffers. Default: a quarter of the memory of the machine or of its
/// control group, at most 4 GiB.
///
/// Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT for NULL, for what are no options, or were freed, CANTLE_FORKED, and
/// CANTLE_INVALID_ARGUMENT for a value that is not of its type (an enumerator, a handle); whether it is within its range is told by
/// cantle_open, which tells of the former once more. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_memory_budget(
    options: *mut cantle_options,
    bytes: u64,
) -> cantle_status {
    set(options, Ok(bytes), Options::memory_budget)
}

/// What an acknowledged write survives: a cantle_durability. Default: CANTLE_PROCESS.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_durability(
    options: *mut cantle_options,
    durability: c_int,
) -> cantle_status {
    set(options, durability_of(durability), |options, durability| {
        options.durability(durability.unwrap_or_default())
    })
}

/// Whether to create the store if there is none. Default: yes.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_create_if_missing(
    options: *mut cantle_options,
    on: bool,
) -> cantle_status {
    set(options, Ok(on), Options::create_if_missing)
}

/// Whether an existing store is an error. Default: no.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_error_if_exists(
    options: *mut cantle_options,
    on: bool,
) -> cantle_status {
    set(options, Ok(on), Options::error_if_exists)
}

/// Whether a store may be created in a directory that holds other files, of no store that is known, and cantle_repair says
/// CANTLE_NOT_FOUND of such a directory. Default: no, since most often the path is a mistake. A store leaves alone what is not its own in
/// either case; a directory of another kind of store is always refused.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_beside_other_files(
    options: *mut cantle_options,
    on: bool,
) -> cantle_status {
    set(options, Ok(on), Options::beside_other_files)
}

/// Whether cantle_repair keeps what was written since the last checkpoint where nothing proves that all of it reached the disk: the
/// process was killed, and its volume unmounted since, or the power failed. Default: no. Some of these writes may be missing between
/// those that are kept. Has no effect on an opening, which gives them up for good if it is for writing.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_keep_left_behind(
    options: *mut cantle_options,
    on: bool,
) -> cantle_status {
    set(options, Ok(on), Options::keep_left_behind)
}

/// Reads only: writes fail, nothing on disk changes, and any number of readers may have the store open at once, but no writer.
/// Default: no.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_read_only(options: *mut cantle_options, on: bool) -> cantle_status {
    set(options, Ok(on), Options::read_only)
}

/// Threads for rebalances, splits and checkpoints. Default: half the cores, at least one, at most four.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_background_threads(
    options: *mut cantle_options,
    threads: usize,
) -> cantle_status {
    set(options, Ok(threads), Options::background_threads)
}

/// The longest time between checkpoints while there is something to make durable, in milliseconds. Default: 5000. Shorter loses
/// less at a power loss and syncs more often.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_checkpoint_interval_ms(
    options: *mut cantle_options,
    milliseconds: u64,
) -> cantle_status {
    set(options, Ok(Duration::from_millis(milliseconds)), Options::checkpoint_interval)
}

/// Gives the store a write buffer: a mapped file that collects appends to logs, so that many of them take one system call. A
/// killed process loses nothing of it. Default: yes. The first store of a process that makes a write buffer installs a handler of
/// SIGBUS, which stays until the process ends and passes on what is not its own. Where each store opens without, there is none.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_write_buffer(
    options: *mut cantle_options,
    on: bool,
) -> cantle_status {
    set(options, Ok(on), Options::write_buffer)
}

/// Shares budget and threads with other stores; then cantle_options_memory_budget and cantle_options_background_threads have no effect.
///
/// Ownership: the options keep the resources; the caller frees its handle. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_resources(
    options: *mut cantle_options,
    resources: *const cantle_resources,
) -> cantle_status {
    let shared = handle::get::<OpenResources>(resources).map(|resources| resources.0.clone());
    set(options, shared, Options::resources)
}

/// Options of the keyspace named `default`, as they are now. Default: those of cantle_keyspace_options_new.
///
/// Ownership: they are copied. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_default_keyspace(
    options: *mut cantle_options,
    keyspace_options: *const cantle_keyspace_options,
) -> cantle_status {
    set(options, read_keyspace_options(keyspace_options), Options::default_keyspace)
}

/// Registers a comparator, so that keyspaces that were created with one of its name can be opened. May be called for several.
///
/// Ownership: the options keep the order; the caller frees its handle. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_comparator(
    options: *mut cantle_options,
    comparator: *const cantle_comparator,
) -> cantle_status {
    let order = handle::get::<OpenComparator>(comparator).map(|comparator| comparator.0.clone());
    set(options, order, Options::comparator)
}
