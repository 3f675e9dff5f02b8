//! The values of options, for programs that show or check them.

use super::options::{KeyspaceOptions, Options, Resources, WriteOptions};
use super::{default_budget_bytes, default_threads};
use crate::layout::options::LayoutOptions;
use crate::types::compression::Compression;
use crate::types::durability::Durability;
use std::fmt;
use std::time::Duration;

impl WriteOptions {
    /// The durability that the write asks for; `None` for that of the store.
    pub fn get_durability(&self) -> Option<Durability> {
        self.durability
    }
}

impl KeyspaceOptions {
    /// The layout with its options. `None` is the default for a new keyspace, and the existing
    /// layout for an existing one.
    pub fn get_layout(&self) -> Option<&LayoutOptions> {
        self.layout.as_ref()
    }

    /// The comparator's name. `None` is the bytewise order for a new keyspace, and the existing
    /// order for an existing one.
    pub fn get_comparator_name(&self) -> Option<&str> {
        self.order.as_ref().map(|order| order.name())
    }

    /// The compression of table blocks.
    pub fn get_compression(&self) -> Compression {
        self.compression
    }

    /// The bound on bytes on disk per live byte; `None` for the default.
    pub fn get_space_amplification(&self) -> Option<f64> {
        self.space_amplification
    }

    /// True if popular single pairs are cached.
    pub fn get_row_cache(&self) -> bool {
        self.row_cache
    }
}

impl Options {
    /// The memory budget in bytes: that of the store, or that of its [`Resources`], or the default.
    pub fn get_memory_budget(&self) -> u64 {
        let shared = self.resources.as_ref().map(Resources::memory_budget);
        shared.or(self.memory_budget).unwrap_or_else(default_budget_bytes)
    }

    /// The durability of writes that ask for no more.
    pub fn get_durability(&self) -> Durability {
        self.durability
    }

    /// True if opening creates the store if there is none.
    pub fn get_create_if_missing(&self) -> bool {
        self.create_if_missing
    }

    /// True if opening fails if there is a store.
    pub fn get_error_if_exists(&self) -> bool {
        self.error_if_exists
    }

    /// True if the store is opened for reading only.
    pub fn get_read_only(&self) -> bool {
        self.read_only
    }

    /// True if a store may be created in a directory with other files.
    pub fn get_beside_other_files(&self) -> bool {
        self.beside_other_files
    }

    /// True if a repair keeps writes that no checkpoint covers.
    pub fn get_keep_left_behind(&self) -> bool {
        self.keep_left_behind
    }

    /// Number of threads for rebalances: those of the store, or of its [`Resources`], or the
    /// default.
    pub fn get_background_threads(&self) -> usize {
        let shared = self.resources.as_ref().map(Resources::background_threads);
        shared.or(self.background_threads).unwrap_or_else(default_threads)
    }

    /// The longest time between checkpoints.
    pub fn get_checkpoint_interval(&self) -> Duration {
        self.checkpoint_interval
    }

    /// True if the store uses a write buffer, if it can have one.
    pub fn get_write_buffer(&self) -> bool {
        self.write_buffer
    }

    /// True if other programs may look at the store while it is open.
    pub fn get_monitor(&self) -> bool {
        self.monitor
    }

    /// True if the store reads many places through io_uring, if it can.
    pub fn get_io_uring(&self) -> bool {
        self.io_uring
    }

    /// The options of the keyspace `default`.
    pub fn get_default_keyspace(&self) -> &KeyspaceOptions {
        &self.default_keyspace
    }

    /// The names of the registered comparators.
    pub fn get_comparator_names(&self) -> impl Iterator<Item = &str> {
        self.comparators.iter().map(|comparator| comparator.name())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("memory_budget", &self.get_memory_budget())
            .field("durability", &self.durability)
            .field("create_if_missing", &self.create_if_missing)
            .field("error_if_exists", &self.error_if_exists)
            .field("read_only", &self.read_only)
            .field("beside_other_files", &self.beside_other_files)
            .field("keep_left_behind", &self.keep_left_behind)
            .field("background_threads", &self.get_background_threads())
            .field("checkpoint_interval", &self.checkpoint_interval)
            .field("write_buffer", &self.write_buffer)
            .field("monitor", &self.monitor)
            .field("io_uring", &self.io_uring)
            .field("default_keyspace", &self.default_keyspace)
            .field("comparators", &self.get_comparator_names().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ChunkOptions;

    #[test]
    fn options_show_what_was_set_and_what_holds_otherwise() {
        let options = Options::new().memory_budget(5 << 20).durability(Durability::Sync).read_only(true);
        assert_eq!(options.get_memory_budget(), 5 << 20);
        assert_eq!(options.get_background_threads(), default_threads());
        let shown = format!("{options:?}");
        for part in ["memory_budget: 5242880", "durability: Sync", "read_only: true", "comparators: []"] {
            assert!(shown.contains(part), "{shown}");
        }
        let shared = Options::new().memory_budget(5 << 20).resources(Resources::new(7 << 20, 3));
        assert_eq!((shared.get_memory_budget(), shared.get_background_threads()), (7 << 20, 3));
        assert_eq!(Options::new().get_memory_budget(), default_budget_bytes());
        let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().munks(false)).row_cache(false);
        assert!(keyspace.get_layout().is_some() && !keyspace.get_row_cache());
        assert_eq!((keyspace.get_comparator_name(), keyspace.get_space_amplification()), (None, None));
        assert_eq!(WriteOptions::new().durability(Durability::Sync).get_durability(), Some(Durability::Sync));
    }
}
