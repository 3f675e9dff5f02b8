//! Settings: plain data with documented defaults. No option but `memory_budget` should ever need a thought.

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

/// What a single write asks for beyond the store's default.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    pub(crate) durability: Option<Durability>,
}

impl WriteOptions {
    /// The store's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Survive at least this. Less than the store's own durability has no effect. More is a checkpoint after the write, or a sync of
    /// the journal: if the checkpoint fails, the write took place all the same ([`NotDurable`](crate::Error::NotDurable)).
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }
}

/// Options of a keyspace. The layout and the comparator are fixed when it is created; the rest takes
/// effect at each opening.
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

    /// The layout, and the options that only this layout has: a [`LayoutKind`], such options, e.g.
    /// [`ChunkOptions`](crate::ChunkOptions), or a [text](LayoutOptions) that was parsed. Default: [`LayoutKind::Chunk`] for a new
    /// keyspace, whatever it has for an existing one, each with its defaults.
    pub fn layout(mut self, layout: impl Into<LayoutOptions>) -> Self {
        self.layout = Some(layout.into());
        self
    }

    /// The order of keys. Default: bytewise.
    pub fn comparator(mut self, comparator: Arc<dyn Comparator>) -> Self {
        self.order = Some(KeyOrder::custom(comparator));
        self
    }

    /// Compression of table blocks. Default: none. Costs CPU at rebalance and at each uncached read.
    ///
    /// Logs are not compressed. In layout `chunk`, where this is not `None`, a chunk that nobody has accessed for half a second is sorted
    /// into tables if that may save 64 KiB and an eighth of what is written for it, and closing sorts logs of up to 16 MiB in
    /// all (with Zstandard, at levels up to 6). A chunk that turns out not to compress is sorted again only when its logs
    /// are eight times as long as its tables. With [`log_bytes`](crate::ChunkOptions::log_bytes) set, logs are sorted at that length only.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Bytes on disk per live byte over the keyspace, kept by sorting logs in time and exceeded only for moments; above
    /// 1.1. Less space costs more writing: about 3.5, 2.2 and 1.6 bytes written per byte overwritten at 1.25, 1.5 and 2.0.
    ///
    /// Default: 1.5. While half of the memory budget (at most 512 MiB) and four chunks (at most 32 MiB) exceed half of the live
    /// bytes, as much is taken beside these instead, up to three bytes per live byte in all: with a budget of 1 GiB, 256 MiB of
    /// data take up to 768 MiB, 512 MiB of data 1,056 MiB, and 2 GiB of data no more than 3 GiB. Keyspaces share this by what is
    /// live in each. While a keyspace is written to, it may take a twelfth more (at most 64 MiB), which is given back once
    /// nobody has written for a second. A bound that is set is kept at all times, but for a chunk that is being written anew.
    ///
    /// Live are keys, values, 16 bytes a pair, and what open snapshots see beside.
    pub fn space_amplification(mut self, bound: f64) -> Self {
        self.space_amplification = Some(bound);
        self
    }

    /// Caches popular single pairs whose region is not in memory (EvenDB §4). Default: yes.
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

