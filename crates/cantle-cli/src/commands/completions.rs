//! `cantle completions`: completion scripts for shells.

use super::Cli;
use crate::failure::Outcome;
use crate::output::Output;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  cantle completions bash > ~/.local/share/bash-completion/completions/cantle
  cantle completions fish > ~/.config/fish/completions/cantle.fish";

impl Completions {
    pub(crate) fn run(self) -> Outcome {
        // Not straight to the output: the generator panics if it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "cantle", &mut script);
        let mut output = Output::new();
        output.bytes(&script)?;
        output.finish()
    }
}
