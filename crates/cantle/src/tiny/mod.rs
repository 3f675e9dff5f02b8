//! The smallest layout: a sorted map in memory, rebuilt from logs.
//!
//! It is no layout to use: it is never in a default build, holds everything in memory and forgets no old version. It shows what any
//! layout must do, in as few lines as that takes, and it takes the ways that `chunk` does not: one log for several writers with
//! revokes, locks of keys, validation in two passes, a part in each checkpoint. CONTRIBUTING.md walks through it.
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
