//! The names of layouts.

use crate::types::error::{Error, Result};

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
