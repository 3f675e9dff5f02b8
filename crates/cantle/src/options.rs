//! Choices that shared parts and layouts know.

use crate::error::{Error, Result};

/// What an acknowledged write survives (EvenDB §3.5 has the first and the last). The order is that of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Durability {
    /// Nothing until the next checkpoint. After any crash the store is a consistent *prefix* of what was
    /// written. Costs a memory copy.
    Buffered,
    /// The end of the process, however sudden; after a power loss a consistent prefix. Costs a copy into mapped
    /// memory, now and then a system call, and no sync.
    #[default]
    Process,
    /// Power loss. Writers that wait share one sync of the journal. So does a single write of another store that asks
    /// for this, while everything before it is durable; else it is a checkpoint, which syncs each log that was written to, once
    /// for all that wait.
    Sync,
}

/// Which of the published designs lays out a keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Layout {
    /// EvenDB/YoDB: key ranges are the unit of caching, logging and compaction. For composite keys, scans
    /// and hot ranges; the best all-rounder.
    #[default]
    Chunk,
}

impl Layout {
    /// Every layout.
    pub const ALL: &[Self] = &[Self::Chunk];

    /// Its name, as options in text and statistics have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chunk => "chunk",
        }
    }
}

impl std::str::FromStr for Layout {
    type Err = Error;

    /// The layout of a [name](Self::name).
    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|layout| layout.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|layout| layout.name()).collect();
            Error::InvalidArgument(format!("there is no layout {name:?}, but {}", names.join(", ")))
        })
    }
}

/// How blocks of tables are compressed. Logs are not, but become tables when they are idle (see
/// [`KeyspaceOptions::compression`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// LZ4: fast, about half the size of text.
    Lz4,
    /// Zstandard at a level of 1–22: smaller, slower. Needs the feature `zstd`; without it opening a
    /// keyspace with this option is an `InvalidArgument`.
    Zstd(i32),
}
