//! The arguments of `cantle bench`.

use crate::tuning::Tuning;
use cantle_workloads::generator::Distribution;
use cantle_workloads::records::{RECORDS_MAX, VALUE_BYTES};
use cantle_workloads::size::parse_duration;
use cantle_workloads::workload::Workload;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Measure this machine with the workloads of the papers
///
/// Loads records of 14-byte keys and 800-byte values in key order into a new store, syncs, and runs
/// each workload over each distribution (EvenDB, section 5.3). Prints throughput, latencies, write,
/// read and space amplification as the kernel and the store count them, where gets were served
/// from, stalls and memory.
#[derive(Debug, Clone, Serialize, clap::Args)]
#[command(after_help = "Examples:
  cantle bench                                              a few minutes, 1,000,000 records
  cantle bench --workload P --distribution uniform,zipf-composite --overwrites 10
  cantle bench --workload A,C,E100 --records 10m --memory 1GiB --threads 8 --json
  cantle bench --workload insert-random --records 5m        an insert-only load
  cantle bench --workload insert-random,A,C --layout flsm   the same work in another layout
  cantle bench --workload A --duration 10m --memory 200MiB  the longest stalls of a long run
  cantle bench --smoke                                      everything, tiny; checks what it reads")]
pub(crate) struct Args {
    /// Workloads to run one after the other on the same store, separated by commas
    #[serde(skip)]
    #[arg(long, value_enum, value_delimiter = ',', default_value = "P,A,C,E100")]
    pub(crate) workload: Vec<Workload>,

    /// The distributions of the records that they touch, separated by commas
    #[serde(skip)]
    #[arg(long, value_enum, value_delimiter = ',', default_value = "zipf-composite")]
    pub(crate) distribution: Vec<Distribution>,

    /// Records to load, or to insert; k, m and g stand for thousands, millions and billions
    #[arg(long, value_name = "N", default_value = "1m", value_parser = parse_count)]
    pub(crate) records: u64,

    /// Operations of each workload [default: as many as records]
    #[serde(skip)]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) operations: Option<u64>,

    /// Run each workload so long, and measure bare appends beside it; see its longest stalls
    ///
    /// With data of four times the memory budget, this is how long a write can take. The appends
    /// tell a slow device from a slow store.
    #[serde(skip)]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with_all = ["operations", "overwrites", "smoke"])]
    pub(crate) duration: Option<Duration>,

    /// In workload P: N times as many puts as records
    #[arg(long, value_name = "N", conflicts_with = "operations")]
    pub(crate) overwrites: Option<f64>,

    /// Gets before each workload that fill the caches and are not measured
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_count)]
    pub(crate) warmup: u64,

    /// Threads that run operations [default: as many as cores]
    #[arg(long, value_name = "N", default_value_t = cores(), hide_default_value = true, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) threads: u64,

    /// Skew of the Zipf distributions: 0 is uniform, below 1
    #[arg(long, default_value_t = 0.99, value_parser = parse_theta)]
    pub(crate) theta: f64,

    #[serde(flatten)]
    #[command(flatten)]
    pub(crate) tuning: Tuning,

    /// The directory in which the store gets a new directory of its own [default: the system's
    /// temporary directory]
    #[serde(skip)]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Leave the store behind and say where it is
    #[serde(skip)]
    #[arg(long)]
    pub(crate) keep: bool,

    /// Seed of keys, values and order: the same seed repeats a run
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// One JSON object per workload and line
    #[serde(skip)]
    #[arg(long)]
    pub(crate) json: bool,

    /// Run every workload and distribution at a tiny size and check what is read
    #[serde(skip)]
    #[arg(long, conflicts_with_all = ["operations", "overwrites", "keep"])]
    pub(crate) smoke: bool,
}

impl Args {
    /// Operations of `workload`.
    pub(crate) fn operation_count(&self, workload: Workload) -> u64 {
        match (workload, self.overwrites) {
            (workload, _) if workload.is_insert() => self.records,
            (Workload::P, Some(times)) => (self.records as f64 * times).round() as u64,
            _ => self.operations.unwrap_or(self.records),
        }
    }

    /// Refuses combinations of arguments, which no value parser sees.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.records == 0 || self.records > RECORDS_MAX / 2 {
            return Err(format!("--records {} is not between 1 and {}", self.records, RECORDS_MAX / 2));
        }
        if self.overwrites.is_some_and(|times| !(0.0..=1e6).contains(&times)) {
            return Err("--overwrites is a number of times, from 0 to a million".into());
        }
        Ok(())
    }
}

/// Cores of this machine.
pub(crate) fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64)
}

fn parse_count(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no count: give a number, with k, m or g if you like, as in 500k");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let digits: String = digits.chars().filter(|&c| c != '_' && c != ',').collect();
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)
}

fn parse_theta(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(theta) if (0.0..1.0).contains(&theta) => Ok(theta),
        _ => Err(format!("{text:?} is no skew: the generator takes 0 (uniform) to below 1, the papers 0.99")),
    }
}

const _: () = assert!(VALUE_BYTES == 800, "the help text says 800");

#[cfg(test)]
mod tests {
    use super::*;
    use cantle::Compression;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Command::try_parse_from(std::iter::once("bench").chain(line.split_whitespace())).map(|c| c.args)
    }

    #[test]
    fn defaults_are_those_of_the_help() {
        let args = parse("").unwrap();
        assert_eq!(args.workload, [Workload::P, Workload::A, Workload::C, Workload::E100]);
        assert_eq!((args.records, args.theta), (1_000_000, 0.99));
        assert_eq!(args.operation_count(Workload::A), 1_000_000);
        assert!(args.check().is_ok() && args.threads == cores());
    }

    #[test]
    fn lists_counts_and_sizes_are_taken_apart() {
        let args = parse(
            "--workload a,E1000,insert-random --distribution uniform,latest --records 20k --overwrites 2.5 \
             --memory 64MiB --compression zstd:9",
        )
        .unwrap();
        assert_eq!(args.workload, [Workload::A, Workload::E1000, Workload::InsertRandom]);
        assert_eq!(args.distribution, [Distribution::Uniform, Distribution::Latest]);
        assert_eq!(args.operation_count(Workload::P), 50_000);
        assert_eq!(args.operation_count(Workload::InsertRandom), 20_000);
        assert_eq!((args.tuning.memory, args.tuning.compression), (Some(64 << 20), Compression::Zstd(9)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "--workload G",
            "--theta 1",
            "--records many",
            "--compression zstd:23",
            "--threads 0",
            "--smoke --duration 5s",
            "--operations 5 --overwrites 5",
            "--operations 5 --duration 5s",
            "--duration soon",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(parse("--records 0").unwrap().check().is_err());
        assert!(parse("--overwrites nan").unwrap().check().is_err());
    }
}
