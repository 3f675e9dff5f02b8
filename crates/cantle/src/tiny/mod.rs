//! The smallest layout: a sorted map in memory, rebuilt from logs.
//!
//! Not for use: it is never in a default build, holds everything in memory and drops no old
//! version. It shows in few lines what any layout must do, and uses mechanisms that `chunk` does
//! not: one log for several writers with revokes, key locks, validation in two passes, edits with
//! each checkpoint. CONTRIBUTING.md walks through it.
//!
//! ```text
//!   keyspace ─┬─ map    key → versions, oldest first          rebuilt by the first access, from all logs, oldest first
//!             ├─ locks  stripes of keys, held by writes
//!             └─ logs   one per opening that wrote; the newest is appended to
//! ```
//!
//! Lock order: stripes of keys → the active log → the map.

mod cursor;
pub mod factory;
mod keyspace;
mod layout;
mod map;
mod state;
mod write;
