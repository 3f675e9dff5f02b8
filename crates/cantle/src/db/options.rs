//! Options of stores, keyspaces and writes: plain data with documented defaults. Only
//! `memory_budget` should ever need to be set.

use super::{Db, Runtime, default_budget_bytes, default_threads};
use crate::format::limits::Limits;
use crate::layout::kind::LayoutKind;
use crate::layout::options::{LayoutOptions, Settings};
use crate::sync::Mutex;
use crate::types::compression::Compression;
use crate::types::durability::Durability;
use crate::types::error::Result;
use crate::types::order::{Comparator, KeyOrder};
use crate::vfs::Vfs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Options of a single write.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    pub(crate) durability: Option<Durability>,
}

impl WriteOptions {
    /// The store's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the least durability of the write. Default: that of the store. A value below the
    /// store's durability has no effect. A higher one costs a sync of the journal, or a checkpoint
    /// after the write. If this checkpoint fails, the write has taken effect all the same
    /// ([`NotDurable`](crate::Error::NotDurable)).
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }
}

/// Options of a keyspace. The layout and the comparator are fixed when the keyspace is created; the
/// other options take effect at each opening.
#[derive(Debug, Clone)]
pub struct KeyspaceOptions {
    pub(crate) layout: Option<LayoutOptions>,
    pub(crate) order: Option<KeyOrder>,
    pub(crate) compression: Compression,
    pub(crate) space_amplification: Option<f64>,
    pub(crate) row_cache: bool,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        Self {
            layout: None,
            order: None,
            compression: Compression::None,
            space_amplification: None,
            row_cache: true,
        }
    }
}

impl KeyspaceOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the layout, and the options that only this layout has. `layout` is a [`LayoutKind`],
    /// the options of one layout, such as [`ChunkOptions`](crate::ChunkOptions), or
    /// [`LayoutOptions`] that were parsed from text. Default: [`LayoutKind::Chunk`] for a new
    /// keyspace, and the existing layout for an existing one, each with its default options.
    /// The page `docs/layouts.md` compares the layouts.
    ///
    /// ```
    /// use cantle::{Db, FlsmOptions, KeyspaceOptions, LayoutKind, LayoutOptions};
    /// # fn main() -> cantle::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = Db::open(dir.path().join("store"))?; // the default keyspace is in the layout chunk
    ///
    /// // By its name alone, with options, and by text.
    /// let events = db.keyspace_with("events", KeyspaceOptions::new().layout(LayoutKind::Flsm))?;
    /// let flsm = FlsmOptions::new().max_sstables_per_guard(3);
    /// let users = db.keyspace_with("users", KeyspaceOptions::new().layout(flsm))?;
    /// let text: LayoutOptions = "flsm:guard_bytes=8MiB".parse()?;
    /// let edges = db.keyspace_with("edges", KeyspaceOptions::new().layout(text))?;
    ///
    /// assert_eq!(db.layout(), LayoutKind::Chunk);
    /// for keyspace in [&events, &users, &edges] {
    ///     assert_eq!(keyspace.layout(), LayoutKind::Flsm);
    ///     keyspace.put("key", "value")?;
    /// }
    /// // A keyspace keeps the layout that it was created with.
    /// assert!(db.keyspace_with("events", KeyspaceOptions::new().layout(LayoutKind::Chunk)).is_err());
    /// # Ok(()) }
    /// ```
    pub fn layout(mut self, layout: impl Into<LayoutOptions>) -> Self {
        self.layout = Some(layout.into());
        self
    }

    /// Sets the order of keys. Default: bytewise.
    pub fn comparator(mut self, comparator: Arc<dyn Comparator>) -> Self {
        self.order = Some(KeyOrder::custom(comparator));
        self
    }

    /// Sets the compression of table blocks. Default: none. Compression costs CPU time in each
    /// rebalance and in each uncached read.
    ///
    /// Logs are not compressed. With compression, the layout `chunk` therefore sorts logs into
    /// tables earlier. A chunk that had no access for half a second is sorted if that may save 64
    /// KiB and an eighth of the bytes written for it. Closing the store sorts logs of up to 16 MiB
    /// in all (with Zstandard, only at levels up to 6). A chunk that turned out not to compress is
    /// sorted again only when its logs are eight times as long as its tables. If
    /// [`log_bytes`](crate::ChunkOptions::log_bytes) is set, logs are sorted at that length only.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets the bound on the bytes on disk per live byte of the keyspace, at least 1.1. The store
    /// keeps the bound by sorting logs in time, and exceeds it for moments only. Less space costs
    /// more writing: about 3.5, 2.2 and 1.6 bytes written per byte overwritten at 1.25, 1.5 and
    /// 2.0. Live bytes are those of keys and values, 16 bytes per pair, and older versions that
    /// open snapshots see.
    ///
    /// Default: 1.5, or more for small data. Let the allowance be half of the memory budget (at
    /// most 512 MiB) plus four chunks (at most 32 MiB). While the allowance exceeds half of the
    /// live bytes, the files may take the allowance beside the live bytes instead, up to three
    /// bytes per live byte in all. For example, with a budget of 1 GiB, 256 MiB of data take up to
    /// 768 MiB, 512 MiB of data 1,056 MiB, and 2 GiB of data no more than 3 GiB. Keyspaces share
    /// the allowance in proportion to their live bytes.
    ///
    /// Without a set bound, a keyspace that is written to may take a twelfth more (at most 64 MiB).
    /// This space is freed when no write has come for a second. A bound that is set is kept at all
    /// times, except for a chunk that is being rewritten.
    pub fn space_amplification(mut self, bound: f64) -> Self {
        self.space_amplification = Some(bound);
        self
    }

    /// If `on`, popular single pairs whose region is not in memory are cached (EvenDB §4). Default:
    /// yes.
    pub fn row_cache(mut self, on: bool) -> Self {
        self.row_cache = on;
        self
    }

    /// The settings for a keyspace in this layout.
    pub(crate) fn settings(&self, kind: LayoutKind) -> Settings {
        Settings {
            compression: self.compression,
            space_amplification: self.space_amplification,
            row_cache: self.row_cache,
            layout: self.layout.clone().unwrap_or_else(|| kind.into()),
        }
    }
}

