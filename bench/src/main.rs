//! The lab: measures Cantle beside other stores, on the same work in the same run. See `README.md`.

mod cli;
mod engine;
mod failure;
mod job;
mod measure;
mod record;
mod reference;
mod report;
mod runner;
mod smoke;
mod suite;
mod trace;
mod worker;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run(cli::Command::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
