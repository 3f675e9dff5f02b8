//! Durability of writes.

/// Events that an acknowledged write survives, from the weakest to the strongest (EvenDB §3.5 has
/// the first and the last).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Durability {
    /// Nothing until the next checkpoint. After any crash the store is a consistent *prefix* of what was
    /// written. Costs a memory copy.
    Buffered,
    /// The end of the process, however sudden; after a power loss a consistent prefix. Costs a copy
    /// into mapped memory, an occasional system call, and no sync.
    #[default]
    Process,
    /// Power loss. In a store with this default, the writers that wait share one sync of the
    /// journal. A single write that asks for this in another store shares a sync in the same way,
    /// as long as everything before the write is durable. Otherwise the write takes a checkpoint:
    /// each log that was written to is synced once, for all writers that wait.
    Sync,
}
