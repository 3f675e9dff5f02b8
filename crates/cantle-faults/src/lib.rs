//! The fault lab: ways to break a store on purpose, systematically, so that each failure can be had again.
//!
//! A *door* ([`doors`]) is one way in: the power fails at every call, a call fails, a bit flips, … It takes a layout, a seed and how
//! much effort to spend ([`visit::Visit`]), counts what it did, and panics with what it found and how to see it again. Tests
//! enter each door for a few seconds (`tests/doors.rs`); the command `cantle-faults` stays as long as it is told.
//!
//! ```text
//!   main        chooses doors, catches what they find, prints the report
//!   doors/      the ways to break a store
//!   visit       effort, seeds, counts
//!   history     which states a store may hold after a crash
//!   workload    operations and what they make of a state
//!   images      file systems as a crash at some call would leave them
//!   filling     disks that are full, then are not
//!   setup       how stores are opened
//!   layouts     options of the layout under test
//!   files       their files, as bytes
//!   sealed      checksums of changed files
//!   memory      how much is asked for at once
//!   shrink      the fewest operations that still fail
//!   watchdog    ends what does not end
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
pub mod rng;
pub mod sealed;
pub mod setup;
pub mod shrink;
pub mod visit;
pub mod watchdog;
pub mod workload;