/// A memory budget and background threads that stores of one process share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Resources(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    memory_budget: u64,
    background_threads: usize,
    /// Started when the first store needs it.
    runtime: Mutex<Option<Runtime>>,
}

impl Resources {
    /// Creates a memory budget in bytes and a pool of background threads, for all stores that are
    /// opened with a clone of the result.
    pub fn new(memory_budget: u64, background_threads: usize) -> Self {
        Self(Arc::new(Shared { memory_budget, background_threads, runtime: Mutex::new(None) }))
    }

    /// The same as [`new`](Self::new), with the default number of threads: half of the number that
    /// can run in parallel, at least 1 and at most 4.
    pub fn with_memory_budget(memory_budget: u64) -> Self {
        Self::new(memory_budget, default_threads())
    }

    /// The memory budget in bytes, for all stores that share it.
    pub fn memory_budget(&self) -> u64 {
        self.0.memory_budget
    }

    /// Number of threads for rebalances.
    pub fn background_threads(&self) -> usize {
        self.0.background_threads
    }

    pub(crate) fn runtime(&self) -> Result<Runtime> {
        let mut runtime = self.0.runtime.lock();
        match &*runtime {
            Some(runtime) => Ok(runtime.clone()),
            None => {
                Ok(runtime.insert(Runtime::new(self.0.memory_budget, self.0.background_threads)?).clone())
            }
        }
    }
}

impl Default for Resources {
    /// The default memory budget and the default number of threads of a store.
    fn default() -> Self {
        Self::with_memory_budget(default_budget_bytes())
    }
}

