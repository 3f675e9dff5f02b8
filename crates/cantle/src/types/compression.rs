//! The compression of blocks.

/// Compression of the blocks of tables. Logs are not compressed, but become tables when they are
/// idle (see [`KeyspaceOptions::compression`](crate::KeyspaceOptions::compression)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Compression {
    /// Blocks are not compressed.
    #[default]
    None,
    /// LZ4: fast, about half the size of text.
    Lz4,
    /// Zstandard at a level of 1–22: smaller, slower. Needs the feature `zstd`; without it opening a
    /// keyspace with this option is an `InvalidArgument`.
    Zstd(i32),
}
