//! Cantle for C: the functions that `include/cantle.h` declares. A test (`tests/header.rs`) writes
//! the header from these files, so their comments are its documentation. `docs/bindings/c.md`
//! explains how to use it.
//!
//! ```text
//!   db, keyspace, read, write, batch, snapshot, transaction, iterator, key, report, options, …    the interface, one concept a file
//!      │
//!   boundary      panics and failures become statuses and error objects
//!   handle        typed handles, with the processes that made them;  token: their numbers, without a pointer to follow
//!   raw  memory   arguments and results that are passed by pointers
//! ```
//!
//! Every function does the same: `raw` and `handle` check its arguments, the Rust interface does
//! the work, and `boundary` turns the outcome into a status or an error object. No lock is held
//! during a call of the store, except those of single iterators, batches, transactions and keys.
#![expect(unsafe_code, reason = "the boundary to C: pointers come from others, and names are exported")]
#![expect(non_camel_case_types, reason = "names of C")]
#![expect(
    clippy::missing_safety_doc,
    reason = "the header states the contract once, for all functions: see `raw`"
)]

mod boundary;
mod callback;
mod failure;
mod handle;
mod raw;

// The header has the items in the order of these modules.
pub mod version;

pub mod error;
pub mod memory;
pub mod status;
mod token;

pub mod bound;

pub mod comparator;
pub mod keyspace_options;
pub mod options;
pub mod resources;

pub mod db;
pub mod keyspace;

pub mod read;
pub mod write;

pub mod batch;
pub mod snapshot;
pub mod transaction;

pub mod swap;

pub mod iterator;

pub mod key;

pub mod report;