/// Memory, threads and rates that stores of one process share. Cheap to clone.
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
    /// One budget in bytes and one pool of threads for every store that is opened with a clone of this.
    pub fn new(memory_budget: u64, background_threads: usize) -> Self {
        Self(Arc::new(Shared { memory_budget, background_threads, runtime: Mutex::new(None) }))
    }

    /// The same, with as many threads as a store has by itself: half as many as can run at once, but one to four.
    pub fn with_memory_budget(memory_budget: u64) -> Self {
        Self::new(memory_budget, default_threads())
    }

    /// Bytes of memory for all stores that use it.
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
    /// As much memory and as many threads as a store has by itself.
    fn default() -> Self {
        Self::with_memory_budget(default_budget_bytes())
    }
}

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    pub(crate) memory_budget: Option<u64>,
    pub(crate) durability: Durability,
    pub(crate) create_if_missing: bool,
    pub(crate) error_if_exists: bool,
    pub(crate) read_only: bool,
    /// The store is what a repair fills just now.
    pub(crate) fills_repair: bool,
    pub(crate) beside_other_files: bool,
    pub(crate) keep_left_behind: bool,
    pub(crate) background_threads: Option<usize>,
    pub(crate) checkpoint_interval: Duration,
    pub(crate) write_buffer: bool,
    pub(crate) monitor: bool,
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

    /// Opens the store in directory `path` with these options, recovering it if need be (EvenDB §3.5). Reads no log.
    ///
    /// # Errors
    ///
    /// [`Locked`](crate::Error::Locked) if it is open elsewhere; [`NotFound`](crate::Error::NotFound) and
    /// [`AlreadyExists`](crate::Error::AlreadyExists) by the options for that;
    /// [`NotAStore`](crate::Error::NotAStore) for a file or a directory of something else, which is not touched;
    /// [`UnsupportedFormat`](crate::Error::UnsupportedFormat), [`OptionMismatch`](crate::Error::OptionMismatch),
    /// [`InvalidArgument`](crate::Error::InvalidArgument); [`Corruption`](crate::Error::Corruption) if the manifest or
    /// the journal is damaged.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        Db::open_with(path.as_ref(), self)
    }

    /// Whether a store may be created in a directory that holds other files, of no store that is known, and
    /// [`Db::repair`] says [`NotFound`](crate::Error::NotFound) of such a directory. Default: no, since most often the path
    /// is a mistake. A store leaves alone what is not its own in either case; a directory of another kind of store is always refused.
    pub fn beside_other_files(mut self, on: bool) -> Self {
        self.beside_other_files = on;
        self
    }

    /// Whether [`Db::repair`] keeps what was written since the last checkpoint where nothing proves that all of it reached the
    /// disk: the process was killed, and its volume unmounted since, or the power failed. Default: no, as in an opening
    /// ([`Stats::left_behind_records`](crate::Stats::left_behind_records)). What is kept is every intact write, in the order of their versions, but some may
    /// be missing between those that are there; batches are kept whole or not at all, as far as their commits are there. Has no effect on an
    /// opening; repair before the store is opened for writing, since an opening gives these writes up for good.
    pub fn keep_left_behind(mut self, on: bool) -> Self {
        self.keep_left_behind = on;
        self
    }

    /// Bytes of memory for everything the store caches and buffers. Default: a quarter of the memory of the
    /// machine or of its control group, at most 4 GiB, which all stores of the process share that set neither this nor
    /// [`resources`](Self::resources) nor a file system of their own.
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.memory_budget = Some(bytes);
        self
    }

    /// What an acknowledged write survives. Default: [`Durability::Process`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Whether to create the store if there is none. Default: yes.
    pub fn create_if_missing(mut self, on: bool) -> Self {
        self.create_if_missing = on;
        self
    }

    /// Whether an existing store is an error. Default: no.
    pub fn error_if_exists(mut self, on: bool) -> Self {
        self.error_if_exists = on;
        self
    }

    /// Reads only: writes fail, nothing on disk changes, and any number of readers may have the store open
    /// at once, but no writer. Default: no.
    pub fn read_only(mut self, on: bool) -> Self {
        self.read_only = on;
        self
    }

    /// Threads for rebalances; there are three more, for checkpoints, for splits and for what is due from time to time. Default: half the
    /// cores, at least one, at most four, which all stores of the process share that set neither this nor
    /// [`resources`](Self::resources) nor a file system of their own. They end with the last of these stores. Where several stores
    /// share threads, one more sees to it that none waits for the disk of another: while a disk hangs, it starts up to 32 others.
    pub fn background_threads(mut self, threads: usize) -> Self {
        self.background_threads = Some(threads);
        self
    }

    /// The longest time between checkpoints while there is something to make durable. Default: 5 s. Shorter
    /// loses less at a power loss and syncs more often.
    pub fn checkpoint_interval(mut self, interval: Duration) -> Self {
        self.checkpoint_interval = interval;
        self
    }

    /// Opens a socket in the store's directory, `MONITOR`, by which `cantle top`, `stats`, `inspect` and `backup` look at the store while
    /// this program has it open. Default: no. The socket has mode 0600, and programs of this user and of root get answers; they can read statistics,
    /// key ranges and metadata of keyspaces, and write a backup. It takes a thread that sleeps. Linux only, with the feature `monitor`: otherwise
    /// opening with it gives [`InvalidArgument`](crate::Error::InvalidArgument), as it does in a read-only store and with a file system
    /// of one's own.
    pub fn monitor(mut self, on: bool) -> Self {
        self.monitor = on;
        self
    }

    /// Gives the store a write buffer: a mapped file, `WRITE-BUFFER`, that collects appends to logs until about twenty of
    /// them go to their log by one system call. A killed process loses nothing of it, as it loses nothing of what it has written.
    /// Default: yes. There is none in a `Buffered` or read-only store, on file systems that name no page cache, nor while less than
    /// 2 GiB is free.
    ///
    /// It spares a put about a quarter of its processor time. It takes 132 KiB of disk, up to a 64th of the memory
    /// budget (at most 16 MiB) while many logs are appended to, and as much memory as is used of that. And it needs a handler of
    /// SIGBUS, which is the process's: the system sends that signal, which kills a process by default, when a mapped file fails. The
    /// first store that makes a write buffer installs the handler, which stays until the process ends. The handler sees to failures of
    /// write buffers, and passes everything else on to whatever was installed before. Where each store of a process opens without a
    /// write buffer, no handler is installed.
    pub fn write_buffer(mut self, on: bool) -> Self {
        self.write_buffer = on;
        self
    }

    /// Shares budget and threads with other stores; then `memory_budget` and `background_threads` have no
    /// effect.
    pub fn resources(mut self, resources: Resources) -> Self {
        self.resources = Some(resources);
        self
    }

    /// Options of the keyspace that `Db`'s own operations work on.
    pub fn default_keyspace(mut self, options: KeyspaceOptions) -> Self {
        self.default_keyspace = options;
        self
    }

    /// Registers a comparator, so that keyspaces that were created with one of its name can be opened.
    pub fn comparator(mut self, comparator: Arc<dyn Comparator>) -> Self {
        self.comparators.push(comparator);
        self
    }

    /// The longest batch or transaction, at most [`BATCH_BYTES_MAX`](crate::BATCH_BYTES_MAX), which is the default: for
    /// tests of the limit, which need no GiB then.
    #[doc(hidden)]
    pub fn batch_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.batch_bytes = bytes.min(crate::BATCH_BYTES_MAX);
        self
    }

    /// The file system. Default: the operating system's. With another, the store shares no threads that it was not told to share: calls
    /// of that file system may take any time.
    pub fn vfs(mut self, vfs: Arc<dyn Vfs>) -> Self {
        self.vfs = Some(vfs);
        self
    }
}
