//! The fault lab: ways to break a store on purpose, systematically, so that each failure can be
//! reproduced.
//!
//! A *door* ([`doors`]) is one way to break a store: the power fails at every call, a call fails, a
//! bit flips, … A door gets a layout, a seed and an amount of effort ([`visit::Visit`]). It counts
//! its work, and panics with its finding and with the command that reproduces it. Tests run each
//! door for a few seconds (`tests/lab/doors.rs`); the command `cantle-faults` runs doors for a given
//! time.
//!
//! ```text
//!   main        chooses doors, catches their findings, prints the report
//!   doors/      the ways to break a store
//!   visit       effort, seeds, counts
//!   history     which states a store may hold after a crash
//!   workload    operations, and the states that they lead to
//!   images      file systems as a crash at some call would leave them
//!   filling     disks that are full, then have space again
//!   setup       how stores are opened
//!   layouts     options of the layout under test
//!   files       the layouts' files, as bytes
//!   rings       rings of the kernel, if it gives any
//!   sealed      checksums of changed files
//!   memory      limits on single allocations
//!   shrink      the fewest operations that still fail
//!   watchdog    ends a run that hangs
//! ```
#![allow(
    missing_docs,
    reason = "nobody but the lab uses these modules; their headers and names say what is what"
)]
#![allow(clippy::unwrap_used, reason = "a door panics with what it found")]

pub mod doors;
pub mod files;
pub mod filling;
pub mod history;
pub mod images;
pub mod layouts;
pub mod memory;
pub mod rings;
pub mod rng;
pub mod sealed;
pub mod setup;
pub mod shrink;
pub mod visit;
pub mod watchdog;
pub mod workload;
