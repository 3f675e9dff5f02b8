//! `cantle man`: manual pages.

use super::Cli;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use std::path::PathBuf;

/// Print a manual page, or write all of them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManPages {
    /// The subcommand [default: the command itself]
    #[arg(conflicts_with = "dir")]
    command: Option<String>,
    /// Write all pages into this directory, cantle.1, cantle-load.1, …
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  cantle man load | man -l -
  cantle man --dir ~/.local/share/man/man1";

impl ManPages {
    pub(crate) fn run(self) -> Outcome {
        let root = Cli::command();
        if let Some(dir) = &self.dir {
            for command in std::iter::once(&root).chain(root.get_subcommands()) {
                let path = dir.join(format!("{}.1", title(&root, command)));
                std::fs::write(&path, page(&root, command)?)
                    .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))?;
            }
            return Ok(());
        }
        let command = match &self.command {
            None => &root,
            Some(name) => root
                .find_subcommand(name)
                .ok_or_else(|| Failure::Usage(format!("there is no subcommand {name:?}")))?,
        };
        let mut output = Output::new();
        output.bytes(&page(&root, command)?)?;
        output.finish()
    }
}

fn title(root: &Command, command: &Command) -> String {
    if command.get_name() == root.get_name() {
        return root.get_name().to_owned();
    }
    format!("{}-{}", root.get_name(), command.get_name())
}

/// The page in roff.
fn page(root: &Command, command: &Command) -> Outcome<Vec<u8>> {
    let version = root.get_version().unwrap_or_default().to_owned();
    let bin = title(root, command).replacen('-', " ", 1);
    let titled = command.clone().name(title(root, command)).bin_name(bin).version(version);
    let mut page = Vec::new();
    Man::new(titled).render(&mut page)?;
    Ok(page)
}
