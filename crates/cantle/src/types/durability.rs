//! Durability of writes.

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
