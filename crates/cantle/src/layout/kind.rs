//! The names of layouts.

use crate::types::error::{Error, Result};

/// The published design by which a keyspace is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum LayoutKind {
    /// EvenDB/YoDB: key ranges are the unit of caching, logging and compaction. For composite keys, scans
    /// and hot ranges; the best all-rounder.
    #[default]
    Chunk,
    /// PebblesDB, a fragmented log-structured merge tree: the tables of a level lie in guards, and a
    /// merge appends tables to the guards of the next level without rewriting theirs. For small
    /// records that are written in random order and data much larger than memory.
    Flsm,
    /// SifrDB, a split multi-stage forest: a stage has several trees, each of short sub-trees, and merges make one tree
    /// of the next stage of them. For loads of small records, and for disks that have little room beside the data.
    Forest,
    /// A sorted map rebuilt from logs. The labs test with it that layouts are exchangeable.
    #[cfg(feature = "labs")]
    #[doc(hidden)]
    Tiny,
}

impl LayoutKind {
    /// Every layout.
    pub const ALL: &[Self] = &[
        Self::Chunk,
        Self::Flsm,
        Self::Forest,
        #[cfg(feature = "labs")]
        Self::Tiny,
    ];

    /// The layout's name, as used by options in text and by statistics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chunk => "chunk",
            Self::Flsm => "flsm",
            Self::Forest => "forest",
            #[cfg(feature = "labs")]
            Self::Tiny => "tiny",
        }
    }

    /// The layout's word for the key ranges that it manages, in the plural.
    pub fn regions(self) -> &'static str {
        match self {
            Self::Chunk => "chunks",
            Self::Flsm => "guards",
            Self::Forest => "sections",
            #[cfg(feature = "labs")]
            Self::Tiny => "ranges",
        }
    }

    /// The promises of this layout beyond those of every layout.
    #[cfg(feature = "labs")]
    #[doc(hidden)]
    pub fn capabilities(self) -> Capabilities {
        match self {
            Self::Chunk => Capabilities {
                frees_space: true,
                bounds_memory: true,
                loads_ranges: true,
                shares_logs: false,
            },
            Self::Flsm | Self::Forest => Capabilities {
                frees_space: true,
                bounds_memory: true,
                loads_ranges: false,
                shares_logs: true,
            },
            Self::Tiny => Capabilities {
                frees_space: false,
                bounds_memory: false,
                loads_ranges: false,
                shares_logs: true,
            },
        }
    }

    /// The layout's number in manifests.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Chunk => 1,
            Self::Flsm => 2,
            Self::Forest => 3,
            #[cfg(feature = "labs")]
            Self::Tiny => 255,
        }
    }
}

/// Properties in which layouts differ, apart from speed. The labs read them before they test
/// something that only some layouts promise.
#[cfg(feature = "labs")]
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Background work frees the space of replaced values and bounds the number of files.
    pub frees_space: bool,
    /// Memory stays within the budget, however much the keyspace holds.
    pub bounds_memory: bool,
    /// Popular key ranges are loaded into memory and evicted again; single popular rows are cached
    /// as well.
    pub loads_ranges: bool,
    /// Several writers append to one log at a time: after a failed write's records there may be
    /// those of other writes.
    pub shares_logs: bool,
}

impl std::fmt::Display for LayoutKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for LayoutKind {
    type Err = Error;

    /// The layout of a [name](Self::name).
    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|layout| layout.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|layout| layout.name()).collect();
            Error::InvalidArgument(format!("there is no layout {name:?}, but {}", names.join(", ")))
        })
    }
}
