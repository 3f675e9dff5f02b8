//! The command line: one file for each subcommand.

mod backup;
mod bench;
mod compact;
mod completions;
mod count;
mod delete;
mod export;
mod get;
mod import;
mod inspect;
mod keyspaces;
mod load;
mod man;
mod put;
mod repair;
mod scan;
mod stats;
mod top;
mod tour;
mod verify;

use crate::failure::Outcome;
use clap::{Parser, Subcommand};

/// Load, query, inspect and measure Cantle stores
///
/// Keys are written by the columns that `load --key` named, as a CSV record:
/// UA,EWR,2013-07-04T09:00:00Z,1545; an empty field is a null, "" the empty text. Other keys are
/// raw text with \\, \t, \n, \r and \xNN. Reports are JSON with --json: the help of each command
/// names its members.
#[derive(Debug, Parser)]
#[command(name = "cantle", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  a key is absent, or damage was found
  2  usage
  3  failure
  130, 143  Ctrl-C or SIGTERM: the rows that were loaded before are in the store

Examples:
  cantle load flights --csv flights.csv.gz --key carrier,origin,time_hour:time,flight:int
  cantle scan flights --prefix UA,EWR --from UA,EWR,2013-07-04T10:00:00Z --limit 5
  cantle get flights UA,EWR,2013-07-04T10:00:00Z,1506";

/// The subcommands. Each is a struct of arguments with a `run`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Load(load::Load),
    Get(get::Get),
    Put(put::Put),
    Delete(delete::Delete),
    Scan(scan::Scan),
    Count(count::Count),
    Export(export::Export),
    Import(import::Import),
    Keyspaces(keyspaces::Keyspaces),
    Stats(stats::Stats),
    Inspect(inspect::Inspect),
    Top(top::Top),
    Verify(verify::Verify),
    Repair(repair::Repair),
    Compact(compact::Compact),
    Backup(backup::Backup),
    Bench(bench::Args),
    Tour(tour::Args),
    Completions(completions::Completions),
    Man(man::ManPages),
}

impl Command {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::Load(command) => command.run(),
            Self::Get(command) => command.run(),
            Self::Put(command) => command.run(),
            Self::Delete(command) => command.run(),
            Self::Scan(command) => command.run(),
            Self::Count(command) => command.run(),
            Self::Export(command) => command.run(),
            Self::Import(command) => command.run(),
            Self::Keyspaces(command) => command.run(),
            Self::Stats(command) => command.run(),
            Self::Inspect(command) => command.run(),
            Self::Top(command) => command.run(),
            Self::Verify(command) => command.run(),
            Self::Repair(command) => command.run(),
            Self::Compact(command) => command.run(),
            Self::Backup(command) => command.run(),
            Self::Bench(args) => bench::run(args),
            Self::Tour(args) => tour::run(args),
            Self::Completions(command) => command.run(),
            Self::Man(command) => command.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_subcommand_has_examples_in_its_help() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:\n  cantle "), "{}", command.get_name());
        }
    }
}