/// Options with which a store is opened.
#[derive(Clone)]
pub struct Options {
    pub(crate) memory_budget: Option<u64>,
    pub(crate) durability: Durability,
    pub(crate) create_if_missing: bool,
    pub(crate) error_if_exists: bool,
    pub(crate) read_only: bool,
    /// True for a store that a repair is filling.
    pub(crate) fills_repair: bool,
    pub(crate) beside_other_files: bool,
    pub(crate) keep_left_behind: bool,
    pub(crate) background_threads: Option<usize>,
    pub(crate) checkpoint_interval: Duration,
    pub(crate) write_buffer: bool,
    pub(crate) monitor: bool,
    pub(crate) io_uring: bool,
    pub(crate) resources: Option<Resources>,
    pub(crate) default_keyspace: KeyspaceOptions,
    pub(crate) comparators: Vec<Arc<dyn Comparator>>,
    pub(crate) vfs: Option<Arc<dyn Vfs>>,
    pub(crate) limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_budget: None,
            durability: Durability::Process,
            create_if_missing: true,
            error_if_exists: false,
            read_only: false,
            fills_repair: false,
            beside_other_files: false,
            keep_left_behind: false,
            background_threads: None,
            checkpoint_interval: Duration::from_secs(5),
            write_buffer: true,
            monitor: false,
            io_uring: false,
            resources: None,
            default_keyspace: KeyspaceOptions::default(),
            comparators: Vec::new(),
            vfs: None,
            limits: Limits::default(),
        }
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the store in directory `path` with these options, and recovers it if necessary (EvenDB
    /// §3.5). The time that this takes does not grow with the length of the logs.
    ///
    /// # Errors
    ///
    /// * [`Locked`](crate::Error::Locked) if the store is open elsewhere;
    /// * [`NotFound`](crate::Error::NotFound) if there is no store, and the options do not allow to
    ///   create one;
    /// * [`AlreadyExists`](crate::Error::AlreadyExists) if there is a store, and
    ///   [`error_if_exists`](Self::error_if_exists) is set;
    /// * [`NotAStore`](crate::Error::NotAStore) if `path` is a file or a directory of something
    ///   else, which is not touched;
    /// * [`UnsupportedFormat`](crate::Error::UnsupportedFormat) if this library does not read the
    ///   format of the store;
    /// * [`OptionMismatch`](crate::Error::OptionMismatch) if a keyspace has another comparator or
    ///   layout;
    /// * [`InvalidArgument`](crate::Error::InvalidArgument) for options out of their range;
    /// * [`Corruption`](crate::Error::Corruption) if the manifest or the journal is damaged.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        Db::open_with(path.as_ref(), self)
    }

    /// If `on`, a store may be created in a directory that holds other files, as long as these
    /// belong to no known kind of store. [`Db::repair`] then returns
    /// [`NotFound`](crate::Error::NotFound) for such a directory. Default: no, since most often the
    /// path is a mistake. In either case a store does not touch files that are not its own, and a
    /// directory of another kind of store is refused.
    pub fn beside_other_files(mut self, on: bool) -> Self {
        self.beside_other_files = on;
        self
    }

    /// If `on`, [`Db::repair`] keeps writes since the last checkpoint even if nothing proves that
    /// all of them reached the disk: because the process was killed and its volume was unmounted
    /// since, or because the power failed. Default: no, as in an opening
    /// ([`Stats::left_behind_records`](crate::Stats::left_behind_records)). Every intact write is
    /// kept, in the order of versions, but writes between those that are kept may be missing.
    /// Batches are kept whole or not at all, as far as their commits are there. Has no effect on an
    /// opening. Repair a store before it is opened for writing, since an opening gives these writes
    /// up for good.
    pub fn keep_left_behind(mut self, on: bool) -> Self {
        self.keep_left_behind = on;
        self
    }

    /// Sets the memory budget: bytes of memory for everything that the store caches and buffers.
    /// Default: a quarter of the memory of the machine or of its control group, at most 4 GiB. The
    /// stores of a process that set neither this nor [`resources`](Self::resources) nor a file
    /// system share one such budget.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.memory_budget = Some(bytes);
        self
    }

    /// Sets the events that an acknowledged write survives. Default: [`Durability::Process`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// If `on`, the store is created if there is none. Default: yes.
    pub fn create_if_missing(mut self, on: bool) -> Self {
        self.create_if_missing = on;
        self
    }

    /// If `on`, an existing store is an error. Default: no.
    pub fn error_if_exists(mut self, on: bool) -> Self {
        self.error_if_exists = on;
        self
    }

    /// If `on`, the store is opened for reading only: writes fail, and nothing on disk changes. Any
    /// number of readers may have the store open at once, but no writer. Default: no.
    pub fn read_only(mut self, on: bool) -> Self {
        self.read_only = on;
        self
    }

    /// Sets the number of threads for rebalances. Three more threads make checkpoints, split
    /// chunks, and do periodic work. Default: half the cores, at least 1 and at most 4. The stores
    /// of a process that set neither this nor [`resources`](Self::resources) nor a file system
    /// share these threads, which end with the last of these stores. If several stores share
    /// threads, one more thread makes sure that no store waits for the disk of another: while a
    /// disk hangs, it starts up to 32 other threads.
    pub fn background_threads(mut self, threads: usize) -> Self {
        self.background_threads = Some(threads);
        self
    }

    /// Sets the longest time between checkpoints while there is something to make durable. Default:
    /// 5 s. A shorter time loses fewer writes in a power failure, and costs more syncs.
    pub fn checkpoint_interval(mut self, interval: Duration) -> Self {
        self.checkpoint_interval = interval;
        self
    }

    /// Opens a socket in the store's directory, `MONITOR`, by which `cantle top`, `stats`, `inspect` and
    /// `backup` look at the store while this program has it open. Default: no.
    ///
    /// The socket has mode 0600, and programs of this user and of root get answers: statistics, key
    /// ranges and metadata of keyspaces, and a backup, for which [`Db::close`] waits. A thread
    /// sleeps while nobody asks. If the socket cannot be made, the store opens without it, and a
    /// warning is logged.
    ///
    /// Linux only, with the feature `monitor`. Otherwise, in a read-only store, and with a file
    /// system of one's own, opening gives [`InvalidArgument`](crate::Error::InvalidArgument).
    pub fn monitor(mut self, on: bool) -> Self {
        self.monitor = on;
        self
    }

    /// If `on`, the store has a write buffer: a mapped file, `WRITE-BUFFER`, that collects appends
    /// to logs. About twenty appends then go to their log by one system call. If the process is
    /// killed, buffered appends are kept like written ones. Default: yes. There is no write buffer
    /// in a `Buffered` or read-only store, on file systems without an identity of the page cache,
    /// nor while less than 2 GiB is free.
    ///
    /// The write buffer saves about a quarter of the processor time of a put. Its file takes 132
    /// KiB of disk space, and up to a 64th of the memory budget (at most 16 MiB) while many logs
    /// are appended to. The used part of the file is in memory, too.
    ///
    /// The write buffer needs a handler of SIGBUS, of which a process has only one. The system
    /// sends this signal when a mapped file fails, and the signal kills a process by default. The
    /// first store that makes a write buffer installs the handler, which stays until the process
    /// ends. The handler deals with failures of write buffers, and passes every other SIGBUS to the
    /// handler that was installed before. If every store of a process is opened without a write
    /// buffer, no handler is installed.
    pub fn write_buffer(mut self, on: bool) -> Self {
        self.write_buffer = on;
        self
    }

    /// If `on`, the store reads many places at once through a ring of the kernel (Linux's io_uring), where it
    /// can have one: for [`Db::get_many`](crate::Db::get_many) and in merges. Otherwise it gives the
    /// kernel hints and then reads the places one by one, with the same results. Default: no. A ring takes
    /// one system call for 64 places where hints take 127, but on a local SSD hints took less time
    /// (`vfs/read_queue.rs`): measure.
    ///
    /// Stores that share [`Resources`] share a ring of 16 KiB, which they ask for at the first such reads.
    /// Kernels, containers and sandboxes may refuse it. If a sandbox ends the process for asking, turn it
    /// off here, or for all stores of a process by the environment variable `CANTLE_IO_URING=off`.
    pub fn io_uring(mut self, on: bool) -> Self {
        self.io_uring = on;
        self
    }

    /// Shares a memory budget and threads with other stores. [`memory_budget`](Self::memory_budget)
    /// and [`background_threads`](Self::background_threads) then have no effect.
    pub fn resources(mut self, resources: Resources) -> Self {
        self.resources = Some(resources);
        self
    }

    /// Sets the options of the keyspace `default`, on which `Db`'s own operations work.
    pub fn default_keyspace(mut self, options: KeyspaceOptions) -> Self {
        self.default_keyspace = options;
        self
    }

    /// Registers a comparator, so that keyspaces that were created with a comparator of this name
    /// can be opened.
    pub fn comparator(mut self, comparator: Arc<dyn Comparator>) -> Self {
        self.comparators.push(comparator);
        self
    }

    /// Sets the maximum size of a batch or transaction in bytes. Default and maximum:
    /// [`BATCH_BYTES_MAX`](crate::BATCH_BYTES_MAX). For tests of the limit, which then need no GiB.
    #[doc(hidden)]
    pub fn batch_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.batch_bytes = bytes.min(crate::BATCH_BYTES_MAX);
        self
    }

    /// Sets the file system. Default: that of the operating system. With another one, the store
    /// shares threads only through [`resources`](Self::resources), because calls of that file
    /// system may take any time.
    pub fn vfs(mut self, vfs: Arc<dyn Vfs>) -> Self {
        self.vfs = Some(vfs);
        self
    }
}
