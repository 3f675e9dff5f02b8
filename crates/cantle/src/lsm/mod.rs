//! The engine of layouts that are log-structured merge trees: writes, generations, level 0, reads,
//! and the execution of merges. A layout over it decides only where tables lie and what is merged
//! next ([`shape::Shape`]).
//!
//! ```text
//!   keyspace ── view ─┬─ active   generation: a log, and its index in memory (the memtable)   ← writes
//!    (replaced as     ├─ level0   level 0: logs of sealed generations, each indexed on disk, and of
//!     a whole)        │           earlier openings, and tables of flushed ones; newest first
//!                     └─ shape    groups of tables, for example the guards of levels
//! ```
//!
//! *The log is level 0.* A generation that is full is sealed: its log gets an index on disk, and
//! is a sorted run from then on, so no data is written a second time to become readable. Merges
//! read it later, together with other logs. If its index would cost more than it saves, it is
//! written as a table, which takes its place ([`flush`]). A log in key order becomes a run of a group as it is
//! ([`adopt`]).
//!
//! *Life of a write.* It locks the stripes of its keys (`mvcc/key_locks.rs`), enters the active
//! generation, is announced, appends to the log, publishes in the log's memory part, leaves the
//! generation and releases the stripes ([`mod@write`]).
//!
//! Invariants:
//!
//! * *Recency.* Of two runs that hold entries of one key, the one with the newer entries comes
//!   first in a view. A generation is sealed only after the view has its successor, and writers
//!   look for the active generation while they hold their stripes. So the writes of one key enter
//!   generations in the order of their versions.
//! * *Cover.* Everything that gets, open snapshots or the last durable checkpoint need is in a run
//!   of the view, or in a file that is held for the checkpoint.
//! * *Contiguity.* A merge reads a part of the runs of a key without a gap, and its output takes
//!   their place.
//! * *Boundaries.* The groups of a level are disjoint, and a run's keys lie within its group.
//!
//! Merges of different groups run at the same time ([`busy`]).
//!
//! Lock order: `settling` → claims of merges → `creating`, stripes of keys → `changes` → the end of a log.
//! Reads take no lock.
//!
//! Thread safety: everything may be called from any thread.

mod adopt;
pub mod areas;
pub mod busy;
#[cfg(test)]
mod busy_tests;
mod dropped_early;
mod dropped_ranges;
mod flush;
mod full_disk;
pub mod generation;
pub mod hashed;
mod hidden;
pub mod keyspace;
pub mod layout;
mod lineage;
mod look;
pub mod maintain;
pub mod marked;
pub mod merge;
pub mod middle;
mod open;
mod piece;
mod progress;
mod rotate;
mod rotation;
mod run_files;
pub mod shape;
pub mod sizes;
pub mod space;
pub mod state;
mod stats;
mod straight_seeks;
mod validate;
pub mod view;
mod write;
