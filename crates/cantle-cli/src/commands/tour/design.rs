//! The layout of the tour's store: its options, and the sentences in which layouts differ.

use crate::failure::Outcome;
use crate::measure::display::{bytes, count};
use cantle::stats::KeyspaceStats;
use cantle::{KeyspaceOptions, LayoutKind, LayoutOptions, Options, Stats};

/// Less than the default on most machines: a tour should not look good by caching everything.
pub(crate) const MEMORY_BYTES: u64 = 64 << 20;

/// Small regions, so that 30 MB make a map worth drawing.
const SMALL_CHUNKS: &str = "chunk:chunk_bytes=1MiB";
const SMALL_GUARDS: &str = "flsm:generation_bytes=512KiB,guard_bytes=512KiB";
const SMALL_TREES: &str = "forest:generation_bytes=512KiB,sub_tree_bytes=256KiB";

/// A layout that the tour shows.
pub(crate) struct Design {
    /// As the process that is killed is told.
    pub(crate) text: String,
    layout: LayoutOptions,
}

impl Design {
    /// The layout of a text. A name alone stands for the layout with small regions.
    pub(crate) fn new(text: &str) -> Outcome<Self> {
        let text = match text {
            "chunk" => SMALL_CHUNKS,
            "flsm" => SMALL_GUARDS,
            "forest" => SMALL_TREES,
            text => text,
        };
        Ok(Self { text: text.to_owned(), layout: text.parse()? })
    }

    /// Options of the store.
    pub(crate) fn options(&self) -> Options {
        Options::new().memory_budget(MEMORY_BYTES).default_keyspace(self.keyspace_options())
    }

    /// Options of each of its keyspaces.
    pub(crate) fn keyspace_options(&self) -> KeyspaceOptions {
        KeyspaceOptions::new().layout(self.layout.clone())
    }

    fn is_of_chunks(&self) -> bool {
        self.layout.kind() == LayoutKind::Chunk
    }

    /// The places of puts and of sorted data.
    pub(crate) fn places(&self) -> &'static str {
        match self.layout.kind() {
            LayoutKind::Flsm => {
                "puts go to one log after the other; merges add their keys to guards, key ranges of a level"
            }
            LayoutKind::Forest => {
                "puts go to one log after the other; merges make trees of them, and one tree of several"
            }
            _ => {
                "keys are cut into ranges, chunks; each has a log that puts go to, and sorted tables beneath"
            }
        }
    }

    /// Data that stays in memory.
    pub(crate) fn stays(&self) -> &'static str {
        if self.is_of_chunks() {
            "popular chunks stay in memory"
        } else {
            "blocks that are read stay in memory"
        }
    }

    /// The moment at which a log is read after an opening.
    pub(crate) fn first_read(&self) -> &'static str {
        if self.is_of_chunks() { "before its chunk is" } else { "before a key is looked up" }
    }

    /// The title of the map.
    pub(crate) fn map(&self) -> &'static str {
        match self.layout.kind() {
            LayoutKind::Flsm => {
                "The map of guards, level by level: where the keys lie, and what reads have cost there"
            }
            LayoutKind::Forest => {
                "The map of trees, stage by stage: where the keys lie, and what reads have cost there"
            }
            _ => "The chunk map: where the keys lie, and which of them are asked for",
        }
    }

    /// The meaning of the map's marks.
    pub(crate) fn legend(&self) -> &'static str {
        if self.is_of_chunks() {
            "each step of heat is twice the one below"
        } else {
            "read debt counts entries passed over"
        }
    }

    /// The contents of memory, in short.
    pub(crate) fn in_memory(&self, stats: &Stats) -> String {
        let sum = |of: fn(&KeyspaceStats) -> u64| stats.keyspaces.iter().map(of).sum::<u64>();
        let blocks = bytes(stats.memory.blocks.used);
        if !self.is_of_chunks() {
            let indexes = bytes(stats.memory.log_indexes.used);
            return format!("indexes of logs {indexes}; blocks {blocks}");
        }
        format!(
            "{} of {} {}, {}; rows {}, blocks {blocks}",
            count(sum(|keyspace| keyspace.chunk().map_or(0, |chunk| chunk.munks))),
            count(sum(|keyspace| keyspace.regions)),
            self.layout.kind().regions(),
            bytes(stats.memory.resident.used),
            bytes(stats.memory.rows.used),
        )
    }
}
