//! The command `cantle`: load, query, inspect and measure stores from a shell. A library only so
//! that others can call it.
//!
//! Each subcommand is one file in `commands`; what they share lies beside this one. Nothing here
//! prints except through `output` and `progress`. Exit codes: 0 done, 1 absent or damage found, 2
//! usage, 3 failure, 128 and the number of a signal; a reader of our output that went away is no
//! failure.

mod commands;
mod csvtext;
mod escape;
mod failure;
#[doc(hidden)]
pub mod fuzzing;
mod input;
mod interrupt;
mod keyfmt;
mod measure;
mod merging;
mod monitored;
mod output;
mod progress;
mod region_levels;
mod region_map;
mod region_page;
mod row;
mod schema;
mod seen;
mod store;
mod tuning;

use clap::Parser;
use std::process::ExitCode;

/// Caches are filled by one thread and emptied by another. With a heap for each, as glibc has them,
/// free memory of one is of no use to the others: some 30 MB more stay resident under a budget of
/// 80 MiB.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "a setting of the allocator, before there are threads")]
fn share_heaps() {
    const HEAPS: i32 = 2;
    // SAFETY: sets a number.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, HEAPS) };
}

#[cfg(not(target_env = "gnu"))]
fn share_heaps() {}

/// Runs the command with the arguments of the process.
pub fn run() -> ExitCode {
    share_heaps();
    let outcome = commands::Cli::parse().command.run();
    if let Err(failure) = &outcome
        && let Some(message) = failure.message()
    {
        output::note(format_args!("cantle: {message}"));
    }
    ExitCode::from(outcome.map_or_else(|failure| failure.exit_code(), |()| 0))
}
