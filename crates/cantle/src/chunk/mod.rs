//! The chunk layout: EvenDB/YoDB.
//!
//! A keyspace is cut into *chunks*. Each is a key range with files of its own, its *funk*: log
//! segments, to which puts are appended, over sorted tables. While it is popular, a chunk has a
//! *munk*, all its content in memory, and reads go there. Otherwise a get looks for a cached row,
//! and then searches the chunk's files from the newest to the oldest; a scan merges them. When a
//! log has grown too long, or too much of a chunk is garbage, a *rebalance* merges its files into a
//! new table, while puts go to a new log. A chunk that has become too large is *split* by the same
//! rebalance. Small neighbours are *merged* by referring to both their files.
//!
//! ```text
//!   index (sorted minimal keys)      a ──────── k ──────────────── t ───────
//!                                    │          │                  │
//!   chunks                        chunk 1    chunk 2            chunk 3
//!                                    │          │                  │
//!   funk: log segments            [ log ]    [ log ][ log ]        –
//!         tables                  [ table ]  [ table ]          [ table ]
//! ```
//!
//! Paths through the modules:
//!
//! * put: `write` (lock, append, publish) → `segment` → `memory_part`, and every half MiB
//!   `indexed_part`; beside the log → `munk`.
//! * get: `index` → `munk`, or `cache::rows` → `funk`.
//! * scan: `walk` → `munk` or `merged` → `log::read`.
//! * munks: `popularity` decides which chunks have one, `load` loads and evicts them, `clean`
//!   removes their garbage.
//! * rebalance: `policy` → `rebalance` → `run::writer`; `split` and `join` change the index.
//! * manifest: `edit` has the state, `geometry` checks its changes.
//! * transactions: `validate`.
//!
//! Locks, in this order: a chunk's right to change (`Chunk::begin_change`) → the locks of chunks in key order
//! (`Chunk::writer`) → the index's, the manifest's, the journal's, each only for a moment. Gets and scans take
//! none of them.

#[cfg(test)]
mod ahead_tests;
#[cfg(test)]
mod append_tests;
#[cfg(test)]
mod backlog_tests;
#[expect(clippy::module_inception, reason = "the layout is named for what it is made of, and so is the file")]
pub mod chunk;
mod chunk_write;
mod cleaning;
pub mod context;
#[cfg(test)]
mod documented;
#[cfg(test)]
mod documented_manifest;
#[cfg(test)]
mod doubt_tests;
mod edit;
#[cfg(test)]
mod ends_tests;
pub mod factory;
mod geometry;
#[cfg(test)]
mod geometry_tests;
mod keyspace;
mod layout;
#[cfg(test)]
mod life_tests;
#[cfg(test)]
mod log_reads_tests;
#[cfg(test)]
mod log_view_tests;
mod munk;
mod open;
#[cfg(test)]
mod order_tests;
mod pinned;
mod policy;
#[cfg(test)]
mod pressure_tests;
mod rebalance;
mod replaced;
mod residency;
#[cfg(test)]
mod retain_tests;
mod rules;
mod settings;
#[cfg(test)]
mod space_tests;
mod stats;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tiling_tests;
mod validate;
mod verify;
mod walk;
mod write;

pub use keyspace::Chunks;
