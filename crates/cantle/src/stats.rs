//! Counters and sizes of an open store.
//!
//! [`Db::stats`](crate::Db::stats) returns the [`Stats`] of a whole store, and
//! [`Keyspace::stats`](crate::Keyspace::stats) those of one keyspace:
//!
//! ```text
//! Stats
//! ├─ keyspaces: KeyspaceStats for each     sizes of files, live data, bytes written, gets
//! │    ├─ gets_served, get_times           the places that served gets: GetsServed, GetTimes
//! │    └─ of_layout: LayoutStats           the keyspace's layout: ChunkStats; FlsmStats with LevelStats, RunningMerge
//! ├─ memory: MemoryStats                   the budget, with a MemoryAccount for each purpose
//! ├─ write_stalls: WriteStalls             long waits of writes: StallStats for each cause
//! └─ maintenance: MaintenanceStats         background work, with JobStats for each class
//! ```
//!
//! [`Db::regions`](crate::Db::regions) returns a [`RegionInfo`] for each key range that the layout
//! manages.
//!
//! Sizes are those of the moment of the call. Counters begin at 0 when the store is opened, so the
//! difference between two calls is what happened between them. Concurrent writes may be counted in
//! one field and not yet in another one.
//!
//! ```
//! # fn main() -> cantle::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! use cantle::stats::{KeyspaceStats, MemoryAccount};
//!
//! let db = cantle::Db::open(dir.path().join("store"))?;
//! db.put("key", "value")?;
//!
//! let stats = db.stats();
//! let written = |keyspace: &KeyspaceStats| keyspace.user_bytes_written;
//! assert_eq!(stats.keyspaces.iter().map(written).sum::<u64>(), 8);
//!
//! let rows: MemoryAccount = stats.memory.rows;
//! println!("cached rows use {} of {} bytes", rows.used, rows.limit);
//! # Ok(()) }
//! ```

pub use crate::budget::{MemoryAccount, MemoryStats};
pub use crate::db::{StallStats, Stats, WriteStalls};
pub use crate::layout::stats::{
    ChunkStats, FlsmStats, GetTimes, GetsServed, KeyspaceStats, LayoutStats, LevelStats, RegionInfo,
    RunningMerge,
};
pub use crate::maintenance::{JobStats, MaintenanceStats};
