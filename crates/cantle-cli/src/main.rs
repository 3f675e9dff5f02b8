//! The command `cantle`: load, query, inspect and measure stores from a shell.
//!
//! Each subcommand is one file in `commands`; what they share lies beside this one. Nothing here prints except
//! through `output` and `progress`. Exit codes: 0 done, 1 absent or damage found, 2 usage, 3 failure; a reader of
//! our output that went away is no failure.

mod chunkmap;
mod commands;
mod csvtext;
mod escape;
mod failure;
mod input;
mod keyfmt;
mod measure;
mod output;
mod progress;
mod row;
mod schema;
mod store;
mod tuning;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = commands::Cli::parse().command.run();
    if let Err(failure) = &outcome
        && let Some(message) = failure.message()
    {
        output::note(format_args!("cantle: {message}"));
    }
    ExitCode::from(outcome.map_or_else(|failure| failure.exit_code(), |()| 0))
}
