//! Cantle for C: what `include/cantle.h` declares. The header is written from these files by a test (`tests/header.rs`), so their comments
//! are its documentation; `docs/bindings/c.md` tells how to use it.
//!
//! ```text
//!   db, keyspace, read, write, batch, snapshot, transaction, iterator, key, report, options, …    the interface, one concept a file
//!      │
//!   boundary      panics and failures become statuses and error objects
//!   handle        typed handles, and which process made them;  token: what they are, numbers without a pointer to follow
//!   raw  memory   what comes in and goes out by pointers
//! ```
//!
//! Every function does the same: what it is given is checked (`raw`, `handle`), the Rust interface does the work, and `boundary` tells what
//! became of it. Nothing here keeps a lock while it calls the store, save for those of single iterators, batches, transactions and keys.
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

// In the order of the header, which has them as they are named here.
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
