//! Options of whichever layout is under test.

use cantle::{ChunkStats, KeyspaceOptions, KeyspaceStats, LayoutKind, LayoutOptions};
use std::fmt::Display;

pub trait Tuned: Sized {
    /// Sets an option by its name. A layout that has none of that name does without; one that no layout has is a mistake.
    #[must_use]
    fn with(self, name: &str, value: impl Display) -> Self;
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

/// The layout with its own rules, or with those that were published.
pub fn options(kind: LayoutKind, as_published: bool) -> LayoutOptions {
    if as_published { LayoutOptions::as_published(kind) } else { kind.into() }
}

/// Keyspaces of the layout with small regions where it has such: little data makes several.
pub fn small_regions(kind: LayoutKind) -> KeyspaceOptions {
    KeyspaceOptions::new().layout(LayoutOptions::from(kind).with("chunk_bytes", 64 << 10))
}

pub trait OfChunk {
    /// The statistics of `chunk`; of another layout zeros.
    fn of_chunk(&self) -> ChunkStats;
}

impl OfChunk for KeyspaceStats {
    fn of_chunk(&self) -> ChunkStats {
        self.chunk().cloned().unwrap_or_default()
    }
}
