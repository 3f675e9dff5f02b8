//! Settings of a keyspace in this layout: the user's options, and the rules that belong to them.

use crate::chunk::rules::Rules;
use crate::layout::options::{self, ChunkOptions};
use crate::log::env::LogOptions;
use crate::run::env::RunOptions;
use crate::sync::{Arc, Mutex};
use crate::types::compression::Compression;
use std::ops::Deref;
use std::sync::{LazyLock, Weak};

/// Maximum length of a log, in chunks, that is read into memory at once by a merge of at least half
/// of it.
const AT_ONCE_CHUNKS_MAX: u64 = 3;
/// Bits per key of the filters of logs.
const FILTER_BITS_PER_KEY: u32 = 10;

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub compression: Compression,
    /// `None` stands for 1.5, or more for a keyspace that is small relative to the memory budget.
    pub space_amplification: Option<f64>,
    pub row_cache: bool,
    /// One of the static sets of rules: a keyspace has no copy.
    pub rules: &'static Rules,
    pub own: ChunkOptions,
}

impl Settings {
    /// The settings for a keyspace; the defaults if the options are of another layout.
    pub fn of(settings: options::Settings) -> Self {
        let options::Settings { compression, space_amplification, row_cache, layout } = settings;
        let own = layout.of_chunk().unwrap_or_default();
        let rules = if own.published { &Rules::PUBLISHED } else { &Rules::OWN };
        Self { compression, space_amplification, row_cache, rules, own }
    }

    /// Settings for a keyspace to hold. Keyspaces that are opened one after the other mostly have
    /// equal settings: they share one copy.
    pub fn shared(self) -> Arc<Self> {
        static LAST: LazyLock<Mutex<Weak<Settings>>> = LazyLock::new(Mutex::default);
        let mut last = LAST.lock();
        if let Some(kept) = last.upgrade().filter(|kept| **kept == self) {
            return kept;
        }
        let kept = Arc::new(self);
        *last = Arc::downgrade(&kept);
        kept
    }

    /// The settings of the keyspace's logs.
    pub fn of_logs(&self) -> LogOptions {
        LogOptions {
            recent_appends: self.recent_appends,
            search: self.rules.log_search,
            memtables: false,
            filter_bits_per_key: FILTER_BITS_PER_KEY,
        }
    }

    /// The settings of the keyspace's runs.
    pub fn of_runs(&self) -> RunOptions {
        RunOptions {
            compression: self.compression,
            at_once_bytes: AT_ONCE_CHUNKS_MAX.saturating_mul(self.chunk_bytes),
            cut_prefix_bytes: self.rules.cut_prefix_bytes,
            longest_inline: u32::MAX,
            filters: true,
            allocates: false,
            direct_io: false,
        }
    }
}

impl Deref for Settings {
    type Target = ChunkOptions;
    fn deref(&self) -> &ChunkOptions {
        &self.own
    }
}
