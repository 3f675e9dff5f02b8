//! Options with which a store is opened.

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

/// Events that an acknowledged write survives.
#[repr(C)]
pub enum cantle_durability {
    /// The durability with which the store was opened.
    CANTLE_DEFAULT = 0,
    /// Nothing until the next checkpoint; after any crash the store is a consistent prefix of the
    /// writes.
    CANTLE_BUFFERED = 1,
    /// The end of the process, however sudden; after a power failure the store is a consistent
    /// prefix of the writes. The default of a store.
    CANTLE_PROCESS = 2,
    /// A power failure.
    CANTLE_SYNC = 3,
}

/// The durability for a number from C; `None` for that of the store.
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

/// Options of a store: settings with defaults, each of which may be set once or more before
/// cantle_open or cantle_repair reads them. A setting returns a status, which may be ignored: the
/// function that reads the options returns the error of a wrong setting.
pub struct cantle_options {
    _opaque: [u8; 0],
}

/// Settings, and the failure of the first wrong one. Setting one copies them all, without a lock:
/// none can be left locked in a forked child, and a replaced value (a comparator, with its
/// `destroy` in C) is dropped while nothing is locked.
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

    /// Sets a right value. Records the failure of a wrong one for the function that reads the
    /// options, and returns it as well.
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
    // Options may hold a cantle_resources.
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

/// Creates options with the defaults.
///
/// Ownership: the options are the caller's, to be freed by cantle_options_free. Errors: NULL if there are too many handles.
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_new() -> *mut cantle_options {
    quietly(null_mut(), || handle::create(OpenOptions(Settings::new(Options::new()))))
}

/// Frees options. Stores that were opened with them do not need them. Does nothing for NULL.
///
/// Ownership: the options are gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a handle that is
/// no options or was freed. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_free(options: *mut cantle_options) -> cantle_status {
    saying(|| handle::free::<OpenOptions>(options))
}

/// Sets the memory budget: bytes of memory for everything that the store caches and buffers.
/// Default: a quarter of the memory of the machine or of its control group, at most 4 GiB.
///
/// Ownership: nothing changes hands. Errors: CANTLE_INVALID_ARGUMENT for NULL, for a handle that is
/// no options or was freed, and for a value that is not of its type (a number that is no
/// enumerator, an invalid handle); CANTLE_FORKED. cantle_open returns the error of such a value
/// again, and checks the ranges of values. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_memory_budget(
    options: *mut cantle_options,
    bytes: u64,
) -> cantle_status {
    set(options, Ok(bytes), Options::memory_budget)
}

/// Sets the events that an acknowledged write survives: a cantle_durability. Default:
/// CANTLE_PROCESS.
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

/// If `on`, the store is created if there is none. Default: yes.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_create_if_missing(
    options: *mut cantle_options,
    on: bool,
) -> cantle_status {
    set(options, Ok(on), Options::create_if_missing)
}

/// If `on`, an existing store is an error. Default: no.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_error_if_exists(
    options: *mut cantle_options,
    on: bool,
) -> cantle_status {
    set(options, Ok(on), Options::error_if_exists)
}

/// If `on`, a store may be created in a directory that holds other files, as long as these belong
/// to no known kind of store. cantle_repair then returns CANTLE_NOT_FOUND for such a directory.
/// Default: no, since most often the path is a mistake. In either case a store does not touch files
/// that are not its own, and a directory of another kind of store is refused.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_beside_other_files(
    options: *mut cantle_options,
    on: bool,
) -> cantle_status {
    set(options, Ok(on), Options::beside_other_files)
}

/// If `on`, cantle_repair keeps writes since the last checkpoint even if nothing proves that all of
/// them reached the disk: because the process was killed and its volume was unmounted since, or
/// because the power failed. Default: no. Writes between those that are kept may be missing. Has no
/// effect on an opening, which gives these writes up for good if it is for writing.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_keep_left_behind(
    options: *mut cantle_options,
    on: bool,
) -> cantle_status {
    set(options, Ok(on), Options::keep_left_behind)
}

/// If `on`, the store is opened for reading only: writes fail, and nothing on disk changes. Any
/// number of readers may have the store open at once, but no writer. Default: no.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_read_only(options: *mut cantle_options, on: bool) -> cantle_status {
    set(options, Ok(on), Options::read_only)
}

/// Sets the number of threads for rebalances. Three more threads make checkpoints, split chunks,
/// and do periodic work. Default: half the cores, at least 1 and at most 4.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_background_threads(
    options: *mut cantle_options,
    threads: usize,
) -> cantle_status {
    set(options, Ok(threads), Options::background_threads)
}

/// Sets the longest time between checkpoints while there is something to make durable, in
/// milliseconds. Default: 5000. A shorter time loses fewer writes in a power failure, and costs
/// more syncs.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_checkpoint_interval_ms(
    options: *mut cantle_options,
    milliseconds: u64,
) -> cantle_status {
    set(options, Ok(Duration::from_millis(milliseconds)), Options::checkpoint_interval)
}

/// If `on`, the store has a write buffer: a mapped file that collects appends to logs, so that many
/// of them take one system call. If the process is killed, buffered appends are kept like written
/// ones. Default: yes. The first store of a process that makes a write buffer installs a handler of
/// SIGBUS. The handler stays until the process ends, and passes every SIGBUS that is not about
/// write buffers to the handler that was installed before. If every store is opened without a write
/// buffer, no handler is installed.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_write_buffer(
    options: *mut cantle_options,
    on: bool,
) -> cantle_status {
    set(options, Ok(on), Options::write_buffer)
}

/// If `on`, the store reads many places at once through a ring of the kernel (Linux's io_uring), where it
/// can have one. Otherwise it gives the kernel hints and reads the places one by one, with the same results.
/// Default: no, as hints took less time on a local SSD. Where a sandbox ends the process for asking, the
/// environment variable CANTLE_IO_URING=off turns it off for all stores of a process.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_io_uring(options: *mut cantle_options, on: bool) -> cantle_status {
    set(options, Ok(on), Options::io_uring)
}

/// If `on`, the store has a socket in its directory, MONITOR, by which `cantle top`, `stats`,
/// `inspect` and `backup` look at it while this program has it open. Default: no. Programs of the
/// same user and of root get answers. Linux only; opening fails with CANTLE_INVALID_ARGUMENT
/// elsewhere, and for a store that is opened read-only.
///
/// Ownership: nothing changes hands. Errors: as cantle_options_memory_budget. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_monitor(options: *mut cantle_options, on: bool) -> cantle_status {
    set(options, Ok(on), Options::monitor)
}

/// Shares a memory budget and threads with other stores. cantle_options_memory_budget and
/// cantle_options_background_threads then have no effect.
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

/// Sets the options of the keyspace named `default`, as they are now. Default: those of
/// cantle_keyspace_options_new.
///
/// Ownership: the options of the keyspace are copied. Errors: as cantle_options_memory_budget.
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_options_default_keyspace(
    options: *mut cantle_options,
    keyspace_options: *const cantle_keyspace_options,
) -> cantle_status {
    set(options, read_keyspace_options(keyspace_options), Options::default_keyspace)
}

/// Registers a comparator, so that keyspaces that were created with a comparator of this name can
/// be opened. May be called for several.
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
