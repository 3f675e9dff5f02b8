//! Options of the layout under test.

use cantle::stats::{ChunkStats, KeyspaceStats};
use cantle::{KeyspaceOptions, LayoutKind, LayoutOptions};
use std::fmt::Display;

pub trait Tuned: Sized {
    /// Sets an option by its name. No effect if this layout does not have the option; panics if no
    /// layout has it.
    #[must_use]
    fn with(self, name: &str, value: impl Display) -> Self;
    /// Sets the length of regions in bytes, if the layout has regions, and of logs in proportion.
    #[must_use]
    fn with_regions(self, bytes: u64) -> Self {
        self.with("chunk_bytes", bytes)
            .with("guard_bytes", bytes)
            .with("sub_tree_bytes", (bytes / 4).max(4 << 10))
            .with("generation_bytes", (bytes / 4).max(4 << 10))
    }
    /// Sets how tables are written, if the layout has options for it: allocated before if the lowest bit is set, and
    /// past the page cache if the second one is.
    #[must_use]
    fn with_storing(self, bits: u64) -> Self {
        self.with("aligned_storing", bits & 1 != 0).with("direct_io", bits & 2 != 0)
    }
}

impl Tuned for LayoutOptions {
    fn with(self, name: &str, value: impl Display) -> Self {
        let set = |layout: LayoutOptions| layout.set(name, &value.to_string());
        set(self.clone()).unwrap_or_else(|error| {
            let is_known = LayoutKind::ALL.iter().any(|&kind| set(kind.into()).is_ok());
            assert!(is_known, "{error}");
            self
        })
    }
}

/// Options of the layout, either its defaults or as published.
pub fn options(kind: LayoutKind, as_published: bool) -> LayoutOptions {
    // Few bits, so that few data make several guards by hash.
    if as_published { LayoutOptions::as_published(kind).with("top_level_bits", 6) } else { kind.into() }
}

/// Keyspace options with small regions, if the layout has regions, so that few data make several.
pub fn small_regions(kind: LayoutKind) -> KeyspaceOptions {
    KeyspaceOptions::new().layout(LayoutOptions::from(kind).with_regions(64 << 10))
}

pub trait OfChunk {
    /// The statistics of `chunk`; zeros for another layout.
    fn of_chunk(&self) -> ChunkStats;
}

impl OfChunk for KeyspaceStats {
    fn of_chunk(&self) -> ChunkStats {
        self.chunk().cloned().unwrap_or_default()
    }
}
